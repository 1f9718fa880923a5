package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/chunk"
	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/test/faults"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// The server's program of these tests: by SUBSCRIBE a client asks for backward calls, by NUDGE for one, and its
// result.
const subscriptions = 0x20000078

var (
	procSubscribe = &rpc.Proc{Program: subscriptions, Version: 1, Number: 1, Name: "SUBSCRIBE", Idempotent: true}
	procNudge     = &rpc.Proc{Program: subscriptions, Version: 1, Number: 2, Name: "NUDGE", Idempotent: true}
)

// duplex is a server that calls its client back.
type duplex struct {
	*fixture // the server
	back     *rpc.Backchannel
	local    *fixture // the client's programs
	c        *rpc.Client
	binds    atomic.Int64
}

// newDuplex takes options of every kind, each for what has it.
func newDuplex(t testing.TB, url string, opts ...any) *duplex {
	t.Helper()
	d := &duplex{fixture: programs(only[rpc.ServerOption](opts)...), local: programs(only[rpc.ServerOption](opts)...)}
	var err error
	if d.back, err = rpc.NewBackchannel(only[rpc.BackchannelOption](opts)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.back.Close() })
	d.srv.Register(subscriptions, 1,
		rpc.Method{Proc: procSubscribe, Handler: func(_ context.Context, r *rpc.Request) error {
			d.binds.Add(1)
			return d.back.Bind(r.Peer())
		}},
		rpc.Method{Proc: procNudge, Handler: func(ctx context.Context, r *rpc.Request) error {
			in := blob(r.Args.Opaque(4096))
			if err := d.back.Bind(r.Peer()); err != nil {
				return err
			}
			var out blob
			if err := d.back.Call(ctx, procEcho, in, &out); err != nil {
				return err
			}
			r.Results.Opaque(out)
			return nil
		}},
	)
	d.listen(t, url, only[rpc.ListenOption](opts)...)
	d.c = dial(t, d.url, append(only[rpc.ClientOption](opts), rpc.WithPrograms(d.local.srv))...)
	t.Cleanup(func() { d.local.srv.Close() })
	return d
}

func (d *duplex) subscribe(t testing.TB) {
	t.Helper()
	if err := d.c.Call(ctx(t), procSubscribe, nil, nil); err != nil {
		t.Fatal(err)
	}
}

func rdma(name string) bool { return !strings.HasPrefix(name, "tcp") }

// TestBackwardCalls: RFC 8167 §5, v2 draft §5.2.2 level INLINE: what fits inline travels, what does not is an
// error to its caller, and to nobody else.
func TestBackwardCalls(t *testing.T) {
	for _, tr := range transports {
		if !rdma(tr.name) {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			d := newDuplex(t, tr.url, tr.opts)
			d.subscribe(t)
			for _, n := range []int{0, 1, 3, 1000, 3000, 3900} {
				var got blob
				if err := d.back.Call(ctx(t), procEcho, blob(pattern(n)), &got, rpc.MaxReply(1<<20)); err != nil {
					t.Fatalf("echo of %d bytes: %v", n, err)
				}
				if !bytes.Equal(got, pattern(n)) {
					t.Fatalf("echo of %d bytes: wrong ones", n)
				}
			}
			dst := make([]byte, 2000)
			var res bulk
			if err := d.back.Call(ctx(t), procRead, readArgs(2000), &res, rpc.Into(dst)); err != nil || !bytes.Equal(dst, pattern(2000)) || &res[0] != &dst[0] {
				t.Errorf("a bulk result, inline: %v", err)
			}
			var plan *chunk.PlanError
			for _, n := range []int{4090, 1 << 20} {
				err := d.back.Call(ctx(t), procWrite, bulk(pattern(n)), new(number))
				if !errors.As(err, &plan) || !errors.Is(err, chunk.ErrInline) {
					t.Errorf("arguments of %d bytes: %v, want ErrInline", n, err)
				}
			}
			if err := d.back.Call(ctx(t), procRead, readArgs(1<<20), new(bulk), rpc.Into(make([]byte, 1<<20))); !errors.Is(err, transport.ErrRefused) {
				t.Errorf("a result that does not fit inline: %v, want the client's refusal", err)
			}
			if err := d.back.Call(ctx(t), &rpc.Proc{Program: 5, Version: 1}, nil, nil); !errors.Is(err, rpcmsg.ErrProgUnavail) {
				t.Errorf("a program that the client has not: %v", err)
			}
			if err := d.back.Call(ctx(t), procFail, number(3), nil); !errors.Is(err, rpcmsg.ErrSystem) {
				t.Errorf("a handler that panics: %v", err)
			}
			checkCalls(t, d.c, 5000)
			wait.For(t, "the last reply to be counted", func() bool { return d.srv.Counters().BackRepliesRecv == d.c.Counters().BackRepliesSent })
			client, server := d.c.Counters(), d.srv.Counters()
			if n := server.BackCallsSent; n != 10 || client.BackCallsRecv != n || client.BackRepliesSent != 9 || client.CallsRecv+server.CallsSent != 0 {
				t.Errorf("counters: client %+v\nserver %+v", client, server)
			}
			if client.ReadBytes != server.ReadBytes || server.BackGranted != 8 {
				t.Errorf("counters: client %+v\nserver %+v", client, server)
			}
		})
	}
}

