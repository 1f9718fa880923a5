package qp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// served is a backlog to which peers come by call; it ends with the test.
func served(t *testing.T, d *Domain, o verbs.ListenOptions) (l *Backlog, call func(c *caller)) {
	t.Helper()
	l = new(Backlog)
	callers, closed := make(chan *caller), make(chan struct{})
	if err := l.Init(d, o, false, func() error { close(closed); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := l.Serve(func() (Caller, error) {
		select {
		case c := <-callers:
			return c, nil
		case <-closed:
			return nil, net.ErrClosed
		}
	}); err != nil {
		t.Fatal(err)
	}
	return l, func(c *caller) { callers <- c }
}

func TestRequestIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDomain(t)
		l, call := served(t, d, verbs.ListenOptions{})
		for _, c := range []struct {
			name   string
			answer func(r verbs.Request)
			took   time.Duration
		}{
			{"Reject", func(r verbs.Request) { r.Reject([]byte("no")) }, 0},
			{"time", func(verbs.Request) { time.Sleep(2 * time.Second) }, time.Second},
			{"an Accept that fails", func(r verbs.Request) { r.Accept(t.Context(), verbs.Options{}) }, 0},
			{"too much private data", func(r verbs.Request) {
				var e *verbs.PrivateDataError
				if err := r.Reject(make([]byte, 7)); !errors.As(err, &e) || e.Max != 6 {
					t.Errorf("Reject: %v", err)
				}
			}, 0},
		} {
			peer := newCaller("192.0.2.1")
			call(peer)
			r, err := l.Accept(t.Context())
			if err != nil || string(r.PeerPrivateData()) != peer.from {
				t.Fatalf("%s: Accept %v, %v", c.name, r, err)
			}
			c.answer(r)
			if len(peer.rejected) != 1 {
				t.Errorf("%s: rejected %d times", c.name, len(peer.rejected))
			}
			if r.Reject(nil) == nil {
				t.Errorf("%s: answered twice", c.name)
			}
			if _, err := r.Accept(t.Context(), verbs.Options{}); err == nil {
				t.Errorf("%s: accepted after its answer", c.name)
			}
			if len(peer.rejected) != 1 || len(peer.dropped) != 0 {
				t.Errorf("%s: told again", c.name)
			}
		}
		held := newCaller("192.0.2.2")
		call(held)
		if _, err := l.Accept(t.Context()); err != nil {
			t.Fatal(err)
		}
		waiting := newCaller("192.0.2.3")
		call(waiting)
		synctest.Wait()
		d.Close()
		if len(held.rejected) != 1 || len(waiting.rejected) != 1 {
			t.Errorf("the domain's end rejects %d that is held, %d that waits", len(held.rejected), len(waiting.rejected))
		}
	})
}

func TestListenerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, call := served(t, newDomain(t), verbs.ListenOptions{})
		asking, waiting := newCaller("192.0.2.1"), newCaller("192.0.2.2")
		asking.hear = make(chan error, 1)
		call(asking)
		call(waiting)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Accept(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Accept: %v", err)
		}
		if err := l.Close(); err != nil || !l.Closed() || l.Close() != nil {
			t.Errorf("Close: %v", err)
		}
		asking.hear <- nil
		synctest.Wait()
		if len(waiting.rejected) != 1 || len(asking.dropped) == 0 {
			t.Errorf("%d rejected, %d dropped", len(waiting.rejected), len(asking.dropped))
		}
		if _, err := l.Accept(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
		if l.Offer(newCaller("192.0.2.3"), nil) {
			t.Error("a closed listener takes callers")
		}
	})
}

