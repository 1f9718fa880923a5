package providertest

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// widen is slept where a promise could be broken by what happens meanwhile. No check
// depends on its length; a longer one catches more.
const widen = 30 * time.Millisecond

var setupChecks = []check{
	{name: "a Request shows the peer's private data and address before it is answered", run: func(w *world) {
		d := w.open()
		l := w.listen(d)
		a, b := w.end("a", w.open(), &link{}, nil), w.end("b", d, &link{}, nil)
		dialled := make(chan error, 1)
		go func() {
			dialled <- a.dial(w.ctx, l.Addr().String(), verbs.Options{Private: private([]byte("first words"))})
		}()
		r := w.request(l)
		w.carries("Request.PeerPrivateData", d.Caps(), r.PeerPrivateData(), "first words")
		if !r.RemoteAddr().IsValid() {
			w.Errorf("RemoteAddr is %v", r.RemoteAddr())
		}
		if at := r.LocalAddr(); !at.Addr().IsUnspecified() && at != l.Addr() {
			w.Errorf("Request.LocalAddr is %v; the peer dialled %v", at, l.Addr())
		}
		if err := b.acceptRequest(w.ctx, r, verbs.Options{}); err != nil {
			w.Fatal(err)
		}
		if err := among(w, "Dial", dialled); err != nil {
			w.Fatal(err)
		}
		w.ping(a, b)
	}},
	{name: "the peer of a dialled connection sends only after Ready", needs: needs("the dialler must send first anyway", func(c verbs.Caps) bool { return !c.InitiatorFirst }), run: func(w *world) {
		for _, posted := range []bool{false, true} {
			sent := make(chan struct{})
			l := &link{posted: posted, a: verbs.Options{Ready: func(verbs.Conn) error {
				time.Sleep(widen)
				return nil
			}}}
			l.prepare = func(a, b *end) {
				go func() {
					defer close(sent)
					for !b.isUp() && w.ctx.Err() == nil {
						time.Sleep(time.Millisecond)
					}
					b.tryPost([]verbs.Work{send(b.mem([]byte("early")))})
					b.conn.Flush()
				}()
			}
			a, _ := w.connect(*l)
			w.same("message", a.message(0).data, []byte("early"))
			<-sent
		}
	}},
	{name: "the peer of an accepted connection sends only after Ready", run: func(w *world) {
		for _, posted := range []bool{false, true} {
			l := &link{posted: posted, b: verbs.Options{Ready: func(verbs.Conn) error {
				time.Sleep(widen)
				return nil
			}}}
			sent := make(chan struct{})
			l.prepare = func(a, b *end) {
				go func() {
					defer close(sent)
					for !a.isUp() && w.ctx.Err() == nil {
						time.Sleep(time.Millisecond)
					}
					a.tryPost([]verbs.Work{send(a.mem([]byte("early")))})
					a.conn.Flush()
				}()
			}
			_, b := w.connect(*l)
			w.same("message", b.message(0).data, []byte("early"))
			<-sent
		}
	}},
	{name: "Post within Ready is refused whole, and leaves nothing behind", run: func(w *world) {
		early := func(e **end) func(verbs.Conn) error {
			return func(c verbs.Conn) error {
				if n, err := c.Post([]verbs.Work{{ID: 1, Op: verbs.OpSend}}); n != 0 || err == nil {
					w.Errorf("%s: Post within Ready: %d, %v, want an error", (*e).name, n, err)
				}
				return nil
			}
		}
		var a, b *end
		l := &link{a: verbs.Options{Ready: early(&a)}, b: verbs.Options{Ready: early(&b)}}
		l.prepare = func(x, y *end) { a, b = x, y }
		w.connect(*l)
		w.ping(a, b)
	}},
	{name: "an error of Ready ends the set-up and is returned by Dial", run: func(w *world) {
		no := errors.New("not ready")
		_, b, err := w.tryConnectBoth(&link{a: verbs.Options{Ready: func(verbs.Conn) error { return no }}})
		if !errors.Is(err[0], no) {
			w.Errorf("Dial: %v, want Ready's error", err[0])
		}
		if err[1] == nil { // the fabric had told b already
			b.disconnected()
		}
	}},
	{name: "an error of Ready ends the set-up and is returned by Accept", run: func(w *world) {
		no := errors.New("not ready")
		_, _, err := w.tryConnectBoth(&link{b: verbs.Options{Ready: func(verbs.Conn) error { return no }}})
		if !errors.Is(err[1], no) {
			w.Errorf("Accept: %v, want Ready's error", err[1])
		}
		if err[0] == nil {
			w.Errorf("Dial succeeded")
		}
	}},
	{name: "port 0 chooses one, and both ends name both addresses", run: func(w *world) {
		l := w.listen(w.open())
		if l.Addr().Port() == 0 {
			w.Fatalf("Addr is %v", l.Addr())
		}
		a, b := w.connect(link{domB: w.doms[len(w.doms)-1], listener: l})
		w.addresses(a, b, l)
	}},
	{name: "it works over IPv6", needs: func(_ verbs.Caps, o *Options) string {
		if o.Listen6 == "" {
			return "Options.Listen6 is not set"
		}
		return ""
	}, run: func(w *world) {
		d := w.open()
		l, err := d.Listen(w.ctx, w.o.Listen6, verbs.ListenOptions{})
		if err != nil {
			w.Skipf("no IPv6 here: Listen(%s): %v", w.o.Listen6, err)
		}
		defer l.Close()
		a, b := w.connect(link{domB: d, listener: l})
		if !a.conn.RemoteAddr().Addr().Is6() {
			w.Errorf("RemoteAddr is %v", a.conn.RemoteAddr())
		}
		w.addresses(a, b, l)
		w.ping(a, b)
	}},
	{name: "dialling where nothing listens is an error that says so", run: func(w *world) {
		d := w.open()
		l := w.listen(d)
		at := l.Addr().String()
		l.Close()
		a := w.end("a", w.open(), &link{}, nil)
		ctx, cancel := context.WithTimeout(w.ctx, w.o.Hang)
		defer cancel()
		switch err := a.dial(ctx, at, verbs.Options{}); {
		case err == nil:
			w.Fatalf("Dial succeeded")
		case ctx.Err() != nil:
			w.Errorf("Dial hangs: %v", err)
		case !errors.Is(err, verbs.ErrUnreachable) && !errors.Is(err, syscall.ECONNREFUSED):
			w.Errorf("Dial: %v, want verbs.ErrUnreachable or ECONNREFUSED in it: by that another fabric is tried", err)
		}
	}},
	{name: "a bad address is an error", run: func(w *world) {
		d := w.open()
		for _, at := range []string{"", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"} {
			a := w.end("a", d, &link{}, nil)
			if err := a.dial(w.ctx, at, verbs.Options{}); err == nil {
				w.Errorf("Dial(%q) succeeded", at)
			}
			if l, err := d.Listen(w.ctx, at, verbs.ListenOptions{}); err == nil {
				w.Errorf("Listen(%q) succeeded", at)
				l.Close()
			}
		}
	}},
	{name: "an address is taken once", run: func(w *world) {
		l := w.listen(w.open())
		if l2, err := w.open().Listen(w.ctx, l.Addr().String(), verbs.ListenOptions{}); err == nil {
			l2.Close()
			w.Errorf("a second Listen on %v succeeded", l.Addr())
		}
	}},
	{name: "Dial ends when its context does", run: func(w *world) {
		l := w.listen(w.open())
		a := w.end("a", w.open(), &link{}, nil)
		ctx, cancel := context.WithCancel(w.ctx)
		dialled := make(chan error, 1)
		go func() { dialled <- a.dial(ctx, l.Addr().String(), verbs.Options{}) }()
		w.request(l) // never answered
		cancel()
		if err := among(w, "a cancelled Dial", dialled); !errors.Is(err, context.Canceled) {
			w.Errorf("Dial: %v, want context.Canceled", err)
		}
		if err := a.dial(ctx, l.Addr().String(), verbs.Options{}); !errors.Is(err, context.Canceled) {
			w.Errorf("Dial with an ended context: %v", err)
		}
	}},
	{name: "Accept ends when its context does, and the Listener goes on", run: func(w *world) {
		d := w.open()
		l := w.listen(d)
		ctx, cancel := context.WithCancel(w.ctx)
		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept(ctx)
			accepted <- err
		}()
		time.Sleep(widen / 10)
		cancel()
		if err := among(w, "a cancelled Accept", accepted); !errors.Is(err, context.Canceled) {
			w.Errorf("Accept: %v, want context.Canceled", err)
		}
		a, b := w.connect(link{domB: d, listener: l})
		w.ping(a, b)
	}},
	{name: "Close of a Listener ends Accept with net.ErrClosed, and spares its connections", run: func(w *world) {
		d := w.open()
		l := w.listen(d)
		a, b := w.connect(link{domB: d, listener: l})
		accepted := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := l.Accept(w.ctx)
				accepted <- err
			}()
		}
		time.Sleep(widen / 10)
		if err := l.Close(); err != nil {
			w.Errorf("Close: %v", err)
		}
		for range 2 {
			if err := among(w, "Accept after Close", accepted); !errors.Is(err, net.ErrClosed) {
				w.Errorf("Accept: %v, want net.ErrClosed", err)
			}
		}
		if _, err := l.Accept(w.ctx); !errors.Is(err, net.ErrClosed) {
			w.Errorf("Accept later: %v, want net.ErrClosed", err)
		}
		w.ping(a, b)
	}},
	{name: "a Request that is answered in no way is rejected in the end", needs: needsShortSetup, run: func(w *world) {
		d := w.open(w.o.ShortSetup)
		l := w.listen(d)
		a := w.end("a", w.open(w.o.ShortSetup), &link{}, nil)
		dialled := make(chan error, 1)
		go func() { dialled <- a.dial(w.ctx, l.Addr().String(), verbs.Options{}) }()
		r := w.request(l)
		if err := among(w, "Dial", dialled); err == nil {
			w.Fatalf("Dial succeeded")
		}
		b := w.end("b", d, &link{}, nil)
		if err := b.acceptRequest(w.ctx, r, verbs.Options{}); err == nil {
			b.disconnected() // whoever accepts too late gets an error, or sees the end at once
		}
	}},
	{name: "a Request waiting for its answer delays no other", run: func(w *world) {
		d := w.open()
		l := w.listen(d)
		dialled := make(chan error, 1)
		first := w.end("first", w.open(), &link{}, nil)
		go func() { dialled <- first.dial(w.ctx, l.Addr().String(), verbs.Options{}) }()
		r := w.request(l)
		for range 3 {
			a, b := w.connect(link{domB: d, listener: l})
			w.ping(a, b)
		}
		b := w.end("b", d, &link{}, nil)
		if err := b.acceptRequest(w.ctx, r, verbs.Options{}); err != nil {
			w.Fatalf("the first Request, accepted last: %v", err)
		}
		if err := among(w, "Dial", dialled); err != nil {
			w.Fatal(err)
		}
		w.ping(first, b)
	}},
	{name: "a slow Ready delays no other", run: func(w *world) {
		d := w.open()
		l := w.listen(d)
		release, inReady := make(chan struct{}), make(chan struct{})
		slowA, slowB := w.end("slow a", w.open(), &link{}, nil), w.end("slow b", d, &link{}, nil)
		errs := make(chan error, 2)
		go func() { errs <- slowA.dial(w.ctx, l.Addr().String(), verbs.Options{}) }()
		r := w.request(l)
		go func() {
			errs <- slowB.acceptRequest(w.ctx, r, verbs.Options{Ready: func(verbs.Conn) error {
				close(inReady)
				<-release
				return nil
			}})
		}()
		among(w, "Ready", inReady)
		a, b := w.connect(link{domB: d, listener: l})
		w.ping(a, b)
		close(release)
		for range 2 {
			if err := among(w, "the slow set-up", errs); err != nil {
				w.Fatal(err)
			}
		}
		w.ping(slowA, slowB)
	}},
	{name: "peers that stall during set-up never surface and delay nobody", needs: func(_ verbs.Caps, o *Options) string {
		if o.Stall == nil {
			return "Options.Stall is not set"
		}
		return ""
	}, run: func(w *world) {
		d := w.open()
		l := w.listen(d)
		stop := w.o.Stall(w.T, l.Addr().String())
		defer stop()
		for range 3 {
			a, b := w.connect(link{domB: d, listener: l})
			w.ping(a, b)
		}
	}},
	{name: "a set-up that is given up at any moment leaves no half", run: func(w *world) {
		domA, domB := w.open(), w.open()
		l := w.listen(domB)
		r, both := w.random(), 0
		for range 100 {
			lk := &link{recvs: 2, size: 64}
			a, b := w.end("a", domA, lk, nil), w.end("b", domB, lk, nil)
			giveUp, cancel := context.WithCancel(w.ctx)
			until, stop := context.WithCancel(w.ctx)
			ctxA, ctxB := giveUp, until
			if r.IntN(2) == 0 {
				ctxA, ctxB = until, giveUp
			}
			dialled, accepted := make(chan error, 1), make(chan error, 1)
			go func() { dialled <- a.dial(ctxA, l.Addr().String(), verbs.Options{}) }()
			go func() { accepted <- b.accept(ctxB, l, verbs.Options{}) }()
			time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
			cancel()
			var errA, errB error
			if ctxA == giveUp { // the other side may wait for a peer that will not come
				errA = among(w, "Dial", dialled)
				if errA != nil {
					stop()
				}
				errB = among(w, "Accept", accepted)
			} else {
				errB = among(w, "Accept", accepted)
				if errB != nil {
					stop()
				}
				errA = among(w, "Dial", dialled)
			}
			stop()
			switch {
			case errA == nil && errB == nil:
				both++
				w.ping(a, b)
				a.conn.Close()
				b.disconnected()
			case errA == nil:
				a.disconnected()
			case errB == nil:
				b.disconnected()
			}
		}
		w.Logf("%d of 100 came up", both)
		a, b := w.connect(link{domA: domA, domB: domB, listener: l})
		w.ping(a, b)
	}},
	{name: "a dialler that gave up is not a connection", run: func(w *world) {
		d := w.open()
		l := w.listen(d)
		a := w.end("a", w.open(), &link{}, nil)
		ctx, cancel := context.WithCancel(w.ctx)
		dialled := make(chan error, 1)
		go func() { dialled <- a.dial(ctx, l.Addr().String(), verbs.Options{}) }()
		r := w.request(l)
		cancel()
		among(w, "a cancelled Dial", dialled)
		b := w.end("b", d, &link{}, nil)
		if err := b.acceptRequest(w.ctx, r, verbs.Options{}); err == nil {
			b.disconnected()
		}
		a, b = w.connect(link{domB: d, listener: l})
		w.ping(a, b)
	}},
}

