package providertest_test

import (
	"context"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/loopback"
)

// mutant is the loopback provider with one promise broken: each hook that is set stands in for
// the provider's own way.
type mutant struct {
	loopback.Provider
	open     func(map[string]string)
	domain   func(verbs.Domain) verbs.Domain
	options  func(*verbs.Options)
	dial     func(d verbs.Domain, ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error)
	listener func(verbs.Listener) verbs.Listener
	request  func(verbs.Request) verbs.Request
	into     func(*verbs.Options) // of Request.Accept

	caps         func(*verbs.Caps)
	post         func(c *mconn, ws []verbs.Work) (int, error)
	flush        func(c *mconn)
	expose       func(c *mconn, w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error
	detach       func(c *mconn, w *verbs.Window, spare []byte) bool
	close        func(c *mconn) error
	abort        func(c *mconn, err error)
	drive        func(c *mconn, stop func() bool) bool
	kick         func(c *mconn)
	stats        func(c *mconn, s *verbs.Stats)
	complete     func(c *mconn, cs []verbs.Completion)
	disconnected func(c *mconn, err error)
}

func (m *mutant) Open(ctx context.Context, local string, o map[string]string) (verbs.Domain, error) {
	if m.open != nil {
		m.open(o)
	}
	d, err := m.Provider.Open(ctx, local, o)
	if err != nil {
		return nil, err
	}
	if m.domain != nil {
		d = m.domain(d)
	}
	return &mdomain{d, m}, nil
}

type mdomain struct {
	verbs.Domain
	m *mutant
}

func (d *mdomain) wrap(o *verbs.Options) *mconn {
	if d.m.options != nil {
		d.m.options(o)
	}
	c := &mconn{m: d.m, h: o.Handler, o: *o, dom: d.Domain}
	o.Handler = c
	ready := o.Ready
	o.Ready = func(in verbs.Conn) error {
		c.Conn = in
		if ready == nil {
			return nil
		}
		return ready(c)
	}
	return c
}

func (d *mdomain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	c := d.wrap(&o)
	dial := d.m.dial
	if dial == nil {
		dial = verbs.Domain.Dial
	}
	in, err := dial(d.Domain, ctx, addr, o)
	if err != nil {
		return nil, err
	}
	c.Conn = in
	return c, nil
}

func (d *mdomain) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	l, err := d.Domain.Listen(ctx, addr, o)
	if err != nil {
		return nil, err
	}
	if d.m.listener != nil {
		l = d.m.listener(l)
	}
	return &mlistener{l, d}, nil
}

type mlistener struct {
	verbs.Listener
	d *mdomain
}

func (l *mlistener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	if l.d.m.request != nil {
		r = l.d.m.request(r)
	}
	return &mrequest{r, l.d}, nil
}

type mrequest struct {
	verbs.Request
	d *mdomain
}

func (r *mrequest) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	d := r.d
	if own, ok := o.Domain.(*mdomain); ok {
		d, o.Domain = own, own.Domain
	}
	if d.m.into != nil {
		d.m.into(&o)
	}
	c := d.wrap(&o)
	in, err := r.Request.Accept(ctx, o)
	if err != nil {
		return nil, err
	}
	c.Conn = in
	return c, nil
}

type mconn struct {
	verbs.Conn
	m   *mutant
	h   verbs.Handler
	o   verbs.Options
	dom verbs.Domain

	mu    sync.Mutex // for the hooks' own use, with what follows
	kept  []verbs.Work
	later []verbs.Completion
	n     int
}

func (c *mconn) Caps() verbs.Caps {
	caps := c.Conn.Caps()
	if c.m.caps != nil {
		c.m.caps(&caps)
	}
	return caps
}

func (c *mconn) Post(ws []verbs.Work) (int, error) {
	if c.m.post != nil {
		return c.m.post(c, ws)
	}
	return c.Conn.Post(ws)
}

func (c *mconn) Flush() {
	if c.m.flush != nil {
		c.m.flush(c)
		return
	}
	c.Conn.Flush()
}

func (c *mconn) Expose(w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
	if c.m.expose != nil {
		return c.m.expose(c, w, r, off, n, a)
	}
	return c.Conn.Expose(w, r, off, n, a)
}

func (c *mconn) Detach(w *verbs.Window, spare []byte) bool {
	if c.m.detach != nil {
		return c.m.detach(c, w, spare)
	}
	return c.Conn.(verbs.Detacher).Detach(w, spare)
}

func (c *mconn) Close() error {
	if c.m.close != nil {
		return c.m.close(c)
	}
	return c.Conn.Close()
}

func (c *mconn) Abort(err error) {
	if c.m.abort != nil {
		c.m.abort(c, err)
		return
	}
	c.Conn.Abort(err)
}

func (c *mconn) Drive(stop func() bool) bool {
	if c.m.drive != nil {
		return c.m.drive(c, stop)
	}
	return c.Conn.(verbs.Driver).Drive(stop)
}

func (c *mconn) Kick() {
	if c.m.kick != nil {
		c.m.kick(c)
		return
	}
	c.Conn.(verbs.Driver).Kick()
}

func (c *mconn) Stats(s *verbs.Stats) {
	c.Conn.Stats(s)
	if c.m.stats != nil {
		c.m.stats(c, s)
	}
}

func (c *mconn) Complete(cs []verbs.Completion) {
	if c.m.complete != nil {
		c.m.complete(c, cs)
		return
	}
	c.h.Complete(cs)
}

func (c *mconn) Disconnected(err error) {
	if c.m.disconnected != nil {
		c.m.disconnected(c, err)
		return
	}
	c.h.Disconnected(err)
}

// filter reports those of cs that keep lets through.
func (c *mconn) filter(cs []verbs.Completion, keep func(*verbs.Completion) bool) {
	var left []verbs.Completion
	for i := range cs {
		if keep(&cs[i]) {
			left = append(left, cs[i])
		}
	}
	if len(left) > 0 {
		c.h.Complete(left)
	}
}
