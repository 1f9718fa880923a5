package rpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Client calls one server. It is safe for many goroutines; calls beyond the server's credits
// wait for one another.
type Client struct {
	target Target
	opts   clientOptions
	xids   func() uint32
	next   atomic.Uint32
	calls  transport.CallPool
	slots  []slot
	via    func(context.Context, *invocation, *transport.Call) error // instead of slots, for a Backchannel
	passed passedXIDs
	served *service                // nil: it has no programs
	life   context.Context         // ended by Close, with ErrClosed
	end    context.CancelCauseFunc // ends life
	once   sync.Once               // of Close
	fault  error                   // its result
	rdma   rdmaDomains             // of its connections

	mu     sync.Mutex // guards what follows
	closed bool
	past   obs.Counters // of connections that have ended
}

// slot is one of a client's connections.
type slot struct {
	sem    chan struct{} // held while dialling
	link   atomic.Pointer[linkBox]
	failed atomic.Uint64 // dials that did not come about
	fault  error         // of the last of them; guarded by sem
	alone  chan struct{} // held by a call that may be what ends connections, while it is sent
}

type linkBox struct {
	transport.Link
	taken TakenRoute
}

// ErrClosed: the client or server was closed.
var ErrClosed = fmt.Errorf("rpc: closed: %w", net.ErrClosed)

// NewClient makes a client of the server at target, "iwarp://host:port", "tcp://host:port". It does
// no I/O: the first call connects. An option that cannot be used is an *OptionError.
func NewClient(target string, opts ...ClientOption) (*Client, error) {
	t, err := ParseTarget(target)
	if err != nil {
		return nil, err
	}
	o, err := newClientOptions(opts)
	if err != nil {
		return nil, err
	}
	if err := o.resolver.Check(t); err != nil {
		return nil, err
	}
	if o.programs != nil && t.Scheme == schemeTCP {
		return nil, &TargetError{target, errNoPrograms.Error()}
	}
	c := &Client{target: t, rdma: rdmaDomains{shared: o.endpoints}, opts: o, xids: transport.NewXIDs(), slots: make([]slot, o.conns), served: newService(o.programs)}
	c.life, c.end = context.WithCancelCause(context.Background())
	for i := range c.slots {
		c.slots[i].sem = make(chan struct{}, 1)
		c.slots[i].alone = make(chan struct{}, 1)
	}
	return c, nil
}

// Target is where the client calls to.
func (c *Client) Target() Target { return c.target }

// Connect makes the client's connections now, to report errors early.
func (c *Client) Connect(ctx context.Context) error {
	for i := range c.slots {
		if _, err := c.connect(ctx, &c.slots[i], 0); err != nil {
			return err
		}
	}
	return nil
}

