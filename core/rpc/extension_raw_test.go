package rpc_test

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// optional is an operation as RDMA2_OPTIONAL.
func optional(xid, opType uint32, dir wire.Direction, info string, rest ...byte) []byte {
	h := head(xid, 2, wire.Optional)
	h.OptType, h.Direction, h.OptInfo = opType, dir, []byte(info)
	return append(enc(h), rest...)
}

// procedure is an operation as a procedure of its own.
func procedure(xid, version, proc uint32, info string) []byte {
	return append(slices.Concat(word(xid), word(version), word(32), word(proc)), info...)
}

// TestOperationsOfAStranger: what a peer may get wrong about operations, each answered or dropped by D-2, D-4, D-12 and
// D-26, before the version stands, where nobody is there to serve them, and after.
func TestOperationsOfAStranger(t *testing.T) {
	there := newFake(echoes)
	there.decl.Limits.Info = 64
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)))
	for _, tc := range []struct {
		name  string
		bytes func(xid uint32) []byte
		want  answer
		early answer // before the version stands: as if there were no extension
	}{
		{"opttype of nobody", func(x uint32) []byte { return optional(x, 77, wire.Call, "") }, code(wire.ErrInvalidOption), code(wire.ErrInvalidOption)},
		{"opttype of nobody, a reply", func(x uint32) []byte { return optional(x, 77, wire.Reply, "") }, nil, nil},
		{"procedure of nobody", func(x uint32) []byte { return procedure(x, 2, 77, "") }, code(wire.ErrInvalidProc), code(wire.ErrInvalidProc)},
		{"CONNPROP of nobody", func(x uint32) []byte { return procedure(x, 2, 6, "\x00\x00\x00\x00\x00\x00\x00\x00") }, code(wire.ErrInvalidProc), code(wire.ErrInvalidProc)},
		{"CONNPROP of nobody, malformed", func(x uint32) []byte { return procedure(x, 2, 6, "\x00") }, code(wire.ErrInvalidProc), code(wire.ErrInvalidProc)},
		{"REQPROP of nobody with surplus", func(x uint32) []byte { return procedure(x, 2, 7, "\x00\x00\x00\x00abc") }, code(wire.ErrInvalidProc), code(wire.ErrInvalidProc)},
		{"RESPROP of nobody, malformed", func(x uint32) []byte { return procedure(x, 2, 8, "\x00") }, nil, nil},
		{"another version", func(x uint32) []byte { return procedure(x, 3, idAsk, "") }, errVers(2, 2), errVers(1, 2)},
		{"its answer as a question", func(x uint32) []byte { return optional(x, idTold, wire.Call, "") }, code(wire.ErrBadXDR), code(wire.ErrInvalidOption)},
		{"its question as an answer", func(x uint32) []byte { return optional(x, idAsk, wire.Reply, "") }, nil, nil},
		{"a direction that is none", func(x uint32) []byte { return optional(x, idAsk, 2, "") }, code(wire.ErrBadXDR), code(wire.ErrBadXDR)},
		{"the server's own, from a client", func(x uint32) []byte { return procedure(x, 2, idHint, "") }, code(wire.ErrInvalidProc), code(wire.ErrInvalidProc)},
		{"the answer that only a server gives", func(x uint32) []byte { return optional(x, idSelf, wire.Reply, "") }, nil, nil},
		{"surplus", func(x uint32) []byte { return optional(x, idAsk, wire.Call, "", 1) }, code(wire.ErrBadXDR), code(wire.ErrInvalidOption)},
		{"surplus of an answer", func(x uint32) []byte { return optional(x, idTold, wire.Reply, "", 1) }, nil, nil},
		{"optinfo that is too long", func(x uint32) []byte { return optional(x, idAsk, wire.Call, string(pattern(65))) }, code(wire.ErrBadXDR), code(wire.ErrInvalidOption)},
		{"body that is too long", func(x uint32) []byte { return procedure(x, 2, idAsk, string(pattern(65))) }, code(wire.ErrBadXDR), code(wire.ErrInvalidProc)},
		{"optinfo longer than the message", func(x uint32) []byte {
			return slices.Concat(word(x), word(2), word(1), word(5), word(0), word(idAsk), word(64))
		}, code(wire.ErrBadXDR), code(wire.ErrBadXDR)},
		{"an error to nothing", func(x uint32) []byte { return errorTo(head(x, 2, wire.Msg), *code(wire.ErrSystem)) }, nil, nil},
		{"an error to nothing, of an unknown code", func(x uint32) []byte { return slices.Concat(word(x), word(2), word(1), word(4), word(99)) }, nil, nil},
		{"an answer to nothing", func(x uint32) []byte { return optional(x, idTold, wire.Reply, "?") }, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := rawDial(t, f.url)
			r.send(tc.bytes(0x100))
			r.expect(0x100, be32(tc.bytes(0)[4:]), tc.early)
			r.good(0x101, 2)
			for xid := uint32(0x200); xid < 0x200+100; xid++ { // more than there are receives
				r.send(tc.bytes(xid))
				r.expect(xid, be32(tc.bytes(0)[4:]), tc.want)
			}
			r.good(0x300, 2)
		})
	}
	wait.For(t, "the server to be idle", func() bool { return f.srv.Connections() == 0 })
}

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// TestFormOfAnswers: an answer comes in the form of its question (D-1), with its XID and the direction REPLY.
func TestFormOfAnswers(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, newFake(echoes))))
	r := rawDial(t, f.url)
	r.good(1, 2)
	r.send(procedure(7, 2, idAsk, "odd"))
	if m := <-r.In; !bytes.Equal(m.Bytes, slices.Concat(word(7), word(2), word(64), word(idTold), []byte("odd"))) {
		t.Errorf("to a procedure: %x", m.Bytes)
	}
	r.send(optional(8, idAsk, wire.Call, "odd"))
	h, rest, m := r.Parsed()
	if h.XID != 8 || h.Credit != 64 || h.Proc != wire.Optional || h.Direction != wire.Reply || h.OptType != idTold || string(h.OptInfo) != "odd" || len(rest) > 0 {
		t.Errorf("to an option: %x", m.Bytes)
	}
}

