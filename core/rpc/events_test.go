package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// journal keeps events.
type journal struct {
	mu     sync.Mutex
	events []obs.Event
}

func (j *journal) Record(e obs.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

// of is the events of those kinds, or of all, that keep lets pass, in order.
func (j *journal) of(keep func(obs.Event) bool, kinds ...obs.Kind) []obs.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	var got []obs.Event
	for _, e := range j.events {
		if (keep == nil || keep(e)) && (len(kinds) == 0 || slices.Contains(kinds, e.Kind)) {
			got = append(got, e)
		}
	}
	return got
}

func kindsOf(events []obs.Event) string {
	var s []string
	for _, e := range events {
		s = append(s, fmt.Sprint(e.Kind))
	}
	return strings.Join(s, " ")
}

func kindList(ks ...obs.Kind) string {
	var events []obs.Event
	for _, k := range ks {
		events = append(events, obs.Event{Kind: k})
	}
	return kindsOf(events)
}

// TestCallTraced follows one call at both ends by (Conn, XID, Back, Side): what takes time says how long, and nothing
// ends before it has begun.
func TestCallTraced(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			const n = 100_000
			here, there := new(journal), new(journal)
			f := serve(t, tr.url, tr.opts, rpc.WithRecorder(there))
			c := dial(t, f.url, rpc.WithRecorder(here), tr.opts)
			call := func(proc *rpc.Proc, do func() error) (client, server []obs.Event) {
				t.Helper()
				if err := do(); err != nil {
					t.Fatal(err)
				}
				begun := here.of(nil, obs.CallBegun)
				last := begun[len(begun)-1]
				if p, number := obs.SplitProcedure(last.Arg); p != program || number != proc.Number {
					t.Errorf("the call begins as %d.%d, want %v", p, number, proc)
				}
				mine := func(side obs.Side) func(obs.Event) bool {
					return func(e obs.Event) bool {
						if e.XID == last.XID && (e.Side != side || e.Back) {
							t.Errorf("side %d, back %v: %+v", side, e.Back, e)
						}
						return e.XID == last.XID && e.Conn != 0
					}
				}
				want := obs.WriteDone // the last of the server's: the client's reply is here already
				if !rdma(tr.name) || proc == procWrite {
					want = obs.ReplySent
				}
				wait.For(t, "the server's events", func() bool { return len(there.of(mine(obs.Responder), want)) > 0 })
				client, server = here.of(mine(obs.Requester)), there.of(mine(obs.Responder))
				for _, events := range [][]obs.Event{client, server} {
					for _, e := range events {
						if e.Conn != events[0].Conn || e.Took < 0 || e.At-e.Took < events[0].At-events[0].Took-time.Millisecond {
							t.Errorf("among events of one call: %+v", e)
						}
					}
				}
				return client, server
			}
			client, server := call(procRead, func() error {
				return c.Call(ctx(t), procRead, readArgs(n), new(bulk), rpc.Into(make([]byte, n)))
			})
			wantClient, wantServer := kindList(obs.DialDone, obs.CallBegun, obs.Registered, obs.CallSent, obs.ReplyRecv, obs.Fenced, obs.CallDone),
				kindList(obs.CallRecv, obs.Queued, obs.HandlerBegun, obs.HandlerDone, obs.ReplySent, obs.WriteDone)
			if !rdma(tr.name) {
				wantClient, wantServer = kindList(obs.DialDone, obs.CallBegun, obs.CallSent, obs.ReplyRecv, obs.CallDone),
					kindList(obs.CallRecv, obs.Queued, obs.HandlerBegun, obs.HandlerDone, obs.ReplySent)
			}
			if got := kindsOf(client); got != wantClient {
				t.Errorf("a read at the client: %s, want %s", got, wantClient)
			}
			if got := kindsOf(server); got != wantServer {
				t.Errorf("a read at the server: %s, want %s", got, wantServer)
			}
			for _, e := range append(client, server...) {
				switch e.Kind {
				case obs.Registered:
					if e.Bytes < n || e.Segs == 0 || e.Took == 0 {
						t.Errorf("registered: %+v", e)
					}
				case obs.WriteDone:
					if e.Bytes != n || e.Segs == 0 || e.Took == 0 {
						t.Errorf("written: %+v", e)
					}
				case obs.CallDone, obs.DialDone, obs.HandlerDone:
					if e.Took == 0 || e.Arg != 0 {
						t.Errorf("ended: %+v", e)
					}
				case obs.Queued, obs.HandlerBegun:
					if e.Arg != obs.Procedure(program, procRead.Number) {
						t.Errorf("at the server: %+v", e)
					}
				}
			}
			if !rdma(tr.name) {
				return
			}
			client, server = call(procWrite, func() error { return c.Call(ctx(t), procWrite, bulk(pattern(n)), new(number)) })
			wantClient = kindList(obs.CallBegun, obs.Registered, obs.CallSent, obs.ReplyRecv, obs.Fenced, obs.CallDone)
			wantServer = kindList(obs.CallRecv, obs.ReadDone, obs.Queued, obs.HandlerBegun, obs.HandlerDone, obs.ReplySent)
			if got := kindsOf(client); got != wantClient {
				t.Errorf("a write at the client: %s, want %s", got, wantClient)
			}
			if got := kindsOf(server); got != wantServer {
				t.Errorf("a write at the server: %s, want %s", got, wantServer)
			}
			if e := server[1]; e.Bytes != n || e.Segs == 0 || e.Took == 0 {
				t.Errorf("read: %+v", e)
			}
		})
	}
}