// connect is the slot's connection, made anew if there is none or it has ended. One call dials for all that
// want it then: a server that is away gets one attempt at a time, not one from each of them. xid is the call's that needs
// it, for events; 0: none.
func (c *Client) connect(ctx context.Context, s *slot, xid uint32) (transport.Link, error) {
	if l := s.live(); l != nil {
		return l, nil
	}
	failed := s.failed.Load()
	select {
	case s.sem <- struct{}{}:
		defer func() { <-s.sem }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l := s.live(); l != nil {
		return l, nil
	}
	if s.failed.Load() != failed {
		return nil, s.fault // of the attempt that this one waited for
	}
	l, taken, err := c.dialFor(ctx, s, xid)
	if err != nil {
		switch {
		case c.life.Err() == nil:
		case ctx.Err() == nil:
			err = ErrClosed // err may wrap context.Canceled, of the dial's context: the caller's was not canceled
		default:
			err = because(ErrClosed, err)
		}
		if ctx.Err() == nil { // else only this call has ended
			s.fault = err
			s.failed.Add(1)
		}
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		l.Close()
		return nil, ErrClosed
	}
	if old := s.link.Load(); old != nil {
		c.past.Add(old.Counters().Totals())
	}
	s.link.Store(&linkBox{l, taken})
	return l, nil
}

func (s *slot) live() transport.Link {
	l := s.link.Load()
	if l == nil {
		return nil
	}
	if l.Closing() {
		return nil
	}
	return l.Link
}

// dial connects by the first route that leads to the server. Close ends it.
func (c *Client) dial(ctx context.Context) (l transport.Link, taken TakenRoute, err error) {
	if c.life.Err() != nil {
		return nil, taken, ErrClosed
	}
	ctx, unlink := joined(ctx, c.life)
	defer unlink()
	routes, err := c.opts.resolver.DialRoutes(ctx, c.target)
	if err != nil {
		if ctx.Err() != nil {
			err = because(context.Cause(ctx), err)
		}
		return nil, taken, &NoRouteError{Op: opDial, Target: c.target, Err: err}
	}
	taken, err = follow(ctx, opDial, c.target, &c.opts.connOptions, routes, func(r *Route) (err error) {
		l, err = c.dialRoute(ctx, r)
		return err
	})
	return l, taken, err
}

// because is err with the cause that it may not have: a fabric's error need not wrap why its context has ended.
func because(cause, err error) error {
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

func (c *Client) dialRoute(ctx context.Context, r *Route) (transport.Link, error) {
	o, err := c.opts.with(r.Settings)
	if err != nil {
		return nil, err
	}
	if r.Provider == nil {
		if c.served != nil {
			return nil, errNoPrograms
		}
		return dialTCP(ctx, r, &o, c.opts.lowPort)
	}
	service, up := c.served.join(r.Address, o.engine.Recorder)
	l, err := c.rdma.dial(ctx, r, &o.rdmaOptions, service, c.freeXID)
	up(l)
	return l, err
}

// Routes are the routes of the client's connections that are up.
func (c *Client) Routes() []TakenRoute {
	var taken []TakenRoute
	for i := range c.slots {
		if s := &c.slots[i]; s.live() != nil {
			taken = append(taken, s.link.Load().taken)
		}
	}
	return taken
}

// Close ends the connections; calls in flight end with *transport.LostError.
func (c *Client) Close() error {
	c.once.Do(func() { c.fault = c.close() })
	return c.fault
}

func (c *Client) close() error {
	c.mu.Lock()
	c.closed = true
	c.end(ErrClosed)
	if c.served != nil {
		c.served.die()
	}
	c.mu.Unlock()
	var links []transport.Link
	for i := range c.slots {
		if l := c.slots[i].live(); l != nil {
			l.Close()
			links = append(links, l)
		}
	}
	for _, l := range links {
		select {
		case <-l.Done():
		case <-time.After(closeWait):
		}
	}
	return c.rdma.close()
}

// closeWait is how long an orderly end may take before it is cut short.
const closeWait = 3 * time.Second

// Counters are the sums over the client's connections, present and past.
func (c *Client) Counters() obs.Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.past
	for i := range c.slots {
		if l := c.slots[i].link.Load(); l != nil {
			n.Add(l.Counters())
		}
	}
	return n
}

// Conns are the client's connections that are up. Those of RPC-over-RDMA are transport.Backlinks as well.
func (c *Client) Conns() []transport.Conn {
	var conns []transport.Conn
	for i := range c.slots {
		if l := c.slots[i].live(); l != nil {
			conns = append(conns, l)
		}
	}
	return conns
}

// invocation is what a call needs besides the transport's, pooled.
type invocation struct {
	reader xdr.Reader
	head   rpcmsg.CallHeader
	reply  rpcmsg.ReplyHeader
	info   CallInfo
	opts   []CallOption
	auth   rpcmsg.ClientAuth // nil: AUTH_NONE
	cred   rpcmsg.Plain      // auth of this call alone
	sealed *sealed           // nil: auth has nothing to compute

	raw      *RawCall // instead of all but reader and info; nil: none
	rawTaken bool     // its arguments have been taken over
}

var invocations = sync.Pool{New: func() any { return new(invocation) }}

// Call calls proc and waits for its results. args and results may be nil. Bulk results go where
// options say. Views (xdr.Reader) of anything else are valid until results.UnmarshalXDR returns. The error's type tells
// which layer it comes from; in each case the caller's memory is its own again.
func (c *Client) Call(ctx context.Context, proc *Proc, args xdr.Marshaler, results xdr.Unmarshaler, opts ...CallOption) error {
	inv := invocations.Get().(*invocation)
	info := &inv.info
	xid, noted := c.newXID()
	info.Proc, info.XID, info.Args, info.Results = proc, xid, args, results
	inv.opts = append(inv.opts[:0], opts...) // so that the caller's need not escape
	err := c.run(ctx, inv)
	if noted {
		c.passed.remove(xid)
	}
	inv.done()
	return err
}

// run makes the call between the interceptors.
func (c *Client) run(ctx context.Context, inv *invocation) error {
	if len(c.opts.intercs) == 0 {
		return c.invoke(ctx, inv)
	}
	inv.info.Target = c.target // nobody else looks at it
	err := c.intercept(ctx, inv, c.opts.intercs)
	inv.info = CallInfo{}
	return err
}

// done gives inv back.
func (inv *invocation) done() {
	info := &inv.info
	info.Proc, info.Args, info.Results, info.Attach = nil, nil, nil, transport.Attachment{}
	inv.auth, inv.cred, inv.sealed = nil, rpcmsg.Plain{}, nil
	inv.raw, inv.rawTaken = nil, false
	clear(inv.opts)
	invocations.Put(inv)
}

func (c *Client) intercept(ctx context.Context, inv *invocation, rest []ClientInterceptor) error {
	if len(rest) == 0 {
		return c.invoke(ctx, inv)
	}
	return rest[0](ctx, &inv.info, func(ctx context.Context) error {
		return c.intercept(ctx, inv, rest[1:])
	})
}

func (c *Client) invoke(ctx context.Context, inv *invocation) error {
	call := c.calls.Get()
	var err error
	if inv.raw != nil {
		err = inv.encodeRaw(call)
	} else {
		err = c.encode(inv, call)
	}
	if inv.sealed != nil {
		defer inv.sealed.args.DropBulk()
	}
	if err != nil {
		call.Free()
		return err
	}
	send := c.send
	if c.via != nil {
		send = c.via
	}
	if err := send(ctx, inv, call); err != nil {
		var orphan *transport.OrphanError
		if errors.As(err, &orphan) {
			return orphan.Err // the connection keeps the call
		}
		call.Free()
		return err
	}
	if inv.raw != nil {
		if err = inv.decodeRaw(call); err == nil {
			return nil
		}
	} else {
		err = c.decode(inv, call)
	}
	call.Free()
	return err
}

// replyRoom is the bytes of a reply's header: with the largest verifier (RFC 5531 §8.2).
const replyRoom = 24 + rpcmsg.MaxAuthBody

func (c *Client) encode(inv *invocation, call *transport.Call) error {
	info := &inv.info
	p := info.Proc
	call.XID, call.Move, call.Attach = info.XID, p.Binding.Args, info.Attach
	call.MaxReply, call.MaxWhole = p.Binding.MaxReply, 0
	if s, ok := info.Args.(binding.ReplySizer); ok {
		call.MaxReply, call.MaxWhole = s.MaxReply()
	}
	h := &inv.head
	*h = rpcmsg.CallHeader{XID: info.XID, Program: p.Program, Version: p.Version, Proc: p.Number}
	inv.auth = c.opts.auth
	for i := range inv.opts {
		o := &inv.opts[i]
		switch {
		case o.into != nil:
			call.Into = append(call.Into, transport.Dest{Buf: o.into, Mem: o.mem})
		case o.reply > 0:
			call.MaxReply, call.MaxWhole = o.reply, 0
		case o.grow > 0:
			call.Grow = o.grow
		case o.auth != nil:
			inv.cred = rpcmsg.Plain{Credential: *o.auth}
			inv.auth = &inv.cred
		}
	}
	call.MaxReply += replyRoom
	if call.MaxWhole > 0 {
		call.MaxWhole += replyRoom
	}
	call.MoveResults = p.Binding.Results
	if plain, ok := inv.auth.(*rpcmsg.Plain); inv.auth != nil && !ok {
		return c.seal(inv, call)
	} else if ok && plain.Credential.Protects() { // wrapped by the caller
		call.Move, call.MoveResults = false, false
	}
	if err := rpcmsg.AppendCall(&call.Msg, h, inv.auth); err != nil {
		return fmt.Errorf("%s: credential: %w", p, err)
	}
	if info.Args != nil {
		info.Args.MarshalXDR(&call.Msg)
	}
	if err := call.Msg.Err(); err != nil {
		return fmt.Errorf("%s: arguments: %w", p, err)
	}
	return nil
}

// send runs the call, again on a new connection when one is lost, with the same XID (RFC 5531 §9); never
// again on the connection that carried it (RFC 8166 §3.3.1).
//
// A call whose transmission ends the connection does so each time, and takes with it all others that are under way,
// which cannot be told from it. So those that have lost two connections in a row go one at a time from there on: the
// others are answered, and the one at fault finds its limit.
func (c *Client) send(ctx context.Context, inv *invocation, call *transport.Call) error {
	s := &c.slots[0]
	if len(c.slots) > 1 {
		s = &c.slots[c.next.Add(1)%uint32(len(c.slots))]
	}
	losses, sent := 0, 0
	var began time.Time // of the last transmission, for suspects
	for tries := 0; ; tries++ {
		l, err := c.connect(ctx, s, call.XID)
		if err == nil {
			if losses > 0 {
				began = time.Now()
			}
			if losses < suspect {
				err = c.do(ctx, l, call, sent)
			} else {
				err = c.sendAlone(ctx, s, call, sent)
			}
			if err == nil {
				return nil
			}
			var lost *transport.LostError
			if !errors.As(err, &lost) {
				return err
			}
			if lost.Sent {
				sent++
			}
			switch {
			case !lost.Sent:
			case losses > 0 && time.Since(began) > longCall:
				losses = 1
			default:
				losses++
			}
		} else if tries == 0 || ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return err
		}
		c.mu.Lock()
		closed := c.closed
		c.mu.Unlock()
		switch {
		case closed || tries >= c.opts.retries:
			return err
		case losses >= c.opts.losses:
			proc := inv.info.Proc
			if inv.raw != nil {
				p := inv.raw.proc // the call may be used again
				proc = &p
			}
			return &GaveUpError{Proc: proc, Connections: losses, Err: err}
		}
		if err := c.pause(ctx, backoff(tries)); err != nil {
			return err
		}
		if err := c.resign(inv, call); err != nil {
			return err
		}
	}
}