// TestNoneUnasked: a server sends no operation before its peer has shown that it has the extension, and no more
// of one than its window; that more calls have come than were granted frees it (D-8).
func TestNoneUnasked(t *testing.T) {
	there := newFake(echoes)
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)), rpc.WithCredits(4))
	r := rawDial(t, f.url)
	r.good(1, 2)
	s := there.session(t)
	var mu sync.Mutex
	consumed := 0
	for range 5 {
		s.conn.Send(ext.Outgoing{Op: "note"}, func(o ext.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			if o.Kind == ext.Consumed {
				consumed++
			}
		})
	}
	r.good(2, 2) // nothing came before the reply
	r.send(optional(3, idAsk, wire.Call, "I have it"))
	notes, told := 0, false
	take := func() {
		switch h, _, _ := r.Parsed(); h.OptType {
		case idNote:
			notes++
			if h.Direction != wire.Call || h.Credit != 8 {
				t.Errorf("%+v", h)
			}
		case idTold:
			told = true
		default:
			t.Fatalf("%+v", h)
		}
	}
	for range 4 {
		take()
	}
	if notes != 3 || !told {
		t.Fatalf("%d notes, answered %v", notes, told)
	}
	for xid := uint32(10); xid < 14; xid++ {
		r.good(xid, 2) // as many as were granted prove nothing
	}
	r.send(enc(head(14, 2, wire.Msg)), call(14, 1, opaque([]byte("good"))...))
	for range 3 {
		h, _, m := r.Parsed()
		switch {
		case h.OptType == idNote && h.Proc == wire.Optional:
			notes++
		case h.XID != 14:
			t.Fatalf("%x", m.Bytes)
		}
	}
	if notes != 5 {
		t.Errorf("%d notes", notes)
	}
	wait.For(t, "the outcome of the first three", func() bool { mu.Lock(); defer mu.Unlock(); return consumed == 3 })
}

