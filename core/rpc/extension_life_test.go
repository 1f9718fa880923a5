package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// holds answers nothing by itself, and says what it has.
func holds(got chan ext.Message) func(*fakeSession, ext.Message) {
	return func(_ *fakeSession, m ext.Message) { got <- m }
}

// TestLateExtensions: what an extension leaves unanswered is answered as declared when its deadline is over (D-38), exactly
// then, and costs nothing else; what it says afterwards is ignored.
func TestLateExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan ext.Message, 100)
		there := newFake(holds(got))
		there.decl.Ops[0].Deadline, there.decl.Ops[3].Deadline = 3*time.Second, time.Second
		other := newFake(nil) // on the same connection
		other.decl.Name, other.decl.Ops, other.decl.Props = "other", nil, nil
		e := &extended{f: serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there, other)))}
		here := newFake(echoes)
		e.c = dial(t, e.f.url, rpc.WithExtensions(setOf(t, here)))
		e.call(t, 1)
		e.client, e.server = here.session(t), there.session(t)
		start := time.Now()
		o := e.client.send(t, ext.Outgoing{Op: "ask"})
		if o.Kind != ext.Refused || o.Code != ext.System || time.Since(start) != 3*time.Second {
			t.Errorf("%+v after %v", o, time.Since(start))
		}
		late := <-got
		e.server.conn.Answer(late.Token, ext.Verdict{Kind: ext.Answer})
		e.server.conn.Answer(late.Token+1000, ext.Verdict{Kind: ext.Answer})
		e.server.conn.Answer(0, ext.Verdict{Kind: ext.Answer})

		// One after the other within an operation, other operations pass, and a one-way message that is late costs nothing.
		for i := range 2 {
			e.client.conn.Send(ext.Outgoing{Op: "note", Info: []byte{byte(i)}}, nil)
		}
		outcomes := make(chan ext.Outcome, 1)
		e.client.conn.Send(ext.Outgoing{Op: "self", Info: []byte("passes")}, func(o ext.Outcome) { outcomes <- o })
		first, self := <-got, <-got
		if first.Op != "note" || first.Info[0] != 0 || self.Op != "self" || self.Token == 0 || first.Token == 0 {
			t.Errorf("%+v, then %+v", first, self)
		}
		other.session(t).conn.Answer(self.Token, ext.Verdict{Kind: ext.Answer, Info: []byte("not its own")})
		e.server.conn.Answer(self.Token, ext.Verdict{Kind: ext.Answer, Info: []byte("passed")})
		e.server.conn.Answer(self.Token, ext.Verdict{Kind: ext.Answer, Info: []byte("twice")})
		if o := <-outcomes; o.Kind != ext.Answered || string(o.Info) != "passed" {
			t.Errorf("%+v", o)
		}
		synctest.Wait()
		if len(got) > 0 {
			t.Error("the second message of an operation came before the first was answered")
		}
		e.server.conn.Answer(first.Token, ext.Verdict{Kind: ext.Accept})
		if second := <-got; second.Info[0] != 1 {
			t.Errorf("%+v", second)
		}
		time.Sleep(2 * time.Second)
		n := e.f.srv.Counters()
		if n.ControlLate != 2 || n.ExtIgnored != 5 || n.ErrorsSent != 1 {
			t.Errorf("%d late, %d ignored, %d errors", n.ControlLate, n.ExtIgnored, n.ErrorsSent)
		}
		// Refusals, by the form of the question.
		for i, v := range []struct {
			verdict ext.Verdict
			want    ext.Code
		}{
			{ext.Verdict{Kind: ext.Refuse, Code: ext.BadXDR}, ext.BadXDR},
			{ext.Verdict{Kind: ext.Refuse, Code: ext.InvalidOption}, ext.InvalidProc},
			{ext.Verdict{Kind: ext.Refuse, Code: 77}, ext.System},
			{ext.Verdict{Kind: ext.Default}, ext.System},
			{ext.Verdict{Kind: ext.Answer, Info: pattern(4097)}, ext.System},
		} {
			e.client.conn.Send(ext.Outgoing{Op: "ask"}, func(o ext.Outcome) { outcomes <- o })
			e.server.conn.Answer((<-got).Token, v.verdict)
			if o := <-outcomes; o.Kind != ext.Refused || o.Code != v.want {
				t.Errorf("%d: %+v", i, o)
			}
		}
	})
}

