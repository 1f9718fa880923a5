package providertest_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

func allRights(c *mconn, w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
	return c.Conn.Expose(w, r, off, n, verbs.RemoteRead|verbs.RemoteWrite)
}

// wider exposes one byte more than asked.
func wider(c *mconn, w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
	err := c.Conn.Expose(w, r, off, n+1, a)
	w.N = n
	return err
}

// dummy is a window that nobody uses, for an Invalidate that ends nothing else.
func (c *mconn) dummy() *verbs.Window {
	r, err := c.dom.Alloc(8)
	if err != nil {
		panic(err)
	}
	w := new(verbs.Window)
	if err := c.Conn.Expose(w, r, 0, 8, verbs.RemoteRead); err != nil {
		panic(err)
	}
	return w
}

// conns is every connection of the process, for a provider that mixes them up.
type conns struct {
	mu sync.Mutex
	cs []*mconn
}

var everyConn conns

func (s *conns) add(c *mconn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cs = append(s.cs, c)
}

func (s *conns) all() []*mconn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*mconn(nil), s.cs...)
}

// hasty closes behind its caller's back.
type hasty struct{ verbs.Domain }

func (d hasty) Close() error {
	go d.Domain.Close()
	return nil
}

// wasteful makes a new region each time, dirty, and bears a second Release.
type wasteful struct{ verbs.Domain }

type heapRegion struct{ mem []byte }

func (r *heapRegion) Bytes() []byte { return r.mem }
func (r *heapRegion) Release()      {}

func (d wasteful) Register(mem []byte) (verbs.Region, error) { return &heapRegion{mem}, nil }

func (d wasteful) Alloc(n int) (verbs.Region, error) {
	mem := make([]byte, n)
	mem[n-1] = 1
	return &heapRegion{mem}, nil
}

// generous makes pools of no bound that keep what is put back.
type generous struct{ verbs.Domain }

type generousPool struct{ verbs.RecvPool }

func (d generous) NewRecvPool(n, size int) (verbs.RecvPool, error) {
	p, err := d.Domain.NewRecvPool(n, size)
	return generousPool{p}, err
}

func (generousPool) Reserve(int) error { return nil }
func (generousPool) Put(uint32)        {}

func (d generous) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	strip(&o)
	return d.Domain.Dial(ctx, addr, o)
}

func (d generous) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	l, err := d.Domain.Listen(ctx, addr, o)
	return stripListener{l}, err
}

func strip(o *verbs.Options) {
	if p, ok := o.Recv.(generousPool); ok {
		o.Recv = p.RecvPool
	}
}

type stripListener struct{ verbs.Listener }

func (l stripListener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return stripRequest{r}, nil
}

type stripRequest struct{ verbs.Request }

func (r stripRequest) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	strip(&o)
	return r.Request.Accept(ctx, o)
}

// tapping changes frames before the Tap gets them.
func tapping(change func(*verbs.Frame)) func(*verbs.Options) {
	return func(o *verbs.Options) {
		if o.Tap != nil {
			o.Tap = changedTap{o.Tap, change}
		}
	}
}

type changedTap struct {
	verbs.Tap
	change func(*verbs.Frame)
}

func (t changedTap) Frame(f verbs.Frame) {
	t.change(&f)
	t.Tap.Frame(f)
}

// careless admits everybody.
type careless struct{ verbs.Domain }

func (d careless) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	o.Admit = nil
	return d.Domain.Listen(ctx, addr, o)
}

// tardy asks Admit when a request is accepted.
type tardy struct{ verbs.Domain }

func (d tardy) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	admit := o.Admit
	o.Admit = nil
	l, err := d.Domain.Listen(ctx, addr, o)
	return tardyListener{l, admit}, err
}

type tardyListener struct {
	verbs.Listener
	admit func(netip.Addr) bool
}

func (l tardyListener) Accept(ctx context.Context) (verbs.Request, error) {
	for {
		r, err := l.Listener.Accept(ctx)
		if err != nil || l.admit == nil || l.admit(r.RemoteAddr().Addr()) {
			return r, err
		}
		r.Reject(nil)
	}
}

// locked asks Admit under a lock that Close takes, or does without after a second, so that the check can end.
type locked struct {
	verbs.Domain
	mu sync.Mutex
}

func (d *locked) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	if admit := o.Admit; admit != nil {
		o.Admit = func(a netip.Addr) bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return admit(a)
		}
	}
	l, err := d.Domain.Listen(ctx, addr, o)
	return lockedListener{l, d}, err
}

type lockedListener struct {
	verbs.Listener
	d *locked
}

func (l lockedListener) Close() error {
	for range 100 {
		if l.d.mu.TryLock() {
			defer l.d.mu.Unlock()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return l.Listener.Close()
}

// readless does not report how many segments a Read's sink may have.
type readless struct{ verbs.Domain }

func (d readless) Caps() verbs.Caps {
	c := d.Domain.Caps()
	c.MaxReadSegs = 0
	return c
}

// boaster promises a byte more of private data than fits.
type boaster struct{ verbs.Domain }

func (d boaster) Caps() verbs.Caps {
	c := d.Domain.Caps()
	c.PrivateAccept++
	c.PrivateReject++
	return c
}

// cutReject cuts private data that is too long.
type cutReject struct{ verbs.Request }

func (r cutReject) Reject(private []byte) error {
	err := r.Request.Reject(private)
	var long *verbs.PrivateDataError
	if errors.As(err, &long) {
		return nil
	}
	return err
}

// astray takes the peer's address for ours.
type astray struct{ verbs.Request }

func (r astray) LocalAddr() netip.AddrPort { return r.RemoteAddr() }

// lateReady runs Ready when the connection is up.
type lateReady struct{ verbs.Request }

func (r lateReady) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	ready := o.Ready
	o.Ready = nil
	c, err := r.Request.Accept(ctx, o)
	if err == nil {
		err = ready(c)
	}
	return c, err
}

// mute rejects without a word.
type mute struct{ verbs.Request }

func (r mute) Reject([]byte) error { return r.Request.Reject(nil) }

// deaf does not hear a context.
type deaf struct{ verbs.Listener }

func (l deaf) Accept(context.Context) (verbs.Request, error) {
	return l.Listener.Accept(context.Background())
}

// stubborn does not close.
type stubborn struct{ verbs.Listener }

func (l stubborn) Close() error { return nil }

// oneByOne shows no request before the one before it was answered.
type oneByOne struct {
	verbs.Listener
	turn sync.Mutex
}

func (l *oneByOne) Accept(ctx context.Context) (verbs.Request, error) {
	l.turn.Lock()
	r, err := l.Listener.Accept(ctx)
	if err != nil {
		l.turn.Unlock()
		return nil, err
	}
	return turnRequest{r, l}, nil
}

type turnRequest struct {
	verbs.Request
	l *oneByOne
}

func (r turnRequest) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	defer r.l.turn.Unlock()
	return r.Request.Accept(ctx, o)
}

// release reports what was kept back, on the caller's goroutine.
func (c *mconn) release() {
	c.mu.Lock()
	later := c.later
	c.later = nil
	c.mu.Unlock()
	if len(later) > 0 {
		c.h.Complete(later)
	}
}
