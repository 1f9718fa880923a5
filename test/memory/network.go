package memory

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
)

// Network joins dialling to listening by port number; host names mean nothing. The zero
// value is a network without delay.
type Network struct {
	Buffer  int           // bytes under way in each direction; 0: 64 KiB
	Delay   time.Duration // from write to read
	Segment int           // what MSS says; 0: 1448
	// Made, if not nil, is called with each new pair before the dialler has it.
	Made func(dialled, accepted *Stream)

	mu        sync.Mutex
	listeners map[uint16]*listener
	port      uint16
}

var _ stream.Network = (*Network)(nil)

// Pair is a connected pair of streams.
func (n *Network) Pair() (dialled, accepted *Stream) {
	n.mu.Lock()
	at := netip.AddrPortFrom(localhost, n.ephemeral())
	n.mu.Unlock()
	return n.pair(at, netip.AddrPortFrom(localhost, 1))
}

var localhost = netip.AddrFrom4([4]byte{127, 0, 0, 1})

func (n *Network) pair(local, remote netip.AddrPort) (*Stream, *Stream) {
	there, back := n.direction(), n.direction()
	a := &Stream{net: n, in: back, out: there, local: local, remote: remote}
	b := &Stream{net: n, in: there, out: back, local: remote, remote: local}
	if n.Made != nil {
		n.Made(a, b)
	}
	return a, b
}

// ephemeral gives an unused port. mu is held.
func (n *Network) ephemeral() uint16 {
	for {
		if n.port++; n.port < 1024 {
			n.port = 1024
		}
		if n.listeners[n.port] == nil {
			return n.port
		}
	}
}

// Dial implements stream.Network. local, if not empty, is the address that the dialler claims.
func (n *Network) Dial(ctx context.Context, local, addr string) (stream.Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	from := localhost
	if local != "" {
		var err error
		if from, err = netip.ParseAddr(local); err != nil {
			return nil, fmt.Errorf("dial %s: %w", addr, err)
		}
	}
	port, err := portOf(addr)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[port]
	if l == nil {
		return nil, fmt.Errorf("dial %s: %w", addr, syscall.ECONNREFUSED)
	}
	a, b := n.pair(netip.AddrPortFrom(from, n.ephemeral()), l.at)
	l.push(b)
	return a, nil
}

// Listen implements stream.Network.
func (n *Network) Listen(_ context.Context, addr string, admit func(netip.Addr) bool) (stream.Listener, error) {
	port, err := portOf(addr)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if port == 0 {
		port = n.ephemeral()
	}
	if n.listeners[port] != nil {
		return nil, fmt.Errorf("listen %s: %w", addr, syscall.EADDRINUSE)
	}
	l := &listener{net: n, at: netip.AddrPortFrom(localhost, port), admit: admit}
	l.wake.L = &l.mu
	if n.listeners == nil {
		n.listeners = map[uint16]*listener{}
	}
	n.listeners[port] = l
	return l, nil
}

func portOf(addr string) (uint16, error) {
	_, service, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	port, err := net.LookupPort("tcp", service)
	return uint16(port), err
}

type listener struct {
	net   *Network
	at    netip.AddrPort
	admit func(netip.Addr) bool // nil: all

	mu     sync.Mutex
	wake   sync.Cond
	queue  []*Stream
	closed bool
}

func (l *listener) push(s *Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, s)
	l.wake.Signal()
}

func (l *listener) Accept() (stream.Stream, error) {
	s, err := l.next()
	for err == nil && l.admit != nil && !l.admit(s.RemoteAddr().Addr()) {
		_ = s.Reset()
		s, err = l.next()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (l *listener) next() (*Stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.wake.Wait()
	}
	if l.closed {
		return nil, fmt.Errorf("accept: %w", net.ErrClosed)
	}
	s := l.queue[0]
	l.queue = l.queue[1:]
	return s, nil
}

func (l *listener) Addr() netip.AddrPort { return l.at }

func (l *listener) Close() error {
	l.net.mu.Lock()
	delete(l.net.listeners, l.at.Port())
	l.net.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake.Broadcast()
	for _, s := range l.queue {
		s.Reset()
	}
	l.queue = nil
	return nil
}