// TestUnansweredOperations: the asker hears when no answer comes, and the place in the window is free when it is known to be
// consumed; an answer that comes later is a message.
func TestUnansweredOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan ext.Message, 100)
		here := newFake(nil)
		here.decl.Ops[0].Deadline = time.Second
		e := extend(t, "loopback://127.0.0.1:0", here, newFake(holds(got)))
		there := e.server
		go func() {
			for m := range got {
				there.conn.Answer(m.Token, ext.Verdict{Kind: ext.Accept}) // and says nothing to the asker
			}
		}()
		start := time.Now()
		var outcomes []ext.Outcome
		var mu sync.Mutex
		for range 5 {
			e.client.conn.Send(ext.Outgoing{Op: "ask"}, func(o ext.Outcome) {
				mu.Lock()
				defer mu.Unlock()
				outcomes = append(outcomes, o)
			})
		}
		time.Sleep(11*time.Second - time.Millisecond)
		synctest.Wait()
		if len(outcomes) > 0 || e.c.Counters().Outstanding != 4 {
			t.Errorf("after %v: %+v, %d credits", time.Since(start), outcomes, e.c.Counters().Outstanding)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		mu.Lock()
		if len(outcomes) != 4 || outcomes[0].Kind != ext.TimedOut || outcomes[0].XID == 0 {
			t.Errorf("after %v: %+v", time.Since(start), outcomes)
		}
		mu.Unlock()
		if n := e.c.Counters(); n.ControlTimedOut != 4 || n.ControlSent != 4 || n.Outstanding != 0 {
			t.Errorf("%+v", n)
		}
		e.call(t, 1) // its reply proves the four consumed: the fifth may go
		synctest.Wait()
		if n := e.c.Counters(); n.ControlSent != 5 {
			t.Errorf("%d sent", n.ControlSent)
		}
		close(got)
		e.c.Close()
	})
}

// TestExtensionThatHangs: it has its queue and no more, and what does not fit is answered at once; calls go on.
func TestExtensionThatHangs(t *testing.T) {
	hung := make(chan struct{})
	release := sync.OnceFunc(func() { close(hung) })
	there := newFake(func(*fakeSession, ext.Message) { <-hung })
	there.decl.Limits.Queue = 4
	there.decl.Ops[0].Deadline = time.Minute
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)))
	t.Cleanup(release)
	r := rawDial(t, f.url)
	r.good(1, 2)
	r.send(procedure(2, 2, idAsk, ""))
	s := there.session(t)
	wait.For(t, "it to hang", func() bool { return s.messages("ask") == 1 })
	refused := 0
	for xid := uint32(10); xid < 1000; xid++ {
		r.send(procedure(xid, 2, idAsk, "flood"))
		r.send(optional(xid, idNote, 0, "flood"))
		r.send(optional(xid, idTold, 1, "flood"))
		if xid >= 12 { // two questions, a note and an answer wait
			r.expect(xid, 2, code(10))
			refused++
		}
	}
	r.good(1000, 2)
	n := f.srv.Counters()
	if n.ControlLate != 988+989 || n.Dropped != 989 || n.ErrorsSent != uint64(refused) {
		t.Errorf("%d late, %d dropped, %d refused", n.ControlLate, n.Dropped, n.ErrorsSent)
	}
	release()
	r.Conn.Abort(nil)
	<-s.done
}

// TestHungForLong: an extension that never returns keeps a bounded number of messages, whatever comes.
func TestHungForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		there := newFake(func(*fakeSession, ext.Message) { <-hung })
		there.decl.Ops[0].Deadline = time.Second
		e := extend(t, "loopback://127.0.0.1:0", newFake(nil), there)
		for range 100 {
			for range 8 {
				e.client.conn.Send(ext.Outgoing{Op: "ask", Info: pattern(4000)}, nil)
			}
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		if n := e.server.messages("ask"); n != 1 {
			t.Errorf("%d messages", n)
		}
		if n := e.f.srv.Counters(); n.ControlLate < 700 {
			t.Errorf("%d late", n.ControlLate)
		}
		close(hung)
		synctest.Wait()
		if n := e.server.messages("ask"); n > 9 {
			t.Errorf("%d messages when it returned", n)
		}
	})
}

// TestExtensionThatPanics: its operations are answered as late ones, on that connection; nothing else suffers.
func TestExtensionThatPanics(t *testing.T) {
	there := newFake(func(s *fakeSession, m ext.Message) {
		if m.Op == "ask" {
			panic("on purpose")
		}
		echoes(s, m)
	})
	rec := make(recorder, 1<<16)
	e := extend(t, "iwarp://127.0.0.1:0", newFake(echoes), there, rpc.WithRecorder(rec))
	for i := range 3 {
		if o := e.client.send(t, ext.Outgoing{Op: "ask"}); o.Kind != ext.Refused || o.Code != ext.System {
			t.Errorf("%d: %+v", i, o)
		}
	}
	if o := e.client.send(t, ext.Outgoing{Op: "self"}); o.Code != ext.System {
		t.Errorf("another operation of it: %+v", o)
	}
	e.call(t, 3)
	if n := e.f.srv.Counters(); n.ExtPanics != 1 || n.ControlLate != 4 {
		t.Errorf("%d panics, %d late", n.ExtPanics, n.ControlLate)
	}
	if n := rec.count(obs.ExtPanic); n != 1 {
		t.Errorf("%d events", n)
	}
	second := dial(t, e.f.url, rpc.WithExtensions(setOf(t, newFake(echoes))))
	if err := second.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
		t.Fatal(err)
	}
	if s := there.session(t); s == e.server {
		t.Error("no session for the next connection")
	}
	e.c.Close()
	<-e.server.done // Closed comes all the same
}

