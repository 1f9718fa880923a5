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
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

// limit bounds what is done on s by a time-out and by ctx, until done.
func limit(ctx context.Context, s stream.Stream, d time.Duration) (done func()) {
	return qp.Bound(ctx, d, func(t time.Time) error {
		return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
	})
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

func (c *conn) offer(revision uint8) mpa.Offer {
	return mpa.Offer{Revision: revision, CRC: c.dom.opt.crc, Reads: c.reads, Reading: c.reading}
}

func (c *conn) tapFrame(sent bool, frame []byte) {
	if c.Tap != nil {
		c.Show(verbs.LinkTCP, sent, frame)
	}
}

// Dial implements verbs.Domain.
func (d *domain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	return d.Connect(ctx, addr, &o, func() (qp.Dialler, error) { return d.newConn(&o) })
}

// Connect implements qp.Dialler.
func (c *conn) Connect(ctx context.Context, addr string, private []byte) error {
	s, err := c.dom.net.Dial(ctx, c.dom.local, addr)
	if err != nil {
		return err
	}
	c.attach(s, true)
	defer limit(ctx, s, c.dom.opt.setup/2)()
	agreed, peer, err := c.initiate(private)
	if err != nil {
		_ = s.Reset()
		return err
	}
	c.adopt(agreed, peer)
	return nil
}

// Start implements qp.Half.
func (c *conn) Start() error { return c.Go(c.Read, c.write) }

// Drop implements qp.Half.
func (c *conn) Drop() { _ = c.stream.Reset() }

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
