package iwarp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
)

// limit bounds what is done on s by a time-out and by ctx; the returned function ends it and
// tells what of both has struck.
func limit(ctx context.Context, s stream.Stream, d time.Duration) (done func() error) {
	deadline := time.Now().Add(d)
	set := func(t time.Time) {
		_ = s.SetReadDeadline(t)
		_ = s.SetWriteDeadline(t)
	}
	set(deadline)
	struck := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		set(past)
		close(struck)
	})
	return func() error {
		if !stop() {
			<-struck // it has touched the deadlines for the last time
		}
		set(time.Time{})
		return context.Cause(ctx)
	}
}

// readFrame reads one start-up frame and not a byte more.
func readFrame(s stream.Stream, reply bool) (mpa.Frame, []byte, error) {
	b := make([]byte, 0, mpa.HeaderLen+mpa.MaxPrivate)
	for {
		need, err := mpa.Length(b, reply)
		if err != nil {
			return mpa.Frame{}, nil, err
		}
		if len(b) >= mpa.HeaderLen && len(b) == need {
			f, err := mpa.Parse(b, reply)
			return f, b, err
		}
		n, err := readSome(s, b[len(b):need])
		b = b[:len(b)+n]
		switch {
		case err == io.EOF && len(b) > 0:
			return mpa.Frame{}, nil, io.ErrUnexpectedEOF
		case err != nil:
			return mpa.Frame{}, nil, err
		}
	}
}

func readSome(s stream.Stream, b []byte) (n int, err error) {
	e := s.Read(func() bool {
		n, err = s.Readv([][]byte{b})
		return err != stream.ErrAgain
	})
	if e != nil {
		return 0, e
	}
	return n, err
}

func writeAll(s stream.Stream, b []byte) error {
	for len(b) > 0 {
		var n int
		var err error
		e := s.Write(func() bool {
			n, err = s.Writev([][]byte{b})
			return err != stream.ErrAgain
		})
		if e != nil {
			return e
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// dialError says what went wrong while waiting for the peer's reply.
func dialError(err error) error {
	var refused *mpa.RefusedError
	switch {
	case errors.As(err, &refused):
		return &verbs.RejectedError{Private: refused.Private, Reason: fmt.Sprintf("MPA reply of revision %d with the reject flag", refused.Revision)}
	case errors.Is(err, mpa.ErrKey), errors.Is(err, mpa.ErrMalformed), errors.Is(err, mpa.ErrRevision), errors.Is(err, mpa.ErrMarkers):
		return fmt.Errorf("%w: %w", verbs.ErrProtocol, err)
	case err == io.EOF:
		return fmt.Errorf("%w: the peer closed the connection without an MPA reply", verbs.ErrProtocol)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the peer closed the connection within its MPA reply: %w", verbs.ErrProtocol, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no MPA reply in time: %w", err)
	}
	return err
}

// say is our private data.
func (c *conn) say(o *verbs.Options, peer []byte) ([]byte, error) {
	if o.Private == nil {
		return nil, nil
	}
	p := o.Private(c.caps, peer)
	if c.initiator {
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

func (c *conn) offer(revision uint8) mpa.Offer {
	return mpa.Offer{Revision: revision, CRC: c.dom.opt.crc, Reads: c.reads, Reading: c.reading}
}

func (c *conn) attach(s stream.Stream) {
	c.stream = s
	c.local, c.remote = s.LocalAddr(), s.RemoteAddr()
}

// tapFrame shows a frame of the start-up; the dialler's is the connection's first.
func (c *conn) tapFrame(sent bool, frame []byte) {
	if c.tap != nil {
		f := c.tapped(sent, [][]byte{frame})
		f.First = sent == c.initiator
		c.tap.Frame(f)
	}
}

func (c *conn) tapped(sent bool, parts [][]byte) verbs.Frame {
	return verbs.Frame{Link: verbs.LinkTCP, Local: c.local, Remote: c.remote, Sent: sent, Parts: parts}
}

// getReady runs the user's Ready.
func (c *conn) getReady(o *verbs.Options) error {
	if o.Ready == nil {
		return nil
	}
	return o.Ready(c)
}

// abandon ends a connection that never came up: its Handler hears nothing.
func (c *conn) abandon(err error) {
	c.mu.Lock()
	c.end(err, byReset)
	c.mu.Unlock()
	_ = c.stream.Reset()
	c.windows.RevokeAll()
}

// start lets everything move.
func (c *conn) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != setUp {
		return c.refuse
	}
	if !c.dom.enter(c) {
		return errDomainClosed
	}
	c.state = up
	c.gated = !c.initiator
	c.resident = !c.initiator // nobody drives an acceptor
	go c.read()
	go c.write()
	if c.sq.head != nil && !c.pumping {
		c.pumping, c.blocked = true, true // what Ready posted is the writer's
		poke(c.writerWake)
	}
	return nil
}

// Dial implements verbs.Domain.
func (d *domain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	c, err := d.dial(ctx, addr, &o)
	if err != nil {
		return nil, fmt.Errorf("iwarp: dial %s: %w", addr, err)
	}
	return c, nil
}

func (d *domain) dial(ctx context.Context, addr string, o *verbs.Options) (*conn, error) {
	c, err := d.newConn(o)
	if err != nil {
		return nil, err
	}
	c.initiator = true
	private, err := c.say(o, nil)
	if err != nil {
		return nil, err
	}
	if !d.begin() {
		return nil, errDomainClosed
	}
	defer d.gone.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.ctx, func() { cancel(errDomainClosed) })()

	s, err := d.net.Dial(ctx, d.local, addr)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	c.attach(s)
	done := limit(ctx, s, d.opt.setup/2)
	agreed, peer, err := c.initiate(private)
	if cause := done(); cause != nil {
		err = cause
	}
	if err == nil {
		c.adopt(agreed, peer)
		err = c.getReady(o)
	}
	if err == nil {
		err = c.start()
	}
	if err != nil {
		c.abandon(err)
		return nil, err
	}
	return c, nil
}

// initiate asks, and waits for the answer.
func (c *conn) initiate(private []byte) (mpa.Agreed, []byte, error) {
	offer := c.offer(c.dom.opt.revision)
	b := offer.Request(private).Append(nil)
	c.tapFrame(true, b)
	if err := writeAll(c.stream, b); err != nil {
		return mpa.Agreed{}, nil, dialError(err)
	}
	f, b, err := readFrame(c.stream, true)
	if err != nil {
		return mpa.Agreed{}, nil, dialError(err)
	}
	c.tapFrame(false, b)
	agreed, err := offer.Replied(f)
	if err != nil {
		return mpa.Agreed{}, nil, dialError(err)
	}
	return agreed, f.Private, nil
}

// hostOr puts the domain's local address in where addr names no host.
func (d *domain) hostOr(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil && host == "" && d.local != "" {
		return net.JoinHostPort(d.local, port), nil
	}
	return addr, err
}
