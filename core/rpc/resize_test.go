package rpc_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// longestSends are the bytes of the longest messages sent that carry no error.
type longestSends struct{ call, reply atomic.Int64 }

func (l *longestSends) Record(e obs.Event) {
	longest := &l.call
	switch e.Kind {
	case obs.ReplySent:
		longest = &l.reply
	case obs.CallSent:
	default:
		return
	}
	for n := longest.Load(); int64(e.Bytes) > n && !longest.CompareAndSwap(n, int64(e.Bytes)); n = longest.Load() {
	}
}

// request asks for r and waits for what comes of it.
func (s *fakeSession) request(t testing.TB, r ext.Request) error {
	t.Helper()
	done := make(chan error, 2)
	s.conn.Request(r, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-time.After(2 * time.Minute):
		t.Fatalf("%v: nothing came of it", r)
	}
	return nil
}

// resize makes Sends from one side to the other n bytes at most: the receiver first where they grow, the sender where they
// shrink.
func resize(t testing.TB, from, to *fakeSession, n int) {
	t.Helper()
	steps := []func() error{
		func() error { return to.request(t, ext.ReceiveSize(n)) },
		func() error { return from.request(t, ext.SendLimit(n)) },
	}
	if n < from.conn.Facts().SendLimit {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Error(err)
		}
	}
	if got := to.conn.Facts().RecvSize; got != n {
		t.Errorf("receives of %d bytes, want %d", got, n)
	}
	if got := from.conn.Facts().SendLimit; got != n {
		t.Errorf("Sends of %d bytes, want %d", got, n)
	}
}

// TestResizeUnderLoad: receives grow and shrink on both sides while 64 callers are at it, and no call fails; then Sends are
// longer than 4096 bytes, and not before.
func TestResizeUnderLoad(t *testing.T) {
	for _, url := range []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0", "bare-r://127.0.0.1:0", "bare-d://127.0.0.1:0", "bare-rdtqi://127.0.0.1:0"} {
		t.Run(strings.SplitN(url, ":", 2)[0], func(t *testing.T) {
			sends := new(longestSends)
			e := extend(t, url, newFake(echoes), newFake(echoes), rpc.WithRecorder(sends), rpc.WithRetransmits(-1), rpc.WithCancelWait(10*time.Millisecond))
			var calls atomic.Int64
			var stop atomic.Bool
			var wg sync.WaitGroup
			for g := range 64 {
				wg.Go(func() {
					buf := make([]byte, 70_000)
					for n := g * 977; !stop.Load(); n += 7919 {
						if err := mixedCall(e.c, g%4, n%40_000, buf); err != nil {
							t.Errorf("call %d of %d bytes: %v", g%4, n%40_000, err)
							stop.Store(true)
						}
						calls.Add(1)
					}
				})
			}
			served := func(n int64) {
				for goal := calls.Load() + n; calls.Load() < goal && !stop.Load(); {
					time.Sleep(time.Millisecond)
				}
			}
			served(200)
			if c, r := sends.call.Load(), sends.reply.Load(); c > 4096 || r > 4096 {
				t.Errorf("Sends of %d and %d bytes at 4096", c, r)
			}
			for round, n := range []int{65536, 4096, 8192, 65536, 4096, 65536} {
				resize(t, e.client, e.server, n)
				served(200)
				resize(t, e.server, e.client, n)
				served(200)
				for until := time.Now().Add(time.Minute); round == 0 && !stop.Load(); served(200) { // whose turn it is, nobody knows
					c, r := sends.call.Load(), sends.reply.Load()
					if c > 4096 && r > 4096 {
						break
					}
					if time.Now().After(until) {
						t.Errorf("Sends of %d and %d bytes at 65536", c, r)
						break
					}
				}
			}
			stop.Store(true)
			wg.Wait()
			if e.c.Conns()[0].ID() != e.client.conn.Facts().ID {
				t.Error("the connection was lost")
			}
			t.Logf("%d calls, %+v", calls.Load(), e.c.Counters())
		})
	}
}

// mixedCall is a call of n bytes of some kind; what it brings is checked.
func mixedCall(c *rpc.Client, kind, n int, buf []byte) error {
	want := pattern(n)
	var got []byte
	var err error
	switch kind {
	case 0:
		var b blob
		err = c.Call(context.Background(), procEcho, blob(want), &b, rpc.MaxReply(n+8))
		got = b
	case 1:
		var b bulk
		err = c.Call(context.Background(), procRead, readArgs(n), &b, rpc.Into(buf[:n:n]))
		got = b
	case 2:
		var b blob
		err = c.Call(context.Background(), procRead, readArgs(n), &b)
		got = b
	default:
		var s number
		if err = c.Call(context.Background(), procWrite, bulk(want), &s); err == nil && uint32(s) != sum(want) {
			err = errors.New("written wrong")
		}
		return err
	}
	if err == nil && string(got) != string(want) {
		err = errors.New("wrong bytes")
	}
	return err
}