// TestPeerWithoutExtension: refused, by either code (D-2), on either side; and so where Connect gives no session.
func TestPeerWithoutExtension(t *testing.T) {
	absent := newFake(nil)
	absent.refuses = true
	for _, tc := range []struct {
		name string
		opts rpc.ListenOption
	}{
		{"none", none},
		{"no session", rpc.WithExtensions(setOf(t, absent))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := serve(t, "iwarp://127.0.0.1:0", tc.opts)
			here := newFake(nil)
			c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)))
			if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
				t.Fatal(err)
			}
			s := here.session(t)
			for _, m := range []ext.Outgoing{{Op: "ask"}, {Op: "ask", Optional: true}, {Op: "note"}} {
				if o := s.send(t, m); o.Kind != ext.Refused || !o.Code.Unsupported() {
					t.Errorf("%+v: %+v", m, o)
				}
			}
			if n := c.Counters(); n.ControlRefused != 3 || n.Outstanding != 0 {
				t.Errorf("%+v", n)
			}
			if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoSessionInVersion1: there is nothing for an extension to do.
func TestNoSessionInVersion1(t *testing.T) {
	here, there := newFake(nil), newFake(nil)
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithVersions(1, 1), rpc.WithExtensions(setOf(t, there)))
	c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)))
	if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
		t.Fatal(err)
	}
	if len(here.up)+len(there.up) > 0 {
		t.Error("a session began")
	}
}

// TestOperationsNotSent: what the declaration, the peer's receives or the limits do not allow.
func TestOperationsNotSent(t *testing.T) {
	here := newFake(nil)
	here.decl.Limits.Info, here.decl.Limits.Queue = 8192, 6
	e := extend(t, "loopback://127.0.0.1:0", here, newFake(holds(make(chan ext.Message, 100))))
	for _, m := range []ext.Outgoing{
		{Op: "none"}, {Op: ""}, {Op: "told"}, {Op: "hint"}, {Op: "grant"},
		{Op: "ask", Info: pattern(8193)}, {Op: "ask", Info: pattern(4096 - 15)}, {Op: "ask", Info: pattern(4096 - 27), Optional: true},
	} {
		if o := e.client.send(t, m); o.Kind != ext.NotSent || o.XID != 0 {
			t.Errorf("%s of %d bytes: %+v", m.Op, len(m.Info), o)
		}
	}
	outcomes := make(chan ext.Outcome, 32)
	for range 12 { // a window of 4, and 6 that wait
		e.client.conn.Send(ext.Outgoing{Op: "ask", Info: pattern(4096 - 16)}, func(o ext.Outcome) { outcomes <- o })
	}
	for range 2 {
		if o := <-outcomes; o.Kind != ext.NotSent {
			t.Errorf("%+v", o)
		}
	}
	// The connection ends: all others are lost, those that were sent by their XIDs.
	e.c.Conns()[0].Abort(errors.New("cut by the test"))
	for i := range 10 {
		if o := <-outcomes; o.Kind != ext.Lost || (o.XID != 0) == (i < 6) {
			t.Errorf("%d: %+v", i, o)
		}
	}
	for _, s := range []*fakeSession{e.client, e.server} {
		<-s.done
		s.conn.Send(ext.Outgoing{Op: "note"}, func(ext.Outcome) { t.Error("after Closed") })
		s.conn.Open()
		s.conn.Fail(errors.New("after the end"))
		s.conn.Offer(idProp, nil, true)
		s.conn.Ask(idProp, nil, func(ext.Change) { t.Error("after Closed") })
	}
	if e.client.err == nil || e.server.closed != 1 || e.client.closed != 1 {
		t.Errorf("closed with %v, %d and %d times", e.client.err, e.client.closed, e.server.closed)
	}
}