// TestCreditWaitTraced: a call that waits for a credit says so when it begins, and how long it was when it ends.
func TestCreditWaitTraced(t *testing.T) {
	here := new(journal)
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithCredits(1))
	c := dial(t, f.url, rpc.WithCredits(1), rpc.WithRecorder(here))
	if err := c.Call(ctx(t), procEcho, blob("first"), new(blob)); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if err := c.Call(ctx(t), procWait, bulk("x"), new(bulk)); err != nil {
				t.Error(err)
			}
		})
	}
	<-f.inside
	wait.For(t, "a call that waits", func() bool { return len(here.of(nil, obs.CreditBegun)) == 1 })
	const long = 20 * time.Millisecond
	time.Sleep(long)
	short, cancel := context.WithTimeout(ctx(t), time.Millisecond)
	defer cancel()
	if err := c.Call(short, procEcho, blob("in vain"), new(blob)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that cannot get a credit: %v", err)
	}
	close(f.wait)
	calls.Wait()
	begun, ended := here.of(nil, obs.CreditBegun), here.of(nil, obs.CreditWait)
	if len(begun) != 2 || len(ended) != 2 {
		t.Fatalf("begun %+v, ended %+v", begun, ended)
	}
	if e := ended[0]; e.XID != begun[1].XID || e.Arg != 1 || e.Took < time.Millisecond/2 {
		t.Errorf("the call that gave up waited %+v", e)
	}
	if e := ended[1]; e.XID != begun[0].XID || e.Arg != 0 || e.Took < long {
		t.Errorf("the call that got a credit waited %+v", e)
	}
}

// TestLostCallTraced: a call that loses its connection is followed to the next one.
func TestLostCallTraced(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			here, there := new(journal), new(journal)
			f := count(t, tr.url, tr.opts, rpc.WithRecorder(there))
			f.gate = make(chan struct{})
			c := dial(t, f.url, rpc.WithRecorder(here), tr.opts)
			done := make(chan error, 1)
			go func() { done <- c.Call(ctx(t), procOnce, onceArgs{1, nil}, new(onceResult), rpc.Into(make([]byte, 9))) }()
			<-f.inside
			for _, conn := range c.Conns() {
				conn.Abort(errors.New("cut by the test"))
			}
			wait.For(t, "the repetition", func() bool { return len(there.of(nil, obs.CallRecv)) == 2 })
			close(f.gate)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			dials, again, sent := here.of(nil, obs.DialDone), here.of(nil, obs.Resent), here.of(nil, obs.CallSent)
			if len(dials) != 2 || len(again) != 1 || len(sent) != 2 {
				t.Fatalf("dials %+v, resent %+v, sent %+v", dials, again, sent)
			}
			begun := here.of(nil, obs.DialBegun)
			if begun[0].Arg != 0 || begun[1].Arg != 1 || begun[1].XID != sent[0].XID {
				t.Errorf("dials begun: %+v", begun)
			}
			e := again[0]
			if e.XID != sent[0].XID || e.Arg != 1 || e.Conn != dials[1].Conn || e.Conn == sent[0].Conn || e.Conn != sent[1].Conn || e.At > sent[1].At {
				t.Errorf("sent again: %+v; sent %+v", e, sent)
			}
			if got := there.of(nil, obs.CacheReply); len(got) != 1 || got[0].XID != e.XID || got[0].Arg != 1 {
				t.Errorf("the repetition was answered as %+v", got)
			}
			if n := len(there.of(nil, obs.HandlerBegun)); n != 1 {
				t.Errorf("%d handlers", n)
			}
		})
	}
}

