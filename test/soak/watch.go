package soak

import (
	"context"
	"errors"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// watch is a provider that keeps book of what passes between the engine and the one beneath.
type watch struct {
	verbs.Provider
	book  *Book
	flips bool // bits change under way: the fabric may complain
	ends  bool // without verbs.Detacher a cancelled call ends its windows, whoever still reaches for them

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// exposed counts the windows that are in force on connections that live.
func (w *watch) exposed() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		c.mu.Lock()
		if !c.gone {
			n += len(c.exposed)
		}
		c.mu.Unlock()
	}
	return n
}

func (w *watch) forget(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

func (w *watch) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	d, err := w.Provider.Open(ctx, local, options)
	if err != nil {
		return nil, err
	}
	return &domain{Domain: d, w: w, book: w.book, regions: map[*region]struct{}{}}, nil
}

type domain struct {
	verbs.Domain
	w    *watch
	book *Book

	mu      sync.Mutex
	regions map[*region]struct{}
}

// Close asks for everything back that was taken.
func (d *domain) Close() error {
	d.mu.Lock()
	if n := len(d.regions); n > 0 {
		d.book.errorf("%d regions were not released", n)
	}
	d.mu.Unlock()
	return d.Domain.Close()
}

// region is a region, counted.
type region struct {
	verbs.Region
	d *domain
}

func (d *domain) count(r verbs.Region, err error) (verbs.Region, error) {
	if err != nil {
		return nil, err
	}
	c := &region{r, d}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.regions[c] = struct{}{}
	return c, nil
}

func (r *region) Release() {
	r.d.mu.Lock()
	if _, ok := r.d.regions[r]; !ok {
		r.d.book.errorf("a region was released twice")
	}
	delete(r.d.regions, r)
	r.d.mu.Unlock()
	r.Region.Release()
}

func inner(r verbs.Region) verbs.Region {
	if c, ok := r.(*region); ok {
		return c.Region
	}
	return r
}

func (d *domain) Alloc(n int) (verbs.Region, error)         { return d.count(d.Domain.Alloc(n)) }
func (d *domain) Register(mem []byte) (verbs.Region, error) { return d.count(d.Domain.Register(mem)) }

// pool is a receive pool, counted.
type pool struct {
	verbs.RecvPool
	book *Book
	n    int

	mu       sync.Mutex
	reserved int
	out      map[uint32]bool
}

func (d *domain) NewRecvPool(n, size int) (verbs.RecvPool, error) {
	p, err := d.Domain.NewRecvPool(n, size)
	if err != nil {
		return nil, err
	}
	return &pool{RecvPool: p, book: d.book, n: n, out: map[uint32]bool{}}, nil
}

func (p *pool) Reserve(n int) error {
	err := p.RecvPool.Reserve(n)
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.reserved += n; p.reserved > p.n {
			p.book.errorf("%d receives are promised, there are %d", p.reserved, p.n)
		}
	}
	return err
}

func (p *pool) Unreserve(n int) {
	p.mu.Lock()
	p.reserved -= n
	p.mu.Unlock()
	p.RecvPool.Unreserve(n)
}

func (p *pool) drawn(id uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out[id] {
		p.book.errorf("receive %d came twice without being put back", id)
	}
	p.out[id] = true
}

func (p *pool) Put(id uint32) {
	p.mu.Lock()
	if !p.out[id] {
		p.book.errorf("receive %d was put back twice", id)
	}
	delete(p.out, id)
	p.mu.Unlock()
	p.RecvPool.Put(id)
}

func (p *pool) Close() error {
	p.mu.Lock()
	if len(p.out) > 0 || p.reserved != 0 {
		p.book.errorf("a pool was closed with %d receives out and %d promised", len(p.out), p.reserved)
	}
	p.mu.Unlock()
	return p.RecvPool.Close()
}

func (d *domain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	c := d.conn(&o)
	_, err := d.Domain.Dial(ctx, addr, o)
	return c.up(err)
}

func (d *domain) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	l, err := d.Domain.Listen(ctx, addr, o)
	if err != nil {
		return nil, err
	}
	return &listener{l, d}, nil
}

type listener struct {
	verbs.Listener
	d *domain
}