// TestShares: a peer may fill what it leaves free, and makes room by its own oldest.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, call := served(t, newDomain(t), verbs.ListenOptions{Backlog: 4})
		var greedy []*caller
		for range 5 {
			c := newCaller("192.0.2.1")
			c.hear = make(chan error, 1)
			call(c)
			synctest.Wait()
			greedy = append(greedy, c)
		}
		for i, c := range greedy {
			if dropped := len(c.dropped) == 1; dropped != (i < 3) {
				t.Errorf("the greedy peer's request %d: dropped %v", i, dropped)
			}
		}
		// One that is whole waits for Accept; one that has gone makes room.
		polite, gone := newCaller("192.0.2.2"), newCaller("192.0.2.3")
		call(polite)
		call(gone)
		synctest.Wait()
		gone.dead = true
		late := newCaller("192.0.2.4")
		call(late)
		synctest.Wait()
		for _, want := range []*caller{polite, late} {
			r, err := l.Accept(t.Context())
			if err != nil || r.RemoteAddr() != want.RemoteAddr() {
				t.Errorf("Accept %v, %v; want %s", r, err, want.from)
			}
			r.Reject(nil)
		}
		if len(gone.dropped) != 1 {
			t.Error("a peer that has gone is still there")
		}
		for _, c := range greedy {
			c.hear <- errors.New("stalled")
		}
		synctest.Wait()
		l.mu.Lock()
		if n := l.quota.Used(); n != 0 {
			t.Errorf("%d places are lost", n)
		}
		l.mu.Unlock()
		l.Close()
	})
}

func TestAdmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, call := served(t, newDomain(t), verbs.ListenOptions{Backlog: 1, Admit: func(a netip.Addr) bool { return a.Is6() }})
		no, yes := newCaller("192.0.2.1"), newCaller("2001:db8::1")
		call(no)
		call(yes)
		r, err := l.Accept(t.Context())
		if err != nil || r.RemoteAddr() != yes.RemoteAddr() || len(no.dropped) != 1 {
			t.Errorf("Accept %v, %v; the other dropped %d times", r, err, len(no.dropped))
		}
		if l.Offer(no, nil) || !l.Offer(yes, nil) || l.Offer(yes, nil) {
			t.Error("Offer takes who is not admitted, or more than the backlog")
		}
		r.Reject(nil)
		l.Close()
	})
}

// TestVictim is which request makes room. Peers a to f; a capital's request is whole.
func TestVictim(t *testing.T) {
	for _, c := range []struct{ name, come, last, lost string }{
		{"a peer over its share loses its own oldest, no other's", "aaab", "a", "a0"},
		{"a peer whose requests are all whole has none to lose", "AAAb", "a", ""},
		{"a full backlog: a peer that has one keeps it, and gets no second", "aaaabcde", "b", ""},
		{"a full backlog and a new peer", "aaaabcde", "f", "a0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, call := served(t, newDomain(t), verbs.ListenOptions{Backlog: 8})
			if len(c.come) == 4 {
				l.quota.PerPeer = 3
			}
			var all []*caller
			come := func(kind rune) *caller {
				p := newCaller("192.0.2." + string(kind|0x20-'a'+'1'))
				if kind >= 'a' {
					p.hear = make(chan error, 1)
				}
				call(p)
				synctest.Wait()
				all = append(all, p)
				return p
			}
			for _, kind := range c.come {
				come(kind)
			}
			late := come(rune(c.last[0]))
			for i, p := range all {
				want := c.lost != "" && i == 0 || c.lost == "" && p == late
				if dropped := len(p.dropped) > 0; dropped != want {
					t.Errorf("%s: request %d dropped %v", c.name, i, dropped)
				}
			}
			for _, p := range all {
				if p.hear != nil {
					p.hear <- errors.New("over")
				}
			}
			l.Close()
		})
	}
}

// TestHandOutOfAnswered: the domain does not keep a request that time has answered before Accept handed it out.
func TestHandOutOfAnswered(t *testing.T) {
	d := newDomain(t)
	l, _ := served(t, d, verbs.ListenOptions{})
	if !l.Offer(newCaller("192.0.2.1"), nil) {
		t.Fatal("not taken")
	}
	l.mu.Lock()
	r := l.ready[0]
	l.mu.Unlock()
	r.Reject(nil)
	if r.handOut() || len(d.requests) != 0 {
		t.Errorf("handed out, and the domain keeps %d requests", len(d.requests))
	}
}