// TestCacheTraced: what the duplicate request cache makes of repetitions, as TestRepeatedWhileExecuted sends them.
func TestCacheTraced(t *testing.T) {
	events := new(journal)
	f := count(t, "loopback://127.0.0.1:0", rpc.WithRecorder(events))
	f.gate = make(chan struct{})
	msg := onceCall(7, procOnce, "", 1, nil)
	rs := []*raw{rawDial(t, f.url), rawDial(t, f.url), rawDial(t, f.url)}
	sent := uint64(0)
	send := func(i int) {
		rs[i].send(enc(head(7, 2, wire.Msg)), msg)
		sent++
		wait.For(t, "the call to come in", func() bool { return f.srv.Counters().CallsRecv == sent })
	}
	send(0)
	<-f.inside
	for _, i := range []int{0, 1, 1, 2, 2, 0} {
		send(i)
	}
	wait.For(t, "the repetitions", func() bool { return len(events.of(nil, obs.CacheDrop)) == 5 })
	close(f.gate)
	rs[0].Parsed()
	rs[2].Parsed()
	send(1)
	rs[1].Parsed()
	wait.For(t, "the answers", func() bool { return len(events.of(nil, obs.CacheReply)) == 2 })
	var got []string
	ends := map[uint64]int{}
	for _, e := range events.of(func(e obs.Event) bool { return e.XID == 7 }, obs.CallRecv, obs.CacheDrop, obs.CacheReply) {
		if _, ok := ends[e.Conn]; !ok {
			ends[e.Conn] = len(ends)
		}
		if e.Kind != obs.CallRecv {
			got = append(got, fmt.Sprintf("kind %d arg %d connection %d", e.Kind, e.Arg, ends[e.Conn]))
		}
	}
	var want []string
	for _, i := range []int{0, 1, 1, 2, 0} {
		want = append(want, fmt.Sprintf("kind %d arg 0 connection %d", obs.CacheDrop, i))
	}
	want = append(want, fmt.Sprintf("kind %d arg 1 connection 2", obs.CacheReply), fmt.Sprintf("kind %d arg 0 connection 1", obs.CacheReply))
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRefusalsTraced: who turns a connection or a call away, and why.
func TestRefusalsTraced(t *testing.T) {
	for _, url := range []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0", "tcp://127.0.0.1:0"} {
		t.Run(url, func(t *testing.T) {
			here, there := new(journal), new(journal)
			f := serve(t, url, rpc.WithRecorder(there))
			c := dial(t, f.url, rpc.WithRecorder(here))
			if err := c.Call(ctx(t), &rpc.Proc{Program: 99, Version: 1, Number: 5}, nil, nil); err == nil {
				t.Fatal("a program that there is not was called")
			}
			if got := there.of(nil, obs.CallRefused); len(got) != 1 || got[0].Arg != 1 || got[0].Side != obs.Responder {
				t.Errorf("the call was refused as %+v", got)
			}
			if err := c.Call(ctx(t), procFail, number(2), nil); err == nil {
				t.Fatal("AUTH_TOOWEAK was a success")
			}
			if got := there.of(nil, obs.HandlerDone); len(got) != 1 || got[0].Arg != -1 {
				t.Errorf("a denied call is done as %+v", got)
			}

			closed := serve(t, url, rpc.WithRecorder(there), rpc.WithAdmit(func(netip.Addr) bool { return false }))
			if err := dial(t, closed.url, rpc.WithRetransmits(-1), rpc.WithRecorder(here)).Call(ctx(t), procEcho, blob("x"), new(blob)); err == nil {
				t.Fatal("a connection that is not admitted served a call")
			}
			if got := there.of(nil, obs.ConnRefused); len(got) != 1 || got[0].Arg != int64(obs.RefusedPolicy) {
				t.Errorf("the connection was refused as %+v", got)
			}

			gone := f.url
			f.srv.Close()
			nobody := new(journal)
			err := dial(t, gone, rpc.WithRecorder(nobody)).Connect(ctx(t))
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a server that is gone: %v", err)
			}
			if got := nobody.of(nil, obs.DialDone); len(got) != 1 || got[0].Arg != int64(obs.DialRefused) || got[0].Conn != 0 {
				t.Errorf("dialled a server that is gone: %+v", got)
			}
		})
	}
}

// tally counts events, and allocates nothing.
type tally struct{ n [obs.Kinds]uint64 }

func (c *tally) Record(e obs.Event) { c.n[e.Kind]++ }

// TestAllocationsOfEvents: with two recorders at both ends a call allocates nothing either.
func TestAllocationsOfEvents(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, url := range []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0"} {
		var here, there [2]tally
		f := serve(t, url, rpc.WithRecorder(&there[0]), rpc.WithRecorder(&there[1]))
		c := dial(t, f.url, rpc.WithRecorder(&here[0]), rpc.WithRecorder(&here[1]))
		buf, err := rpc.NewBuffer(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Free()
		bg := context.Background()
		args, res := readArgs(1<<20), bulk(nil)
		in, out := blob(pattern(64)), make(blob, 0, 64)
		once := func() {
			if err := c.Call(bg, procRead, &args, &res, rpc.IntoBuffer(buf, 0, 1<<20)); err != nil {
				t.Fatal(err)
			}
			if err := c.Call(bg, procEcho, &in, &out); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			once()
		}
		if n := testing.AllocsPerRun(200, once); n > 0 {
			t.Errorf("%s: %v allocations", url, n)
		}
		for i := range here {
			if n := here[i].n[obs.CallDone]; n != 502 {
				t.Errorf("%s: recorder %d of the client got %d calls", url, i, n)
			}
			if n := there[i].n[obs.HandlerDone]; n != 502 {
				t.Errorf("%s: recorder %d of the server got %d calls", url, i, n)
			}
		}
	}
}
