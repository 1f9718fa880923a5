package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/fair"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Endpoints are protection domains, with their memory and receives, that clients have in common: clients whose provider,
// local address, provider's options and limits (WithInline, WithMaxInline) are the same share one. It is opened for the first of
// them that connects and closed with the last; what is bounded for an endpoint is bounded for all of them together, and one
// that finds nothing left gets an error that says so: *engine.ReceivesError, or one that matches transport.ErrNoMemory.
//
// Where a device makes the keys (verbs.KeysDevice) a domain is shared only by connections to the same peer, and is closed
// when the last of them ends.
//
// The clients of a process share the same Endpoints unless WithEndpoints says otherwise. Endpoints of their own are for clients
// that must not share limits with others, and for those in a testing/synctest bubble while other clients of the same provider,
// address and options are outside of it: an endpoint belongs to the bubble in which its first client connected.
type Endpoints struct {
	mu  sync.Mutex // guards what follows, and domains.users
	all map[domainsKey]*domains
}

// NewEndpoints makes Endpoints for WithEndpoints. They need not be closed.
func NewEndpoints() *Endpoints { return &Endpoints{all: make(map[domainsKey]*domains)} }

var processEndpoints = NewEndpoints()

// WithEndpoints sets with which clients protection domains are shared. Default: with all of the process.
func WithEndpoints(e *Endpoints) ClientOption {
	return clientOption(func(o *clientOptions) error {
		if o.endpoints = e; e == nil {
			return isNil("WithEndpoints", "what NewEndpoints returns")
		}
		return nil
	})
}

// maxPeerDomains is how many protection domains a device is asked for, where each peer has its own. Each has receives of its own,
// which a device holds posted.
const maxPeerDomains = 128

// WithPeerDomains bounds the protection domains of a listener whose device makes the keys, to 1 or more: each address that
// has connections needs one, at each of our addresses that it dials. Default 128. Elsewhere it means nothing.
func WithPeerDomains(n int) ListenOption {
	return listenOption(func(o *listenOptions) error {
		o.peerDomains = n
		return atLeast("WithPeerDomains", n, 1)
	})
}

// PeerDomainsError is a peer for which no protection domain is left: other peers have as many as there may be.
type PeerDomainsError struct {
	Peer netip.Addr // as fair.PeerKey has it
	Most int
}

func (e *PeerDomainsError) Error() string {
	return fmt.Sprintf("no protection domain is left for %v: %d other peers have one each, which is the limit", e.Peer, e.Most)
}

// domainsKey is what clients must have in common to share.
type domainsKey struct {
	provider verbs.Provider
	rest     string
}

// join counts one more user of the domains of a route.
func (e *Endpoints) join(r *Route, memory engine.EndpointConfig) (domainsKey, *domains) {
	key := domainsKey{r.Provider, fmt.Sprintf("%q %q %+v", r.Local, r.Options, memory)} // fmt sorts maps
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.all[key]
	if d == nil {
		d = newDomains(r, memory, maxPeerDomains)
		e.all[key] = d
	}
	d.users++
	return key, d
}

// leave is the end of a user, who holds nothing of them any more.
func (e *Endpoints) leave(key domainsKey, d *domains) error {
	e.mu.Lock()
	d.users--
	last := d.users == 0
	if last {
		delete(e.all, key)
	}
	e.mu.Unlock()
	if last {
		return d.shut()
	}
	return nil
}

// domains are the protection domains of one provider, local address, options and limits: one for all peers where keys are
// random, one for each peer where a device makes them.
type domains struct {
	open   func(context.Context, place) (verbs.Domain, error)
	memory engine.EndpointConfig
	most   int // where each peer has its own
	users  int // guarded by Endpoints.mu

	turn  chan struct{} // held while a domain is opened; guards kind and spare
	kind  verbs.KeyKind // 0: not known yet
	spare verbs.Domain  // opened to learn kind, and not used yet

	mu      sync.Mutex // guards what follows
	byPeer  map[place]*commonEndpoint
	closing int // that are no longer in byPeer and not closed yet
}

// place is whom a domain serves: zero, all peers.
type place struct {
	peer  netip.Addr
	local netip.Addr // opened at, of a listener's several adapters; invalid: where the route is
}

type commonEndpoint struct {
	ep    *engine.Endpoint
	holds int
}

func newDomains(r *Route, memory engine.EndpointConfig, most int) *domains {
	own := *r
	return &domains{
		open: func(ctx context.Context, at place) (verbs.Domain, error) {
			local := own.Local
			if at.local.IsValid() {
				local = at.local.Unmap().String()
			}
			return own.Provider.Open(ctx, local, own.Options)
		},
		memory: memory, most: most, turn: make(chan struct{}, 1), byPeer: make(map[place]*commonEndpoint),
	}
}

