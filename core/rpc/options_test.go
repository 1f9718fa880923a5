package rpc_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
)

// kinds are what the option of each function is for.
var kinds = map[string]string{
	"ConnOptions":               "client listen",
	"WithAdmit":                 "listen",
	"WithAuth":                  "client backchannel",
	"WithAuthFlavor":            "server",
	"WithAuthSys":               "client backchannel",
	"WithBacklog":               "listen",
	"WithBackwardChunks":        "client listen",
	"WithBackwardCredits":       "client listen",
	"WithCallTimeout":           "client listen",
	"WithCancelWait":            "client listen",
	"WithConnectionLimit":       "listen",
	"WithConnections":           "client",
	"WithConnectionsPerAddress": "listen",
	"WithCredits":               "client listen",
	"WithEndpoints":             "client",
	"WithExtensions":            "client listen",
	"WithFallback":              "server",
	"WithGateTimeout":           "client listen",
	"WithIdleTimeout":           "client listen",
	"WithInline":                "client listen",
	"WithInterceptor":           "client backchannel",
	"WithKeepAlive":             "client",
	"WithLog":                   "client listen server",
	"WithLossLimit":             "client",
	"WithMaxCall":               "client listen",
	"WithMaxInline":             "client listen",
	"WithMoveAbove":             "client listen",
	"WithPeerDomains":           "listen",
	"WithPrograms":              "client",
	"WithRecorder":              "client listen",
	"WithReplyCache":            "server",
	"WithReservedPort":          "client",
	"WithResolver":              "client listen",
	"WithRetransmits":           "client backchannel",
	"WithSegmentLength":         "client listen",
	"WithServerInterceptor":     "server",
	"WithStallTimeout":          "client listen",
	"WithTCPRecord":             "client listen",
	"WithTap":                   "client listen",
	"WithVersions":              "client listen",
	"WithWorkers":               "server",
}

// exportData imports packages from the compiler's export data of this package and what it imports.
var exportData = sync.OnceValues(func() (types.Importer, error) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}}\t{{.Export}}{{end}}", ".").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }), nil
})

func typesOf(t *testing.T) types.Importer {
	t.Helper()
	imp, err := exportData()
	if err != nil {
		t.Fatal(err)
	}
	return imp
}

// TestOptionKinds: each option is taken where it counts, and nowhere else.
func TestOptionKinds(t *testing.T) {
	pkg, err := typesOf(t).Import("github.com/rpcrdma/rpcrdma/core/rpc")
	if err != nil {
		t.Fatal(err)
	}
	takers := []string{"client", "listen", "server", "backchannel"}
	interfaces := map[string]*types.Interface{}
	for taker, name := range map[string]string{"client": "ClientOption", "listen": "ListenOption", "server": "ServerOption", "backchannel": "BackchannelOption"} {
		interfaces[taker] = pkg.Scope().Lookup(name).Type().Underlying().(*types.Interface)
	}
	seen := 0
	for _, name := range pkg.Scope().Names() {
		f, ok := pkg.Scope().Lookup(name).(*types.Func)
		if !ok || !f.Exported() || f.Signature().Results().Len() != 1 {
			continue
		}
		var kind []string
		for _, taker := range takers {
			if types.Implements(f.Signature().Results().At(0).Type(), interfaces[taker]) {
				kind = append(kind, taker)
			}
		}
		if got := strings.Join(kind, " "); got != kinds[name] {
			t.Errorf("%s: an option of %q, want %q", name, got, kinds[name])
		}
		if len(kind) > 0 {
			seen++
		}
	}
	if seen != len(kinds) {
		t.Errorf("%d functions make options, want %d", seen, len(kinds))
	}
}

