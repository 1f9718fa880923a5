package loopback

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

var errGaveUp = fmt.Errorf("the peer gave up during set-up: %w", net.ErrClosed)

func (d *domain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	return d.Connect(ctx, addr, &o, func() (qp.Dialler, error) { return newConn(d, &o, netip.AddrPort{}, netip.AddrPort{}) })
}

// caller is a set-up under way, shared by its two goroutines: the dialler waits for answer,
// then the accepting side for ready. Either may give up meanwhile.
type caller struct {
	l       *listener
	from    *conn
	at      netip.AddrPort // as dialled
	private []byte
	answer  chan answer   // room for one
	ready   chan struct{} // closed when the connection is up
	gone    chan struct{} // closed by a dialler that gives up
}

type answer struct {
	conn    *conn
	private []byte
	err     error
}

// Connect implements qp.Dialler.
func (c *conn) Connect(ctx context.Context, addr string, private []byte) error {
	d := c.dom
	at, err := names.split(addr, d.from(d.local))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	c.Meet(names.dialler(d.from(at.Addr())), at, nil, c.Caps())
	l := names.find(at)
	if l == nil {
		return syscall.ECONNREFUSED
	}
	if err := qp.Fits("dial", private, l.dom.Caps().PrivateDial); err != nil {
		return err
	}
	c.call = &caller{l: l, from: c, at: at, private: slices.Clone(private), answer: make(chan answer, 1), ready: make(chan struct{}), gone: make(chan struct{})}
	if !l.Offer(c.call, c.call.private) {
		return syscall.ECONNREFUSED
	}
	select {
	case a := <-c.call.answer:
		if a.err == nil {
			c.join(a.conn, a.private)
			return nil
		}
		err = a.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.dom.Context().Done():
		err = syscall.ECONNREFUSED
	}
	c.Drop()
	return err
}

// Start implements qp.Half. The dialler lets both ends move.
func (c *conn) Start() error {
	if c.call.from != c {
		return nil
	}
	err := bringUp(c, c.peer)
	if err == nil {
		close(c.call.ready)
	}
	return err
}

// Drop implements qp.Half.
func (c *conn) Drop() {
	if c.call.from == c {
		close(c.call.gone)
	}
}

// bringUp lets both ends move, or neither. a dialled b; it is the only place that holds two
// ends' Mu.
func bringUp(a, b *conn) error {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if b.State() != qp.SetUp {
		return errGaveUp
	}
	if a.State() != qp.SetUp {
		return a.Begin()
	}
	if b.Begin(b.Read) != nil {
		return syscall.ECONNREFUSED
	}
	err := a.Begin(a.Read)
	if err != nil {
		b.End(errAborted)
	}
	return err
}

// RemoteAddr implements qp.Caller, as all that follows.
func (r *caller) RemoteAddr() netip.AddrPort { return r.from.LocalAddr() }
func (r *caller) LocalAddr() netip.AddrPort  { return r.at }

func (r *caller) Hear() ([]byte, error) { return r.private, nil }

func (r *caller) Alive() bool {
	select {
	case <-r.gone:
		return false
	default:
		return true
	}
}

func (r *caller) Drop() { r.answer <- answer{err: syscall.ECONNREFUSED} }

func (r *caller) Reject(private []byte) error {
	if r.l.Closed() {
		r.Drop()
		return nil
	}
	r.answer <- answer{err: &verbs.RejectedError{Reason: "by the application, or not answered in time", Private: slices.Clone(private)}}
	return nil
}

func (r *caller) Half(o *verbs.Options) (qp.Acceptor, error) {
	if !r.Alive() {
		return nil, errGaveUp
	}
	d, err := qp.Into(r.l.dom, o)
	if err != nil {
		return nil, err
	}
	c, err := newConn(d, o, r.at, r.from.LocalAddr())
	if err != nil {
		return nil, err
	}
	c.call = r
	c.join(r.from, r.private)
	return c, nil
}

// Answer implements qp.Acceptor: it waits until the dialler has brought both ends up.
func (c *conn) Answer(ctx context.Context, private []byte) error {
	r := c.call
	r.answer <- answer{conn: c, private: slices.Clone(private)}
	late := time.NewTimer(r.l.dom.Config().Setup)
	defer late.Stop()
	select {
	case <-r.ready:
		return nil
	case <-r.gone:
		return errGaveUp
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		return context.DeadlineExceeded
	case <-r.l.dom.Context().Done():
		return context.Cause(r.l.dom.Context())
	case <-c.dom.Context().Done():
		return context.Cause(c.dom.Context())
	}
}