func (l *listener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &request{r, l.d}, nil
}

type request struct {
	verbs.Request
	d *domain
}

func (r *request) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	c := r.d.conn(&o)
	_, err := r.Request.Accept(ctx, o)
	return c.up(err)
}

// conn makes the watch of a connection and puts it between o and the provider.
func (d *domain) conn(o *verbs.Options) *conn {
	c := &conn{
		d: d, handler: o.Handler, account: account{open: map[uint32]bool{}, granted: 1},
		works: map[work]int{}, exposed: map[*verbs.Window]uint32{},
	}
	o.Handler = (*inbox)(c)
	d.w.mu.Lock()
	d.w.conns[c] = struct{}{}
	d.w.mu.Unlock()
	if p, ok := o.Recv.(*pool); ok {
		c.pool, o.Recv = p, p.RecvPool
	}
	ready := o.Ready
	o.Ready = func(in verbs.Conn) error {
		c.wear(in)
		if ready == nil {
			return nil
		}
		return ready(c.face)
	}
	return c
}

// work tells works apart as far as their completions do.
type work struct {
	id uint64
	op verbs.Op
}

// conn keeps the book of one end of a connection.
type conn struct {
	verbs.Conn
	d       *domain
	face    verbs.Conn // what the engine gets: conn with the powers of Conn
	handler verbs.Handler
	pool    *pool

	post sync.Mutex // keeps what is posted and its book in one order; not taken by completions

	mu      sync.Mutex
	account account
	works   map[work]int             // posted and not completed
	ending  []*verbs.Window          // of the Invalidates among them, which complete in order
	exposed map[*verbs.Window]uint32 // and their keys
	gone    bool
	scratch []verbs.Work
}

func (c *conn) up(err error) (verbs.Conn, error) {
	if err != nil {
		c.d.w.forget(c)
		return nil, err
	}
	return c.face, nil
}

func (c *conn) wear(in verbs.Conn) {
	c.Conn = in
	d, drives := in.(verbs.Driver)
	m, detaches := in.(verbs.Detacher)
	switch {
	case drives && detaches:
		c.face = struct {
			*conn
			verbs.Driver
			verbs.Detacher
		}{c, d, m}
	case drives:
		c.face = struct {
			*conn
			verbs.Driver
		}{c, d}
	case detaches:
		c.face = struct {
			*conn
			verbs.Detacher
		}{c, m}
	default:
		c.face = c
	}
}

func (c *conn) Expose(w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
	c.mu.Lock()
	if _, ok := c.exposed[w]; ok {
		c.d.book.errorf("a window is exposed that is in use")
	}
	c.mu.Unlock()
	err := c.Conn.Expose(w, inner(r), off, n, a)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if w.Key == 0 {
			c.d.book.errorf("key 0 was handed out")
		}
		c.exposed[w] = w.Key
	}
	return err
}

func (c *conn) PostRecv(rs []verbs.Recv) (int, error) {
	unwrapped := make([]verbs.Recv, len(rs))
	for i, r := range rs {
		r.Seg.R = inner(r.Seg.R)
		unwrapped[i] = r
	}
	return c.Conn.PostRecv(unwrapped)
}

// Post books each work before it is posted, and takes back what was not accepted.
func (c *conn) Post(ws []verbs.Work) (int, error) {
	c.post.Lock()
	defer c.post.Unlock()
	c.scratch = c.scratch[:0]
	for _, w := range ws {
		segs := make([]verbs.Seg, len(w.Segs))
		for i, s := range w.Segs {
			s.R = inner(s.R)
			segs[i] = s
		}
		w.Segs = segs
		c.scratch = append(c.scratch, w)
	}
	// One at a time, so that what is not accepted was never booked for long.
	for i := range c.scratch {
		c.book(&c.scratch[i])
		n, err := c.Conn.Post(c.scratch[i : i+1])
		if n == 0 {
			c.unbook(&c.scratch[i])
			return i, err
		}
		if err != nil {
			return i + 1, err
		}
	}
	return len(ws), nil
}

