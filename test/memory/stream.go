package memory

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
)

// Stream is one end.
type Stream struct {
	net           *Network
	in, out       *direction
	local, remote netip.AddrPort
}

var _ stream.Stream = (*Stream)(nil)

// direction is what one end writes and the other reads.
type direction struct {
	cap   int
	delay time.Duration

	mu      sync.Mutex
	wake    sync.Cond
	events  int // counts what a waiting end may be waiting for
	chunks  []chunk
	size    int
	written int64
	done    bool // nothing more can be written
	eof     bool // the reader knows, after the chunks
	reset   bool // and that it was not meant to be so
	lost    bool // written bytes go nowhere
	flips   map[int64]byte
	cutAt   int64 // 0: never

	ends [2]limit // the reading and the writing end's
}

type chunk struct {
	b  []byte
	at time.Time
}

const (
	reading = iota
	writing
)

// limit is one end's deadline, and whether it is closed.
type limit struct {
	timer   *time.Timer
	expired bool
	closed  bool
}

func (n *Network) direction() *direction {
	d := &direction{cap: n.Buffer, delay: n.Delay}
	if d.cap == 0 {
		d.cap = 64 << 10
	}
	d.wake.L = &d.mu
	return d
}

// event lets waiting ends look again. mu is held.
func (d *direction) event() {
	d.events++
	d.wake.Broadcast()
}

// wait calls try until it is true.
func (d *direction) wait(end int, try func() bool) error {
	for {
		d.mu.Lock()
		seen, l := d.events, &d.ends[end]
		switch {
		case l.closed:
			d.mu.Unlock()
			return net.ErrClosed
		case l.expired:
			d.mu.Unlock()
			return os.ErrDeadlineExceeded
		}
		d.mu.Unlock()
		if try() {
			return nil
		}
		d.mu.Lock()
		for d.events == seen {
			d.wake.Wait()
		}
		d.mu.Unlock()
	}
}

func (d *direction) setDeadline(end int, t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := &d.ends[end]
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.expired = false
	if !t.IsZero() {
		if left := time.Until(t); left > 0 {
			var mine *time.Timer
			mine = time.AfterFunc(left, func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				if l.timer == mine {
					l.expired = true
					d.event()
				}
			})
			l.timer = mine
		} else {
			l.expired = true
		}
	}
	d.event()
}

func (d *direction) read(v [][]byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum, now := 0, time.Now()
	for _, b := range v {
		for len(b) > 0 && len(d.chunks) > 0 && !d.chunks[0].at.After(now) {
			c := &d.chunks[0]
			n := copy(b, c.b)
			b, c.b = b[n:], c.b[n:]
			sum += n
			if len(c.b) == 0 {
				d.chunks = d.chunks[1:]
			}
		}
	}
	if sum > 0 {
		d.size -= sum
		d.event()
		return sum, nil
	}
	switch {
	case len(d.chunks) > 0:
	case d.reset:
		return 0, fmt.Errorf("read: %w", syscall.ECONNRESET)
	case d.eof:
		return 0, io.EOF
	}
	return 0, stream.ErrAgain
}

func (d *direction) write(v [][]byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done || d.reset || d.ends[reading].closed {
		return 0, fmt.Errorf("write: %w", syscall.EPIPE)
	}
	sum := 0
	for _, b := range v {
		b = b[:min(len(b), d.cap-d.size)]
		if d.cutAt > 0 {
			b = b[:min(int64(len(b)), d.cutAt-d.written)]
		}
		if len(b) == 0 {
			continue
		}
		c := chunk{b: append([]byte(nil), b...), at: time.Now().Add(d.delay)}
		for off, mask := range d.flips {
			if i := off - d.written; i >= 0 && i < int64(len(b)) {
				c.b[i] ^= mask
			}
		}
		d.written += int64(len(b))
		sum += len(b)
		if !d.lost {
			d.chunks = append(d.chunks, c)
			d.size += len(b)
		}
	}
	switch {
	case d.cutAt > 0 && d.written == d.cutAt:
		d.done, d.reset = true, true
	case sum == 0 && len(v) > 0:
		return 0, stream.ErrAgain
	}
	if d.delay > 0 {
		time.AfterFunc(d.delay, func() {
			d.mu.Lock()
			d.event()
			d.mu.Unlock()
		})
	}
	d.event()
	return sum, nil
}

// close takes one end out.
func (d *direction) close(end int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := &d.ends[end]
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	d.event()
}

// finish ends the direction; the reader hears of it a delay later.
func (d *direction) finish(reset bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = true
	tell := func() {
		d.eof = true
		d.reset = d.reset || reset
		d.event()
	}
	if d.delay == 0 {
		tell()
		return
	}
	time.AfterFunc(d.delay, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		tell()
	})
}

// cut says that a cut has come.
func (d *direction) cut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cutAt > 0 && d.written == d.cutAt
}

func (s *Stream) Read(try func() bool) error        { return s.in.wait(reading, try) }
func (s *Stream) Write(try func() bool) error       { return s.out.wait(writing, try) }
func (s *Stream) Readv(v [][]byte) (int, error)     { return s.in.read(v) }
func (s *Stream) SetReadDeadline(t time.Time) error { s.in.setDeadline(reading, t); return nil }

func (s *Stream) SetWriteDeadline(t time.Time) error { s.out.setDeadline(writing, t); return nil }
func (s *Stream) LocalAddr() netip.AddrPort          { return s.local }
func (s *Stream) RemoteAddr() netip.AddrPort         { return s.remote }

// Writev implements stream.Stream.
func (s *Stream) Writev(v [][]byte) (int, error) {
	n, err := s.out.write(v)
	if n > 0 && s.out.cut() {
		s.in.finish(true)
	}
	return n, err
}

// CloseWrite implements stream.Stream.
func (s *Stream) CloseWrite() error {
	s.out.finish(false)
	return nil
}

// Close implements stream.Stream. As TCP does, it resets the peer if input lies unread.
func (s *Stream) Close() error {
	s.in.mu.Lock()
	unread := s.in.size > 0
	s.in.mu.Unlock()
	s.end(unread)
	return nil
}

// Reset implements stream.Stream.
func (s *Stream) Reset() error {
	s.out.mu.Lock()
	s.out.chunks, s.out.size = nil, 0
	s.out.mu.Unlock()
	s.end(true)
	return nil
}

func (s *Stream) end(reset bool) {
	s.in.close(reading)
	s.out.close(writing)
	s.out.finish(reset)
}

// MSS implements stream.Stream.
func (s *Stream) MSS() int {
	if s.net.Segment > 0 {
		return s.net.Segment
	}
	return 1448
}

// Flip changes the octet at off of what this end writes, counted from the stream's start.
func (s *Stream) Flip(off int64, mask byte) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	if s.out.flips == nil {
		s.out.flips = map[int64]byte{}
	}
	s.out.flips[off] = mask
}

// CutAt resets the stream, both ways, after this end's octet before off.
func (s *Stream) CutAt(off int64) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	s.out.cutAt = off
}

// Mute lets what this end writes go nowhere, as a peer whose machine died.
func (s *Stream) Mute() {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	s.out.lost = true
}

// Written is how many octets this end has written.
func (s *Stream) Written() int64 {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return s.out.written
}