// TestInvalidationOff: calls name nothing to invalidate from the request on.
func TestInvalidationOff(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			e := extend(t, url, newFake(echoes), newFake(echoes))
			buf := make([]byte, 20_000)
			invalidated := func() uint64 {
				t.Helper()
				before := e.c.Counters().RemoteInv
				if err := mixedCall(e.c, 1, len(buf), buf); err != nil {
					t.Fatal(err)
				}
				return e.c.Counters().RemoteInv - before
			}
			for _, on := range []bool{true, false, true} {
				if err := e.client.request(t, ext.Invalidation(on)); err != nil {
					t.Fatal(err)
				}
				if n := invalidated(); (n > 0) != on {
					t.Errorf("remote invalidation %v: %d", on, n)
				}
			}
		})
	}
}

// TestSplitCredits: the algorithm changes to and fro under load, the server first, and in the end the client has what it had.
func TestSplitCredits(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			e := extend(t, url, newFake(echoes), newFake(echoes), rpc.WithCredits(16))
			var stop atomic.Bool
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					for !stop.Load() {
						if err := e.c.Call(context.Background(), procEcho, blob(pattern(64)), new(blob)); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for range 40 {
				for _, a := range []ext.CreditAlgorithm{ext.CreditsSplit, ext.CreditsPlain} {
					for _, s := range []*fakeSession{e.server, e.client} {
						if err := s.request(t, a); err != nil {
							t.Error(err)
						}
						time.Sleep(100 * time.Microsecond)
					}
				}
			}
			stop.Store(true)
			wg.Wait()
			if n := e.c.Counters(); n.Granted != 16 || n.ZeroCredit != 0 || n.Outstanding != 0 {
				t.Errorf("%d granted, %d zero, %d outstanding", n.Granted, n.ZeroCredit, n.Outstanding)
			}
		})
	}
}

// TestSplitWords: what a server writes, by the bytes.
func TestSplitWords(t *testing.T) {
	there := newFake(echoes)
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)))
	r := rawDial(t, f.url)
	xid := uint32(0)
	reply := func(asked uint32) uint32 {
		t.Helper()
		xid++
		h := head(xid, 2, wire.Msg)
		h.Credit = asked
		r.send(enc(h), call(xid, 1, opaque([]byte("x"))...))
		got, _, _ := r.Parsed()
		return got.Credit
	}
	if got := reply(32); got != 64 {
		t.Errorf("%#x at first", got)
	}
	s := there.session(t)
	if err := s.request(t, ext.CreditsSplit); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name        string
		asked, want uint32
	}{
		{"the client writes plain words still", 32, 64},
		{"its first split word", 32<<16 | 2, 64<<16 | 1},
		{"more wanted", 48<<16 | 16, 64<<16 | 17},
		{"as before", 48 << 16, 64<<16 | 1},
	} {
		if got := reply(tc.asked); got != tc.want {
			t.Errorf("%s: %#x, want %#x", tc.name, got, tc.want)
		}
	}
	xid++
	h := head(xid, 2, wire.NoMsg) // refused: no Read list
	h.Credit = 48 << 16
	r.send(enc(h))
	if got, _, _ := r.Parsed(); got.Proc != wire.ErrorMsg || got.Credit != 64 {
		t.Errorf("an RDMA_ERROR: %+v", got)
	}
	if err := s.request(t, ext.CreditsPlain); err != nil {
		t.Fatal(err)
	}
	if got := reply(48 << 16); got != 64 {
		t.Errorf("%#x after going back", got)
	}
}

// TestMaxInline: receives grow as far as the option says.
func TestMaxInline(t *testing.T) {
	e := extend(t, "loopback://127.0.0.1:0", newFake(echoes), newFake(echoes), rpc.WithMaxInline(8192))
	if n := e.server.conn.Facts().MaxRecv; n != 8192 {
		t.Errorf("%d at most", n)
	}
	if err := e.server.request(t, ext.ReceiveSize(8192)); err != nil {
		t.Error(err)
	}
	var refused *ext.RequestError
	if err := e.server.request(t, ext.ReceiveSize(8193)); !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
}
