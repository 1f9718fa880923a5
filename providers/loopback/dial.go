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

func (d *domain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	c, err := d.dial(ctx, addr, &o)
	if err != nil {
		return nil, fmt.Errorf("loopback: dial %s: %w", addr, err)
	}
	return c, nil
}

func (d *domain) dial(ctx context.Context, addr string, o *verbs.Options) (*conn, error) {
	ctx, done, err := d.Dialling(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	at, err := names.split(addr, d.from(d.local))
	if err != nil {
		return nil, err
	}
	c, err := newConn(d, o, names.dialler(d.from(at.Addr())), at, nil)
	if err != nil {
		return nil, err
	}
	private, err := c.PrivateDial(o)
	if err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	l := names.find(at)
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	if err := qp.Fits("dial", private, l.dom.Caps().PrivateDial); err != nil {
		return nil, err
	}
	r := &caller{l: l, from: c, at: at, private: slices.Clone(private), answer: make(chan answer, 1), ready: make(chan error, 1), gone: make(chan struct{})}
	if !l.Offer(r, r.private) {
		return nil, syscall.ECONNREFUSED
	}
	if err := r.await(ctx, o); err != nil {
		c.Abandon(err)
		close(r.gone)
		r.ready <- err
		return nil, err
	}
	r.ready <- nil
	return c, nil
}

// caller is a set-up under way, shared by its two goroutines: the dialler waits for answer,
// then the accepting side for ready. Either may give up meanwhile.
type caller struct {
	l       *listener
	from    *conn
	at      netip.AddrPort // as dialled
	private []byte
	answer  chan answer // room for one
	ready   chan error  // room for one: nil when the connection is up
	gone    chan struct{}
}

type answer struct {
	conn    *conn
	private []byte
	err     error
}

// await is the dialler's half.
func (r *caller) await(ctx context.Context, o *verbs.Options) error {
	c := r.from
	select {
	case a := <-r.answer:
		if a.err != nil {
			return a.err
		}
		c.join(a.conn, a.private)
		if err := c.GetReady(o, c); err != nil {
			return err
		}
		return bringUp(c, a.conn)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.l.dom.Context().Done():
		return syscall.ECONNREFUSED
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
		return fmt.Errorf("the peer gave up during set-up: %w", net.ErrClosed)
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

func (r *caller) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	c, private, err := r.prepare(ctx, &o)
	if err != nil {
		if c != nil {
			c.Abandon(err)
		}
		r.answer <- answer{err: &verbs.RejectedError{Reason: "set-up failed there"}}
		return nil, err
	}
	r.answer <- answer{conn: c, private: private}

	late := time.NewTimer(r.l.dom.Config().Setup)
	defer late.Stop()
	select {
	case err = <-r.ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = context.DeadlineExceeded
	case <-r.l.dom.Context().Done():
		err = context.Cause(r.l.dom.Context())
	case <-c.dom.Context().Done():
		err = context.Cause(c.dom.Context())
	}
	if err != nil && c.Abandon(err) {
		return nil, err
	}
	return c, nil // came up while we gave up
}

// prepare makes our end, up to Ready.
func (r *caller) prepare(ctx context.Context, o *verbs.Options) (*conn, []byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if !r.Alive() {
		return nil, nil, fmt.Errorf("the peer gave up: %w", net.ErrClosed)
	}
	d, err := qp.Into(r.l.dom, o)
	if err != nil {
		return nil, nil, err
	}
	c, err := newConn(d, o, r.at, r.from.LocalAddr(), nil)
	if err != nil {
		return nil, nil, err
	}
	c.join(r.from, r.private)
	private, err := c.PrivateAccept(o, r.private)
	if err != nil {
		return c, nil, err
	}
	return c, slices.Clone(private), c.GetReady(o, c)
}