// TestBackwardWithinTheFirstCall: the server calls back before it has answered anything: its call confirms the
// version (v2 draft §7), and grants no forward credits.
func TestBackwardWithinTheFirstCall(t *testing.T) {
	for _, tr := range transports {
		if !rdma(tr.name) {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			d := newDuplex(t, tr.url, tr.opts)
			for range 3 {
				var got blob
				if err := d.c.Call(ctx(t), procNudge, blob("to and fro"), &got); err != nil || string(got) != "to and fro" {
					t.Fatalf("%q, %v", got, err)
				}
			}
			if v := d.c.Conns()[0].Version(); v != tr.version {
				t.Errorf("version %d, want %d", v, tr.version)
			}
		})
	}
}

// TestBackwardInterceptors: calls are intercepted, signed and seen as forward ones are.
func TestBackwardInterceptors(t *testing.T) {
	var order []string
	local := programs(rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
		var sys rpcmsg.Sys
		if err := sys.Parse(r.Cred.Body); err != nil {
			return err
		}
		order = append(order, fmt.Sprint("client ", r.Method.Proc, " of ", sys.Machine))
		return next(ctx, r)
	}))
	t.Cleanup(func() { local.srv.Close() })
	d := newDuplex(t, "loopback://127.0.0.1:0")
	c := dial(t, d.url, rpc.WithPrograms(local.srv))
	back, err := rpc.NewBackchannel(rpc.WithAuthSys(rpcmsg.Sys{Machine: "server"}),
		rpc.WithInterceptor(func(ctx context.Context, ci *rpc.CallInfo, next func(context.Context) error) error {
			order = append(order, fmt.Sprint("server ", ci.Proc))
			return next(ctx)
		}))
	if err != nil {
		t.Fatal(err)
	}
	p := &rpc.Proc{Program: subscriptions, Version: 6, Number: 1}
	d.srv.Register(subscriptions, 6, rpc.Method{Proc: p, Handler: func(_ context.Context, r *rpc.Request) error { return back.Bind(r.Peer()) }})
	if err := c.Call(ctx(t), p, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := back.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(order); got != "[server ECHO client ECHO of server]" {
		t.Error(got)
	}
}

