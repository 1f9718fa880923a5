package extensions

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions/host"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	"github.com/rpcrdma/rpcrdma/test/self"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// The test binary is the plugin too, linked as rpcrdma-ext-NAME.
func TestMain(m *testing.M) {
	if name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "rpcrdma-ext-"); ok {
		sdk.Serve(func(options map[string]string) (ext.Extension, error) { return newPlain(name, options) })
		return
	}
	Register("in", func(o map[string]string) (ext.Extension, error) { return newPlain("in", o) })
	Register("empty", func(map[string]string) (ext.Extension, error) { return nil, nil })
	Register("misnamed", func(o map[string]string) (ext.Extension, error) { return newPlain("in", o) })
	RegisterGate("guard", func(o map[string]string) (ext.Extension, error) { return newPlain("guard", o) })
	goleak.VerifyTestMain(m)
}

// plain is an extension with one operation, of opttype 4294967040 + the option "id".
type plain struct {
	name, needs string
	id          uint32
	class       ext.Class
	gate        bool
}

func newPlain(name string, options map[string]string) (ext.Extension, error) {
	p := &plain{name: name, needs: options["needs"]}
	for _, c := range options["id"] {
		p.id = 10*p.id + uint32(c-'0')
	}
	if options["fail"] != "" {
		return nil, errors.New(options["fail"])
	}
	if options["payload"] != "" {
		p.class = ext.Payload
	}
	p.gate = options["gate"] != ""
	return p, nil
}

func (p *plain) Declare() ext.Declaration {
	d := ext.Declaration{Name: p.name, Version: "1", Class: p.class, Gate: p.gate, Ops: []ext.Op{{Name: "op", Type: ext.ExperimentalFirst + p.id}}}
	if p.needs != "" {
		d.Needs = []string{p.needs}
	}
	return d
}

func (p *plain) Connect(ext.Conn) ext.Session { return nil }

// plugin is the Spec of a plugin; options are "key=value".
func plugin(t *testing.T, name string, options ...string) Spec {
	t.Helper()
	s := Spec{Name: name, Path: self.As(t, "rpcrdma-ext-"+name), Options: map[string]string{}}
	var err error
	if s.SHA256, err = Digest(s.Path); err != nil {
		t.Fatal(err)
	}
	return s.with(options...)
}

func (s Spec) with(options ...string) Spec {
	s.Options = map[string]string{}
	for _, o := range options {
		k, v, _ := strings.Cut(o, "=")
		s.Options[k] = v
	}
	return s
}

func (s Spec) required() Spec { s.Required = true; return s }

func load(t *testing.T, specs ...Spec) (*Loaded, string, error) {
	t.Helper()
	var log wait.Log
	o := Options{Log: log.Logger(), StartTimeout: time.Minute, RunDir: t.TempDir()}
	l, err := Load(context.Background(), specs, o)
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
	} else if left, _ := os.ReadDir(o.RunDir); len(left) > 0 {
		t.Errorf("a failed Load leaves %v", left)
	}
	return l, log.String(), err
}