func (c *conn) book(w *verbs.Work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.works[work{w.ID, w.Op}]++
	if w.Op == verbs.OpInvalidate {
		c.ending = append(c.ending, w.Window)
	}
	if w.Op != verbs.OpSend && w.Op != verbs.OpSendInvalidate {
		return
	}
	m, err := parse(gather(w.Segs))
	if err == nil {
		err = c.account.sent(m)
	}
	if err != nil && !c.gone {
		c.d.book.errorf("sent: %v", err)
	}
}

// unbook forgets a work that was not accepted.
func (c *conn) unbook(w *verbs.Work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done(w.ID, w.Op)
	if w.Op == verbs.OpInvalidate {
		c.ending = c.ending[:len(c.ending)-1]
	}
	if w.Op == verbs.OpSend || w.Op == verbs.OpSendInvalidate {
		if m, err := parse(gather(w.Segs)); err == nil && m.call {
			delete(c.account.open, m.xid)
		}
	}
}

// done takes one work out of the book; false: it is not there.
func (c *conn) done(id uint64, op verbs.Op) bool {
	k := work{id, op}
	n := c.works[k]
	if n <= 1 {
		delete(c.works, k)
	} else {
		c.works[k] = n - 1
	}
	return n > 0
}

func gather(segs []verbs.Seg) (b []byte) {
	for _, s := range segs {
		b = append(b, s.Bytes()...)
	}
	return b
}

// inbox is conn as the provider's Handler.
type inbox conn

func (b *inbox) Complete(cs []verbs.Completion) {
	c := (*conn)(b)
	c.mu.Lock()
	if c.gone {
		c.d.book.errorf("completions after Disconnected")
	}
	for i := range cs {
		c.completed(&cs[i])
	}
	c.mu.Unlock()
	c.handler.Complete(cs)
	c.mu.Lock()
	c.account.settle()
	c.mu.Unlock()
}

// completed is called with mu held.
func (c *conn) completed(cp *verbs.Completion) {
	if cp.Op != verbs.OpRecv {
		if !c.done(cp.ID, cp.Op) {
			c.d.book.errorf("%v %#x completed (%v), and is not open", cp.Op, cp.ID, cp.Status)
			return
		}
		if cp.Op == verbs.OpInvalidate {
			if cp.Status == verbs.OK {
				delete(c.exposed, c.ending[0])
			}
			c.ending = c.ending[1:]
		}
		return
	}
	if c.pool != nil && cp.Buf != nil {
		c.pool.drawn(cp.BufID)
	}
	if cp.Status != verbs.OK {
		return
	}
	if cp.Invalidated != 0 {
		for w, key := range c.exposed {
			if key == cp.Invalidated {
				delete(c.exposed, w)
			}
		}
	}
	m, err := parse(cp.Buf)
	if err != nil {
		c.d.book.errorf("received: %v", err)
		return
	}
	c.account.received(m)
}

func (b *inbox) Disconnected(err error) {
	c := (*conn)(b)
	c.post.Lock() // what is being refused just now leaves the book first
	c.mu.Lock()
	if c.gone {
		c.d.book.errorf("Disconnected twice")
	}
	c.gone = true
	if n := len(c.works); n > 0 {
		c.d.book.errorf("Disconnected with %d works that have not completed", n)
	}
	clear(c.exposed) // the end fences what is left
	c.mu.Unlock()
	c.post.Unlock()
	c.d.w.forget(c)
	if !c.d.explains(err) {
		c.d.book.errorf("a connection ended without a fault: %v", err)
	}
	c.handler.Disconnected(err)
}

// explains tells whether a connection may end like this: in order, or by a fault that was asked for.
func (d *domain) explains(err error) bool {
	var te *verbs.TerminatedError
	if errors.As(err, &te) && te.Layer == "faults" {
		return true
	}
	for _, ours := range []error{
		verbs.ErrProtocol, verbs.ErrRemoteAccess, verbs.ErrNoReceive, verbs.ErrTooLong, verbs.ErrBadWork,
		engine.ErrCreditOverrun, engine.ErrTooManyOrphans,
	} {
		if errors.Is(err, ours) {
			return d.w.flips && ours == verbs.ErrProtocol || d.w.ends && ours == verbs.ErrRemoteAccess
		}
	}
	return true
}
