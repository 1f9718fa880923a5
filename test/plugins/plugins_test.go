package plugins_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	"github.com/rpcrdma/rpcrdma/props"
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
	"github.com/rpcrdma/rpcrdma/test/self"
)

// The test binary is the plugin too: rpcrdma-ext-busy, rpcrdma-ext-idleN, and those that come with the program.
func TestMain(m *testing.M) {
	if name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "rpcrdma-ext-"); ok {
		if configured := shipped[name]; configured != nil {
			sdk.Serve(configured)
			return
		}
		sdk.Serve(func(map[string]string) (ext.Extension, error) { return &chatter{name}, nil })
		return
	}
	for name, configured := range shipped {
		extensions.Register(name, configured)
	}
	goleak.VerifyTestMain(m)
}

func newProps(options map[string]string) (ext.Extension, error) {
	o, err := props.ParseOptions(options)
	if err != nil {
		return nil, err
	}
	return props.New(o), nil
}

// chatter is an extension whose client asks again whenever it has been answered; an idle one does nothing at all.
type chatter struct{ name string }

func (c *chatter) Declare() ext.Declaration {
	id := uint32(ext.ExperimentalFirst)
	if n, err := strconv.Atoi(strings.TrimPrefix(c.name, "idle")); err == nil {
		id += 1 + uint32(n)
	}
	return ext.Declaration{
		Name: c.name, Version: "1",
		Ops:   []ext.Op{{Name: "ask", Type: id, Answer: "ask"}},
		Props: []ext.Prop{{ID: id, Name: "there", Type: ext.Bool, Default: make([]byte, 4)}},
	}
}

func (c *chatter) Connect(conn ext.Conn) ext.Session {
	if c.name == "busy" && conn.Facts().Client {
		ask(conn)
	}
	return &chat{conn}
}

func ask(c ext.Conn) {
	c.Send(ext.Outgoing{Op: "ask", Info: make([]byte, 64)}, func(o ext.Outcome) {
		if o.Kind == ext.Answered {
			ask(c)
		}
	})
}

type chat struct{ conn ext.Conn }

func (s *chat) Message(m ext.Message) {
	s.conn.Answer(m.Token, ext.Verdict{Kind: ext.Answer, Info: m.Info})
}

func (s *chat) Closed(error) {}

// plugin is the Spec of one.
func plugin(t testing.TB, name string) extensions.Spec {
	t.Helper()
	path := self.As(t, "rpcrdma-ext-"+name)
	digest, err := extensions.Digest(path)
	if err != nil {
		t.Fatal(err)
	}
	return extensions.Spec{Name: name, Path: path, SHA256: digest, Required: true}
}

func load(t testing.TB, log io.Writer, specs ...extensions.Spec) *extensions.Loaded {
	t.Helper()
	l, err := extensions.Load(context.Background(), specs, extensions.Options{
		Log: slog.New(slog.NewTextHandler(log, nil)), StartTimeout: time.Minute, RunDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func idle(t testing.TB, n int) *extensions.Loaded {
	var specs []extensions.Spec
	for i := range n {
		specs = append(specs, plugin(t, fmt.Sprint("idle", i)))
	}
	return load(t, io.Discard, specs...)
}

var echo = &rpc.Proc{Program: 0x20000077, Version: 1, Number: 1, Name: "ECHO", Binding: binding.Binding{MaxReply: 1 << 16}, Idempotent: true}

// blob is opaque<>.
type blob []byte

func (b blob) MarshalXDR(w *xdr.Writer)    { w.Opaque(b) }
func (b *blob) UnmarshalXDR(r *xdr.Reader) { *b = append((*b)[:0], r.OpaqueView(1<<16)...) }

// serve is a server that echoes, and its URL.
func serve(t testing.TB, url string, opts ...rpc.ListenOption) string {
	_, url = server(t, url, opts...)
	return url
}

func server(t testing.TB, url string, opts ...rpc.ListenOption) (*rpc.Server, string) {
	t.Helper()
	srv := echoServer()
	return srv, serveWith(t, srv, url, opts...)
}

func echoServer(opts ...rpc.ServerOption) *rpc.Server {
	srv := rpc.NewServer(opts...)
	srv.Register(echo.Program, echo.Version, rpc.Method{Proc: echo, Inline: true, Handler: func(_ context.Context, r *rpc.Request) error {
		b := r.Args.OpaqueView(1 << 16)
		if err := r.Args.Done(); err != nil {
			return err
		}
		r.Results.Opaque(b)
		return nil
	}})
	return srv
}

func serveWith(t testing.TB, srv *rpc.Server, url string, opts ...rpc.ListenOption) string {
	t.Helper()
	l, err := rpc.Listen(context.Background(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(context.Background(), l)
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = srv.Shutdown(ctx)
		<-served
	})
	return l.URL()
}

func dial(t testing.TB, url string, opts ...rpc.ClientOption) *rpc.Client {
	t.Helper()
	c, err := rpc.NewClient(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
