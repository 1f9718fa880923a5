package iwarp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/providers/soft"
)

var errDomainClosed = fmt.Errorf("iwarp: domain closed: %w", net.ErrClosed)

// domain is a key table, registrations, and what belongs to them.
type domain struct {
	net   stream.Network
	local string // an address, or ""
	opt   options
	caps  verbs.Caps
	keys  soft.Keys
	mem   soft.Memory

	ctx    context.Context // ends with the domain
	cancel context.CancelCauseFunc
	gone   sync.WaitGroup // every goroutine of the domain

	mu        sync.Mutex // guards what follows
	closed    bool
	conns     map[*conn]struct{}
	listeners map[*listener]struct{}
	requests  map[*request]struct{} // in a user's hands, not answered
}

func newDomain(n stream.Network, local string, o options) *domain {
	d := &domain{
		net:       n,
		local:     local,
		opt:       o,
		caps:      o.caps(),
		keys:      soft.Keys{Provider: "iwarp"},
		mem:       soft.Memory{Provider: "iwarp", Closed: errDomainClosed},
		conns:     map[*conn]struct{}{},
		listeners: map[*listener]struct{}{},
		requests:  map[*request]struct{}{},
	}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	return d
}

// Caps implements verbs.Domain.
func (d *domain) Caps() verbs.Caps { return d.caps }

// Alloc implements verbs.Domain.
func (d *domain) Alloc(n int) (verbs.Region, error) { return d.mem.Alloc(n) }

// Register implements verbs.Domain.
func (d *domain) Register(mem []byte) (verbs.Region, error) { return d.mem.Register(mem) }

// NewRecvPool implements verbs.Domain.
func (d *domain) NewRecvPool(n, size int) (verbs.RecvPool, error) { return d.mem.NewRecvPool(n, size) }

// enter counts c and its two goroutines in; false: the domain is closed.
func (d *domain) enter(c *conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.conns[c] = struct{}{}
	d.gone.Add(2)
	return true
}

func (d *domain) leave(c *conn) {
	d.mu.Lock()
	delete(d.conns, c)
	d.mu.Unlock()
}

// begin counts in one goroutine of a set-up.
func (d *domain) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.gone.Add(1)
	}
	return !d.closed
}

// Close implements verbs.Domain. It is not for a Handler to call: it waits for Handlers.
func (d *domain) Close() error {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	conns := slices.Collect(maps.Keys(d.conns))
	requests := slices.Collect(maps.Keys(d.requests))
	listeners := slices.Collect(maps.Keys(d.listeners))
	d.mu.Unlock()

	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.shut())
	}
	for _, r := range requests {
		_ = r.Reject(nil)
	}
	d.cancel(errDomainClosed)
	for _, c := range conns {
		c.hurry()
	}
	d.gone.Wait()
	if !first {
		return nil
	}
	return errors.Join(append(errs, d.mem.Close())...) // each connection revoked its windows before it left
}