const (
	// suspect is after how many connections lost in a row a call may be what ends them.
	suspect = 2
	// aloneFor is how long a suspect keeps others waiting: what ends a connection does so soon, and one that
	// takes long may be waiting for another to do its work.
	aloneFor = time.Second / 2
	// longCall is how long a connection carries a call that then had nothing to do with its end.
	longCall = time.Minute
)

// sendAlone is Do while no other suspect is under way, or has only been for a while.
func (c *Client) sendAlone(ctx context.Context, s *slot, call *transport.Call, sent int) error {
	select {
	case s.alone <- struct{}{}:
		leave := sync.OnceFunc(func() { <-s.alone })
		defer leave()
		defer time.AfterFunc(aloneFor, leave).Stop()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l, err := c.connect(ctx, s, call.XID) // another may have ended the one there was
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return err
		}
		return &transport.LostError{Err: err}
	}
	return c.do(ctx, l, call, sent)
}

// do sends a call that has been sent before that many times.
func (c *Client) do(ctx context.Context, l transport.Link, call *transport.Call, sent int) error {
	if sent > 0 {
		c.resent(l, call.XID, sent)
	}
	return l.Do(ctx, call)
}

// GaveUpError ends a call that was sent on several connections in a row, each of which was lost before the reply
// (WithLossLimit): sending it once more would most likely end the next one. Either this call is what ends them, or server
// and network do not stay up for as long as it takes.
type GaveUpError struct {
	Proc        *Proc
	Connections int   // that were lost
	Err         error // how the last one was, an *transport.LostError
}

