package tcp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/watch"
)

// Listener is a bound address. It implements transport.Listener.
type Listener struct {
	l   *net.TCPListener
	cfg Config

	mu     sync.Mutex // guards what follows
	conns  map[*conn]struct{}
	closed bool
	up     sync.WaitGroup // conns, to the end of their goroutines
}

// Listen binds addr, host:port; port 0 chooses one.
func Listen(ctx context.Context, addr string, cfg Config) (*Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Listener{l: l.(*net.TCPListener), cfg: cfg.withDefaults(watch.DefaultServerIdle), conns: make(map[*conn]struct{})}, nil
}

// Addr implements transport.Listener.
func (l *Listener) Addr() netip.AddrPort { return addrPort(l.l.Addr()) }

// Accept implements transport.Listener. Only Stop ends it.
func (l *Listener) Accept(context.Context) (transport.Incoming, error) {
	nc, err := l.l.AcceptTCP()
	for err == nil && l.cfg.Admit != nil && !l.cfg.Admit(addrPort(nc.RemoteAddr()).Addr().Unmap()) {
		nc.SetLinger(0) // a reset, which leaves nothing behind
		nc.Close()
		nc, err = l.l.AcceptTCP()
	}
	switch {
	case err == nil:
		return &incoming{l, nc}, nil
	case isAny(err, acceptLater):
		return nil, fmt.Errorf("%w: %w", transport.ErrAcceptLater, err)
	}
	return nil, err
}

// Stop implements transport.Listener.
func (l *Listener) Stop() error { return l.l.Close() }

// Close implements transport.Listener. Not from within a handler.
func (l *Listener) Close() error {
	err := l.Stop()
	l.mu.Lock()
	l.closed = true
	for c := range l.conns {
		c.conn.Close()
	}
	l.mu.Unlock()
	l.up.Wait()
	return err
}

// incoming is a connection that has been accepted by the system already.
type incoming struct {
	l  *Listener
	nc net.Conn
}

// RemoteAddr implements transport.Incoming.
func (in *incoming) RemoteAddr() netip.AddrPort { return addrPort(in.nc.RemoteAddr()) }

// Reject implements transport.Incoming.
func (in *incoming) Reject() { in.nc.Close() }

// Accept implements transport.Incoming.
func (in *incoming) Accept(_ context.Context, s transport.Service) (transport.Conn, error) {
	c := newConn(in.l, in.nc, s)
	in.l.mu.Lock()
	defer in.l.mu.Unlock()
	if in.l.closed {
		in.nc.Close()
		return nil, net.ErrClosed
	}
	in.l.conns[c] = struct{}{}
	in.l.up.Go(c.run)
	return c, nil
}