// TestOperationsTakeCredits: until the server has shown that it has the extension, an operation takes one of the
// client's credits, half of them at most, until it is known to be consumed (D-8).
func TestOperationsTakeCredits(t *testing.T) {
	for _, known := range []bool{false, true} {
		t.Run(fmt.Sprint("known ", known), func(t *testing.T) {
			here := newFake(echoes)
			came := make(chan wire.Header, 64)
			var mu sync.Mutex
			var peer *raw
			c := dial(t, rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
				if n == 0 {
					mu.Lock()
					peer = r
					mu.Unlock()
					r.answerTo(h, 4)
					if known {
						r.send(optional(99, idTold, wire.Reply, ""))
					}
					return
				}
				came <- wire.Header{XID: h.XID, Version: h.Version, Proc: h.Proc, OptType: h.OptType, Credit: h.Credit}
			}), rpc.WithExtensions(setOf(t, here)), rpc.WithCredits(16))
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
			s := here.session(t)
			if known {
				wait.For(t, "the server's operation", func() bool { return s.messages("told") == 1 })
			}
			outcomes := make(chan ext.Outcome, 3)
			for range 3 {
				s.conn.Send(ext.Outgoing{Op: "note"}, func(o ext.Outcome) { outcomes <- o })
			}
			first, waits := 2, 1 // half of 4 credits
			if known {
				first, waits = 3, 0
			}
			for range first {
				if h := <-came; h.OptType != idNote || h.Credit != 16 {
					t.Fatalf("%+v", h)
				}
			}
			var wg sync.WaitGroup
			for range 6 {
				wg.Go(func() {
					if err := ask(t, c); err != nil {
						t.Error(err)
					}
				})
			}
			free := 4 // calls that have a credit
			if !known {
				free = 2
			}
			var calls []wire.Header
			for range free {
				h := <-came
				if h.Proc != wire.Msg {
					t.Fatalf("%+v", h)
				}
				calls = append(calls, h)
			}
			if n := c.Counters().Outstanding; n != 4 {
				t.Errorf("%d credits are in use", n)
			}
			select {
			case h := <-came:
				t.Fatalf("beyond the credits: %+v", h)
			default:
			}
			mu.Lock()
			r := peer
			mu.Unlock()
			r.answerTo(&calls[0], 4) // consumes the notes: it was sent later
			for range first {
				if o := <-outcomes; o.Kind != ext.Consumed {
					t.Fatalf("%+v", o)
				}
			}
			notes, served := 0, 1
			calls = calls[1:]
			for served < 6 || notes < waits {
				if len(calls) > 0 {
					r.answerTo(&calls[0], 4)
					calls = calls[1:]
					served++
					continue
				}
				if h := <-came; h.OptType == idNote && h.Proc == wire.Optional {
					notes++
				} else {
					calls = append(calls, h)
				}
			}
			wg.Wait()
			if !known { // the last note has nothing behind it: it keeps its credit
				if err := func() error { go func() { h := <-came; r.answerTo(&h, 4) }(); return ask(t, c) }(); err != nil {
					t.Fatal(err)
				}
				if o := <-outcomes; o.Kind != ext.Consumed {
					t.Fatalf("%+v", o)
				}
			}
			wait.For(t, "the credits to be back", func() bool { return c.Counters().Outstanding == 0 })
		})
	}
}

