//go:build unix

package stream

import (
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tcpStream talks to the socket by readv and writev. The callbacks that the poller
// calls are bound once, in init; fd is theirs, while they run.
type tcpStream struct {
	*net.TCPConn
	rc            syscall.RawConn
	local, remote netip.AddrPort
	in, out       side

	spin   spinner
	late   atomic.Bool // the read deadline has passed since it was set: no use in polling
	isLate func() bool
	thread *thread // nil: who reads waits in the runtime's poller
}

// side is one direction.
type side struct {
	fd  uintptr
	try func() bool
	run func(fd uintptr) bool
	vec vector
}

func (t TCP) stream(c *net.TCPConn) (Stream, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &tcpStream{TCPConn: c, rc: rc, local: addrPort(c.LocalAddr()), remote: addrPort(c.RemoteAddr())}
	s.spin.limit = t.Spin
	if t.Thread {
		if s.thread, err = newThread(); err != nil {
			return nil, err
		}
	}
	s.init()
	return s, nil
}

// sameError is err as other systems report it.
func sameError(err error) error { return err }

func (s *tcpStream) init() {
	s.in.bind()
	s.out.bind()
	s.isLate = s.late.Load
	switch poller := s.in.run; {
	case s.thread != nil:
		s.in.run = func(fd uintptr) bool {
			if s.thread.err = s.thread.over(); s.thread.err == nil && !poller(fd) && !s.spin.try(s.in.try, s.isLate) {
				s.thread.run(fd, s.in.try)
			}
			return true
		}
	case s.spin.limit > 0:
		s.in.run = func(fd uintptr) bool { return poller(fd) || s.spin.try(s.in.try, s.isLate) }
	}
}

func (d *side) bind() {
	d.run = func(fd uintptr) bool {
		d.fd = fd
		return d.try()
	}
}

func (s *tcpStream) Read(try func() bool) error {
	s.in.try = try
	if s.thread == nil {
		return s.rc.Read(s.in.run)
	}
	s.thread.err = nil
	if err := s.rc.Read(s.in.run); err != nil {
		return err
	}
	return s.thread.err
}

// SetReadDeadline implements Stream.
func (s *tcpStream) SetReadDeadline(t time.Time) error {
	s.late.Store(!t.IsZero() && !t.After(time.Now()))
	if s.thread != nil {
		s.thread.until(t)
		return nil
	}
	return s.TCPConn.SetReadDeadline(t)
}

// Close implements Stream.
func (s *tcpStream) Close() error {
	if s.thread == nil {
		return s.TCPConn.Close()
	}
	s.thread.end()
	err := s.TCPConn.Close() // it waits for who reads
	s.thread.close()
	return err
}

func (s *tcpStream) Write(try func() bool) error {
	s.out.try = try
	return s.rc.Write(s.out.run)
}

func (s *tcpStream) Readv(v [][]byte) (int, error) {
	n, err := s.in.vec.read(s.in.fd, v)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

func (s *tcpStream) Writev(v [][]byte) (int, error) { return s.out.vec.write(s.out.fd, v) }

func (s *tcpStream) LocalAddr() netip.AddrPort  { return s.local }
func (s *tcpStream) RemoteAddr() netip.AddrPort { return s.remote }

// Reset drops what was not sent and answers the peer with RST.
func (s *tcpStream) Reset() error {
	_ = s.SetLinger(0) // an error says that it is closed already
	return s.Close()
}

// MSS asks the kernel; without an answer it is what every network carries.
func (s *tcpStream) MSS() int {
	mss := anyMSS
	_ = s.rc.Control(func(fd uintptr) {
		if n, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG); err == nil {
			mss = n
		}
	})
	return mss
}

func setBuffers(fd uintptr, send, recv int) error {
	if send > 0 {
		if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, send); err != nil {
			return err
		}
	}
	if recv > 0 {
		return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, recv)
	}
	return nil
}