// TestBackwardEvents: events say which direction they are of.
func TestBackwardEvents(t *testing.T) {
	client, server := make(recorder, 1000), make(recorder, 1000)
	d := newDuplex(t, "loopback://127.0.0.1:0", rpc.WithRecorder(server))
	c := dial(t, d.url, rpc.WithPrograms(d.local.srv), rpc.WithRecorder(client))
	if err := c.Call(ctx(t), procSubscribe, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.back.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the client's events", func() bool { return c.Counters().BackRepliesSent == 1 })
	c.Close()
	for _, side := range []struct {
		name          string
		r             recorder
		calls, serves bool // Back of the events of who calls, and of who serves
	}{{"client", client, false, true}, {"server", server, true, false}} {
		seen := map[obs.Kind]int{}
		for len(side.r) > 0 {
			e := <-side.r
			seen[e.Kind]++
			switch e.Kind {
			case obs.CallSent, obs.ReplyRecv, obs.CallDone, obs.CreditGrant:
				if e.Back != side.calls {
					t.Errorf("%s: %+v", side.name, e)
				}
			case obs.CallRecv, obs.ReplySent:
				if e.Back != side.serves {
					t.Errorf("%s: %+v", side.name, e)
				}
			}
		}
		for _, k := range []obs.Kind{obs.CallSent, obs.ReplyRecv, obs.CallDone, obs.CallRecv, obs.ReplySent} {
			if seen[k] != 1 {
				t.Errorf("%s: %d events of kind %d", side.name, seen[k], k)
			}
		}
	}
}

// TestBackwardOverTCP: a clear answer on both sides.
func TestBackwardOverTCP(t *testing.T) {
	local := programs()
	t.Cleanup(func() { local.srv.Close() })
	var bad *rpc.TargetError
	if _, err := rpc.NewClient("tcp://127.0.0.1:1", rpc.WithPrograms(local.srv)); !errors.As(err, &bad) {
		t.Errorf("%v", err)
	}
	f := programs()
	p := &rpc.Proc{Program: subscriptions, Version: 1, Number: 1}
	back, err := rpc.NewBackchannel()
	if err != nil {
		t.Fatal(err)
	}
	f.srv.Register(subscriptions, 1, rpc.Method{Proc: p, Handler: func(_ context.Context, r *rpc.Request) error {
		if peer := r.Peer(); !peer.RemoteAddr().IsValid() || !errors.Is(back.Bind(peer), rpc.ErrBackward) {
			t.Error("bound over tcp")
		}
		return nil
	}})
	f.listen(t, "tcp://127.0.0.1:0")
	if err := dial(t, f.url).Call(ctx(t), p, nil, nil); err != nil {
		t.Error(err)
	}
}

// TestBackwardChunks: level GENL, both ways, with remote invalidation (v2 draft §3.1, §5.2.2).
func TestBackwardChunks(t *testing.T) {
	for _, url := range []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0", "bare-r://127.0.0.1:0", "bare-dt://127.0.0.1:0", "bare-q://127.0.0.1:0"} {
		t.Run(url, func(t *testing.T) {
			d := newDuplex(t, url, rpc.WithBackwardChunks(), rpc.WithSegmentLength(300_000))
			d.subscribe(t)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for _, n := range []int{0, 5000, 1 << 20} {
						want, dst := pattern(n), make([]byte, n)
						var res bulk
						if err := d.back.Call(ctx(t), procRead, readArgs(n), &res, rpc.Into(dst)); err != nil || !bytes.Equal(dst, want) {
							t.Errorf("read of %d bytes: %v", n, err)
						}
						var s number
						if err := d.back.Call(ctx(t), procWrite, bulk(want), &s); err != nil || uint32(s) != sum(want) {
							t.Errorf("write of %d bytes: %v", n, err)
						}
						var got blob
						if err := d.back.Call(ctx(t), procEcho, blob(want), &got, rpc.MaxReply(n+8)); err != nil || !bytes.Equal(got, want) {
							t.Errorf("echo of %d bytes in long messages: %v", n, err)
						}
					}
				})
				wg.Go(func() { checkCalls(t, d.c, 1<<20) })
			}
			wg.Wait()
			n := d.srv.Counters()
			if n.RemoteInv == 0 || n.Exposed != n.RemoteInv+n.LocalInv || n.BadInvalidate != 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestBackwardLevels: who may call whom, and with what (RFC 8167 §6, D-23).
func TestBackwardLevels(t *testing.T) {
	t.Run("a client without programs drops them", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := newDuplex(t, "loopback://127.0.0.1:0")
			c := dial(t, d.url)
			if err := c.Call(ctx(t), procSubscribe, nil, nil); err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(ctx(t), 50*time.Millisecond)
			defer cancel()
			if err := d.back.Call(short, procEcho, blob("x"), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			if n := c.Counters(); n.Dropped != 1 || n.BackCallsRecv != 0 {
				t.Errorf("%+v", n)
			}
			checkCalls(t, c, 100)
		})
	})
	t.Run("no credits", func(t *testing.T) {
		d := newDuplex(t, "loopback://127.0.0.1:0", rpc.WithBackwardCredits(0))
		d.subscribe(t)
		var why *transport.BackwardError
		if err := d.back.Call(ctx(t), procEcho, blob("x"), nil); !errors.As(err, &why) {
			t.Errorf("%v", err)
		}
		if err := backlink(d.c.Conns()[0]).SetBackward(transport.BackwardInline); err == nil {
			t.Error("a level above none where there are no receives")
		}
	})
	t.Run("levels change on a live connection", func(t *testing.T) {
		d := newDuplex(t, "loopback://127.0.0.1:0")
		var peer rpc.Peer
		d.srv.Register(subscriptions+1, 1, rpc.Method{Proc: &rpc.Proc{Program: subscriptions + 1, Version: 1, Number: 1}, Handler: func(_ context.Context, r *rpc.Request) error {
			peer = r.Peer()
			return d.back.Bind(peer)
		}})
		if err := d.c.Call(ctx(t), &rpc.Proc{Program: subscriptions + 1, Version: 1, Number: 1}, nil, nil); err != nil {
			t.Fatal(err)
		}
		server, client := backlink(peer.Conn()), backlink(d.c.Conns()[0])
		set := func(c transport.Backlink, l transport.BackwardLevel) {
			t.Helper()
			if err := c.SetBackward(l); err != nil || c.Backward() != l {
				t.Fatalf("%v: %v, %v", l, c.Backward(), err)
			}
		}
		big := func() error { return d.back.Call(ctx(t), procWrite, bulk(pattern(9000)), new(number)) }
		var why *transport.BackwardError
		set(server, transport.BackwardNone)
		if err := d.back.Call(ctx(t), procEcho, blob("x"), nil); !errors.As(err, &why) {
			t.Errorf("level none: %v", err)
		}
		set(server, transport.BackwardGeneral)
		var refused *engine.TransportError
		if err := big(); !errors.As(err, &refused) {
			t.Errorf("chunks to a client that takes none: %v", err)
		}
		set(client, transport.BackwardGeneral)
		if err := big(); err != nil {
			t.Errorf("level general: %v", err)
		}
		set(server, transport.BackwardInline)
		if err := big(); !errors.Is(err, chunk.ErrInline) {
			t.Errorf("level inline: %v", err)
		}
		if err := server.SetBackward(9); err == nil {
			t.Error("level 9 exists")
		}
	})
	t.Run("a client's own peer", func(t *testing.T) {
		d := newDuplex(t, "loopback://127.0.0.1:0")
		d.local.srv.Register(subscriptions, 1, rpc.Method{Proc: procSubscribe, Handler: func(_ context.Context, r *rpc.Request) error {
			if err := d.back.Bind(r.Peer()); !errors.Is(err, rpc.ErrBackward) {
				t.Errorf("bound to our server: %v", err)
			}
			return nil
		}})
		d.subscribe(t)
		if err := d.back.Call(ctx(t), procSubscribe, nil, nil); err != nil {
			t.Error(err)
		}
	})
}