// TestMisplacedOptions do not compile.
func TestMisplacedOptions(t *testing.T) {
	for _, tc := range []struct{ call, lacks string }{
		{`rpc.NewServer(rpc.WithCredits(1))`, "ServerOption"},
		{`rpc.NewServer(rpc.WithAuth(nil))`, "ServerOption"},
		{`rpc.NewServer(rpc.WithBacklog(1))`, "ServerOption"},
		{`rpc.Listen(nil, "", rpc.WithServerInterceptor(nil))`, "ListenOption"},
		{`rpc.Listen(nil, "", rpc.WithConnections(1))`, "ListenOption"},
		{`rpc.Listen(nil, "", rpc.WithRetransmits(1))`, "ListenOption"},
		{`rpc.NewClient("", rpc.WithWorkers(1))`, "ClientOption"},
		{`rpc.NewClient("", rpc.WithConnectionLimit(1))`, "ClientOption"},
		{`rpc.NewBackchannel(rpc.WithCredits(1))`, "BackchannelOption"},
		{`rpc.NewBackchannel(rpc.WithLog(nil))`, "BackchannelOption"},
		{`rpc.ConnOptions(rpc.WithConnections(1))`, "ConnOption"},
		{`rpc.NewClient("", rpc.Into(nil))`, "ClientOption"},

		{`rpc.NewClient("", rpc.WithCredits(1), rpc.WithAuth(nil), rpc.WithLog(nil), rpc.ConnOptions(rpc.WithLog(nil), rpc.WithInline(1)))`, ""},
		{`rpc.Listen(nil, "", rpc.WithCredits(1), rpc.WithBacklog(1), rpc.WithLog(nil), rpc.ConnOptions(rpc.WithInline(1)))`, ""},
		{`rpc.NewServer(rpc.WithWorkers(1), rpc.WithLog(nil))`, ""},
		{`rpc.NewBackchannel(rpc.WithAuth(nil), rpc.WithRetransmits(1))`, ""},
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", "package p\nimport \"github.com/rpcrdma/rpcrdma/core/rpc\"\nfunc _() {\n"+tc.call+"\n}\n", 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&types.Config{Importer: typesOf(t)}).Check("p", fset, []*ast.File{file}, nil)
		switch {
		case tc.lacks == "" && err != nil:
			t.Errorf("%s: %v", tc.call, err)
		case tc.lacks != "" && (err == nil || !strings.Contains(err.Error(), "does not implement rpc."+tc.lacks)):
			t.Errorf("%s: %v, want that it does not implement rpc.%s", tc.call, err, tc.lacks)
		}
	}
}

// refused are options that cannot be used, and what their errors say.
func refused[T any](t *testing.T, try func(T) error, options map[string]T) {
	t.Helper()
	for want, opt := range options {
		err := try(opt)
		var bad *rpc.OptionError
		if !errors.As(err, &bad) || err.Error() != "rpc: "+want {
			t.Errorf("%v, want an *OptionError %q", err, "rpc: "+want)
		}
	}
}