func TestLoad(t *testing.T) {
	l, _, err := load(t, Spec{Name: "in", Required: true}, plugin(t, "out", "id=1").required(), plugin(t, "more", "id=2", "needs=out").required())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range l.Set().Len() {
		names = append(names, l.Set().Declared(i).Name)
	}
	if !slices.Equal(names, []string{"in", "out", "more"}) {
		t.Errorf("loaded %q", names)
	}
	h := l.Health()
	if h[0].State != "compiled in" || h[1].State != "up" || h[1].Plugin.PID == 0 || h[2].Version != "1" {
		t.Errorf("%+v", h)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if h := l.Health(); h[1].State != "closed" {
		t.Errorf("%+v", h)
	}
}

// TestNotLoaded: what is required ends the load with a line of its own, what is not is left out with a warning, and
// shows in Health.
func TestNotLoaded(t *testing.T) {
	in := Spec{Name: "in"}
	gone := Spec{Name: "gone", Path: "/nowhere/rpcrdma-ext-gone", SHA256: strings.Repeat("0", 64)}
	out := plugin(t, "out", "id=1")
	tests := []struct {
		name  string
		specs []Spec
		bad   int // of specs
		want  string
	}{
		{"unknown", []Spec{in, {Name: "what"}}, 1, `extension "what": none of that name is compiled in: give the path of its executable, or one of ["empty" "guard" "in" "misnamed"]`},
		{"empty", []Spec{in, {Name: "empty"}}, 1, `extension "empty": it made nothing`},
		{"misnamed", []Spec{{Name: "misnamed"}}, 0, `extension "misnamed": it calls itself "in"`},
		{"digest without path", []Spec{{Name: "in", SHA256: gone.SHA256}}, 0, `extension "in": it has a sha256 and no path`},
		{"named twice", []Spec{in, in}, 1, `extension "in": it is named twice`},
		{"made with an error", []Spec{in.with("fail=no size")}, 0, `extension "in": no size`},
		{"no file", []Spec{in, gone}, 1, `extension "gone" (/nowhere/rpcrdma-ext-gone): no such file or directory`},
		{"plugin's error", []Spec{in, out.with("fail=no size")}, 1, `extension "out" (` + out.Path + `): no size`},
		{"payload as a plugin", []Spec{in, out.with("payload=1")}, 1, "it is of class payload: it sees every RPC, and nothing synchronous per RPC crosses to another process; compile it in"},
		{"clash", []Spec{in, out.with("id=0")}, 1, `extensions "in" and "out" both claim opttype 4294967040: load one of them`},
		{"needs", []Spec{in, out.with("id=1", "needs=gone")}, 1, `extension "out": it needs the extension "gone", which is not loaded`},
		{"needs one that is left out", []Spec{in, {Name: "gone", Path: gone.Path, SHA256: gone.SHA256}, out.with("id=1", "needs=gone")}, 2, `it needs the extension "gone"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, log, err := load(t, tt.specs...)
			if err != nil {
				t.Fatalf("none is required, but: %v", err)
			}
			h := l.Health()[tt.bad]
			if h.State != "not loaded" || h.Err == nil || !strings.Contains(h.Err.Error(), tt.want) {
				t.Errorf("%+v\nlacks %s", h, tt.want)
			}
			if !strings.Contains(log, "the program goes on without an extension") {
				t.Errorf("no warning:\n%s", log)
			}

			specs := slices.Clone(tt.specs)
			for i := range specs {
				specs[i].Required = i == tt.bad
			}
			if tt.name == "clash" {
				specs[0].Required = true
			}
			l, _, err = load(t, specs...)
			if err == nil {
				t.Fatalf("%+v, although one is required", l.Health())
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v\nlacks %s", err, tt.want)
			}
		})
	}
	t.Run("clash with one that is not required", func(t *testing.T) {
		l, _, err := load(t, in, out.with("id=0").required())
		if err != nil {
			t.Fatal(err)
		}
		if h := l.Health(); h[0].State != "not loaded" || h[1].State != "up" {
			t.Errorf("the one that is required gives way: %+v", h)
		}
	})
	t.Run("types", func(t *testing.T) {
		_, _, err := load(t, gone.required())
		var start *host.StartError
		if !errors.As(err, &start) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%T", err)
		}
	})
}

func TestRegister(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("registered twice")
		}
	}()
	Register("in", func(map[string]string) (ext.Extension, error) { return nil, nil })
}

// TestGatesAreRequired: no program goes on without an extension that gates connections, be it that it cannot be loaded.
func TestGatesAreRequired(t *testing.T) {
	for name, spec := range map[string]Spec{
		"one that is compiled in":                Spec{Name: "in"}.with("gate=yes"),
		"a plugin":                               plugin(t, "out", "gate=yes"),
		"one that cannot be made":                Spec{Name: "guard"}.with("fail=no key"),
		"a plugin of its name that is not there": {Name: "guard", Path: "/nosuch", SHA256: strings.Repeat("0", 64)},
	} {
		t.Run(name, func(t *testing.T) {
			l, log, err := load(t, spec)
			var e *Error
			if !errors.Is(err, ErrGate) || !errors.As(err, &e) || e.Name != spec.Name || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%v, %v; %s", l, err, log)
			}
		})
	}
	if _, _, err := load(t, Spec{Name: "in", Required: true}.with("gate=yes"), Spec{Name: "guard", Required: true}.with("id=1")); err != nil {
		t.Error(err)
	}
}
