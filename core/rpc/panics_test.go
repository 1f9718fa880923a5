package rpc_test

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// panicker is a splitter that panics, once, in the method named by at.
type panicker struct {
	*splitter
	at atomic.Pointer[string]
}

func newPanicker() *panicker { return &panicker{splitter: newSplitter()} }

func (x *panicker) next(at string) { x.at.Store(&at) }

// in panics if it is time to.
func (x *panicker) in(at string) {
	if p := x.at.Load(); p != nil && *p == at && x.at.CompareAndSwap(p, nil) {
		panic("boom in " + at)
	}
}

func (x *panicker) Connect(c ext.Conn) ext.Session {
	s := x.session(c)
	if x.raw {
		return &panicCutter{panicSession{s, x}, layout{}}
	}
	return &panicSession{s, x}
}

type panicSession struct {
	*splitSession
	x *panicker
}

// Reach is none before the other end is known to have a session.
func (s *panicSession) Reach() (send, recv int) {
	s.x.in("Reach")
	if s.peer.Load() == nil {
		return 0, 0
	}
	return s.splitSession.Reach()
}

func (s *panicSession) Wrap(into []ext.Piece, xid uint32, n, part, last int) []ext.Piece {
	s.x.in("Wrap")
	return s.splitSession.Wrap(into, xid, n, part, last)
}

func (s *panicSession) Unwrap(p ext.Piece, xid uint32, reply bool, payload []byte) ([]byte, func(), ext.Verdict) {
	s.x.in("Unwrap " + p.Op)
	whole, release, v := s.splitSession.Unwrap(p, xid, reply, payload)
	if release == nil {
		return whole, nil, v
	}
	return whole, func() {
		release()
		s.x.in("release")
	}, v
}

type panicCutter struct {
	panicSession
	c layout
}

func (s *panicCutter) Cut(op string, info []byte) (int, error) {
	s.x.in("Cut")
	return s.c.Cut(op, info)
}

// TestPayloadPanics: what a payload extension panics over ends the call at hand with a clear error, and the session, on whatever
// side; the next connection has a new one, and calls go on.
func TestPayloadPanics(t *testing.T) {
	for _, tc := range []struct {
		name, at string
		server   bool
		bytes    int // of the call; 0: the reply is long
		want     string
	}{
		{"reach at the client", "Reach", false, 20000, "boom in Reach"},
		{"call not cut", "Wrap", false, 20000, "boom in Wrap"},
		{"piece of a call not taken", "Unwrap more", true, 20000, "SYSTEM"},
		{"end of a call not taken", "Unwrap end", true, 20000, "SYSTEM"},
		{"optinfo of a call not cut", "Cut", true, 20000, "SYSTEM"},
		{"reply not cut", "Wrap", true, 0, "SYSTEM"},
		{"piece of a reply not taken", "Unwrap more", false, 0, "boom in Unwrap more"},
		{"end of a reply not taken", "Unwrap end", false, 0, "boom in Unwrap end"},
		{"optinfo of a reply not cut", "Cut", false, 0, "boom in Cut"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			here, there := newPanicker(), newPanicker()
			here.raw, there.raw = tc.at == "Cut", tc.at == "Cut"
			f, c := panicPair(t, here, there)
			call := func() error { return c.Call(ctx(t), procWrite, bulk(pattern(tc.bytes)), new(number)) }
			if tc.bytes == 0 {
				call = func() error { return c.Call(ctx(t), procRead, readArgs(20000), new(blob)) }
			}
			if err := call(); err != nil || c.Counters().Wrapped == 0 {
				t.Fatalf("%v; %+v", err, c.Counters())
			}
			x, n := here, c.Counters
			if tc.server {
				x, n = there, f.srv.Counters
			}
			x.next(tc.at)
			err := call()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			var p *engine.PanicError
			if !tc.server && (!errors.As(err, &p) || p.Extension != "splitter") {
				t.Errorf("%v is no PanicError of the extension", err)
			}
			wait.For(t, "the panic to be counted", func() bool { return n().ExtPanics == 1 })
			wait.For(t, "a session on a new connection", func() bool {
				if err := call(); err != nil {
					t.Fatalf("after it: %v", err)
				}
				return len(here.up) > 0
			})
		})
	}
}

// TestReleasePanics: memory that an extension panics over when it gets it back costs no call.
func TestReleasePanics(t *testing.T) {
	for name, server := range map[string]bool{"client": false, "server": true} {
		t.Run(name, func(t *testing.T) {
			here, there := newPanicker(), newPanicker()
			f, c := panicPair(t, here, there)
			x, n := here, c.Counters
			if server {
				x, n = there, f.srv.Counters
			}
			x.next("release")
			wait.For(t, "the panic to be counted", func() bool {
				var got blob
				if err := c.Call(ctx(t), procEcho, blob(pattern(20000)), &got); err != nil || !bytes.Equal(got, pattern(20000)) {
					t.Fatal(err)
				}
				return n().ExtPanics == 1
			})
		})
	}
}

func panicPair(t *testing.T, here, there *panicker) (*fixture, *rpc.Client) {
	t.Helper()
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)))
	c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)), rpc.WithVersions(wire.Version2, wire.Version2))
	if err := c.Call(ctx(t), procEcho, blob("first"), nil, rpc.MaxReply(64)); err != nil {
		t.Fatal(err)
	}
	greet(<-here.up, <-there.up)
	return f, c
}
