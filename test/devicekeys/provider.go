package devicekeys

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/fair"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/loopback"
)

// Provider is the device. Make one with Register.
type Provider struct {
	verbs.Provider
	Scheme string

	mu      sync.Mutex // guards what follows
	domains []*Domain  // that are open
	opened  int
	locals  []string // by which they were opened
	mixed   error    // a domain has served two peers
}

var schemes struct {
	sync.Mutex
	n int
}

// Register makes a provider with a scheme of its own.
func Register() *Provider {
	schemes.Lock()
	defer schemes.Unlock()
	schemes.n++
	p := &Provider{Provider: loopback.Provider{}, Scheme: fmt.Sprintf("devicekeys%d", schemes.n)}
	verbs.Register(p.Scheme, p)
	return p
}

// Name implements verbs.Provider.
func (p *Provider) Name() string { return p.Scheme }

// Open implements verbs.Provider.
func (p *Provider) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	inner, err := p.Provider.Open(ctx, local, options)
	if err != nil {
		return nil, err
	}
	d := &Domain{Domain: inner, p: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locals = append(p.locals, local)
	p.domains = append(p.domains, d)
	p.opened++
	return d, nil
}

// Domains is how many domains are open, and how many were opened.
func (p *Provider) Domains() (open, opened int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.domains), p.opened
}

// Locals returns the local address or device that each domain was opened with, in order.
func (p *Provider) Locals() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.locals)
}

// Mixed is not nil when a domain has served two peers.
func (p *Provider) Mixed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mixed
}

// Domain is one of the device's protection domains.
type Domain struct {
	verbs.Domain
	p    *Provider
	peer netip.Addr // guarded by p.mu
}

// Caps implements verbs.Domain.
func (d *Domain) Caps() verbs.Caps {
	c := d.Domain.Caps()
	c.Keys = verbs.KeysDevice
	return c
}

// Dial implements verbs.Domain.
func (d *Domain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("devicekeys: the peer is to be known by its address: %w", err)
	}
	d.serves(at.Addr())
	return d.Domain.Dial(ctx, addr, o)
}

// Listen implements verbs.Domain.
func (d *Domain) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	l, err := d.Domain.Listen(ctx, addr, o)
	if err != nil {
		return nil, err
	}
	return &listener{l, d}, nil
}

// Close implements verbs.Domain.
func (d *Domain) Close() error {
	err := d.Domain.Close()
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	d.p.domains = slices.DeleteFunc(d.p.domains, func(o *Domain) bool { return o == d })
	return err
}

// serves notes a peer.
func (d *Domain) serves(peer netip.Addr) {
	peer = fair.PeerKey(peer)
	d.p.mu.Lock()
	defer d.p.mu.Unlock()
	if d.peer.IsValid() && d.peer != peer && d.p.mixed == nil {
		d.p.mixed = fmt.Errorf("a domain has served %v and %v", d.peer, peer)
	}
	d.peer = peer
}

type listener struct {
	verbs.Listener
	d *Domain
}

func (l *listener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &request{r, l.d}, nil
}

type request struct {
	verbs.Request
	d *Domain
}

// Accept implements verbs.Request.
func (r *request) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	into := r.d
	if o.Domain != nil {
		var ok bool
		if into, ok = o.Domain.(*Domain); !ok {
			r.Reject(nil)
			return nil, verbs.ErrForeignDomain
		}
	}
	o.Domain = into.Domain
	into.serves(r.RemoteAddr().Addr())
	return r.Request.Accept(ctx, o)
}
