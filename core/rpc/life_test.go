package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

func TestFallBackOnTheSameConnection(t *testing.T) {
	for _, first := range []int{16, 5000} { // 5000: a NULL call goes ahead (D-3)
		f := serve(t, "loopback://127.0.0.1:0", rpc.WithVersions(1, 1))
		c := dial(t, f.url)
		var got blob
		want := pattern(first)
		if err := c.Call(ctx(t), procEcho, blob(want), &got, rpc.MaxReply(first+8)); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("first call of %d bytes: %v", first, err)
		}
		if v := c.Conns()[0].Version(); v != 1 {
			t.Errorf("version %d was settled, want 1", v)
		}
		wait.For(t, "the server to count the one connection", func() bool { return f.srv.Connections() == 1 })
		if n := c.Counters().ErrorsRecv; n != 1 {
			t.Errorf("%d errors received, want one ERR_VERS", n)
		}
	}
}

func TestNoCommonVersion(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithVersions(1, 1))
	c := dial(t, f.url, rpc.WithVersions(2, 2))
	for range 2 { // the second call finds the negotiation failed
		if err := c.Call(ctx(t), procEcho, blob("x"), nil); !errors.Is(err, engine.ErrVersion) {
			t.Errorf("%v, want ErrVersion", err)
		}
	}
}

func TestFirstCallIsLong(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	c := dial(t, f.url)
	want := pattern(5000)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var got blob
			if err := c.Call(ctx(t), procEcho, blob(want), &got, rpc.MaxReply(5008)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	if v := c.Conns()[0].Version(); v != 2 {
		t.Errorf("version %d, want 2", v)
	}
}

// TestCancelled: the caller has its memory back at once, the connection and everybody else go
// on, and credits come back.
func TestCancelled(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts)
			c := dial(t, f.url, tr.opts)
			if err := c.Connect(ctx(t)); err != nil {
				t.Fatal(err)
			}
			src, dst := pattern(100_000), make([]byte, 100_000)
			cctx, cancel := context.WithCancel(ctx(t))
			done := make(chan error)
			go func() { done <- c.Call(cctx, procWait, bulk(src), new(bulk), rpc.Into(dst)) }()
			<-f.inside
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Fatalf("%v, want context.Canceled", err)
			}
			clear(src)
			for i := range dst {
				dst[i] = 0xaa
			}
			close(f.wait)
			var got blob
			for range 20 {
				if err := c.Call(ctx(t), procEcho, blob("still here"), &got); err != nil || string(got) != "still here" {
					t.Fatalf("after the cancel: %v", err)
				}
			}
			for i := range dst {
				if dst[i] != 0xaa {
					t.Fatalf("byte %d was written after the call had returned", i)
				}
			}
			wait.For(t, "the orphan's reply", func() bool { return c.Counters().Outstanding == 0 })
			wait.For(t, "the server to count the one connection", func() bool { return f.srv.Connections() == 1 })
		})
	}
}

func TestCancelledAtRandom(t *testing.T) {
	for _, url := range []string{
		"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0", "bare-d://127.0.0.1:0", "bare-r://127.0.0.1:0", "bare-q://127.0.0.1:0",
		"bare-t://127.0.0.1:0", "bare-dt://127.0.0.1:0", // where the call waits for its reply, which comes soon
	} {
		scheme, _, _ := strings.Cut(url, ":")
		t.Run(scheme, func(t *testing.T) { cancelAtRandom(t, url) })
	}
}

