package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/fair"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/transport"
)

// Listener is a bound address, for Server.Serve.
type Listener struct {
	taken  TakenRoute
	on     transport.Listener
	once   sync.Once
	admits admission
}

// Listen binds target, "iwarp://0.0.0.0:20049", "tcp://127.0.0.1:0"; port 0 chooses one. An option that
// cannot be used is an *OptionError. An address that several fabrics have is an error: see ListenAll.
func Listen(ctx context.Context, target string, opts ...ListenOption) (*Listener, error) {
	t, o, groups, err := listenRoutes(ctx, target, opts)
	if err != nil {
		return nil, err
	}
	if len(groups) > 1 {
		return nil, &NoRouteError{Op: opListen, Target: t, Err: fmt.Errorf("%d fabrics have this address, and one was expected (ListenAll binds all of them): %s", len(groups), firsts(groups))}
	}
	return listenGroup(ctx, t, o, groups[0])
}

// ListenAll binds target on every fabric that has its address, as "rdma://0.0.0.0:20049" may be with a Resolver that reads a
// configuration: one listener for each. It binds all or none. The options count for each of the listeners, limits too.
func ListenAll(ctx context.Context, target string, opts ...ListenOption) ([]*Listener, error) {
	t, o, groups, err := listenRoutes(ctx, target, opts)
	if err != nil {
		return nil, err
	}
	var ls []*Listener
	for _, g := range groups {
		l, err := listenGroup(ctx, t, o, g)
		if err != nil {
			for _, l := range ls {
				l.Close()
			}
			return nil, err
		}
		ls = append(ls, l)
	}
	return ls, nil
}

func listenRoutes(ctx context.Context, target string, opts []ListenOption) (t Target, o listenOptions, groups [][]Route, err error) {
	if t, err = ParseTarget(target); err != nil {
		return
	}
	if o, err = newListenOptions(opts); err != nil {
		return
	}
	if err = o.resolver.Check(t); err != nil {
		return
	}
	groups, err = o.resolver.ListenRoutes(ctx, t)
	if err != nil || len(groups) == 0 {
		err = &NoRouteError{Op: opListen, Target: t, Err: err}
	}
	return
}

// firsts names each group by its first route.
func firsts(groups [][]Route) string {
	var names []string
	for _, g := range groups {
		if len(g) > 0 {
			names = append(names, g[0].String())
		}
	}
	return strings.Join(names, ", ")
}

// listenGroup binds by the first route of a fabric that can be bound.
func listenGroup(ctx context.Context, t Target, o listenOptions, routes []Route) (*Listener, error) {
	var l *Listener
	taken, err := follow(ctx, opListen, t, &o.connOptions, routes, func(r *Route) (err error) {
		l, err = listenRoute(ctx, o, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.taken = taken
	return l, nil
}

func listenRoute(ctx context.Context, o listenOptions, r *Route) (*Listener, error) {
	var err error
	if o.connOptions, err = o.with(r.Settings); err != nil {
		return nil, err
	}
	l := new(Listener)
	l.admits.admit, l.admits.recorder = o.admit, o.engine.Recorder
	l.admits.quota = fair.Quota{Limit: o.connsMax, PerPeer: o.connsPeer}
	bind := listenRDMA
	if r.Provider == nil {
		bind = listenTCP
	}
	if l.on, err = bind(ctx, r, &o, l.admits.door()); err != nil {
		return nil, err
	}
	return l, nil
}

// Addr is the address that was bound.
func (l *Listener) Addr() netip.AddrPort { return l.on.Addr() }

// URL is the address as a target of the route's scheme, with the port that was bound.
func (l *Listener) URL() string { return l.taken.Route.Scheme + "://" + l.Addr().String() }

// Route is the route by which the address was bound.
func (l *Listener) Route() TakenRoute { return l.taken }

// Refused is how many connections were refused because WithAdmit did not admit them or a limit on connections was reached.
func (l *Listener) Refused() uint64 { return l.admits.refused.Load() }

// stop ends Accept; connections go on.
func (l *Listener) stop() { l.on.Stop() }

// Close stops listening and ends the connections that came in by l. It waits for handlers: not from within one.
func (l *Listener) Close() error {
	var err error
	l.once.Do(func() { err = l.on.Close() })
	return err
}

// acceptPause is how long a listener that cannot take a connection now, as for want of files, waits before it looks again.
const acceptPause = 100 * time.Millisecond

// serve takes connections until the listener stops, and waits for them to end once the
// server closes. life ends later than they.
func (l *Listener) serve(ctx, life context.Context, s *Server) error {
	var setups sync.WaitGroup
	defer setups.Wait()
	var up connGroup
	defer func() {
		if ctx.Err() != nil {
			l.Close() // ends the connections
		}
		up.wait()
	}()
	for {
		in, err := l.on.Accept(context.WithoutCancel(ctx))
		switch {
		case err == nil:
			setups.Go(func() { l.accept(ctx, life, s, in, &up) })
		case errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, transport.ErrAcceptLater):
			s.complaints.warn("connection not accepted", "error", err)
			time.Sleep(acceptPause)
		default:
			return err
		}
	}
}

// accept sets one connection up.
func (l *Listener) accept(ctx, life context.Context, s *Server, in transport.Incoming, up *connGroup) {
	peer := in.RemoteAddr()
	if err := l.admits.enter(peer.Addr()); err != nil {
		s.complaints.warn("connection not accepted", "peer", peer, "error", err)
		in.Reject()
		return
	}
	if !s.settingUp() {
		in.Reject()
		l.admits.leave(peer.Addr())
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	line := s.workers.open(peer.Addr(), l.admits.recorder)
	over := make(chan struct{})
	up.add()
	conn, err := in.Accept(ctx, transport.Service{
		Serve:  func(r *transport.Request) { s.dispatch(r, ctx, life, line, false) },
		Busy:   s.workers.busy,
		Unsent: &s.unsent,
		Ended: func(_ transport.Conn, err error) {
			if err != nil && !errors.Is(err, ErrClosed) {
				s.complaints.warn("connection ended", "peer", peer, "error", err)
			}
			cancel()
		},
		Over: func(c transport.Conn) {
			s.workers.leave(line)
			l.admits.leave(peer.Addr())
			close(over)
			s.ended(c)
			up.done()
		},
	})
	if err != nil {
		l.admits.turnedAway(obs.RefusedSetup)
		s.complaints.warn("connection not accepted", "peer", peer, "error", err)
		cancel()
		s.workers.leave(line)
		l.admits.leave(peer.Addr())
		up.done()
		s.accepted(nil)
		return
	}
	s.accepted(conn)
	select {
	case <-over: // before it was counted in
		s.ended(conn)
	default:
	}
}

// connGroup waits for connections; unlike a WaitGroup it may be added to while it is waited for.
type connGroup struct {
	mu sync.Mutex
	n  int
	ch chan struct{}
}

func (g *connGroup) add() {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
}

func (g *connGroup) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.ch != nil {
		close(g.ch)
		g.ch = nil
	}
}

func (g *connGroup) wait() {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return
	}
	if g.ch == nil {
		g.ch = make(chan struct{})
	}
	ch := g.ch
	g.mu.Unlock()
	<-ch
}
