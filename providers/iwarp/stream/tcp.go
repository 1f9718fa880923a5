package stream

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// TCP is the network of the operating system.
type TCP struct {
	NoDelay          bool
	SendBuf, RecvBuf int // bytes; 0 leaves the kernel's own tuning on
	// Thread makes the reader wait in the kernel, on its own thread, not in the runtime's poller. Only where
	// Threads is true.
	Thread bool
	// Spin is how long the reader polls before it waits, as long as that pays; at most MaxSpin.
	Spin time.Duration
}

// keepAlive finds out within half a minute that a peer has gone without a word, and within seconds that
// one is back and has forgotten us: a connection that waits for its answer to an RDMA Read holds memory
// and, while a server shuts down, everybody. A link that is out for 20 s is survived.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 3 * time.Second, Count: 8}

// Dial implements Network; names are resolved and their addresses tried as net.Dialer does.
func (t TCP) Dial(ctx context.Context, local, addr string) (Stream, error) {
	d := net.Dialer{Control: t.control, KeepAliveConfig: keepAlive}
	if local != "" {
		ip, err := netip.ParseAddr(local)
		if err != nil {
			return nil, err
		}
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0))
	}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, sameError(err)
	}
	return t.set(c)
}

// Listen implements Network.
func (t TCP) Listen(ctx context.Context, addr string, admit func(netip.Addr) bool) (Listener, error) {
	lc := net.ListenConfig{Control: t.control, KeepAliveConfig: keepAlive}
	lc.SetMultipathTCP(false) // Go's default for listeners; its sockets answer for no MSS
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, sameError(err)
	}
	return &tcpListener{t: t, l: l.(*net.TCPListener), admit: admit}, nil
}

// control sets buffers before the handshake, which fixes the window's scale.
func (t TCP) control(_, _ string, rc syscall.RawConn) error {
	if t.SendBuf == 0 && t.RecvBuf == 0 {
		return nil
	}
	var err error
	if e := rc.Control(func(fd uintptr) { err = setBuffers(fd, t.SendBuf, t.RecvBuf) }); e != nil {
		return e
	}
	return err
}

// set sets the connection's options and makes the system's Stream of it.
func (t TCP) set(nc net.Conn) (Stream, error) {
	c := nc.(*net.TCPConn)
	if !t.NoDelay { // Go sets it
		if err := c.SetNoDelay(false); err != nil {
			c.Close()
			return nil, err
		}
	}
	s, err := t.stream(c)
	if err != nil {
		c.Close()
		return nil, err
	}
	return s, nil
}

// anyMSS is what every network carries.
const anyMSS = 536

type tcpListener struct {
	t     TCP
	l     *net.TCPListener
	admit func(netip.Addr) bool // nil: all
}

func (l *tcpListener) Accept() (Stream, error) {
	c, err := l.l.AcceptTCP()
	for err == nil && l.admit != nil && !l.admit(addrPort(c.RemoteAddr()).Addr()) {
		_ = c.SetLinger(0) // a reset, which leaves nothing behind
		_ = c.Close()
		c, err = l.l.AcceptTCP()
	}
	if err != nil {
		return nil, err
	}
	s, err := l.t.set(c)
	if err != nil {
		return nil, fmt.Errorf("a connection from %v: %w", c.RemoteAddr(), err)
	}
	return s, nil
}

func (l *tcpListener) Addr() netip.AddrPort { return addrPort(l.l.Addr()) }
func (l *tcpListener) Close() error         { return l.l.Close() }

// addrPort gives IPv4 addresses their own form where the socket is a dual one.
func addrPort(a net.Addr) netip.AddrPort {
	ap := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