// TestBadOptions: an error names the option and what can be used.
func TestBadOptions(t *testing.T) {
	client := func(o rpc.ClientOption) error {
		c, err := rpc.NewClient("loopback://127.0.0.1:1", o)
		if err == nil {
			c.Close()
		}
		return err
	}
	listen := func(o rpc.ListenOption) error {
		l, err := rpc.Listen(ctx(t), "loopback://127.0.0.1:0", o)
		if err == nil {
			l.Close()
		}
		return err
	}
	server := func(o rpc.ServerOption) (err error) {
		defer func() {
			if v := recover(); v != nil {
				err = v.(error)
			}
		}()
		rpc.NewServer(o).Close()
		return nil
	}
	backchannel := func(o rpc.BackchannelOption) error {
		b, err := rpc.NewBackchannel(o)
		if err == nil {
			b.Close()
		}
		return err
	}
	const never = "want a time, or a negative one for never"
	both := map[string]rpc.ConnOption{
		"WithInline(1000): want a multiple of 1024 from 1024 to 262144":           rpc.WithInline(1000),
		"WithInline(0): want a multiple of 1024 from 1024 to 262144":              rpc.WithInline(0),
		"WithMaxInline(262145): want 0 to 262144":                                 rpc.WithMaxInline(262145),
		"WithMaxInline(-1): want 0 to 262144":                                     rpc.WithMaxInline(-1),
		"WithCredits(-1): want 1 to 16384":                                        rpc.WithCredits(-1),
		"WithCredits(0): want 1 to 16384":                                         rpc.WithCredits(0),
		"WithCredits(16385): want 1 to 16384":                                     rpc.WithCredits(16385),
		"WithBackwardCredits(-1): want 0 to 16384":                                rpc.WithBackwardCredits(-1),
		"WithVersions(2, 1): want 1, 1 or 1, 2 or 2, 2":                           rpc.WithVersions(2, 1),
		"WithVersions(0, 0): want 1, 1 or 1, 2 or 2, 2":                           rpc.WithVersions(0, 0),
		"WithVersions(1, 3): want 1, 1 or 1, 2 or 2, 2":                           rpc.WithVersions(1, 3),
		"WithSegmentLength(0): want 1 or more":                                    rpc.WithSegmentLength(0),
		"WithMoveAbove(-1): want 0 or more":                                       rpc.WithMoveAbove(-1),
		"WithMaxCall(0): want 1 or more":                                          rpc.WithMaxCall(0),
		"WithTCPRecord(-1): want 1 or more":                                       rpc.WithTCPRecord(-1),
		"WithCallTimeout(-1ns): want 1ms or more":                                 rpc.WithCallTimeout(-1),
		"WithCallTimeout(1µs): want 1ms or more":                                  rpc.WithCallTimeout(time.Microsecond),
		"WithCancelWait(-1s): want a time above 0":                                rpc.WithCancelWait(-time.Second),
		"WithGateTimeout(0): " + never:                                            rpc.WithGateTimeout(0),
		"WithIdleTimeout(0): " + never:                                            rpc.WithIdleTimeout(0),
		"WithStallTimeout(0): " + never:                                           rpc.WithStallTimeout(0),
		"WithResolver(nil): want a resolver; without the option it is Registered": rpc.WithResolver(nil),
		"WithRecorder(nil): want a recorder":                                      rpc.WithRecorder(nil),
		"WithTap(nil): want a tap":                                                rpc.WithTap(nil),
		"WithLog(nil): want a logger":                                             rpc.WithLog(nil),
		"option 1(nil): want one that a function of package rpc made":             nil,
		"option 2(nil): want one that a function of package rpc made":             rpc.ConnOptions(rpc.WithCredits(1), nil),
	}
	for want, opt := range both {
		var c rpc.ClientOption
		var l rpc.ListenOption
		if opt != nil {
			c, l = opt, opt
		}
		refused(t, client, map[string]rpc.ClientOption{want: c})
		refused(t, listen, map[string]rpc.ListenOption{want: l})
	}
	small := rpc.WithInline(1024)
	refused(t, client, map[string]rpc.ClientOption{
		"WithInline: version 2 needs at least 4096 (v2 draft §2.3); allow version 1 only, or raise it": small,
		"WithConnections(0): want 1 to 65536":  rpc.WithConnections(0),
		"WithConnections(-1): want 1 to 65536": rpc.WithConnections(-1),
		"WithLossLimit(0): want 1 or more":     rpc.WithLossLimit(0),
		"WithKeepAlive(0): " + never:           rpc.WithKeepAlive(0),
		"WithPrograms(nil): want a server":     rpc.WithPrograms(nil),
	})
	if err := client(rpc.ConnOptions(small, rpc.WithVersions(1, 1))); err != nil {
		t.Errorf("1024 bytes inline, with version 1 only: %v", err)
	}
	refused(t, listen, map[string]rpc.ListenOption{
		"WithBacklog(0): want 1 or more":                rpc.WithBacklog(0),
		"WithConnectionLimit(0): want 1 or more":        rpc.WithConnectionLimit(0),
		"WithConnectionsPerAddress(-1): want 0 or more": rpc.WithConnectionsPerAddress(-1),
	})
	refused(t, server, map[string]rpc.ServerOption{
		"WithWorkers(-1): want 1 or more":                       rpc.WithWorkers(-1),
		"WithWorkers(0): want 1 or more":                        rpc.WithWorkers(0),
		"WithFallback(nil): want a function":                    rpc.WithFallback(nil),
		"WithServerInterceptor(nil): want an interceptor":       rpc.WithServerInterceptor(nil),
		"WithAuthFlavor(nil): want an authentication mechanism": rpc.WithAuthFlavor(nil),
		"WithLog(nil): want a logger":                           rpc.WithLog(nil),
		"WithReplyCache({Entries:0 Bytes:-1 Largest:0 Age:0s}): want no negative Bytes, Largest or Age; 0 is the default": rpc.WithReplyCache(rpc.ReplyCache{Bytes: -1}),
		"option 1(nil): want one that a function of package rpc made":                                                     nil,
	})
	caller := map[string]rpc.CallerOption{
		"WithAuth(nil): want an authentication mechanism; without the option it is AUTH_NONE": rpc.WithAuth(nil),
		"WithInterceptor(nil): want an interceptor":                                           rpc.WithInterceptor(nil),
		"WithAuthSys: " + tooManyGroups(t):                                                    rpc.WithAuthSys(rpcmsg.Sys{GIDs: make([]uint32, 17)}),
	}
	for want, opt := range caller {
		refused(t, client, map[string]rpc.ClientOption{want: opt})
		refused(t, backchannel, map[string]rpc.BackchannelOption{want: opt})
	}
}

func tooManyGroups(t *testing.T) string {
	t.Helper()
	_, err := rpcmsg.NewSys(&rpcmsg.Sys{GIDs: make([]uint32, 17)})
	if err == nil {
		t.Fatal("17 groups are taken")
	}
	return err.Error()
}
