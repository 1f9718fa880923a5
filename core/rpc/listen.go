package rpc

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/fair"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Listener is a bound address, for Server.Serve.
type Listener struct {
	target Target
	opts   listenOptions
	ep     *engine.Endpoint // nil: tcp
	rdma   verbs.Listener
	tcp    net.Listener
	once   sync.Once
	admits admission
}

// Listen binds target, "iwarp://0.0.0.0:20049", "tcp://127.0.0.1:0"; port 0 chooses one. An option that
// cannot be used is an *OptionError.
func Listen(ctx context.Context, target string, opts ...ListenOption) (*Listener, error) {
	t, err := ParseTarget(target)
	if err != nil {
		return nil, err
	}
	o, err := newListenOptions(opts)
	if err != nil {
		return nil, err
	}
	l := &Listener{target: t, opts: o}
	l.admits.admit = o.admit
	l.admits.quota = fair.Quota{Limit: o.connsMax, PerPeer: o.connsPeer}
	if t.Scheme == "tcp" {
		var lc net.ListenConfig
		l.tcp, err = lc.Listen(ctx, "tcp", t.Address)
		if door := l.admits.door(); err == nil && door != nil {
			l.tcp = guarded{l.tcp.(*net.TCPListener), door}
		}
		return l, err
	}
	if l.ep, err = openEndpoint(ctx, t, o.memory); err != nil {
		return nil, err
	}
	if l.rdma, err = l.ep.Listen(ctx, t.Address, verbs.ListenOptions{Backlog: o.backlog, Admit: l.admits.door()}); err != nil {
		l.ep.Close()
		return nil, err
	}
	return l, nil
}

// Addr is the address that was bound.
func (l *Listener) Addr() netip.AddrPort {
	if l.tcp != nil {
		return l.tcp.Addr().(*net.TCPAddr).AddrPort()
	}
	return l.rdma.Addr()
}

// URL is the address as a target, with the port that was bound.
func (l *Listener) URL() string { return l.target.Scheme + "://" + l.Addr().String() }

// Refused is how many connections were refused because WithAdmit did not admit them or a limit on connections was reached.
func (l *Listener) Refused() uint64 { return l.admits.refused.Load() }

// stop ends Accept; connections go on.
func (l *Listener) stop() {
	if l.tcp != nil {
		l.tcp.Close()
	} else {
		l.rdma.Close()
	}
}

// Close stops listening and ends the connections that came in by l.
func (l *Listener) Close() error {
	var err error
	l.once.Do(func() {
		l.stop()
		if l.ep != nil {
			err = l.ep.Close()
		}
	})
	return err
}

// serve takes connections until the listener stops, and waits for them to end once the
// server closes. life ends later than they.
func (l *Listener) serve(ctx, life context.Context, s *Server) error {
	if l.tcp != nil {
		return l.serveTCP(ctx, life, s)
	}
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
		req, err := l.rdma.Accept(context.WithoutCancel(ctx))
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		setups.Go(func() { l.accept(ctx, life, s, req, &up) })
	}
}

// accept sets one connection up.
func (l *Listener) accept(ctx, life context.Context, s *Server, req verbs.Request, up *connGroup) {
	peer := req.RemoteAddr()
	if err := l.admits.enter(peer.Addr()); err != nil {
		s.complaints.warn("connection not accepted", "peer", peer, "error", err)
		req.Reject(nil)
		return
	}
	if !s.settingUp() {
		req.Reject(nil)
		l.admits.leave(peer.Addr())
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cfg := l.opts.engine
	line := s.workers.open(peer.Addr())
	cfg.Serve = func(er *engine.Request) { s.dispatch(er, ctx, life, line, false) }
	cfg.Busy = s.workers.busy
	up.add()
	cfg.Closed = func(c *engine.Conn, err error) {
		if err != nil {
			s.complaints.warn("connection ended", "peer", peer, "error", err)
		}
		cancel()
		s.workers.leave(line)
		l.admits.leave(peer.Addr())
		s.ended(c)
		up.done()
	}
	conn, err := l.ep.Accept(ctx, req, cfg)
	if err != nil {
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
	case <-conn.Done(): // it ended before it was counted in
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
