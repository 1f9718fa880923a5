package plugins_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/extensions/x/keepalive"
	"github.com/rpcrdma/rpcrdma/props"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

const longest = time.Minute

// TestKeepAlive: without any call the two sides hear from each other, and the connection stays.
func TestKeepAlive(t *testing.T) {
	bothWays(t, keepalive.Name, func(t *testing.T, with func(map[string]string) *extensions.Loaded) {
		quick := map[string]string{"interval": "100ms", "patience": "1m"}
		srv, url := server(t, "iwarp://127.0.0.1:0", rpc.WithExtensions(with(quick).Set()))
		c := dial(t, url, rpc.WithExtensions(with(quick).Set()))
		if err := call(t, c); err != nil {
			t.Fatal(err)
		}
		conn := c.Conns()[0]
		before := c.Counters()
		wait.For(t, "twenty questions and answers", func() bool { return conn.Counters().ControlSent >= before.ControlSent+20 })
		n, m := conn.Counters(), srv.Counters()
		if n.CallsSent != before.CallsSent || n.ExtIgnored != 0 || m.ExtIgnored != 0 || n.Dropped != 0 || m.Dropped != 0 || n.ErrorsRecv != 0 || m.ErrorsRecv != 0 {
			t.Errorf("client %+v, server %+v", n, m)
		}
		if err := call(t, c); err != nil || len(c.Conns()) != 1 || c.Conns()[0] != conn {
			t.Errorf("afterwards: %v, connections %v", err, c.Conns())
		}
	})
}

// TestPeerGone: a connection on which nothing comes any more ends on both sides, and the client's next call has another one.
func TestPeerGone(t *testing.T) {
	bothWays(t, keepalive.Name, func(t *testing.T, with func(map[string]string) *extensions.Loaded) {
		quick := map[string]string{"interval": "500ms", "patience": "5s"}
		srv, url := server(t, "iwarp://127.0.0.1:0", rpc.WithExtensions(with(quick).Set()))
		r := newRelay(t, url)
		c := dial(t, r.url, rpc.WithExtensions(with(quick).Set()))
		if err := call(t, c); err != nil {
			t.Fatal(err)
		}
		conn := c.Conns()[0]
		sent := conn.Counters().ControlSent
		wait.For(t, "a question", func() bool { return conn.Counters().ControlSent > sent+1 })
		r.fallSilent(true)
		select {
		case <-conn.Done():
		case <-time.After(longest):
			t.Fatal("it is kept")
		}
		var failed *engine.FailedError
		if err := conn.Err(); !errors.As(err, &failed) || failed.Extension != keepalive.Name || !strings.Contains(err.Error(), "the peer is gone") {
			t.Errorf("it ended with %v", err)
		}
		wait.For(t, "the server's end", func() bool { return srv.Connections() == 0 })
		r.fallSilent(false)
		if err := call(t, c); err != nil {
			t.Errorf("with the server there again: %v", err)
		}
	})
}

// TestPeerWithoutKeepAlive: a peer with properties and without the extension, and one without properties, see nothing of it.
func TestPeerWithoutKeepAlive(t *testing.T) {
	quick := map[string]string{"interval": "100ms", "patience": "100ms"}
	for name, there := range map[string][]extensions.Spec{
		"properties only": {{Name: props.Name, Required: true}},
		"nothing":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			srv, url := server(t, "iwarp://127.0.0.1:0", rpc.WithExtensions(load(t, new(wait.Log), there...).Set()))
			here := load(t, new(wait.Log), extensions.Spec{Name: props.Name, Required: true}, extensions.Spec{Name: keepalive.Name, Required: true, Options: quick})
			c := dial(t, url, rpc.WithExtensions(here.Set()))
			if err := call(t, c); err != nil {
				t.Fatal(err)
			}
			conn := c.Conns()[0]
			time.Sleep(500 * time.Millisecond) // five intervals
			if n := conn.Counters().ControlSent; n > 1 {
				t.Errorf("%d operations were sent, more than a CONNPROP", n)
			}
			if err := call(t, c); err != nil || c.Conns()[0] != conn || srv.Counters().ErrorsSent > 1 {
				t.Errorf("%v, server %+v", err, srv.Counters())
			}
		})
	}
}

// TestGrant: an idle client hears that it may have fewer calls outstanding, and then more again, with no reply to carry it.
func TestGrant(t *testing.T) {
	bothWays(t, keepalive.Name, func(t *testing.T, with func(map[string]string) *extensions.Loaded) {
		slow := map[string]string{"interval": "1h"}
		hold := make(chan struct{})
		release := sync.OnceFunc(func() { close(hold) })
		defer release()
		srv := rpc.NewServer(rpc.WithWorkers(2))
		srv.Register(echo.Program, echo.Version, rpc.Method{Proc: echo, Handler: func(ctx context.Context, r *rpc.Request) error {
			b := r.Args.Opaque(1 << 16)
			if err := r.Args.Done(); err != nil {
				return err
			}
			if string(b) == "hold" {
				<-hold
			}
			r.Results.Opaque(b)
			return nil
		}})
		url := serveWith(t, srv, "iwarp://127.0.0.1:0", rpc.WithExtensions(with(slow).Set()))
		c := dial(t, url, rpc.WithExtensions(with(slow).Set()))
		if err := call(t, c); err != nil {
			t.Fatal(err)
		}
		granted := func() uint64 { return c.Conns()[0].Counters().Granted }
		calls := c.Counters().CallsSent
		many := granted()
		other := dial(t, url)
		if err := call(t, other); err != nil { // RFC 8166 §3.3.3: until a reply has come, one call at a time
			t.Fatal(err)
		}
		held := make(chan error, 64)
		for range cap(held) {
			go func() {
				in, out := blob("hold"), make(blob, 0, 64)
				held <- other.Call(context.Background(), echo, &in, &out)
			}()
		}
		low := many
		wait.For(t, "a lower grant", func() bool { low = granted(); return low < many })
		release()
		for range cap(held) {
			if err := <-held; err != nil {
				t.Error(err)
			}
		}
		wait.For(t, "a higher grant", func() bool { return granted() > low })
		if n := c.Counters().CallsSent; n != calls {
			t.Errorf("%d calls were made meanwhile", n-calls)
		}
	})
}
