package rpc_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/providers/iwarp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream/memory"
)

// simulated registers iWARP over a network in memory under a scheme of its own, and returns its target.
func simulated(t testing.TB, n *memory.Network) string {
	scheme := "iwarp-sim-" + string(rune('a'+simulations.Add(1)))
	verbs.Register(scheme, iwarp.New(n))
	return scheme + "://127.0.0.1:0"
}

var simulations atomic.Int32

// TestIdleClose: an idle connection ends, at either side's wish; callers do not notice.
func TestIdleClose(t *testing.T) {
	for _, tc := range []struct {
		name           string
		server, client time.Duration
		ends           time.Duration // of the connection, about
	}{
		{"defaults", 0, 0, 5 * time.Minute},
		{"the server's", 20 * time.Second, -1, 20 * time.Second},
		{"the client's", -1, 40 * time.Second, 40 * time.Second},
		{"neither", -1, -1, 0},
	} {
		for _, provider := range []string{"loopback", "iwarp"} {
			t.Run(tc.name+"/"+provider, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					target := "loopback://127.0.0.1:0"
					if provider == "iwarp" {
						target = simulated(t, &memory.Network{})
					}
					f := serve(t, target, rpc.WithIdleTimeout(tc.server))
					c := dial(t, f.url, rpc.WithIdleTimeout(tc.client), rpc.WithRetransmits(-1))
					for range 3 {
						if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
						start := time.Now()
						for f.srv.Connections() > 0 && time.Since(start) < time.Hour {
							time.Sleep(time.Second)
						}
						d := time.Since(start)
						if tc.ends == 0 {
							if f.srv.Connections() != 1 {
								t.Errorf("ended after %v", d)
							}
							return
						}
						if d < tc.ends || d > tc.ends*5/4+3*time.Second {
							t.Errorf("the connection ended after %v, want %v", d, tc.ends)
						}
					}
				})
			})
		}
	}
}

// TestServedIsNotIdle: a call may take as long as it likes.
func TestServedIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, "loopback://127.0.0.1:0", rpc.WithIdleTimeout(10*time.Second))
		c := dial(t, f.url, rpc.WithIdleTimeout(10*time.Second))
		if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, func() { close(f.wait) })
		long, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
		defer cancel()
		if err := c.Call(long, procWait, bulk(nil), nil); err != nil {
			t.Error(err)
		}
		if n := c.Counters().CallsSent; n < 100 {
			t.Errorf("%d calls sent: nobody asked whether the server is there", n)
		}
	})
}

// TestIdleEndCrossesCall: calls that begin while the connection ends idle are executed once each, and
// succeed.
func TestIdleEndCrossesCall(t *testing.T) {
	for _, end := range []string{"server", "client"} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				idle := map[string]time.Duration{"server": -1, "client": -1}
				idle[end] = 8 * time.Second // a tick each second
				var executed atomic.Int64
				f := serve(t, simulated(t, &memory.Network{Delay: 50 * time.Millisecond}), rpc.WithIdleTimeout(idle["server"]),
					rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
						executed.Add(1)
						return next(ctx, r)
					}))
				c := dial(t, f.url, rpc.WithIdleTimeout(idle["client"]))
				call := func() {
					if err := c.Call(context.Background(), procWrite, bulk(pattern(100)), nil); err != nil {
						t.Error(err)
					}
				}
				call()
				calls := int64(1)
				for i := range 60 { // around the end: 8 to 9 s after the call, and 50 ms each way
					time.Sleep(7900*time.Millisecond + time.Duration(i)*20*time.Millisecond)
					var wg sync.WaitGroup
					for range 3 {
						wg.Go(call)
					}
					wg.Wait()
					calls += 3
				}
				if n := executed.Load(); n != calls {
					t.Errorf("%d calls were executed %d times", calls, n)
				}
				if c.Counters().CallsSent == uint64(calls) {
					t.Log("no call crossed the end")
				}
			})
		})
	}
}

