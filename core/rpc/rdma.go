package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/engine"
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

// rdmaDomains are the protection domains of a client's connections. The zero value is ready.
type rdmaDomains struct {
	mu     sync.Mutex                  // guards what follows
	eps    map[string]*engine.Endpoint // by the routes that they are for: see endpointKey
	closed bool
}

// dial connects by r; s takes the server's calls.
func (d *rdmaDomains) dial(ctx context.Context, r *Route, o *rdmaOptions, s transport.Service, xids func() uint32) (transport.Link, error) {
	ep, err := d.endpoint(ctx, r, o.memory)
	if err != nil {
		return nil, err
	}
	cfg := o.engine
	cfg.NextXID, cfg.Versions, cfg.Peer = xids, &versions, r.Scheme+"://"+r.Address
	serveBy(&cfg, s)
	conn, err := ep.Dial(ctx, r.Address, cfg)
	if err != nil {
		return nil, err // a nil *Conn must not become a Link
	}
	return conn, nil
}

// endpoint opens the protection domain of a route on its first use. It stays until close.
func (d *rdmaDomains) endpoint(ctx context.Context, r *Route, cfg engine.EndpointConfig) (*engine.Endpoint, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	key := endpointKey(r, cfg)
	if ep := d.eps[key]; ep != nil {
		return ep, nil
	}
	ep, err := openEndpoint(ctx, r, cfg)
	if err != nil {
		return nil, err
	}
	if d.eps == nil {
		d.eps = make(map[string]*engine.Endpoint)
	}
	d.eps[key] = ep
	return ep, nil
}

// endpointKey tells apart the routes of a client that need protection domains of their own.
func endpointKey(r *Route, cfg engine.EndpointConfig) string {
	return fmt.Sprintf("%q %q %q %+v", r.Scheme, r.Local, r.Options, cfg) // fmt sorts maps
}

func (d *rdmaDomains) close() error {
	d.mu.Lock()
	d.closed = true
	eps := d.eps
	d.mu.Unlock()
	var errs []error
	for _, ep := range eps {
		errs = append(errs, ep.Close())
	}
	return errors.Join(errs...)
}

func openEndpoint(ctx context.Context, r *Route, cfg engine.EndpointConfig) (*engine.Endpoint, error) {
	dom, err := r.Provider.Open(ctx, r.Local, r.Options)
	if err != nil {
		return nil, err
	}
	ep, err := engine.NewEndpoint(dom, cfg)
	if err != nil {
		dom.Close()
		return nil, err
	}
	return ep, nil
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

// rdmaListener is a transport.Listener of one endpoint.
type rdmaListener struct {
	ep  *engine.Endpoint
	on  verbs.Listener
	cfg engine.Config
}

func listenRDMA(ctx context.Context, r *Route, o *listenOptions, admit func(netip.Addr) bool) (transport.Listener, error) {
	ep, err := openEndpoint(ctx, r, o.memory)
	if err != nil {
		return nil, err
	}
	on, err := ep.Listen(ctx, r.Address, verbs.ListenOptions{Backlog: o.backlog, Admit: admit})
	if err != nil {
		ep.Close()
		return nil, err
	}
	return &rdmaListener{ep, on, o.engine}, nil
}

// Addr implements transport.Listener.
func (l *rdmaListener) Addr() netip.AddrPort { return l.on.Addr() }

// Stop implements transport.Listener.
func (l *rdmaListener) Stop() error { return l.on.Close() }

// Close implements transport.Listener.
func (l *rdmaListener) Close() error { return errors.Join(l.on.Close(), l.ep.Close()) }

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
	conn, err := in.l.ep.Accept(ctx, in.Request, cfg)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// Reject implements transport.Incoming.
func (in *rdmaIncoming) Reject() { in.Request.Reject(nil) }
