package cli

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
)

// TestOwnMain builds the program of the package's documentation, which links loopback alone, and looks at what it then does.
func TestOwnMain(t *testing.T) {
	if testing.Short() {
		t.Skip("links a program")
	}
	doc, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	inside := false
	for line := range strings.Lines(doc.Doc.Text()) {
		if text, ok := strings.CutPrefix(line, "\t"); ok {
			code.WriteString(text)
			inside = true
		} else if inside && line == "\n" {
			code.WriteString(line)
		}
	}
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "mine")
	if err := os.WriteFile(source, []byte(code.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, code.String())
	}
	for _, tc := range []struct {
		args   string
		status int
		says   string
	}{
		{"providers", exitOK, "loopback   usable\n"},
		{"bench run -n 1 loopback://", exitOK, "loopback"},
		{"--help", exitOK, "Usage:"},
		{"demo --quick", exitUsage, "rpcrdma: the demo runs over iwarp, which is not linked into this program; name another provider by --listen: there are loopback\n"},
		{"ping iwarp://127.0.0.1:1", exitUsage, "rpcrdma: address \"iwarp://127.0.0.1:1\": unknown provider \"iwarp\"; known here: loopback, tcp\n"},
		{"ping rdma://127.0.0.1:1", exitUsage, "rpcrdma: address \"rdma://127.0.0.1:1\": rdma stands for iwarp here, which is not linked into this program; name another fabric by the scheme: loopback, tcp\n"},
		{"serve nfs --export . --listen iwarp://:0", exitUsage, "unknown provider \"iwarp\""},
		{"bench serve --listen rdma://:0", exitUsage, "rdma stands for iwarp here"},
	} {
		cmd := exec.Command(program, strings.Fields(tc.args)...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tc.status || !strings.Contains(string(out), tc.says) {
			t.Errorf("%s: status %d, want %d, and %q\n%s", tc.args, code, tc.status, tc.says, out)
		}
	}
}

// TestAdviseRoutes: what is said of one route is said of its target; of several, each is named.
func TestAdviseRoutes(t *testing.T) {
	at := rpc.Target{Scheme: "rdma", Address: "server:20049"}
	refused := &rpc.RouteError{Route: rpc.Route{Scheme: "iwarp", Address: "server:20049"}, Err: fmt.Errorf("iwarp: dial server:20049: %w", syscall.ECONNREFUSED)}
	missing := &rpc.RouteError{Route: rpc.Route{Scheme: "ibverbs", Address: "server:20049", Local: "mlx5_0"}, Err: fmt.Errorf("ibverbs: %w", verbs.ErrUnavailable)}
	odd := &rpc.RouteError{Route: refused.Route, Err: errors.New("iwarp: dial server:20049: out of order")}
	for _, tc := range []struct {
		tried []*rpc.RouteError
		cause error
		want  string
	}{
		{tried: []*rpc.RouteError{refused}, want: "rdma://server:20049: connection refused: nothing listens there; is the server running, and on this port?"},
		{tried: []*rpc.RouteError{odd}, want: "rdma://server:20049: out of order"},
		{tried: []*rpc.RouteError{missing, refused}, want: "rdma://server:20049: none of the ways there works: ibverbs://server:20049?local=mlx5_0: ibverbs: verbs: not available on this machine; " +
			"iwarp://server:20049: iwarp: dial server:20049: connection refused"},
		{cause: errors.New("the file is gone"), want: "rdma://server:20049: the file is gone"},
		{tried: []*rpc.RouteError{missing, refused}, cause: context.Canceled, want: "interrupted"},
	} {
		err := advise(at, &rpc.NoRouteError{Op: "connect to", Target: at, Tried: tc.tried, Err: tc.cause})
		if err.Error() != tc.want {
			t.Errorf("got  %s\nwant %s", err, tc.want)
		}
	}
}

// TestUnknownProvider: the error names every scheme that works, rdma too.
func TestUnknownProvider(t *testing.T) {
	want := "unknown provider \"nope\"; known here: "
	err := resolver.Check(rpc.Target{Scheme: "nope", Address: "h:1"})
	var bad *rpc.TargetError
	if !errors.As(err, &bad) || !strings.HasPrefix(bad.Problem, want) || strings.HasSuffix(bad.Problem, ", rdma") != linked(defaultFabric) {
		t.Errorf("%v", err)
	}
	if linked(defaultFabric) {
		if err := resolver.Check(rpc.Target{Scheme: "rdma", Address: "h:1"}); err != nil {
			t.Errorf("rdma: %v", err)
		}
	}
}