// TestBothDirectionsAtOnce: RFC 8167 §4.1: credits are counted apart; 64 callers each way.
func TestBothDirectionsAtOnce(t *testing.T) {
	for _, tr := range transports {
		if !rdma(tr.name) {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			d := newDuplex(t, tr.url, rpc.WithCredits(16), rpc.WithBackwardCredits(5), tr.opts)
			d.subscribe(t)
			var wg sync.WaitGroup
			for g := range 64 {
				wg.Go(func() {
					for i := range 30 {
						want := blob(fmt.Sprintf("forward %d %d", g, i))
						var got blob
						if err := d.c.Call(ctx(t), procEcho, want, &got, rpc.MaxReply(64)); err != nil || !bytes.Equal(got, want) {
							t.Errorf("%s: %q, %v", want, got, err)
						}
					}
				})
				wg.Go(func() {
					for i := range 30 {
						want := blob(fmt.Sprintf("backward %d %d", g, i))
						var got blob
						if err := d.back.Call(ctx(t), procEcho, want, &got); err != nil || !bytes.Equal(got, want) {
							t.Errorf("%s: %q, %v", want, got, err)
						}
					}
				})
			}
			wg.Wait()
			client, server := d.c.Counters(), d.srv.Counters()
			if client.Granted != 16 || server.BackGranted != 5 || client.BackGranted != 0 || server.Granted != 0 {
				t.Errorf("grants: forward %d (16 wanted), backward %d (5 wanted)", client.Granted, server.BackGranted)
			}
			if client.CallsSent != 64*30+1 || server.BackCallsSent != 64*30 || client.Dropped+server.Dropped != 0 {
				t.Errorf("client %+v\nserver %+v", client, server)
			}
		})
	}
}