func (e *GaveUpError) Error() string {
	return fmt.Sprintf("%s: not retried: %d connections in a row were lost while carrying it: %v", e.Proc, e.Connections, e.Err)
}

func (e *GaveUpError) Unwrap() error { return e.Err }

// backoff grows from 20 ms to 2 s, with a random half: callers who lost the same connection do not come back
// at once. It begins anew with each call.
func backoff(tries int) time.Duration {
	d := min(20*time.Millisecond<<min(tries, 10), 2*time.Second)
	return d/2 + rand.N(d/2)
}

func (c *Client) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.life.Done():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *Client) decode(inv *invocation, call *transport.Call) error {
	p := inv.info.Proc
	r := &inv.reader
	r.Reset(call.Stream, call.Moved)
	h := &inv.reply
	if err := h.Parse(r); err != nil {
		return fmt.Errorf("%s: reply: %w", p, err)
	}
	if inv.auth != nil && h.Stat == rpcmsg.Accepted {
		if err := inv.auth.Check(&inv.head, h); err != nil {
			return fmt.Errorf("%s: verifier: %w", p, err)
		}
	}
	if err := h.Err(); err != nil {
		return err
	}
	if inv.sealed != nil {
		if err := inv.unseal(call); err != nil {
			return fmt.Errorf("%s: results: %w", p, err)
		}
	}
	if inv.info.Results != nil {
		inv.info.Results.UnmarshalXDR(r)
		if err := r.Err(); err != nil {
			return fmt.Errorf("%s: results: %w", p, err)
		}
	}
	return nil
}
