package qp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft"
)

// Config is what a provider knows when a domain is opened.
type Config struct {
	Provider string // its name, which begins the text of every error
	Caps     verbs.Caps
	// Setup is the set-up time-out: how long a peer may take over its request, and a request may wait for
	// its answer. It must be above 0.
	Setup time.Duration
	// Linger is how long Close waits for what was posted to leave; below 0: as long as it takes.
	Linger time.Duration
}

// Domain is one protection domain: memory, keys, connections and listeners. A provider's domain embeds it and adds
// Dial and Listen.
type Domain struct {
	Keys soft.Keys
	Mem  soft.Memory

	config Config
	ctx    context.Context // ends with the domain
	cancel context.CancelCauseFunc
	gone   sync.WaitGroup // every goroutine of the domain, and every connection from Begin until Bury has returned

	errDomainClosed, errListenerClosed, errAnswered           error
	errClosed, errPeerClosed, errAborted, errPooled, errNotUp error

	mu        sync.Mutex // guards what follows
	closed    bool
	conns     map[*Life]struct{}
	listeners map[*Backlog]struct{}
	requests  map[*Request]struct{} // in a user's hands, not answered
}

// Init makes d an open domain.
func (d *Domain) Init(c Config) {
	closed := func(text string) error { return fmt.Errorf("%s: %s: %w", c.Provider, text, net.ErrClosed) }
	d.config = c
	d.errDomainClosed, d.errListenerClosed = closed("domain closed"), closed("listener closed")
	d.errClosed, d.errPeerClosed = closed("connection closed"), closed("connection closed by the peer")
	d.errAborted = closed("connection aborted")
	d.errAnswered = errors.New(c.Provider + ": the request has been answered, or was given up")
	d.errPooled = fmt.Errorf("%s: PostRecv on a connection with a receive pool: %w", c.Provider, verbs.ErrBadWork)
	d.errNotUp = errors.New(c.Provider + ": Post before the connection is up")
	d.Keys.Provider, d.Mem.Provider, d.Mem.Closed = c.Provider, c.Provider, d.errDomainClosed
	d.conns, d.listeners, d.requests = map[*Life]struct{}{}, map[*Backlog]struct{}{}, map[*Request]struct{}{}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
}

// Caps is verbs.Domain's, as all that follows.
func (d *Domain) Caps() verbs.Caps                                { return d.config.Caps }
func (d *Domain) Alloc(n int) (verbs.Region, error)               { return d.Mem.Alloc(n) }
func (d *Domain) Register(mem []byte) (verbs.Region, error)       { return d.Mem.Register(mem) }
func (d *Domain) NewRecvPool(n, size int) (verbs.RecvPool, error) { return d.Mem.NewRecvPool(n, size) }

// Config is what Init was given.
func (d *Domain) Config() *Config { return &d.config }

// Context ends with the domain; its cause is an error that wraps net.ErrClosed.
func (d *Domain) Context() context.Context { return d.ctx }

// Go runs f on a goroutine that Close waits for. The error says that the domain is closed.
func (d *Domain) Go(f func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return d.errDomainClosed
	}
	d.gone.Go(f)
	return nil
}

// enter counts a connection and its goroutines in, and starts them; false: the domain is closed. The connection counts
// until leave, so that Close waits for Disconnected also where the connection has no goroutine of its own.
func (d *Domain) enter(l *Life, run []func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.conns[l] = struct{}{}
	d.gone.Add(1)
	for _, f := range run {
		d.gone.Go(f)
	}
	return true
}

func (d *Domain) leave(l *Life) {
	d.mu.Lock()
	delete(d.conns, l)
	d.mu.Unlock()
	d.gone.Done()
}

// Close is verbs.Domain's. It is not for a Handler to call: it waits for Handlers.
func (d *Domain) Close() error {
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
	d.cancel(d.errDomainClosed)
	for _, c := range conns {
		c.Abort(d.errDomainClosed)
	}
	d.gone.Wait()
	if !first {
		return nil
	}
	return errors.Join(append(errs, d.Mem.Close())...) // each connection has revoked its windows
}
