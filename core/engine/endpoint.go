package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Endpoint is one protection domain with its memory and its receives, shared by its
// connections. It is safe for concurrent use.
type Endpoint struct {
	dom    verbs.Domain
	recv   verbs.RecvPool // nil: each connection posts its own
	shared sharedReceives // of recv
	size   int            // bytes of a receive, until extensions have it grow
	pool   memoryPool
	blames blameList
	own    *Group // of Dial and Accept

	once  sync.Once // of Close
	fault error     // its result

	mu sync.Mutex // guards what follows
	// registered is users' memory that is registered here.
	registered map[*transport.Memory]struct{}
	groups     map[*Group]struct{}
	closed     bool
}

// EndpointConfig bounds an endpoint.
type EndpointConfig struct {
	// Receives is the most that all connections together may have reserved; each takes its credits, its
	// backward credits, 6 more, and what its extensions' operations need. Default 131072; software providers make them resident
	// only when messages arrive. Where the device makes the keys 2048, which it has posted all the time. Negative: none are
	// shared, for an endpoint without connections.
	Receives int
	// Inline is the bytes of a receive: the largest Config.Inline of its connections. Default 4096.
	Inline int
	// MaxInline is how long an extension may have receives grow (ext.ReceiveSize), of all connections where they share
	// them. It grants no more than keeps the receives of all connections together within half of Memory, or of Receives
	// times Inline where that is more. Default, and at most, 262144.
	MaxInline int
	// Memory bounds the bytes of chunk memory. Default 1 GiB.
	Memory int
	// Beside, if not nil, is an endpoint whose bound on chunk memory counts for this one, too, in place of one of its own: for all of
	// them together, and for what one address has of all.
	Beside *Endpoint
}

// NewEndpoint makes an endpoint of dom and takes it over: Close closes dom as well.
func NewEndpoint(dom verbs.Domain, cfg EndpointConfig) (*Endpoint, error) {
	if cfg.Receives == 0 {
		cfg.Receives = 1 << 17
		if dom.Caps().Keys == verbs.KeysDevice {
			cfg.Receives = deviceReceives
		}
	}
	if cfg.Inline == 0 {
		cfg.Inline = 4096
	}
	if cfg.Memory == 0 {
		cfg.Memory = 1 << 30
	}
	if cfg.MaxInline == 0 {
		cfg.MaxInline = MaxSend
	}
	if cfg.MaxInline < 0 || cfg.MaxInline > MaxSend {
		return nil, &ConfigError{"max inline", "want at most 262144 (RFC 8797 §4.2)"}
	}
	e := &Endpoint{dom: dom, size: cfg.Inline, registered: make(map[*transport.Memory]struct{}), groups: make(map[*Group]struct{})}
	var budget *memoryBudget
	if cfg.Beside != nil {
		budget = cfg.Beside.pool.memoryBudget
	}
	e.pool.open(cfg.Memory, budget)
	e.shared = sharedReceives{
		limit: cfg.Receives, base: cfg.Inline, size: cfg.Inline, most: max(cfg.MaxInline, cfg.Inline), budget: max(cfg.Memory, cfg.Receives*cfg.Inline),
	}
	e.own = e.Group()
	if cfg.Receives < 0 {
		return e, nil
	}
	pool, err := dom.NewRecvPool(cfg.Receives, cfg.Inline)
	switch {
	case err == nil:
		e.recv, e.shared.pool = pool, pool
		e.shared.fixed = errors.Is(pool.Resize(cfg.Inline), errors.ErrUnsupported)
	case !errors.Is(err, errors.ErrUnsupported):
		e.pool.drain()
		return nil, fmt.Errorf("receive pool: %w", err)
	}
	return e, nil
}

// deviceReceives is the default of EndpointConfig.Receives where a device makes the keys: it has them posted all the time, in
// memory, and such an endpoint is for one peer. They are enough for 26 connections of 64 credits.
const deviceReceives = 1 << 11

// Caps are the domain's.
func (e *Endpoint) Caps() verbs.Caps { return e.dom.Caps() }

// Listen listens on the endpoint's fabric; Accept answers its requests.
func (e *Endpoint) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	return e.dom.Listen(ctx, addr, o)
}

// Close ends what is still connected, waits until nobody uses the memory any more, callers and
// handlers, and frees it. Not from within a handler.
func (e *Endpoint) Close() error {
	e.once.Do(func() { e.fault = e.close() })
	return e.fault
}

func (e *Endpoint) close() error {
	e.mu.Lock()
	e.closed = true
	registered := e.registered
	e.registered = nil
	groups := slices.Collect(maps.Keys(e.groups))
	e.mu.Unlock()

	for _, g := range groups {
		g.abort()
	}
	for _, g := range groups {
		g.wait()
	}
	for m := range registered {
		m.Unregister(e)
	}
	e.mustBeEmpty()
	e.pool.drain()
	var err error
	if e.recv != nil {
		err = e.recv.Close()
	}
	return errors.Join(err, e.dom.Close())
}
