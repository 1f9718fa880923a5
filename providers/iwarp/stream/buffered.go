package stream

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

const (
	// ringSize is what a buffered stream holds per direction.
	ringSize = 256 << 10
	// lingerTime is how long a closed stream may take to send what was written.
	lingerTime = 10 * time.Second
)

// buffered is a Stream for systems whose sockets cannot be read and written without waiting. Per
// direction it has a ring and a goroutine that waits at the socket; Readv and Writev copy. The goroutines end
// with Close or Reset; with output unsent, at most lingerTime after Close.
type buffered struct {
	conn          *net.TCPConn
	local, remote netip.AddrPort
	mss           int
	in, out       ring
}

var _ Stream = (*buffered)(nil)

// ring holds the bytes of one direction between the socket's goroutine and the stream's user: one of them
// fills, the other takes. What is free belongs to the filling side, which writes it without the mutex.
type ring struct {
	spin   spinner
	isOver func() bool

	mu       sync.Mutex // guards what follows
	changed  sync.Cond
	changes  int // counts what anybody may be waiting for
	buf      []byte
	from, n  int   // n bytes from there on, around the end
	err      error // reading: after the bytes; writing: at once
	done     bool  // writing: CloseWrite
	closed   bool  // by the stream's user
	deadline time.Time
	timer    *time.Timer
}

func newBuffered(c *net.TCPConn, mss int, spin time.Duration) *buffered {
	s := &buffered{conn: c, local: addrPort(c.LocalAddr()), remote: addrPort(c.RemoteAddr()), mss: mss}
	s.in.init()
	s.out.init()
	s.in.spin.limit = spin
	go s.receive()
	go s.transmit()
	return s
}

func (r *ring) init() {
	r.changed.L = &r.mu
	r.buf = make([]byte, ringSize)
	r.isOver = func() bool { return r.over() != nil }
}

// event wakes everybody who waits. mu is held.
func (r *ring) event() {
	r.changes++
	r.changed.Broadcast()
}

// over is why the stream's user may not go on, if so.
func (r *ring) over() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return net.ErrClosed
	case !r.deadline.IsZero() && !time.Now().Before(r.deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// wait calls try until it returns true.
func (r *ring) wait(try func() bool) error {
	for {
		r.mu.Lock()
		seen := r.changes
		r.mu.Unlock()
		if err := r.over(); err != nil {
			return err
		}
		if try() || r.spin.try(try, r.isOver) {
			return nil
		}
		r.mu.Lock()
		for r.changes == seen {
			r.changed.Wait()
		}
		r.mu.Unlock()
	}
}

func (r *ring) setDeadline(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	r.deadline = t
	if !t.IsZero() && !r.closed {
		r.timer = time.AfterFunc(time.Until(t), func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.event()
		})
	}
	r.event()
}

// close ends what the stream's user does; n is how many bytes are left. drop drops them.
func (r *ring) close(drop bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	r.closed = true
	if drop {
		r.n = 0
	}
	r.event()
	return r.n
}

// free is the free bytes up to the buffer's end, filled the bytes that are there up to it. mu is held.
func (r *ring) free() []byte {
	at := (r.from + r.n) % len(r.buf)
	return r.buf[at:min(len(r.buf), at+len(r.buf)-r.n)]
}

func (r *ring) filled() []byte { return r.buf[r.from:min(len(r.buf), r.from+r.n)] }

// take removes n bytes. mu is held.
func (r *ring) take(n int) {
	r.from = (r.from + n) % len(r.buf)
	r.n -= n
}

// receive fills the ring of input until the input ends.
func (s *buffered) receive() {
	r := &s.in
	for {
		r.mu.Lock()
		for r.n == len(r.buf) && !r.closed {
			r.changed.Wait()
		}
		if r.closed {
			r.mu.Unlock()
			return
		}
		b := r.free()
		r.mu.Unlock()
		n, err := s.conn.Read(b)
		r.mu.Lock()
		r.n += n
		if err != nil {
			r.err = sameError(err)
		}
		r.event()
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// transmit writes what the ring of output holds until the stream is closed, and closes the connection.
func (s *buffered) transmit() {
	defer s.conn.Close()
	r := &s.out
	for ended := false; ; {
		r.mu.Lock()
		for r.n == 0 && !r.closed && (!r.done || ended) {
			r.changed.Wait()
		}
		b, closed := r.filled(), r.closed
		r.mu.Unlock()
		switch {
		case len(b) > 0:
			n, err := s.conn.Write(b)
			r.mu.Lock()
			r.take(min(n, r.n)) // Reset may have dropped them
			if err != nil {
				r.err, r.n, ended = sameError(err), 0, true
			}
			r.event()
			r.mu.Unlock()
		case closed:
			return
		default:
			ended = true
			_ = s.conn.CloseWrite() // fails if the connection has ended, which Read reports
		}
	}
}

func (s *buffered) Read(try func() bool) error  { return s.in.wait(try) }
func (s *buffered) Write(try func() bool) error { return s.out.wait(try) }

func (s *buffered) Readv(v [][]byte) (int, error) {
	r := &s.in
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := 0
	for _, b := range v {
		for len(b) > 0 && r.n > 0 {
			n := copy(b, r.filled())
			r.take(n)
			b = b[n:]
			sum += n
		}
	}
	switch {
	case sum > 0:
		r.event()
		return sum, nil
	case r.err != nil:
		return 0, r.err
	}
	return 0, ErrAgain
}

func (s *buffered) Writev(v [][]byte) (int, error) {
	r := &s.out
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return 0, r.err
	case r.closed || r.done:
		return 0, net.ErrClosed
	}
	sum, left := 0, 0
	for _, b := range v {
		for len(b) > 0 && r.n < len(r.buf) {
			n := copy(r.free(), b)
			r.n += n
			b = b[n:]
			sum += n
		}
		left += len(b)
	}
	if sum == 0 && left > 0 {
		return 0, ErrAgain
	}
	r.event()
	return sum, nil
}

func (s *buffered) SetReadDeadline(t time.Time) error  { s.in.setDeadline(t); return nil }
func (s *buffered) SetWriteDeadline(t time.Time) error { s.out.setDeadline(t); return nil }

// CloseWrite implements Stream.
func (s *buffered) CloseWrite() error {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	s.out.done = true
	s.out.event()
	return nil
}

// Close implements Stream. As TCP does, it resets the peer if input lies unread.
func (s *buffered) Close() error {
	if s.in.close(false) > 0 {
		return s.Reset()
	}
	if s.out.close(false) == 0 {
		return s.conn.Close()
	}
	return s.conn.SetDeadline(time.Now().Add(lingerTime))
}

// Reset implements Stream.
func (s *buffered) Reset() error {
	s.in.close(true)
	s.out.close(true)
	_ = s.conn.SetLinger(0) // an error says that it is closed already
	return s.conn.Close()
}

func (s *buffered) LocalAddr() netip.AddrPort  { return s.local }
func (s *buffered) RemoteAddr() netip.AddrPort { return s.remote }
func (s *buffered) MSS() int                   { return s.mss }