// TestBackwardNeverOnALeader: a client's caller that reads the connection runs no procedure, Inline or not: this one
// waits for a call that only the reading goroutine can answer.
func TestBackwardNeverOnALeader(t *testing.T) {
	for _, url := range []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0"} {
		d := newDuplex(t, url)
		nested := &rpc.Proc{Program: subscriptions, Version: 2, Number: 1}
		d.local.srv.Register(subscriptions, 2, rpc.Method{Proc: nested, Inline: true, Handler: func(ctx context.Context, _ *rpc.Request) error {
			return d.c.Call(ctx, procEcho, blob("nested"), nil)
		}})
		d.subscribe(t)
		done := make(chan error)
		go func() { done <- d.c.Call(ctx(t), procWait, bulk("x"), new(bulk)) }() // leads
		<-d.inside
		for range 20 {
			if err := d.back.Call(ctx(t), nested, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		close(d.wait)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestBackwardCancelled: a cancelled call keeps its credit until its reply comes.
func TestBackwardCancelled(t *testing.T) {
	for _, level := range []rpc.ConnOption{none, rpc.WithVersions(1, 1), rpc.WithBackwardChunks()} {
		d := newDuplex(t, "loopback://127.0.0.1:0", level, rpc.WithBackwardCredits(1))
		d.subscribe(t)
		for _, n := range []int{10, 3000} {
			short, cancel := context.WithCancel(ctx(t))
			go func() {
				<-d.local.inside
				cancel()
			}()
			arg := pattern(n)
			if err := d.back.Call(short, procWait, bulk(arg), new(bulk), rpc.Into(make([]byte, n))); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			clear(arg)
			waiting, stop := context.WithTimeout(ctx(t), 20*time.Millisecond)
			if err := d.back.Call(waiting, procEcho, blob("x"), nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a call beyond the grant: %v", err)
			}
			stop()
			if n := d.srv.Counters(); n.BackOutstanding != 1 {
				t.Errorf("%d calls hold credits, want the cancelled one", n.BackOutstanding)
			}
			d.local.wait <- struct{}{}
			if err := d.back.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestBackwardReconnection: only the client can connect. A call that has lost its connection waits for the next one
// that is bound, and is executed once (RFC 8167 §5.4; RFC 5531 §9).
func TestBackwardReconnection(t *testing.T) {
	for _, url := range []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0"} {
		t.Run(url, func(t *testing.T) {
			d := newDuplex(t, url)
			var runs atomic.Int64
			once := &rpc.Proc{Program: subscriptions, Version: 3, Number: 1}
			hold := make(chan struct{})
			d.local.srv.Register(subscriptions, 3, rpc.Method{Proc: once, Handler: func(context.Context, *rpc.Request) error {
				runs.Add(1)
				<-hold
				return nil
			}})
			done := make(chan error)
			go func() { done <- d.back.Call(ctx(t), once, nil, nil) }() // before there is any connection
			time.Sleep(time.Millisecond)
			d.subscribe(t)
			wait.For(t, "the call to arrive", func() bool { return runs.Load() == 1 })
			for i := range 3 {
				d.c.Conns()[0].Abort(errors.New("cut by the test"))
				wait.For(t, "the end", func() bool { return len(d.c.Conns()) == 0 })
				d.subscribe(t)
				wait.For(t, "it to come again", func() bool { return d.c.Counters().BackCallsRecv == uint64(i)+2 })
			}
			close(hold)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if n := runs.Load(); n != 1 {
				t.Errorf("one call was executed %d times", n)
			}
		})
	}
}

// TestBackwardWithoutConnection: what a call ends with that finds no connection, or loses it.
func TestBackwardWithoutConnection(t *testing.T) {
	d := newDuplex(t, "loopback://127.0.0.1:0")
	short, cancel := context.WithTimeout(ctx(t), 10*time.Millisecond)
	defer cancel()
	if err := d.back.Call(short, procEcho, blob("x"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody is bound: %v", err)
	}
	impatient, err := rpc.NewBackchannel(rpc.WithRetransmits(-1))
	if err != nil {
		t.Fatal(err)
	}
	var lost *transport.LostError
	if err := impatient.Call(ctx(t), procEcho, blob("x"), nil); !errors.As(err, &lost) || lost.Sent || !errors.Is(err, net.ErrClosed) {
		t.Errorf("nobody is bound, no waiting: %v", err)
	}
	var peer rpc.Peer
	p := &rpc.Proc{Program: subscriptions, Version: 4, Number: 1}
	d.srv.Register(subscriptions, 4, rpc.Method{Proc: p, Handler: func(_ context.Context, r *rpc.Request) error {
		if peer != (rpc.Peer{}) && peer != r.Peer() {
			t.Error("peers of one connection differ")
		}
		peer = r.Peer()
		return impatient.Bind(peer)
	}})
	for range 2 {
		if err := d.c.Call(ctx(t), p, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error)
	go func() { done <- impatient.Call(ctx(t), procWait, bulk("x"), nil) }()
	<-d.local.inside
	d.c.Conns()[0].Abort(errors.New("cut")) // Close would end the procedure's context first, and the reply might still leave
	if err := <-done; !errors.As(err, &lost) || !lost.Sent {
		t.Errorf("the client is gone: %v", err)
	}
	<-peer.Done()
	go func() { done <- d.back.Call(ctx(t), procEcho, blob("x"), nil) }()
	time.Sleep(time.Millisecond)
	d.back.Close()
	if err := <-done; !errors.Is(err, rpc.ErrClosed) {
		t.Errorf("closed while waiting: %v", err)
	}
}

// TestProgramsClosed: the server of a client's programs ends without the client's connections, and they without it.
func TestProgramsClosed(t *testing.T) {
	d := newDuplex(t, "loopback://127.0.0.1:0")
	d.subscribe(t)
	done := make(chan error)
	go func() { done <- d.back.Call(ctx(t), procWait, bulk("x"), new(bulk)) }()
	<-d.local.inside
	go close(d.local.wait)
	if err := d.local.srv.Shutdown(ctx(t)); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("a call that was being served at Shutdown: %v", err)
	}
	checkCalls(t, d.c, 100)
	short, cancel := context.WithTimeout(ctx(t), 20*time.Millisecond)
	defer cancel()
	if err := d.back.Call(short, procEcho, blob("x"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call after Shutdown: %v", err)
	}
	d.c.Conns()[0].Abort(errors.New("cut"))
	wait.For(t, "the end", func() bool { return len(d.c.Conns()) == 0 })
	checkCalls(t, d.c, 100) // a new connection, which serves nothing
	if n := d.local.srv.Connections(); n != 0 {
		t.Errorf("%d connections served", n)
	}
}

// TestBackwardFaults: TestFaults, in both directions.
func TestBackwardFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		plan faults.Plan
		opts rpc.ConnOption
	}{
		{"late", faults.Plan{Late: 2 * time.Millisecond, LateFlush: time.Millisecond, Reorder: true}, none},
		{"late, version 1, short queue", faults.Plan{Late: time.Millisecond, Reorder: true, Queue: 2}, rpc.WithVersions(1, 1)},
		{"cut", faults.Plan{Late: time.Millisecond, CutEvery: 400, SlowDial: time.Millisecond}, none},
		{"fail", faults.Plan{Late: time.Millisecond, Reorder: true, FailEvery: 400, NoDetach: true, NoDriver: true}, rpc.WithCancelWait(time.Millisecond)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				url, _ := faulty(t, tc.plan)
				d := newDuplex(t, url, rpc.WithRetransmits(1000), rpc.WithBackwardChunks(), tc.opts)
				inline := strings.Contains(tc.name, "version 1")
				over := make(chan struct{})
				var keeper, wg sync.WaitGroup
				keeper.Go(func() { // keeps a connection bound
					for {
						d.c.Call(context.Background(), procSubscribe, nil, nil)
						select {
						case <-over:
							return
						case <-time.After(3 * time.Millisecond):
						}
					}
				})
				var cancelled atomic.Int64
				for g := range 16 {
					wg.Go(func() { trouble(t, d.c, uint64(g), &cancelled) })
					wg.Go(func() {
						for i := range 30 {
							n := (g*30 + i) * 37 % 3000
							if !inline {
								n *= 5
							}
							cctx, cancel := context.WithTimeout(context.Background(), time.Minute)
							if i%7 == 3 {
								time.AfterFunc(time.Duration(i)*50*time.Microsecond, cancel)
							}
							dst := make([]byte, n)
							var res bulk
							err := d.back.Call(cctx, procRead, readArgs(n), &res, rpc.Into(dst))
							cancel()
							switch {
							case err == nil && !bytes.Equal(dst, pattern(n)):
								t.Errorf("backward read of %d bytes: wrong ones", n)
							case err == nil, i%7 == 3 && errors.Is(err, context.Canceled), errors.Is(err, transport.ErrRefused):
							default:
								t.Errorf("backward read of %d bytes: %v", n, err)
							}
						}
					})
				}
				wg.Wait()
				close(over)
				keeper.Wait()
				wait.For(t, "the orphans", func() bool { return d.srv.Counters().BackOutstanding+d.c.Counters().Outstanding == 0 })
				if n := d.srv.Counters(); n.BackRepliesRecv == 0 || n.BadInvalidate != 0 {
					t.Errorf("%+v", n)
				}
			})
		})
	}
}

// TestBoundStaysUp: a connection by which a client asked for calls waits for them for as long as it takes: were it
// to end as an idle one, the client would not know that it is to make another.
func TestBoundStaysUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDuplex(t, "loopback://127.0.0.1:0")
		d.subscribe(t)
		for range 3 {
			time.Sleep(time.Hour)
			short, cancel := context.WithTimeout(context.Background(), time.Minute)
			if err := d.back.Call(short, procEcho, blob("x"), nil); err != nil {
				t.Fatal(err)
			}
			cancel()
		}
		e := newDuplex(t, "loopback://127.0.0.1:0", rpc.WithIdleTimeout(time.Minute)) // that was asked for
		e.subscribe(t)
		time.Sleep(2 * time.Minute)
		if n := e.srv.Connections(); n != 0 {
			t.Errorf("%d connections, want none", n)
		}
	})
}

func backlink(c transport.Conn) transport.Backlink { return c.(transport.Backlink) }