// TestClosedIsAwaited: the client's end waits for Closed.
func TestClosedIsAwaited(t *testing.T) {
	e := extend(t, "loopback://127.0.0.1:0", newFake(echoes), newFake(echoes))
	inside, leave := make(chan struct{}), make(chan struct{})
	e.client.conn.Request(ext.SendLimit(1<<30), func(error) { close(inside); <-leave })
	<-inside
	conn, ended := e.c.Conns()[0], make(chan struct{})
	go func() { e.c.Close(); close(ended) }()
	<-conn.Done()
	select {
	case <-ended:
		t.Error("the client has ended, and its extension has not")
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	<-ended
	<-e.client.done
}

// TestFail ends the connection with the extension's reason.
func TestFail(t *testing.T) {
	e := extend(t, "loopback://127.0.0.1:0", newFake(echoes), newFake(echoes))
	why := errors.New("not to be trusted")
	done := make(chan error, 1)
	go func() { done <- e.c.Call(context.Background(), procWait, bulk(nil), nil) }()
	<-e.f.inside
	e.client.conn.Fail(why)
	<-e.client.done
	if !errors.Is(e.client.err, why) {
		t.Errorf("closed with %v", e.client.err)
	}
	close(e.f.wait)
	if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) { // sent again, or not
		t.Error(err)
	}
}

// TestGateNobodyOpens: a connection whose gating extension has no session, or panics, ends.
func TestGateNobodyOpens(t *testing.T) {
	for _, panics := range []bool{false, true} {
		there := newFake(func(*fakeSession, ext.Message) { panic("on purpose") })
		there.decl.Gate, there.refuses = true, !panics
		f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)))
		r := rawDial(t, f.url)
		r.send(enc(head(1, 2, 0)), call(1, 0))
		if panics {
			there.session(t)
			r.send(optional(2, idAsk, 0, ""))
		}
		select {
		case <-r.Gone:
		case <-time.After(2 * time.Minute):
			t.Fatal("the connection lives on")
		}
	}
}

// TestFacts are what is known of a connection.
func TestFacts(t *testing.T) {
	e := extend(t, "loopback://127.0.0.1:0", newFake(nil), newFake(nil), rpc.WithCredits(5))
	c, s := e.client.conn.Facts(), e.server.conn.Facts()
	if !c.Client || s.Client || c.ID == s.ID || c.Version != 2 || c.SendLimit != 4096 || c.RecvSize != 4096 || c.Credits != 5 ||
		c.Local != s.Remote || c.Remote != s.Local || c.Gated || c.Backward != ext.BackwardNone || s.Backward != ext.BackwardInline || c.ID != e.c.Conns()[0].ID() {
		t.Errorf("%+v, %+v", c, s)
	}
}

// TestIdleExtensions: they cost a call nothing, and an idle connection has no goroutine of theirs.
func TestIdleExtensions(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			here, there := idle(), idle()
			f := serve(t, url, rpc.WithExtensions(setOf(t, there...)))
			c := dial(t, f.url, rpc.WithExtensions(setOf(t, here...)))
			in, out := blob(pattern(64)), make(blob, 0, 64)
			bg := context.Background()
			echo := func() {
				if err := c.Call(bg, procEcho, &in, &out); err != nil {
					t.Fatal(err)
				}
			}
			echo()
			s := here[3].(*fake).session(t)
			if o := s.send(t, ext.Outgoing{Op: "ask"}); o.Kind != ext.Answered {
				t.Fatalf("%+v", o)
			}
			for range 100 {
				echo()
			}
			if n := testing.AllocsPerRun(2000, echo); n > 0 {
				t.Errorf("a call of 64 bytes: %v allocations", n)
			}
			wait.For(t, "the sessions' goroutines to end", func() bool {
				b := make([]byte, 1<<20)
				return !strings.Contains(string(b[:runtime.Stack(b, true)]), "engine.(*session)")
			})
		})
	}
}

// idle are ten extensions that have nothing to do.
func idle() (exts []ext.Extension) {
	for i := range uint32(10) {
		f := newFake(echoes)
		f.decl.Name = fmt.Sprintf("fake-%d", i)
		f.decl.Ops, f.decl.Props = slices.Clone(f.decl.Ops), slices.Clone(f.decl.Props)
		for j := range f.decl.Ops {
			move(&f.decl.Ops[j], i)
		}
		f.decl.Props[0].ID = ext.ExperimentalFirst + 0xa0 + i
		exts = append(exts, f)
	}
	return exts
}

// BenchmarkEcho64Idle is BenchmarkEcho64 beside ten idle extensions.
func BenchmarkEcho64Idle(b *testing.B) {
	f := serve(b, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(b, idle()...)))
	c := dial(b, f.url, rpc.WithExtensions(setOf(b, idle()...)))
	in, out := blob(pattern(64)), make(blob, 0, 64)
	if err := c.Call(context.Background(), procEcho, &in, &out); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Call(context.Background(), procEcho, &in, &out); err != nil {
			b.Fatal(err)
		}
	}
}

// move gives an operation the i-th block of ids.
func move(op *ext.Op, i uint32) {
	for _, id := range []*uint32{&op.Type, &op.Proc} {
		if *id != 0 {
			*id = ext.ExperimentalFirst + (*id-idAsk)%8 + 8*i
		}
	}
}
