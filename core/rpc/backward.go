package rpc

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// WithPrograms serves the programs of srv to the server, on the client's connections: the server
// calls back through a Backchannel (RFC 8167). Tell the server that it may, by a call of your program's, once
// the client has this option: it cannot find out by itself. Several clients may share srv.
//
// Not over tcp: NewClient refuses it.
//
// srv's workers run every procedure, Inline ones too: the goroutine that reads a client's connection may be that
// of a caller. Its interceptors and its reply cache count as on a listener. A handler's context ends with
// the connection (for a procedure that is not Idempotent: with the client or srv). Client.Close waits for
// handlers; srv.Close ends what is being served, and leaves the client's connections alone.
//
// A handler may call the server in turn. It then wants a credit, which the call that made the server call back
// may hold: both ends wait for their deadline. Not if each of the two has a connection or a goroutine of its own.
func WithPrograms(srv *Server) ClientOption {
	return clientOption(func(o *clientOptions) error {
		o.programs = srv
		if srv == nil {
			return isNil("WithPrograms", "a server")
		}
		return nil
	})
}

// WithBackwardCredits sets the calls in flight per connection from a server to its client, 0 to 16384: granted by a client
// with WithPrograms, requested by a listener. Each end keeps so many receives more. Default 8; 0: none, then a client
// drops what comes, and a Backchannel's calls end with *transport.BackwardError.
func WithBackwardCredits(n int) ConnOption {
	return connOption(func(o *connOptions) error {
		if o.engine.Backward = n; n == 0 {
			o.engine.Backward = -1
		}
		return between("WithBackwardCredits", n, 0, maxCredits)
	})
}

// WithBackwardChunks lets backward calls have chunks in version 2, both ways: a client takes them, a listener sends
// them to all its clients (v2 draft §5.2.2, level GENL); each program must know that of the other end. Without
// it, and in version 1, a call or reply that does not fit inline is an error.
func WithBackwardChunks() ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.BackwardLevel = transport.BackwardGeneral
		return nil
	})
}

// Peer is the caller at the other end of a server's connection, for Backchannel.Bind. It outlives the request that
// it was taken from. Peers of one connection are equal.
type Peer struct{ conn transport.Conn }

// Peer is who made the request.
func (r *Request) Peer() Peer { return Peer{r.from.Conn()} }

// RemoteAddr is the peer's address.
func (p Peer) RemoteAddr() netip.AddrPort { return p.conn.RemoteAddr() }

// Done is closed when the connection has ended.
func (p Peer) Done() <-chan struct{} { return p.conn.Done() }

// Conn is the connection. One of RPC-over-RDMA is a transport.Backlink: its SetBackward changes what the client is taken for.
func (p Peer) Conn() transport.Conn { return p.conn }

func ended(c transport.Backlink) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

// Backchannel calls one client from its server, by the connections which that client makes (RFC 8167); the client
// serves the calls by WithPrograms. It is safe for many goroutines, and has none of its own.
//
// Which connections are the same client's, and that it takes such calls, only the program knows: it says so by
// Bind, in a procedure by which clients ask for it. A server must not call a client that has not asked
// (RFC 8167 §6).
type Backchannel struct {
	client *Client // encodes, decodes, intercepts; never connects
	life   context.Context
	end    context.CancelFunc

	mu    sync.Mutex           // guards what follows
	links []transport.Backlink // the newest last
	bound chan struct{}        // closed by the next Bind
}

// ErrBackward: this connection carries no backward calls: it is one of tcp, or we are its client.
var ErrBackward = errors.New("rpc: the peer's connection carries no backward calls")

var errUnbound = errors.New("the client has no connection now")

// backwardXIDs are shared: several Backchannels may use one connection.
var backwardXIDs = transport.NewXIDs()

// NewBackchannel makes a Backchannel without a client. What concerns connections are the listener's options,
// WithCallTimeout included. An option that cannot be used is an *OptionError.
func NewBackchannel(opts ...BackchannelOption) (*Backchannel, error) {
	o, err := newBackchannelOptions(opts)
	if err != nil {
		return nil, err
	}
	b := &Backchannel{bound: make(chan struct{})}
	b.life, b.end = context.WithCancel(context.Background())
	b.client = &Client{target: Target{Scheme: "backward"}, opts: clientOptions{callerOptions: o}, xids: backwardXIDs, via: b.send}
	return b, nil
}

// Bind adds a connection of the client's. Calls go out on the newest that is up; those that wait for
// one go at once. The connection then does not end for being idle, unless the listener has WithIdleTimeout.
func (b *Backchannel) Bind(p Peer) error {
	link, ok := p.conn.(transport.Backlink)
	if !ok || link.Client() {
		return ErrBackward
	}
	link.KeepOpen()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links = slices.DeleteFunc(b.links, func(old transport.Backlink) bool { return old == link || ended(old) })
	b.links = append(b.links, link)
	close(b.bound)
	b.bound = make(chan struct{})
	return nil
}

