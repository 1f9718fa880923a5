package arch

import (
	"slices"
	"strings"
	"testing"
)

// arrows is who may import whom, within the module. The longest room that is a prefix of
// a package's folder rules it. A room may always import what lies under itself.
var arrows = []struct {
	room string
	may  []string
}{
	{"core/verbs", nil},
	{"core/fair", nil}, // arithmetic
	{"core/xdr", nil},
	{"core/obs", nil},
	{"core/pages", nil},
	{"core/ext", low},
	{"core/wire", low},
	{"core/rpcmsg", low},
	{"core/binding", low},
	{"core/chunk", with(low, "core/binding", "core/wire")},
	{"core/watch", nil},                         // times in, verdicts out
	{"core/transport", with(low, "core/verbs")}, // verbs for its Stats
	{"core/engine", with(low, "core/transport", "core/watch", "core/ext", "core/chunk", "core/wire", "core/rpcmsg", "core/verbs", "core/fair", "core/binding")},
	{"core/tcp", with(low, "core/transport", "core/watch", "core/rpcmsg", "core/verbs")},
	{"core/rpc", with(low, "core/transport", "core/engine", "core/tcp", "core/ext", "core/binding", "core/rpcmsg", "core/pages", "core/verbs", "core/fair")}, // see doors
	{"core/rpcbind", with(low, "core/rpc", "core/rpcmsg", "core/binding")},
	{"core", nil}, // doc.go: the words

	{"providers", with(low, "core/verbs")},                                       // fabric.go; providers never import each other
	{"providers/soft", []string{"core/pages", "core/verbs"}},                     // what an adapter keeps in hardware: written once for all that have none
	{"providers/soft/qp", []string{"core/verbs", "core/fair", "providers/soft"}}, // and what a connection of theirs is
	{"providers/iwarp", with(low, "core/verbs", "core/fair", "providers/soft")},
	{"providers/rxe", with(low, "core/verbs", "core/fair", "providers/soft")},
	{"providers/ibverbs", with(low, "core/verbs", "core/fair")}, // a device has all that
	{"providers/loopback", with(low, "core/verbs", "core/fair", "providers/soft")},

	{"extensions", with(low, "core/ext", "core/wire")},
	{"extensions/x", with(low, "core/ext", "core/wire", "props")},
	{"props", with(low, "core/ext", "core/wire")},
	{"tracing", with(low, "core/rpc", "core/ext", "core/wire")},
	{"gateway", with(low, "core/rpc", "core/binding", "core/rpcmsg", "core/rpcbind")},
	{"ulp", with(low, "core/rpc", "core/binding", "core/rpcmsg", "core/rpcbind")},
	{"config", with(low, "providers", "extensions")},

	{"cli", []string{"config", "gateway", "ulp", "tracing", "props", "extensions", "core"}},                  // no provider: main links them
	{"cli/capture", []string{"core", "providers/iwarp/ddp", "providers/iwarp/mpa", "providers/iwarp/rdmap"}}, // formats alone
	{"cmd/rpcrdma", []string{"cli", "providers"}},
	{"cmd/rpcrdma-ext", []string{"extensions/sdk", "extensions/x", "props"}},

	{"test", []string{"config", "gateway", "ulp", "tracing", "props", "extensions", "providers", "core", "cli", "test"}},
}

// low is what everybody above them may import.
var low = []string{"core/xdr", "core/obs"}

// doors are the only files by which a room, tests apart, imports another: the rest of the room does not know it.
var doors = []struct {
	room, to string
	files    []string
}{
	{"core/rpc", "core/engine", []string{"core/rpc/rdma.go", "core/rpc/endpoint.go"}},
	{"core/rpc", "core/tcp", []string{"core/rpc/tcp.go"}},
}

// inTests is what tests may import beside their package's own arrows: what they drive
// and what they judge by.
var inTests = []string{"core", "providers", "test"}

// outside lists the modules beyond the standard library that a room may import. A
// room that is not listed, or above which none is, may import any.
var outside = []struct {
	room string
	may  []string
}{
	{"core", []string{"golang.org/x/sys", "golang.org/x/net"}},
	{"providers", []string{"golang.org/x/sys", "golang.org/x/net"}},
	{"ulp", []string{"golang.org/x/sys"}},
	{"gateway", nil},
	{"props", nil},
	{"extensions/x", nil},
}

// only says where a module stops: no other room imports it.
var only = []struct{ module, rooms string }{
	{"google.golang.org/grpc", "extensions"},
	{"github.com/hashicorp/go-plugin", "extensions"},
	{"github.com/opentracing/opentracing-go", "tracing"},
	{"github.com/hashicorp/hcl", "config"},
	{"github.com/zclconf/go-cty", "config"},
	{"github.com/prometheus", "cli"},
	{"github.com/spf13/cobra", "cli"},
	{"C", "providers/ibverbs"},
}

func with(base []string, more ...string) []string {
	return append(append([]string(nil), base...), more...)
}

// under reports whether path is room or lies in it.
func under(path, room string) bool {
	return path == room || strings.HasPrefix(path, room+"/") ||
		room == "cmd/rpcrdma-ext" && strings.HasPrefix(path, room)
}

func underAny(path string, rooms []string) bool {
	for _, r := range rooms {
		if under(path, r) {
			return true
		}
	}
	return false
}

func TestArrows(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.dir == "." {
			t.Errorf("%s: the root folder holds no Go files", f.path)
			continue
		}
		room, may := "", []string(nil)
		for _, a := range arrows {
			if under(f.dir, a.room) && len(a.room) > len(room) {
				room, may = a.room, a.may
			}
		}
		if room == "" {
			t.Errorf("%s: folder %s has no line in the table of arrows", f.path, f.dir)
			continue
		}
		for _, imp := range f.imports {
			to, ours := strings.CutPrefix(imp, module)
			if !ours || under(to, room) || underAny(to, may) {
				continue
			}
			if f.test && underAny(to, inTests) {
				continue
			}
			t.Errorf("%s imports %s: %s may import %s", f.path, to, room, list(may))
		}
	}
}

func TestDoors(t *testing.T) {
	files := goFiles(t)
	for _, d := range doors {
		used := map[string]bool{}
		for _, f := range files {
			if f.test || !under(f.dir, d.room) || !slices.Contains(f.imports, module+d.to) {
				continue
			}
			used[f.path] = true
			if !slices.Contains(d.files, f.path) {
				t.Errorf("%s imports %s: in %s only %s may", f.path, d.to, d.room, list(d.files))
			}
		}
		for _, path := range d.files {
			if !used[path] {
				t.Errorf("%s does not import %s, or is gone", path, d.to)
			}
		}
	}
}

func TestOutside(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, imp := range f.imports {
			if strings.HasPrefix(imp, module) {
				continue
			}
			for _, o := range only {
				if under(imp, o.module) && !under(f.dir, o.rooms) && !under(f.dir, "test") {
					t.Errorf("%s imports %s, which stops at %s", f.path, imp, o.rooms)
				}
			}
			if f.test || !strings.Contains(strings.Split(imp, "/")[0], ".") {
				continue
			}
			for _, o := range outside {
				if under(f.dir, o.room) && !underAny(imp, o.may) {
					t.Errorf("%s imports %s: beyond the standard library %s may import %s", f.path, imp, o.room, list(o.may))
				}
			}
		}
	}
}

func list(s []string) string {
	if len(s) == 0 {
		return "nothing"
	}
	return strings.Join(s, ", ")
}
