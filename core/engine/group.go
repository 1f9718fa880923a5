package engine

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Group is connections of an endpoint that end together: those of one of the clients that share it. Its Close neither
// ends nor waits for anything of another group. It is safe for concurrent use.
type Group struct {
	ep    *Endpoint
	users users           // who use memory for its connections
	life  context.Context // of set-ups
	end   context.CancelFunc
	once  sync.Once // of Close

	mu     sync.Mutex // guards what follows
	conns  map[*Conn]struct{}
	every  []*Conn // with -tags invariants
	closed bool
}

// Group makes a group of e. After e's Close it has no connections and makes none.
func (e *Endpoint) Group() *Group {
	g := &Group{ep: e, conns: make(map[*Conn]struct{})}
	g.users.empty = make(chan struct{}, 1)
	g.life, g.end = context.WithCancel(context.Background())
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.groups[g] = struct{}{}
	}
	e.mu.Unlock()
	if closed {
		g.Close()
	}
	return g
}

// Close ends the group's connections and the dials and accepts under way, and waits until nobody uses memory for them any
// more, callers and handlers. Not from within a handler.
func (g *Group) Close() {
	g.abort()
	g.wait()
	g.ep.mu.Lock()
	delete(g.ep.groups, g)
	g.ep.mu.Unlock()
}

// abort ends what is under way.
func (g *Group) abort() {
	g.mu.Lock()
	g.closed = true
	conns := slices.Collect(maps.Keys(g.conns))
	g.mu.Unlock()
	g.end()
	for _, c := range conns {
		c.Abort(errEndpointClosed)
	}
}

// wait returns when all of it is over, after abort.
func (g *Group) wait() {
	g.mu.Lock()
	conns := slices.Collect(maps.Keys(g.conns))
	g.mu.Unlock()
	for _, c := range conns {
		<-c.gone
	}
	g.once.Do(g.users.close)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.every {
		c.mustBeEmpty()
	}
	g.every = nil
}

// settingUp keeps Close waiting until end is called, and makes a context that it ends.
func (g *Group) settingUp(ctx context.Context) (setup context.Context, end func(), err error) {
	if !g.users.enter() {
		return nil, nil, errEndpointClosed
	}
	setup, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.life, func() { cancel(errEndpointClosed) })
	return setup, func() {
		stop()
		cancel(nil)
		g.users.leave()
	}, nil
}

// adopt lets Close end c and wait for it; where that has begun, c ends here.
func (g *Group) adopt(c *Conn) {
	g.mu.Lock()
	closed := g.closed
	if invariants {
		g.every = append(g.every, c)
	}
	if !closed && !c.ended() {
		g.conns[c] = struct{}{}
	}
	g.mu.Unlock()
	if closed {
		c.Abort(errEndpointClosed)
		<-c.gone
	}
}

func (g *Group) disown(c *Conn) {
	g.mu.Lock()
	delete(g.conns, c)
	g.mu.Unlock()
}

var errEndpointClosed = fmt.Errorf("endpoint closed: %w", net.ErrClosed)

// Dial connects to addr, in the group of those that have no other.
func (e *Endpoint) Dial(ctx context.Context, addr string, cfg Config) (*Conn, error) {
	return e.own.Dial(ctx, addr, cfg)
}

// Accept answers a request of a listener of e, in the group of those that have no other.
func (e *Endpoint) Accept(ctx context.Context, r verbs.Request, cfg Config) (*Conn, error) {
	return e.own.Accept(ctx, e, r, cfg)
}