// TestCreditsComeBack: when the server shows that it has the extension, operations give back the credits that they hold, consumed
// or not; and when their deadline and 10 s are over, so that a server that ignores them does not take them away.
func TestCreditsComeBack(t *testing.T) {
	for _, shows := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			here := newFake(nil)
			here.decl.Ops[3].Deadline = time.Second
			var peer atomic.Pointer[raw]
			c := dial(t, rawServe(t, func(r *raw, _ int, h *wire.Header, _ []byte) {
				if peer.Store(r); h.Proc == wire.Msg {
					r.answerTo(h, 4)
				}
			}), rpc.WithExtensions(setOf(t, here)))
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
			s := here.session(t)
			for range 2 {
				s.conn.Send(ext.Outgoing{Op: "note"}, func(o ext.Outcome) {
					if o.Kind != ext.Lost {
						t.Errorf("%+v", o)
					}
				})
			}
			synctest.Wait()
			if n := c.Counters().Outstanding; n != 2 {
				t.Errorf("%d credits are in use, want 2", n)
			}
			if shows {
				peer.Load().send(optional(99, idTold, wire.Reply, ""))
				time.Sleep(time.Second) // the fabric takes its time when nobody calls
			} else {
				time.Sleep(11*time.Second - time.Millisecond)
				if n := c.Counters().Outstanding; n != 2 {
					t.Errorf("%d credits are in use before the time, want 2", n)
				}
				time.Sleep(time.Millisecond)
			}
			synctest.Wait()
			if n := c.Counters().Outstanding; n != 0 {
				t.Errorf("shows %v: %d credits are in use", shows, n)
			}
			c.Close()
		})
	}
}

// TestLateAnswers: an answer or an error that comes when its operation has timed out still proves that it has been consumed: its place in
// the window is free, even where no call proves it.
func TestLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here := newFake(nil)
		for i := range here.decl.Ops {
			here.decl.Ops[i].Deadline = time.Second
		}
		var mu sync.Mutex
		var asked []wire.Header
		var peer *raw
		c := dial(t, rawServe(t, func(r *raw, _ int, h *wire.Header, _ []byte) {
			if h.Proc == wire.Msg {
				r.answerTo(h, 4)
				return
			}
			mu.Lock()
			peer, asked = r, append(asked, wire.Header{XID: h.XID, Version: h.Version})
			mu.Unlock()
		}), rpc.WithExtensions(setOf(t, here)))
		if err := ask(t, c); err != nil {
			t.Fatal(err)
		}
		s := here.session(t)
		outcomes := make(chan ext.Outcome, 4)
		for range 4 { // twice its window
			s.conn.Send(ext.Outgoing{Op: "self"}, func(o ext.Outcome) { outcomes <- o })
		}
		sent := func() int {
			time.Sleep(time.Second) // the fabric takes its time when nobody calls
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(asked)
		}
		time.Sleep(11 * time.Second)
		if n := sent(); n != 2 || len(outcomes) != 2 {
			t.Fatalf("%d sent, %d outcomes, want 2 and 2", n, len(outcomes))
		}
		peer.send(optional(asked[0].XID, idTold, wire.Reply, "")) // of another operation: proves nothing
		if n := sent(); n != 2 {
			t.Errorf("after the answer to another operation: %d sent, want 2", n)
		}
		peer.send(optional(asked[0].XID, idSelf, wire.Reply, ""))
		if n := sent(); n != 3 {
			t.Errorf("after a late answer: %d sent, want 3", n)
		}
		peer.send(errorTo(&asked[1], *code(wire.ErrSystem)))
		if n := sent(); n != 4 {
			t.Errorf("after a late error: %d sent, want 4", n)
		}
		if s.messages("self") != 1 {
			t.Error("the late answer is no message")
		}
		c.Close()
	})
}

// TestGrantsInOperations: rdma_credit counts in RESPROP-like answers that declare it, and in no other (D-9).
func TestGrantsInOperations(t *testing.T) {
	here := newFake(echoes)
	c := dial(t, rawServe(t, func(r *raw, _ int, h *wire.Header, _ []byte) {
		r.answerTo(h, 4)
		grant := func(opType, credit uint32) {
			h := head(5, 2, wire.Optional)
			h.OptType, h.Direction, h.Credit = opType, wire.Reply, credit
			r.send(enc(h))
		}
		grant(idGrant, 7)
		grant(idTold, 9)
	}), rpc.WithExtensions(setOf(t, here)))
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	s := here.session(t)
	wait.For(t, "both", func() bool { return s.messages("told") == 1 && s.messages("grant") == 1 })
	if n := c.Counters().Granted; n != 7 {
		t.Errorf("%d granted, want 7", n)
	}
}