// Call calls proc at the client, as Client.Call does at a server. Only the client can make a connection: where
// none is up, or one is lost before the reply, Call waits for the next Bind, until ctx ends, and sends the
// call with the same XID (RFC 8167 §5.4); after the last of WithRetransmits, or at once where that is
// negative, it ends with *transport.LostError. *transport.BackwardError, and a *chunk.PlanError where the
// call does not fit inline and must, tell that nothing was sent.
func (b *Backchannel) Call(ctx context.Context, proc *Proc, args xdr.Marshaler, results xdr.Unmarshaler, opts ...CallOption) error {
	if b.life.Err() != nil {
		return ErrClosed
	}
	ctx, stop := b.until(ctx)
	defer stop()
	return b.client.Call(ctx, proc, args, results, opts...)
}

// until is ctx that ends with b as well.
func (b *Backchannel) until(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(b.life, func() { cancel(ErrClosed) })
	return ctx, func() {
		unhook()
		cancel(nil)
	}
}

// Close ends the calls in flight with ErrClosed, and leaves the connections alone.
func (b *Backchannel) Close() error {
	b.end()
	return nil
}

func (b *Backchannel) send(ctx context.Context, inv *invocation, call *transport.Call) error {
	retries := b.client.opts.retries
	for tries := 0; ; tries++ {
		l, err := b.next(ctx, retries >= 0)
		if err != nil {
			return err
		}
		err = l.Do(ctx, call)
		var lost *transport.LostError
		if err == nil || !errors.As(err, &lost) || tries >= retries {
			return err
		}
		b.unbind(l) // never again on the connection that carried it (RFC 8166 §3.3.1)
		if err := b.client.resign(inv, call); err != nil {
			return err
		}
	}
}

// next is the newest connection that is up.
func (b *Backchannel) next(ctx context.Context, wait bool) (transport.Backlink, error) {
	for {
		b.mu.Lock()
		b.links = slices.DeleteFunc(b.links, ended)
		n, bound := len(b.links), b.bound
		var l transport.Backlink
		if n > 0 {
			l = b.links[n-1]
		}
		b.mu.Unlock()
		switch {
		case n > 0:
			return l, nil
		case !wait:
			return nil, &transport.LostError{Err: errUnbound}
		}
		select {
		case <-bound:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (b *Backchannel) unbind(l transport.Backlink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links = slices.DeleteFunc(b.links, func(old transport.Backlink) bool { return old == l })
}

// service serves a server's calls on a client's connections.
type service struct {
	srv  *Server
	life context.Context // ends with the client or srv
	die  context.CancelFunc
}

func newService(srv *Server) *service {
	if srv == nil {
		return nil
	}
	s := &service{srv: srv}
	life, die := context.WithCancel(context.Background())
	stop := context.AfterFunc(srv.life, die)
	s.life, s.die = life, func() { stop(); die() }
	return s
}

// servedConn is a client's connection as the server of its programs has it: its end is the client's affair, and
// the client counts what goes over it.
type servedConn struct {
	conn   transport.Conn
	cancel context.CancelFunc
}

func (c *servedConn) Close() error           { c.cancel(); return nil }
func (c *servedConn) Abort(error)            { c.cancel() }
func (c *servedConn) Serving() int           { return c.conn.Serving() }
func (c *servedConn) Counters() obs.Counters { return obs.Counters{} }

// join makes what serves the calls on a connection to address that is about to be dialled. up
// receives the connection, or nil if the dial failed.
func (s *service) join(address string, to obs.Recorder) (take transport.Service, up func(transport.Conn)) {
	if s == nil || !s.srv.settingUp() {
		return transport.Service{}, func(transport.Conn) {}
	}
	ctx, cancel := context.WithCancel(s.life)
	served := &servedConn{cancel: cancel}
	server, _ := netip.ParseAddrPort(address) // a name: those known by names share
	line := s.srv.workers.open(server.Addr(), to)
	take.Serve = func(r *transport.Request) { s.srv.dispatch(r, ctx, s.life, line, true) }
	take.Over = func(transport.Conn) {
		cancel()
		s.srv.workers.leave(line)
		s.srv.ended(served)
	}
	return take, func(conn transport.Conn) {
		if conn == nil {
			cancel()
			s.srv.workers.leave(line)
			s.srv.accepted(nil)
			return
		}
		served.conn = conn
		s.srv.accepted(served)
		select {
		case <-conn.Done(): // it ended before it was counted in
			s.srv.ended(served)
		default:
		}
	}
}