// cancelAtRandom cancels 1,000 calls at random moments among traffic of 64 callers.
func cancelAtRandom(t *testing.T, url string) {
	f := serve(t, url)
	events := recorder(make(chan obs.Event, 1<<20))
	// Longer than the reply takes on any machine: where memory cannot be detached it is then taken away, and the connection with it.
	c := dial(t, f.url, rpc.WithRecorder(events), rpc.WithCancelWait(time.Minute))
	if err := c.Connect(ctx(t)); err != nil {
		t.Fatal(err)
	}
	var cancelled atomic.Int64
	var wg sync.WaitGroup
	rounds := 60
	if raceEnabled {
		rounds = 15 // ten times slower
	}
	for g := range 64 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			guarded := make([]byte, 40_000+128)
			for range rounds {
				n := rng.IntN(40_000)
				want := pattern(n)
				for i := range guarded {
					guarded[i] = 0x5c
				}
				dst := guarded[64 : 64+n : 64+n]
				cctx, cancel := context.WithCancel(ctx(t))
				doomed := rng.IntN(2) == 0
				if doomed {
					time.AfterFunc(time.Duration(rng.IntN(300))*time.Microsecond, cancel)
				}
				var err error
				var res bulk
				var s number
				if rng.IntN(2) == 0 {
					err = c.Call(cctx, procRead, readArgs(n), &res, rpc.Into(dst))
					if err == nil && !bytes.Equal(res, want) {
						t.Errorf("read of %d bytes: wrong ones", n)
					}
				} else {
					err = c.Call(cctx, procWrite, bulk(want), &s)
					if err == nil && uint32(s) != sum(want) {
						t.Errorf("write of %d bytes: wrong ones", n)
					}
				}
				cancel()
				switch {
				case errors.Is(err, context.Canceled) && doomed:
					cancelled.Add(1)
					clear(want)
					for i := range guarded {
						guarded[i] = 0x5c
					}
					time.Sleep(50 * time.Microsecond)
					for i := range guarded {
						if guarded[i] != 0x5c {
							t.Errorf("byte %d of %d was written after the return", i, n)
							break
						}
					}
				case err != nil:
					t.Errorf("a call of %d bytes: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	wait.For(t, "the orphans", func() bool { return c.Counters().Outstanding == 0 })
	n := c.Counters()
	t.Logf("%d cancelled; %+v", cancelled.Load(), n)
	if up := events.count(obs.ConnUp); up != 1 || n.Granted == 0 {
		t.Errorf("%d connections, want the one; %d credits granted", up, n.Granted)
	}
	// What is left is the connection's own: receives of its own, and send buffers, of which there may be as
	// many as Sends were ever under way. The calls' memory was ten times that.
	if used := c.Endpoint().MemoryInUse(); used > 4<<20 {
		t.Errorf("%d bytes of the client's memory are in use at the end", used)
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, "loopback://127.0.0.1:0")
		c := dial(t, f.url, rpc.WithCallTimeout(80*time.Millisecond))
		defer close(f.wait)
		bg := context.Background()
		for range 2 { // the second waits behind the first, whose reply would confirm the version
			if err := c.Call(bg, procWait, bulk(nil), nil); !errors.Is(err, transport.ErrTimeout) {
				t.Errorf("%v, want ErrTimeout", err)
			}
		}
		c = dial(t, f.url, rpc.WithCallTimeout(80*time.Millisecond))
		for range 2 {
			if err := c.Call(bg, procEcho, blob("x"), nil); err != nil {
				t.Errorf("a call that is answered: %v", err)
			}
			if err := c.Call(bg, procWait, bulk(nil), nil); !errors.Is(err, transport.ErrTimeout) {
				t.Errorf("%v, want ErrTimeout", err)
			}
		}
	})
}

func TestConnectionLost(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	c := dial(t, f.url)
	close(f.wait)
	var got blob
	for i := range 5 {
		if err := c.Call(ctx(t), procEcho, blob("x"), &got); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		c.Conns()[0].Abort(errors.New("cut by the test"))
	}
	// In the middle of calls: they are sent again on a new connection.
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			want := pattern(30_000 + g)
			var s number
			for range 20 {
				if err := c.Call(ctx(t), procWrite, bulk(want), &s); err != nil || uint32(s) != sum(want) {
					t.Errorf("%v", err)
				}
			}
		})
	}
	for range 4 {
		time.Sleep(2 * time.Millisecond)
		for _, conn := range c.Conns() {
			conn.Abort(errors.New("cut by the test"))
		}
	}
	wg.Wait()
}

func TestServerGone(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	c := dial(t, f.url, rpc.WithRetransmits(1))
	done := make(chan error)
	go func() { done <- c.Call(ctx(t), procWait, bulk(pattern(9000)), nil) }()
	<-f.inside
	f.srv.Close()
	err := <-done
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call to a server that closed: %v", err)
	}
	if err := c.Call(ctx(t), procEcho, blob("x"), nil); err == nil {
		t.Error("a call after that succeeded")
	}
}

func TestClientClosed(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	c := dial(t, f.url)
	defer close(f.wait)
	dst := make([]byte, 9000)
	done := make(chan error)
	go func() { done <- c.Call(ctx(t), procWait, bulk(pattern(9000)), new(bulk), rpc.Into(dst)) }()
	<-f.inside
	c.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the call in flight: %v, want net.ErrClosed", err)
	}
	if err := c.Call(ctx(t), procEcho, blob("x"), nil); !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("the next call: %v, want ErrClosed", err)
	}
}

