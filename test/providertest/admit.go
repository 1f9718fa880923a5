package providertest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

var admitChecks = []check{
	{name: "a peer that Admit refuses gets an error, with nobody in Accept, and takes no place of the backlog", run: func(w *world) {
		const strangers = 20
		var asked atomic.Int64
		var wrong atomic.Value
		var open atomic.Bool
		d := w.open()
		l := w.listenWith(d, verbs.ListenOptions{Backlog: 1, Admit: func(a netip.Addr) bool {
			if !a.IsValid() || a.Is4In6() || !a.IsLoopback() && w.o.Local == "" && w.o.Listen == "127.0.0.1:0" {
				wrong.Store(a)
			}
			asked.Add(1)
			return open.Load()
		}})
		for range strangers {
			ctx, cancel := context.WithTimeout(w.ctx, w.o.Hang)
			err := w.end("stranger", w.doms[0], &link{}, nil).dial(ctx, l.Addr().String(), verbs.Options{})
			if err == nil || ctx.Err() != nil {
				cancel()
				w.Fatalf("Dial of a peer that is not admitted: %v, its context %v", err, ctx.Err())
			}
			cancel()
		}
		if n := asked.Load(); n != strangers {
			w.Errorf("Admit was called %d times for %d peers", n, strangers)
		}
		if a := wrong.Load(); a != nil {
			w.Errorf("Admit was asked about %v", a)
		}
		open.Store(true)
		a, b := w.connect(link{domB: d, listener: l})
		w.ping(a, b)
	}},
	{name: "a peer that Admit refuses never shows in Accept", run: func(w *world) {
		var refuse atomic.Bool
		refuse.Store(true)
		d := w.open()
		l := w.listenWith(d, verbs.ListenOptions{Admit: func(netip.Addr) bool { return !refuse.Load() }})
		requests := make(chan []byte, 8)
		go func() {
			for {
				r, err := l.Accept(w.ctx)
				if err != nil {
					return
				}
				requests <- append([]byte(nil), r.PeerPrivateData()...)
				r.Reject(nil)
			}
		}()
		for i := range 5 {
			refuse.Store(i < 4)
			who := []byte("stranger")
			if i == 4 {
				who = []byte("guest")
			}
			a := w.end("a", w.doms[0], &link{}, nil)
			if err := a.dial(w.ctx, l.Addr().String(), verbs.Options{Private: private(who)}); err == nil {
				w.Errorf("Dial of the %s succeeded", who)
			}
		}
		w.carries("the first request", d.Caps(), among(w, "Accept", requests), "guest")
	}},
	{name: "Admit may close its listener", run: func(w *world) {
		var l verbs.Listener
		ready := make(chan struct{})
		l = w.listenWith(w.open(), verbs.ListenOptions{Admit: func(netip.Addr) bool {
			<-ready
			l.Close()
			return true
		}})
		close(ready)
		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept(w.ctx)
			accepted <- err
		}()
		dialled := make(chan error, 1)
		a := w.end("a", w.open(), &link{}, nil)
		go func() { dialled <- a.dial(w.ctx, l.Addr().String(), verbs.Options{}) }()
		if err := among(w, "Dial", dialled); err == nil {
			w.Errorf("Dial succeeded")
		}
		if err := among(w, "Accept after Close", accepted); !errors.Is(err, net.ErrClosed) {
			w.Errorf("Accept: %v, want net.ErrClosed", err)
		}
	}},
}
