package rpc

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/fair"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// RPC-over-RDMA as a transport: what follows is all that this package knows of package engine.

// rdmaOptions are those that only RPC-over-RDMA has, and those that it shares with tcp.
type rdmaOptions struct {
	engine engine.Config
	memory engine.EndpointConfig
}

const (
	maxSend    = engine.MaxSend
	maxCredits = engine.MaxCredits
)

// settle checks what no option can check for itself, and connects what belongs together.
func (o *rdmaOptions) settle(log *slog.Logger) error {
	if o.engine.Inline != 0 {
		o.memory.Inline = o.engine.Inline
	}
	o.engine.Panicked = func(e *engine.PanicError) {
		log.Error("extension panicked", "extension", e.Extension, "connection", e.Conn, "panic", e.Value, "stack", string(e.Stack))
	}
	err := o.engine.Check()
	var bad *engine.ConfigError
	if name := ""; errors.As(err, &bad) {
		switch bad.Field {
		case "inline":
			name = "WithInline"
		case "versions":
			name = "WithVersions"
		default:
			return err
		}
		return &OptionError{Option: name, Want: bad.Want, Err: err}
	}
	return err
}

// versions remembers, for all clients of the process, which servers know only version 1.
var versions engine.VersionCache

// dial connects by r; s takes the server's calls.
func (u *rdmaDomains) dial(ctx context.Context, r *Route, o *rdmaOptions, s transport.Service, xids func() uint32) (transport.Link, error) {
	cfg := o.engine
	cfg.NextXID, cfg.Versions, cfg.Peer = xids, &versions, r.Scheme+"://"+r.Address
	serveBy(&cfg, s)
	conn, err := u.connect(ctx, r, o.memory, cfg)
	if err != nil {
		return nil, err // a nil *Conn must not become a Link
	}
	return conn, nil
}

// serveBy lets s take the peer's calls.
func serveBy(cfg *engine.Config, s transport.Service) {
	cfg.Serve, cfg.Busy = s.Serve, s.Busy
	cfg.Closed = func(c *engine.Conn, err error) {
		if s.Ended != nil {
			s.Ended(c, err)
		}
		if s.Over != nil { // receives are given back behind the last handler; what else is held, endpoints bound
			s.Over(c)
		}
	}
}

// rdmaListener is a transport.Listener.
type rdmaListener struct {
	ep     *engine.Endpoint // that listens, and has the connections where keys are random
	on     verbs.Listener
	cfg    engine.Config
	local  string   // the route's
	peers  *domains // where a device makes the keys: each peer's connections; else nil
	holder holder   // of peers
}

func listenRDMA(ctx context.Context, r *Route, o *listenOptions, admit func(netip.Addr) bool) (transport.Listener, error) {
	dom, err := r.Provider.Open(ctx, r.Local, r.Options)
	if err != nil {
		return nil, err
	}
	l, memory := &rdmaListener{cfg: o.engine, local: r.Local}, o.memory
	device := dom.Caps().Keys == verbs.KeysDevice
	if device {
		memory.Receives = -1 // it has no connections
	}
	if l.ep, err = engine.NewEndpoint(dom, memory); err != nil {
		dom.Close()
		return nil, err
	}
	if device {
		memory = o.memory
		memory.Beside = l.ep
		l.peers = newDomains(r, memory, o.peerDomains)
	}
	if l.on, err = l.ep.Listen(ctx, r.Address, verbs.ListenOptions{Backlog: o.backlog, Admit: admit}); err != nil {
		l.ep.Close()
		return nil, err
	}
	return l, nil
}

// Addr implements transport.Listener.
func (l *rdmaListener) Addr() netip.AddrPort { return l.on.Addr() }

// Stop implements transport.Listener.
func (l *rdmaListener) Stop() error { return l.on.Close() }

// Close implements transport.Listener.
func (l *rdmaListener) Close() error {
	errs := []error{l.on.Close()}
	for _, h := range l.holder.close() {
		errs = append(errs, l.holder.drop(h))
	}
	return errors.Join(append(errs, l.ep.Close())...)
}

// Accept implements transport.Listener.
func (l *rdmaListener) Accept(ctx context.Context) (transport.Incoming, error) {
	req, err := l.on.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &rdmaIncoming{req, l}, nil
}

type rdmaIncoming struct {
	verbs.Request
	l *rdmaListener
}

// Accept implements transport.Incoming.
func (in *rdmaIncoming) Accept(ctx context.Context, s transport.Service) (transport.Conn, error) {
	cfg := in.l.cfg
	serveBy(&cfg, s)
	accept := in.l.ep.Accept
	if in.l.peers != nil {
		accept = in.l.acceptPeer
	}
	conn, err := accept(ctx, in.Request, cfg)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// acceptPeer accepts into the peer's own domain, which the connection holds.
func (l *rdmaListener) acceptPeer(ctx context.Context, req verbs.Request, cfg engine.Config) (*engine.Conn, error) {
	ctx, done, err := l.holder.begin(ctx)
	if err != nil {
		req.Reject(nil)
		return nil, err
	}
	defer done()
	at := place{peer: fair.PeerKey(req.RemoteAddr().Addr())}
	if local := req.LocalAddr().Addr(); l.local == "" && !local.IsUnspecified() {
		at.local = local
	}
	h, err := l.holder.take(ctx, l.peers, at)
	if err != nil {
		req.Reject(nil)
		return nil, err
	}
	c, err := h.Accept(ctx, l.ep, req, cfg)
	if err != nil {
		h.lost(err)
		l.holder.drop(h)
		return nil, err
	}
	l.holder.until(c, h)
	return c, nil
}

// Reject implements transport.Incoming.
func (in *rdmaIncoming) Reject() { in.Request.Reject(nil) }