func needsShortSetup(_ verbs.Caps, o *Options) string {
	if o.ShortSetup == nil {
		return "Options.ShortSetup is not set"
	}
	return ""
}

// request waits for the next one.
func (w *world) request(l verbs.Listener) verbs.Request {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, w.o.Hang)
	defer cancel()
	r, err := l.Accept(ctx)
	if err != nil {
		w.Fatalf("Listener.Accept: %v", err)
	}
	return r
}

// join connects two ends that exist.
func (w *world) join(a, b *end, l verbs.Listener) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, w.o.Hang)
	defer cancel()
	accepted := make(chan error, 1)
	go func() { accepted <- b.accept(ctx, l, verbs.Options{}) }()
	if err := a.dial(ctx, l.Addr().String(), verbs.Options{}); err != nil {
		w.Fatalf("Dial: %v", err)
	}
	if err := among(w, "Accept", accepted); err != nil {
		w.Fatalf("Accept: %v", err)
	}
	w.ping(a, b)
}

// tryConnectBoth returns the errors of Dial and of Accept; neither ends the other.
func (w *world) tryConnectBoth(l *link) (a, b *end, errs [2]error) {
	w.Helper()
	d := w.open()
	ln := w.listen(d)
	a, b = w.end("a", w.open(), l, nil), w.end("b", d, l, nil)
	ctx, cancel := context.WithTimeout(w.ctx, w.o.Hang)
	defer cancel()
	accepted := make(chan error, 1)
	go func() { accepted <- b.accept(ctx, ln, l.b) }()
	errs[0] = a.dial(ctx, ln.Addr().String(), l.a)
	errs[1] = among(w, "Accept", accepted)
	if ctx.Err() != nil {
		w.Fatalf("set-up hangs: Dial %v, Accept %v", errs[0], errs[1])
	}
	return a, b, errs
}

func (w *world) addresses(a, b *end, l verbs.Listener) {
	w.Helper()
	if a.conn.RemoteAddr() != l.Addr() {
		w.Errorf("the dialler's RemoteAddr is %v, the listener's Addr %v", a.conn.RemoteAddr(), l.Addr())
	}
	if b.conn.LocalAddr().Addr() != l.Addr().Addr() {
		w.Errorf("the acceptor's LocalAddr is %v, the listener's Addr %v", b.conn.LocalAddr(), l.Addr())
	}
	if a.conn.LocalAddr().Addr() != b.conn.RemoteAddr().Addr() {
		w.Errorf("the dialler's LocalAddr is %v, the acceptor's RemoteAddr %v", a.conn.LocalAddr(), b.conn.RemoteAddr())
	}
}

func (e *end) isUp() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.up
}
