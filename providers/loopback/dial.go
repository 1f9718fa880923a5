package loopback

import (
	"context"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

func (d *domain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	c, err := d.dial(ctx, addr, &o)
	if err != nil {
		return nil, fmt.Errorf("loopback: dial %s: %w", addr, err)
	}
	return c, nil
}

func (d *domain) dial(ctx context.Context, addr string, o *verbs.Options) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-d.done:
		return nil, errDomainClosed
	default:
	}
	at, err := names.split(addr, d.from(d.local))
	if err != nil {
		return nil, err
	}
	c, err := newConn(d, o)
	if err != nil {
		return nil, err
	}
	private, err := c.say(o, nil)
	if err != nil {
		return nil, err
	}
	c.local, c.remote = names.dialler(d.from(at.Addr())), at

	l := names.find(at)
	if l == nil {
		return nil, syscall.ECONNREFUSED
	}
	r := &request{l: l, from: c, at: at, private: private, answer: make(chan answer, 1), ready: make(chan error, 1)}
	if err := fits("dial", private, l.dom.caps.PrivateDial); err != nil {
		return nil, err
	}
	if !l.enqueue(r) {
		return nil, syscall.ECONNREFUSED
	}
	a, err := d.await(ctx, r)
	if err == nil {
		err = a.err
	}
	if err != nil {
		r.giveUp(err)
		return nil, err
	}
	c.peer, c.private = a.conn, a.private
	c.caps.MaxReads = min(c.caps.MaxReads, a.conn.reading)
	if err = c.getReady(o); err == nil {
		err = bringUp(c, a.conn)
	}
	if err != nil {
		c.abandon(err)
		r.giveUp(err)
		return nil, err
	}
	r.ready <- nil
	return c, nil
}

// await waits for the answer, as long as the listening side's set-up time-out lets it.
func (d *domain) await(ctx context.Context, r *request) (answer, error) {
	late := time.NewTimer(r.l.dom.setup)
	defer late.Stop()
	select {
	case a := <-r.answer:
		return a, nil
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-d.done:
		return answer{}, errDomainClosed
	case <-r.l.dom.done:
		return answer{}, syscall.ECONNREFUSED
	case <-late.C:
		return answer{}, &verbs.RejectedError{Reason: "not answered within " + r.l.dom.setup.String()}
	}
}

// say is our private data, a copy.
func (c *conn) say(o *verbs.Options, peer []byte) ([]byte, error) {
	if o.Private == nil {
		return nil, nil
	}
	p := slices.Clone(o.Private(c.caps, peer))
	if c.peer == nil {
		return p, fits("dial", p, c.caps.PrivateDial)
	}
	return p, fits("accept", p, c.caps.PrivateAccept)
}

func fits(step string, private []byte, most int) error {
	if n := len(private); n > most {
		return &verbs.PrivateDataError{Step: step, Len: n, Max: most}
	}
	return nil
}

func (c *conn) getReady(o *verbs.Options) error {
	if o.Ready == nil {
		return nil
	}
	if err := o.Ready(c); err != nil {
		c.abandon(err)
		return err
	}
	return nil
}

// abandon ends a connection that never came up: its Handler hears nothing. False: it is up.
func (c *conn) abandon(err error) bool {
	c.mu.Lock()
	if c.lived {
		c.mu.Unlock()
		return false
	}
	c.terminate(err, nil)
	c.mu.Unlock()
	c.windows.RevokeAll()
	return true
}

// bringUp lets both ends move, or neither. a dialled b; it is the only place that holds two
// ends' mu.
func bringUp(a, b *conn) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case a.state != setUp:
		return a.refuse
	case b.state != setUp:
		return fmt.Errorf("the peer gave up during set-up: %w", net.ErrClosed)
	case !a.dom.enter(a):
		return errDomainClosed
	case !b.dom.enter(b):
		a.dom.leave(a)
		return syscall.ECONNREFUSED
	}
	a.state, b.state = up, up
	a.lived, b.lived = true, true
	go a.read()
	go b.read()
	return nil
}