// take waits for the turn to open a domain.
func (d *domains) take(ctx context.Context) (give func(), err error) {
	select {
	case d.turn <- struct{}{}:
		return func() { <-d.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// keys is the kind of keys there are: a domain shows it.
func (d *domains) keys(ctx context.Context) (verbs.KeyKind, error) {
	give, err := d.take(ctx)
	if err != nil {
		return 0, err
	}
	defer give()
	if d.kind == 0 {
		if d.spare, err = d.open(ctx, place{}); err != nil {
			return 0, err
		}
		d.kind = d.spare.Caps().Keys
	}
	return d.kind, nil
}

// hold is a group of an endpoint that stays open until release.
type hold struct {
	*engine.Group
	of    *domains
	place place
	at    *commonEndpoint
}

// hold makes a group of the endpoint of a place.
func (d *domains) hold(ctx context.Context, at place) (*hold, error) {
	give, err := d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer give()
	d.mu.Lock()
	c, n := d.byPeer[at], len(d.byPeer)+d.closing
	if c != nil {
		c.holds++
	}
	d.mu.Unlock()
	if c == nil {
		if at.peer.IsValid() && n >= d.most {
			return nil, &PeerDomainsError{at.peer, d.most}
		}
		if c, err = d.endpoint(ctx, at); err != nil {
			return nil, err
		}
		d.mu.Lock()
		d.byPeer[at] = c
		d.mu.Unlock()
	}
	return &hold{c.ep.Group(), d, at, c}, nil
}

// endpoint opens a domain and makes an endpoint of it. The turn is the caller's.
func (d *domains) endpoint(ctx context.Context, at place) (*commonEndpoint, error) {
	dom := d.spare
	if d.spare = nil; dom == nil {
		var err error
		if dom, err = d.open(ctx, at); err != nil {
			return nil, err
		}
	}
	ep, err := engine.NewEndpoint(dom, d.memory)
	if err != nil {
		dom.Close()
		return nil, err
	}
	return &commonEndpoint{ep, 1}, nil
}

// release ends the group, and the endpoint if it was the last.
func (h *hold) release() error {
	h.Group.Close()
	d := h.of
	d.mu.Lock()
	h.at.holds--
	last := h.at.holds == 0
	if last {
		h.unlist()
	}
	d.mu.Unlock()
	if !last {
		return nil
	}
	err := h.at.ep.Close()
	d.mu.Lock()
	d.closing--
	d.mu.Unlock()
	return err
}

// unlist takes the endpoint out of byPeer, so that the next hold opens another. d.mu is the caller's.
func (h *hold) unlist() {
	if h.of.byPeer[h.place] == h.at {
		delete(h.of.byPeer, h.place)
		h.of.closing++
	}
}

// lost takes the endpoint out of use if err reports that its device is gone: those that hold it keep it until they release it.
func (h *hold) lost(err error) bool {
	gone := errors.Is(err, verbs.ErrUnavailable) || errors.Is(err, errnoNoDevice)
	if gone {
		h.of.mu.Lock()
		h.unlist()
		h.of.mu.Unlock()
	}
	return gone
}

// shut closes what was opened and never used. Nobody holds anything, or will.
func (d *domains) shut() error {
	if d.spare == nil {
		return nil
	}
	return d.spare.Close()
}

// holder owns holds: a client's, or a listener's. Its zero value is ready.
type holder struct {
	busy connGroup // who makes a hold, or waits for the end of its connection

	mu     sync.Mutex // guards what follows
	closed bool
	holds  map[*hold]struct{}
	life   context.Context         // of what begin begins; made by the first
	end    context.CancelCauseFunc // ends life: close
}

// begin keeps close waiting until done is called, and makes a context that close ends with ErrClosed: what another
// user of the same domains waits for must not keep close waiting.
func (k *holder) begin(ctx context.Context) (setup context.Context, done func(), err error) {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil, nil, ErrClosed
	}
	k.busy.add()
	if k.life == nil {
		k.life, k.end = context.WithCancelCause(context.Background())
	}
	life := k.life
	k.mu.Unlock()
	setup, unlink := joined(ctx, life)
	return setup, func() {
		unlink()
		k.busy.done()
	}, nil
}

// joined is a context that ends with ctx, or with life and its cause.
func joined(ctx, life context.Context) (both context.Context, unlink func()) {
	both, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return both, func() {
		stop()
		cancel(nil)
	}
}

// take makes a hold, between begin and done.
func (k *holder) take(ctx context.Context, d *domains, at place) (*hold, error) {
	h, err := d.hold(ctx, at)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	closed := k.closed
	if !closed {
		if k.holds == nil {
			k.holds = make(map[*hold]struct{})
		}
		k.holds[h] = struct{}{}
	}
	k.mu.Unlock()
	if closed {
		h.release()
		return nil, ErrClosed
	}
	return h, nil
}

func (k *holder) drop(h *hold) error {
	k.mu.Lock()
	delete(k.holds, h)
	k.mu.Unlock()
	return h.release()
}

// retire drops h, which keeps close waiting: in a goroutine, because the end of a group waits for handlers, and one of those
// may be what connects. Between begin and done.
func (k *holder) retire(h *hold) {
	k.busy.add()
	go func() {
		defer k.busy.done()
		k.drop(h)
	}()
}

// until drops h when its only connection has ended, which keeps close waiting.
func (k *holder) until(c *engine.Conn, h *hold) {
	k.busy.add() // between begin and done
	go func() {
		defer k.busy.done()
		<-c.Done()
		k.drop(h)
	}()
}

// close ends what is under way and every connection of the holds, waits for those that were dropped with their connection, and returns the others.
func (k *holder) close() []*hold {
	k.mu.Lock()
	k.closed = true
	if k.end != nil {
		k.end(ErrClosed)
	}
	holds := make([]*hold, 0, len(k.holds))
	for h := range k.holds {
		holds = append(holds, h)
	}
	k.mu.Unlock()
	for _, h := range holds {
		h.Group.Close()
	}
	k.busy.wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	left := make([]*hold, 0, len(k.holds))
	for h := range k.holds {
		left = append(left, h)
	}
	return left
}

// rdmaDomains are what a client uses of its Endpoints.
type rdmaDomains struct {
	shared *Endpoints
	holder holder

	mu     sync.Mutex // guards what follows
	joined map[domainsKey]*domains
	common map[*domains]*hold // until close, where one domain is for all peers
}

// use joins the domains of a route, once.
func (u *rdmaDomains) use(r *Route, memory engine.EndpointConfig) *domains {
	key, d := u.shared.join(r, memory)
	u.mu.Lock()
	old := u.joined[key]
	if old == nil {
		if u.joined == nil {
			u.joined, u.common = make(map[domainsKey]*domains), make(map[*domains]*hold)
		}
		u.joined[key] = d
	}
	u.mu.Unlock()
	if old != nil {
		u.shared.leave(key, d) // it is never the last
	}
	return d
}

// connect connects to a route's address, in the domain that is for it.
func (u *rdmaDomains) connect(ctx context.Context, r *Route, memory engine.EndpointConfig, cfg engine.Config) (*engine.Conn, error) {
	ctx, done, err := u.holder.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	d := u.use(r, memory)
	kind, err := d.keys(ctx)
	if err != nil {
		return nil, err
	}
	if kind == verbs.KeysDevice {
		return u.dialPeer(ctx, d, r.Address, cfg)
	}
	u.mu.Lock()
	h := u.common[d]
	u.mu.Unlock()
	if h == nil {
		if h, err = u.holder.take(ctx, d, place{}); err != nil {
			return nil, err
		}
		u.mu.Lock()
		had := u.common[d]
		if had == nil {
			u.common[d] = h
		}
		u.mu.Unlock()
		if had != nil {
			u.holder.drop(h)
			h = had
		}
	}
	c, err := h.Dial(ctx, r.Address, cfg)
	if err != nil && h.lost(err) {
		u.mu.Lock()
		mine := u.common[d] == h
		if mine {
			delete(u.common, d)
		}
		u.mu.Unlock()
		if mine {
			u.holder.retire(h)
		}
	}
	return c, err
}

// dialPeer connects to one of the addresses that a name has, in that peer's own domain, which the connection holds.
func (u *rdmaDomains) dialPeer(ctx context.Context, d *domains, address string, cfg engine.Config) (*engine.Conn, error) {
	peers, err := resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	return firstOf(ctx, peers, func(peer netip.AddrPort) (*engine.Conn, error) {
		h, err := u.holder.take(ctx, d, place{peer: fair.PeerKey(peer.Addr())})
		if err != nil {
			return nil, err
		}
		c, err := h.Dial(ctx, peer.String(), cfg)
		if err != nil {
			h.lost(err)
			u.holder.drop(h)
			return nil, err
		}
		u.holder.until(c, h)
		return c, nil
	})
}

// firstOf dials the addresses in turn until one answers, if only by a rejection or too late: that is the error then. Where none
// does, the error joins those of all.
func firstOf(ctx context.Context, peers []netip.AddrPort, dial func(netip.AddrPort) (*engine.Conn, error)) (*engine.Conn, error) {
	var errs []error
	for _, peer := range peers {
		c, err := dial(peer)
		if err == nil {
			return c, nil
		}
		var full *PeerDomainsError
		if !impassable(err) && !errors.As(err, &full) {
			return nil, err
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// maxAddresses is how many addresses of a name are tried.
const maxAddresses = 8

// resolve is the addresses of "host:port".
func resolve(ctx context.Context, address string) ([]netip.AddrPort, error) {
	if a, err := netip.ParseAddrPort(address); err == nil {
		return []netip.AddrPort{a}, nil
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var all []netip.AddrPort
	for _, a := range addrs[:min(len(addrs), maxAddresses)] {
		all = append(all, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	return all, nil
}

// close ends what is left of the client's connections, waits for their callers, and gives the domains back.
func (u *rdmaDomains) close() error {
	var errs []error
	for _, h := range u.holder.close() {
		errs = append(errs, u.holder.drop(h))
	}
	u.mu.Lock()
	joined := u.joined
	u.joined = nil
	u.mu.Unlock()
	for key, d := range joined {
		errs = append(errs, u.shared.leave(key, d))
	}
	return errors.Join(errs...)
}
