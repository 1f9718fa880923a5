package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

// listener takes streams. qp.Backlog has each one's request read on a goroutine of its own, and hands
// out those that are whole.
type listener struct {
	qp.Backlog
	in stream.Listener
}

// Listen implements verbs.Domain.
func (d *domain) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	at, err := d.hostOr(addr)
	if err != nil {
		return nil, fmt.Errorf("iwarp: listen: %w", err)
	}
	in, err := d.net.Listen(ctx, at, o.Admit)
	if err != nil {
		return nil, fmt.Errorf("iwarp: listen %s: %w", addr, err)
	}
	o.Admit = nil // the network asks, before it makes a stream
	l := &listener{in: in}
	if err = l.Init(&d.Domain, o, false, in.Close); err == nil {
		err = l.Serve(func() (qp.Caller, error) {
			s, err := in.Accept()
			return &caller{dom: d, s: s}, err
		})
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l *listener) Addr() netip.AddrPort { return l.in.Addr() }

// caller is one stream that wants to become a connection.
type caller struct {
	dom    *domain
	s      stream.Stream
	frame  mpa.Frame
	bytes  []byte      // the frame's, for the tap
	answer mpa.Answer  // to it
	told   atomic.Bool // the peer has been refused
}

// RemoteAddr implements qp.Caller, as all that follows.
func (r *caller) RemoteAddr() netip.AddrPort { return r.s.RemoteAddr() }
func (r *caller) LocalAddr() netip.AddrPort  { return r.s.LocalAddr() }

func (r *caller) Hear() ([]byte, error) {
	_ = r.s.SetReadDeadline(time.Now().Add(r.dom.opt.setup))
	f, b, err := readFrame(r.s, false)
	if err == nil {
		err = mpa.Check(f)
	}
	r.frame, r.bytes = f, b
	if errors.Is(err, mpa.ErrMarkers) {
		_ = r.Reject(nil)
	}
	_ = r.s.SetReadDeadline(time.Time{})
	return f.Private, err
}

func (r *caller) Drop() {
	if !r.told.Load() {
		_ = r.s.Reset()
	}
}

// Alive reports whether the peer still waits for an answer. It must not say anything before
// (RFC 5044 §7.1.2), so a word is as good as its end.
func (r *caller) Alive() bool {
	var err error
	e := r.s.Read(func() bool {
		_, err = r.s.Readv([][]byte{make([]byte, 1)})
		return true
	})
	return e == nil && err == stream.ErrAgain
}

func (r *caller) Reject(private []byte) error {
	r.told.Store(true)
	_ = r.s.SetWriteDeadline(time.Now().Add(r.dom.opt.setup / 2))
	err := writeAll(r.s, mpa.Refusal(r.frame, private).Append(nil))
	if e := r.s.Close(); err == nil {
		err = e
	}
	return err
}

func (r *caller) Half(o *verbs.Options) (qp.Acceptor, error) {
	d, err := qp.Into(r.dom, o)
	if err != nil {
		return nil, err
	}
	c, err := d.newConn(o)
	if err != nil {
		return nil, err
	}
	c.attach(r.s, false)
	r.answer = c.offer(0).Asked(r.frame)
	c.asked = r
	c.adopt(r.answer.Agreed, r.frame.Private)
	return c, nil
}

// Answer implements qp.Acceptor.
func (c *conn) Answer(ctx context.Context, private []byte) error {
	r := c.asked
	c.asked = nil
	defer limit(ctx, r.s, r.dom.opt.setup/2)()
	b := r.answer.Accept(private).Append(nil)
	c.tapFrame(false, r.bytes)
	c.tapFrame(true, b)
	return writeAll(r.s, b)
}