// TestMuteServer: a server that is connected and says nothing is found out; a call that waits goes on where
// one answers.
func TestMuteServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := make(chan struct{})
		c := dial(t, rawServe(t, func(r *raw, n int, h *wire.Header, payload []byte) {
			if n == 0 {
				r.answerTo(h, 8)
			}
			if n == 1 {
				close(silent)
			}
		}), rpc.WithRetransmits(-1), rpc.WithVersions(1, 1))
		if err := c.Call(t.Context(), procEcho, blob("x"), nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		err := c.Call(t.Context(), procEcho, blob("x"), nil)
		if !errors.Is(err, engine.ErrMute) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v, want ErrMute", err)
		}
		if d := time.Since(start); d < 40*time.Second || d > 50*time.Second {
			t.Errorf("found out after %v, want 2 × 20 s", d)
		}
		<-silent
	})
}

// TestStalledPeers: a peer that stays, but never answers RDMA Reads, or never reads, loses its connection
// and all that it held.
func TestStalledPeers(t *testing.T) {
	t.Run("no answer to Reads", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var theirs *memory.Stream
			f := serve(t, simulated(t, &memory.Network{Delay: 10 * time.Millisecond, Made: func(dialled, _ *memory.Stream) { theirs = dialled }}))
			r := rawDial(t, f.url)
			_, seg := r.memory(300<<10, verbs.RemoteRead)
			h := head(7, 1, wire.Msg)
			h.Reads = []wire.ReadSegment{{Position: uint32(len(call(7, 3)) + 4), Segment: seg}}
			r.send(enc(h), call(7, 3), word(300<<10))
			theirs.Mute() // the call has left; what answers the Reads goes nowhere
			wantStalled(t, f)
		})
	})
	t.Run("no window", func(t *testing.T) {
		f := serve(t, simulated(t, &memory.Network{}), rpc.WithStallTimeout(400*time.Millisecond))
		r := rawDial(t, f.url)
		stuck := make(chan struct{})
		defer close(stuck)
		r.hold.Store(&stuck) // who reads the connection waits
		at := 0
		for i := range uint32(60) {
			n := copy(r.out.Bytes()[at:], append(enc(head(i+1, 1, wire.Msg)), call(i+1, 1, opaque(pattern(3800))...)...))
			if _, err := r.conn.Post([]verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: r.out, Off: at, N: n}}}}); err != nil {
				t.Fatal(err)
			}
			at += n
		}
		go r.conn.Flush()
		waitFor(t, "calls", func() bool { return f.srv.Counters().CallsRecv > 50 })
		waitFor(t, "the end", func() bool { return f.srv.Connections() == 0 })
		waitFor(t, "its memory", func() bool { return f.l.Endpoint().MemoryInUse() == 0 })
	})
}

// wantStalled waits for the end of the only connection.
func wantStalled(t *testing.T, f *fixture) {
	t.Helper()
	start := time.Now()
	for f.srv.Connections() > 0 && time.Since(start) < 5*time.Minute {
		time.Sleep(time.Second)
	}
	if d := time.Since(start); d < time.Minute || d > 90*time.Second {
		t.Errorf("the connection ended after %v, want about a minute", d)
	}
	synctest.Wait()
	if n := f.l.Endpoint().MemoryInUse(); n > 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// TestTCPIdleAndTrickle: the same on tcp://.
func TestTCPIdleAndTrickle(t *testing.T) {
	f := serve(t, "tcp://127.0.0.1:0", rpc.WithIdleTimeout(200*time.Millisecond))
	c := dial(t, f.url, rpc.WithIdleTimeout(-1), rpc.WithRetransmits(1))
	for range 3 {
		if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the idle end", func() bool { return f.srv.Connections() == 0 })
	}

	f = serve(t, "tcp://127.0.0.1:0", rpc.WithIdleTimeout(-1), rpc.WithStallTimeout(100*time.Millisecond), rpc.WithTCPRecord(4096))
	u, _ := url.Parse(f.url)
	slow, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	gone := make(chan error, 1)
	go func() {
		record := rpcmsg.AppendMark(nil, 4096, true)
		for i := 0; ; i++ {
			b := []byte{0}
			if i < len(record) {
				b[0] = record[i]
			}
			if _, err := slow.Write(b); err != nil {
				gone <- err
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	select {
	case <-gone:
	case <-time.After(30 * time.Second):
		t.Error("a record that trickles in is waited for")
	}
}
