package loopback

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
)

// names is what the process's loopback addresses lead to.
var names = registry{
	hosts:     map[string]netip.Addr{"localhost": netip.AddrFrom4([4]byte{127, 0, 0, 1})},
	listeners: map[netip.AddrPort]*listener{},
	port:      firstPort,
}

// Ports that are chosen, for listeners on port 0 and for diallers.
const (
	firstPort = 32768
	lastPort  = 65535
)

type registry struct {
	mu        sync.Mutex
	hosts     map[string]netip.Addr // names that were asked for, each with an address of its own
	listeners map[netip.AddrPort]*listener
	port      int // the one tried last
}

// host turns a numeric address or a name into an address.
func (r *registry) host(h string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(h); err == nil {
		return a.Unmap(), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.hosts[h]; ok {
		return a, nil
	}
	n := len(r.hosts)
	if n >= 1<<16 {
		return netip.Addr{}, errors.New("too many host names")
	}
	a := netip.AddrFrom4([4]byte{127, 64, byte(n >> 8), byte(n)})
	r.hosts[h] = a
	return a, nil
}

// split reads "host:port"; an empty host is own.
func (r *registry) split(addr string, own netip.Addr) (netip.AddrPort, error) {
	h, p, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("port %q: want a number up to 65535", p)
	}
	a := own
	if h != "" {
		if a, err = r.host(h); err != nil {
			return netip.AddrPort{}, err
		}
	}
	return netip.AddrPortFrom(a, uint16(port)), nil
}

// bind gives l its address; port 0 chooses one.
func (r *registry) bind(l *listener, at netip.AddrPort) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Port() == 0 {
		if at = r.pick(at.Addr()); at.Port() == 0 {
			return syscall.EADDRINUSE
		}
	}
	if r.listeners[at] != nil {
		return syscall.EADDRINUSE
	}
	l.addr = at
	r.listeners[at] = l
	return nil
}

func (r *registry) unbind(l *listener) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listeners[l.addr] == l {
		delete(r.listeners, l.addr)
	}
}

// find is the listener that a dialled address reaches: its own, else one on the
// unspecified address with that port.
func (r *registry) find(at netip.AddrPort) *listener {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.listeners[at]; l != nil {
		return l
	}
	if at.Addr().Is4() {
		if l := r.listeners[netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())]; l != nil {
			return l
		}
	}
	return r.listeners[netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())]
}

// dialler is a local address for a new connection.
func (r *registry) dialler(a netip.Addr) netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pick(a)
}

// pick is a port that nobody listens on; port 0 when there is none. mu is held.
func (r *registry) pick(a netip.Addr) netip.AddrPort {
	for range lastPort - firstPort + 1 {
		if r.port++; r.port > lastPort {
			r.port = firstPort
		}
		at := netip.AddrPortFrom(a, uint16(r.port))
		if r.listeners[at] == nil {
			return at
		}
	}
	return netip.AddrPortFrom(a, 0)
}
