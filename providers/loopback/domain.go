package loopback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft"
)

// domain is one protection domain.
type domain struct {
	caps  verbs.Caps
	setup time.Duration // bound on a set-up, and on an unanswered request
	local netip.Addr    // invalid: chosen per connection
	keys  soft.Keys
	mem   soft.Memory

	done    chan struct{}  // closed by Close
	readers sync.WaitGroup // resident readers: one per connection that came up

	mu        sync.Mutex // guards what follows; taken after a conn's mu, never before
	closed    bool
	conns     map[*conn]struct{}
	listeners map[*listener]struct{}
}

var (
	errDomainClosed = fmt.Errorf("loopback: the domain is closed: %w", net.ErrClosed)
	errForeign      = errors.New("loopback: not a receive pool of this domain")
)

func newDomain(caps verbs.Caps, setup time.Duration) *domain {
	return &domain{
		caps:      caps,
		keys:      soft.Keys{Provider: "loopback"},
		mem:       soft.Memory{Provider: "loopback", Closed: errDomainClosed},
		setup:     setup,
		done:      make(chan struct{}),
		conns:     map[*conn]struct{}{},
		listeners: map[*listener]struct{}{},
	}
}

func (d *domain) Caps() verbs.Caps { return d.caps }

func (d *domain) Alloc(n int) (verbs.Region, error)               { return d.mem.Alloc(n) }
func (d *domain) Register(mem []byte) (verbs.Region, error)       { return d.mem.Register(mem) }
func (d *domain) NewRecvPool(n, size int) (verbs.RecvPool, error) { return d.mem.NewRecvPool(n, size) }

// from is the local address of what this domain binds, in the family of to.
func (d *domain) from(to netip.Addr) netip.Addr {
	switch {
	case d.local.IsValid():
		return d.local
	case to.Is6():
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// enter counts c's resident reader in; false: the domain is closed.
func (d *domain) enter(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.conns[c] = struct{}{}
	d.readers.Add(1)
	return true
}

func (d *domain) leave(c *conn) {
	d.mu.Lock()
	delete(d.conns, c)
	d.mu.Unlock()
	d.readers.Done()
}

func (d *domain) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, err := names.split(addr, d.from(netip.Addr{}))
	if err != nil {
		return nil, fmt.Errorf("loopback: listen %s: %w", addr, err)
	}
	l := newListener(d, o)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errDomainClosed
	}
	if err := names.bind(l, at); err != nil {
		return nil, fmt.Errorf("loopback: listen %s: %w", addr, err)
	}
	d.listeners[l] = struct{}{}
	return l, nil
}

// Close is not for a Handler to call: it waits for Handlers.
func (d *domain) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		d.readers.Wait()
		return nil
	}
	d.closed = true
	close(d.done)
	conns := make([]*conn, 0, len(d.conns))
	for c := range d.conns {
		conns = append(conns, c)
	}
	listeners := make([]*listener, 0, len(d.listeners))
	for l := range d.listeners {
		listeners = append(listeners, l)
	}
	d.mu.Unlock()

	for _, l := range listeners {
		l.Close()
	}
	for _, c := range conns {
		c.Abort(errDomainClosed)
	}
	d.readers.Wait() // each revoked its windows before it left: no peer reaches the memory now
	return d.mem.Close()
}