func TestShutdown(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts)
			c := dial(t, f.url, tr.opts)
			var res blob
			done := make(chan error, 1)
			go func() { done <- c.Call(ctx(t), procWait, bulk(pattern(900)), &res) }()
			<-f.inside
			time.AfterFunc(20*time.Millisecond, func() { close(f.wait) })
			if err := f.srv.Shutdown(ctx(t)); err != nil {
				t.Fatalf("Shutdown: %v", err)
			}
			if err := <-done; err != nil || !bytes.Equal(res, pattern(900)) {
				t.Errorf("the call in progress: %v; client %+v; server %+v", err, c.Counters(), f.srv.Counters())
			}
		})
	}
}

func TestCreditsLimitCalls(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithCredits(4))
	c := dial(t, f.url)
	if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if err := c.Call(ctx(t), procWait, bulk(nil), nil); err != nil {
				t.Error(err)
			}
		})
	}
	for range 4 {
		<-f.inside
	}
	select {
	case <-f.inside:
		t.Error("a fifth call came in on four credits")
	case <-time.After(50 * time.Millisecond):
	}
	cctx, cancel := context.WithTimeout(ctx(t), 20*time.Millisecond)
	defer cancel()
	if err := c.Call(cctx, procEcho, blob("x"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that waits for a credit: %v", err)
	}
	close(f.wait)
	wg.Wait()
}

func TestAuthSys(t *testing.T) {
	var seen rpcmsg.Sys
	opt := rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
		if r.Cred.Flavor == rpcmsg.AuthSys {
			if err := seen.Parse(r.Cred.Body); err != nil {
				return err
			}
		}
		return next(ctx, r)
	})
	f := serve(t, "loopback://127.0.0.1:0", opt)
	c := dial(t, f.url, rpc.WithAuthSys(rpcmsg.Sys{Machine: "here", UID: 5, GID: 6, GIDs: []uint32{7}}))
	if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
		t.Fatal(err)
	}
	if seen.UID != 5 || seen.GID != 6 || len(seen.GIDs) != 1 || seen.Machine != "here" {
		t.Errorf("the server saw %+v", seen)
	}
}

func TestInterceptors(t *testing.T) {
	var order []string
	note := func(s string) rpc.ClientOption {
		return rpc.WithInterceptor(func(ctx context.Context, ci *rpc.CallInfo, next func(context.Context) error) error {
			order = append(order, s+" "+ci.Proc.Name)
			return next(ctx)
		})
	}
	f := serve(t, "loopback://127.0.0.1:0")
	c := dial(t, f.url, note("outer"), note("inner"))
	if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
		t.Fatal(err)
	}
	if len(order) != 2 || order[0] != "outer ECHO" || order[1] != "inner ECHO" {
		t.Errorf("order %q", order)
	}
}

func TestTargets(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"loopback://h:1", ""},
		{"loopback://[::1]:5/a/b?local=x&y=z", ""},
		{"tcp://h", ""},
		{"TCP://h", ""}, // RFC 3986 §3.1
		{"nonsense", "scheme"},
		{"nope://h:1", ""}, // a resolver's to know
		{"://h:1", "scheme"},
		{"loopback://", "no host"},
		{"loopback://h:1?a=1&a=2", "twice"},
		{"loopback://u@h:1", "user names"},
		{"loopback://h:port", "port"},
		{"loopback://h:99999", "65535"},
	} {
		_, err := rpc.ParseTarget(tc.in)
		var te *rpc.TargetError
		if tc.want == "" && err != nil || tc.want != "" && !errors.As(err, &te) {
			t.Errorf("%s: %v", tc.in, err)
		}
		if tc.want != "" && err != nil && !bytes.Contains([]byte(err.Error()), []byte(tc.want)) {
			t.Errorf("%s: %q does not speak of %q", tc.in, err, tc.want)
		}
	}
	for in, want := range map[string]string{"TCP://h": "tcp://h:2049", "iWARP://h/p": "iwarp://h:20049/p"} {
		if got, err := rpc.ParseTarget(in); err != nil || got.String() != want {
			t.Errorf("%s is %s, %v, want %s", in, got, err, want)
		}
	}
	c := dial(t, "loopback://127.0.0.1:9")
	if err := c.Connect(ctx(t)); err == nil {
		t.Error("connected to nobody")
	}
}
