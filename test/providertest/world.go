package providertest

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// world is one check's surroundings: its domains and ends, looked after until the check's end.
type world struct {
	*testing.T
	p    verbs.Provider
	o    *Options
	ctx  context.Context
	ends []*end
	doms []verbs.Domain
}

func newWorld(t *testing.T, p verbs.Provider, o *Options) *world {
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{T: t, p: p, o: o, ctx: ctx}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		cancel()
		w.tearDown()
		if t.Failed() {
			return // a hung check leaks, which says nothing new
		}
		leak := goleak.Find(before) // which waits for half a second: too little on a busy machine
		for end := time.Now().Add(o.Hang); leak != nil && time.Now().Before(end); leak = goleak.Find(before) {
		}
		if leak != nil {
			t.Error(leak)
		}
	})
	return w
}

// tearDown closes the domains, which ends every connection, and then asks each end for what
// must have happened by now.
func (w *world) tearDown() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, d := range w.doms {
			if err := d.Close(); err != nil {
				w.Errorf("Domain.Close: %v", err)
			}
		}
	}()
	select {
	case <-closed:
	case <-time.After(w.o.Hang):
		w.Errorf("Domain.Close has not returned")
		return
	}
	for _, e := range w.ends {
		e.audit()
	}
}

// open opens a domain with the suite's options and more.
func (w *world) open(more ...map[string]string) verbs.Domain {
	w.Helper()
	opts := map[string]string{}
	maps.Copy(opts, w.o.Domain)
	for _, m := range more {
		maps.Copy(opts, m)
	}
	d, err := w.p.Open(w.ctx, w.o.Local, opts)
	if err != nil {
		w.Fatalf("Open(%q, %v): %v", w.o.Local, opts, err)
	}
	w.doms = append(w.doms, d)
	return d
}

func (w *world) caps() verbs.Caps { return w.open().Caps() }

func (w *world) listen(d verbs.Domain) verbs.Listener {
	w.Helper()
	return w.listenWith(d, verbs.ListenOptions{})
}

func (w *world) listenWith(d verbs.Domain, o verbs.ListenOptions) verbs.Listener {
	w.Helper()
	l, err := d.Listen(w.ctx, w.o.Listen, o)
	if err != nil {
		w.Fatalf("Listen(%s): %v", w.o.Listen, err)
	}
	w.Cleanup(func() { l.Close() })
	return l
}

// link says how two ends are to be connected; its zero value does.
type link struct {
	domA, domB verbs.Domain // a dials, b accepts; nil: new ones
	listener   verbs.Listener
	options    map[string]string // for new domains
	posted     bool              // receives by PostRecv even if there are pools
	poolA      verbs.RecvPool    // nil: own
	poolB      verbs.RecvPool
	recvs      int // receives per end; 0: 64
	size       int // bytes of each; 0: 4096
	a, b       verbs.Options
	prepare    func(a, b *end) // before anything happens
}

// connect makes a pair; a dialled.
func (w *world) connect(l link) (a, b *end) {
	w.Helper()
	a, b, err := w.tryConnect(&l)
	if err != nil {
		w.Fatalf("connect: %v", err)
	}
	return a, b
}

func (w *world) tryConnect(l *link) (a, b *end, err error) {
	w.Helper()
	if l.domA == nil {
		l.domA = w.open(l.options)
	}
	if l.domB == nil {
		l.domB = w.open(l.options)
	}
	if l.listener == nil {
		l.listener = w.listen(l.domB)
	}
	a = w.end("a", l.domA, l, l.poolA)
	b = w.end("b", l.domB, l, l.poolB)
	if l.prepare != nil {
		l.prepare(a, b)
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.o.Hang)
	defer cancel()
	accepted := make(chan error, 1)
	go func() { accepted <- b.accept(ctx, l.listener, l.b) }()
	dialErr := a.dial(ctx, l.listener.Addr().String(), l.a)
	if dialErr != nil {
		cancel()
	}
	return a, b, errors.Join(dialErr, among(w, "Accept", accepted))
}

func (e *end) dial(ctx context.Context, addr string, o verbs.Options) error {
	c, err := e.dom.Dial(ctx, addr, e.options(o))
	if err == nil {
		e.settle(c)
	}
	return err
}

func (e *end) accept(ctx context.Context, l verbs.Listener, o verbs.Options) error {
	r, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	return e.acceptRequest(ctx, r, o)
}

func (e *end) acceptRequest(ctx context.Context, r verbs.Request, o verbs.Options) error {
	c, err := r.Accept(ctx, e.options(o))
	if err == nil {
		e.settle(c)
	}
	return err
}

// hang fails the check when f does not return.
func (w *world) hang(what string, f func()) {
	w.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(w.o.Hang):
		w.Fatalf("hangs: %s", what)
	}
}

// among waits for the goroutine that sends on c.
func among[T any](w *world, what string, c <-chan T) T {
	w.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(w.o.Hang):
		w.Fatalf("hangs: %s", what)
		panic("unreachable")
	}
}
