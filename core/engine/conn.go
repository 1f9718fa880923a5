package engine

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/watch"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// Conn is one RPC-over-RDMA connection. It implements verbs.Handler for its provider.
type Conn struct {
	ep     *Endpoint
	group  *Group
	cfg    Config
	vc     verbs.Conn
	driver verbs.Driver   // nil: the provider reads by itself
	detach verbs.Detacher // nil: memory cannot be taken from under a window
	caps   verbs.Caps
	id     uint64
	client bool
	local  wire.PrivateData
	peer   wire.PrivateData
	gone   chan struct{} // closed at the end of Disconnected
	ours   atomic.Bool   // we end it: no verdict on the peer's versions
	shut   atomic.Bool   // closing or down, for Closing, which each call of a client's asks; set with mu held
	settle time.Time     // nothing leaves before (D-39); zero: at once

	in        inbound      // used by Complete only
	dirty     atomic.Bool  // something lies posted that nobody has begun to flush
	leading   atomic.Bool  // a caller is in Drive
	followers atomic.Int32 // callers that wait, or are about to, for who leads

	granted atomic.Uint32 // what replies say: grants.now
	period  time.Duration // of the ticker
	timeout uint32        // CallTimeout in ticks
	fabric  verbs.Stats   // onTick's

	ext *extensions // nil: none

	share *share // of chunk memory for the peer's calls, with others of its address
	sizes sizes  // of version 2

	changing sync.Mutex  // guards what follows: extensions change one thing at a time; taken before mu
	reserved int         // receives
	extra    map[int]int // of them, those that extensions asked for, by extension
	grown    int         // what shared receives have grown to for this connection

	uninvited atomic.Bool // our calls name nothing to be invalidated

	mu       sync.Mutex              // guards what follows, and covers every Post
	down     bool                    // Disconnected has come
	err      error                   // why, when down
	neg      Negotiation             // at a server only Complete writes it, and reads it without mu
	level    transport.BackwardLevel // what the client takes of backward calls
	credits  credits
	waiting  callQueue // for a credit
	learned  chunkLimits
	pending  xidTable // calls that wait for replies
	live     callList // pending calls whose callers wait: any of them may lead
	orphans  int
	orphaned int // bytes that orphans hold
	tick     uint32
	ticker   *time.Timer // onTick's
	calls    table[call]
	requests table[request]
	serving  int // requests received and not finished
	owed     int // calls received whose answer Post has not taken yet
	sends    sendBuffers
	works    []verbs.Work // what is being posted, built here
	outbox   []verbs.Work // accepted by us, not yet by Post
	readq    readQueue    // RDMA Reads waiting for depth
	reading  int          // RDMA Reads posted
	rule     creditRule   // of rdma_credit
	knocking bool         // a call is at knock
	refused  *GateError   // not nil: it is ending, as it was not opened
	after    func()       // run once nothing is being served
	counters obs.Counters

	closing   bool // we have closed it, or are about to: no call begins
	grants    grants
	watch     watch.Watch
	idleAsked bool // watch.idle is no default
	// For watch: what has completed, and the bytes of the largest Read, and of the largest reply's
	// Writes, under way.
	readsDone          uint64
	readMost, sendMost int
}

func newConn(g *Group, cfg Config, client bool) (*Conn, error) {
	e := g.ep
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Inline > e.size {
		return nil, &ConfigError{"inline", fmt.Sprintf("the endpoint's receives have %d bytes", e.size)}
	}
	asked := cfg.IdleTimeout != 0
	if !asked {
		switch {
		case !client:
			cfg.IdleTimeout = watch.DefaultServerIdle
		case cfg.Serve == nil: // else a call of the peer's would find nobody
			cfg.IdleTimeout = watch.DefaultClientIdle
		}
	}
	cfg.MaxCall = min(cfg.MaxCall, e.dom.Caps().MaxMessage) // a chunk may be one segment, and that one Read or Write
	maxVersion := cfg.MaxVersion
	if client && cfg.MinVersion < wire.Version2 {
		maxVersion = max(cfg.Versions.Max(cfg.Peer, maxVersion), cfg.MinVersion)
	}
	c := &Conn{
		ep: e, group: g, cfg: cfg, client: client, id: transport.NewConnID(), idleAsked: asked,
		gone:    make(chan struct{}),
		neg:     Negotiation{Min: cfg.MinVersion, Max: maxVersion},
		level:   cfg.BackwardLevel,
		learned: chunkLimits{reads: -1, writes: -1},
	}
	c.credits = newCredits(c.asks())
	c.in.c, c.in.hdr = c, new(wire.Header)
	c.sizes.init(cfg.Inline)
	c.share = new(share) // a peer that we dialled has one of its own
	c.watch, c.period, c.timeout = c.cfg.newWatch()
	c.local = wire.PrivateData{
		RemoteInvalidate: e.dom.Caps().RemoteInvalidate,
		SendSize:         cfg.Inline, RecvSize: cfg.Inline,
	}
	c.ext = newExtensions(c, cfg.Extensions)
	if err := c.reserve(); err != nil {
		return nil, err
	}
	most := max(c.allows(), 1)
	c.grants = grants{most: most, now: most}
	c.granted.Store(uint32(most))
	return c, nil
}

// Dial connects to addr. Nothing is sent before the first call. Closing the group or the endpoint ends it.
func (g *Group) Dial(ctx context.Context, addr string, cfg Config) (*Conn, error) {
	e := g.ep
	setup, end, err := g.settingUp(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	c, err := newConn(g, cfg, true)
	if err != nil {
		return nil, err
	}
	vc, err := e.dom.Dial(setup, addr, c.options())
	if err != nil {
		c.unborn()
		if setup.Err() != nil && ctx.Err() == nil {
			err = context.Cause(setup) // ours, whatever the provider made of it
		}
		return nil, err
	}
	c.mu.Lock()
	c.peer, _ = wire.ParsePrivate(vc.PeerPrivateData()) // in Ready it may not have been known
	c.neg, _ = c.neg.Step(NegEvent{Kind: NegConnected})
	c.mu.Unlock()
	if !c.peer.RemoteInvalidate {
		pause := vc.Caps().Settle
		if c.cfg.Settle != 0 {
			pause = max(c.cfg.Settle, 0)
		}
		if pause > 0 {
			c.settle = time.Now().Add(pause)
		}
	}
	c.event(obs.Event{Kind: obs.ConnUp})
	c.startTicker()
	g.adopt(c)
	return c, nil
}

// Accept answers a request that came by a listener of the endpoint by, which may be another one than the group's: of the same
// provider and device then. Closing the group or its endpoint ends the connection, closing by does not.
func (g *Group) Accept(ctx context.Context, by *Endpoint, r verbs.Request, cfg Config) (*Conn, error) {
	e := g.ep
	ctx, end, err := g.settingUp(ctx)
	if err != nil {
		r.Reject(nil)
		return nil, err
	}
	defer end()
	c, err := newConn(g, cfg, false)
	if err != nil {
		r.Reject(nil)
		return nil, err
	}
	c.peer, _ = wire.ParsePrivate(r.PeerPrivateData())
	c.share = e.pool.shareOf(r.RemoteAddr().Addr())
	o := c.options()
	if by != e {
		o.Domain = e.dom
	}
	if _, err := r.Accept(ctx, o); err != nil {
		c.unborn()
		return nil, err
	}
	c.event(obs.Event{Kind: obs.ConnUp, Arg: 1})
	c.startTicker()
	g.adopt(c)
	return c, nil
}

// unborn gives back what a connection that did not come up has taken.
func (c *Conn) unborn() {
	c.in.close()
	c.unreserve()
}

func (c *Conn) options() verbs.Options {
	return verbs.Options{
		Handler: c,
		Private: func(caps verbs.Caps, peer []byte) []byte {
			room := caps.PrivateAccept
			if c.client {
				room = caps.PrivateDial
			}
			if room < wire.PrivateLen {
				return nil // the peer then assumes the defaults (RFC 8797 §4)
			}
			return c.local.Append(nil)
		},
		Ready: c.ready,
		Recv:  c.ep.recv,
		Tap:   c.cfg.Tap,
		Note:  c.notes(),
	}
}

// ready runs before the peer can send.
func (c *Conn) ready(vc verbs.Conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vc, c.caps = vc, vc.Caps()
	if c.client { // at a server whoever leads would serve forward calls, which a worker must not
		c.driver, _ = vc.(verbs.Driver)
	}
	if c.caps.Detach {
		c.detach, _ = vc.(verbs.Detacher)
	}
	if c.ep.recv == nil {
		return c.in.postOwn(vc)
	}
	return nil
}

// thresholds are the inline thresholds of a version (RFC 8166 §3.3.2; v2 draft §2.3): the
// bytes of a Send towards the peer, and of the largest that it is known to send us.
func (c *Conn) thresholds(version uint32) (send, recv int) {
	if version >= wire.Version2 {
		return c.sizes.thresholds()
	}
	return min(c.cfg.Inline, c.peer.RecvSize), min(c.cfg.Inline, c.peer.SendSize)
}

// Version is the version that was settled, as a client, or latched, as a server; 0: none yet.
func (c *Conn) Version() uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stands()
}

// stands is the version that both sides use, or 0. Called with mu held.
func (c *Conn) stands() uint32 { return c.neg.stands() }

func (n *Negotiation) stands() uint32 {
	if n.State == NegSettled {
		return n.Version
	}
	return 0
}

func (c *Conn) LocalAddr() netip.AddrPort  { return c.vc.LocalAddr() }
func (c *Conn) RemoteAddr() netip.AddrPort { return c.vc.RemoteAddr() }

// Client tells whether we have dialled: then our calls go forward, and the peer's backward.
func (c *Conn) Client() bool { return c.client }

// ID numbers the connection within the process, as in its events.
func (c *Conn) ID() uint64 { return c.id }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.gone }

// Err is why it ended: nil before, and after an orderly end.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Counters is a snapshot.
func (c *Conn) Counters() obs.Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.counters
	granted, outstanding := &n.Granted, &n.Outstanding
	if !c.client {
		granted, outstanding = &n.BackGranted, &n.BackOutstanding
	}
	*granted, *outstanding = uint64(c.credits.limit), uint64(c.credits.inUse)
	return n
}

// Fabric fills s with the provider's counters.
func (c *Conn) Fabric(s *verbs.Stats) { c.vc.Stats(s) }

// Serving is the number of requests received and not yet answered.
func (c *Conn) Serving() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.serving
}

// Close ends the connection in order: what was posted leaves first. Pending calls end with *transport.LostError; calls of
// the peer's that come from now on are not executed, as they could not be answered: it may send them again elsewhere.
func (c *Conn) Close() error {
	c.ours.Store(true)
	c.mu.Lock()
	c.closing = true
	c.shut.Store(true)
	c.mu.Unlock()
	return c.vc.Close()
}

// Abort ends the connection at once.
func (c *Conn) Abort(err error) {
	c.ours.Store(true)
	c.vc.Abort(err)
}

// Complete implements verbs.Handler.
func (c *Conn) Complete(cs []verbs.Completion) {
	for i := range cs {
		if cs[i].Op == verbs.OpRecv {
			c.in.received(&cs[i])
		} else {
			c.completed(&cs[i])
		}
	}
	c.flush()
}

// completed handles the end of a work request of ours.
func (c *Conn) completed(cp *verbs.Completion) {
	kind, i := workKind(cp.ID&7), uint32(cp.ID>>3)
	var finished *request
	c.mu.Lock()
	switch kind {
	case workPlain, workSend:
		c.sends.done++
		if r := c.sends.all[i].req; r != nil && cp.Status == verbs.RemoteAccess {
			c.ep.blame(c, r)
		}
		if kind == workSend {
			finished = c.sends.complete(i)
		}
	case workRead:
		r := c.requests.at(i)
		c.mu.Unlock()
		c.readDone(r, cp.Status)
		return
	case workInvalidate:
		// One that failed or was flushed fences nothing: the connection is ending, and
		// Disconnected tells when its windows are out of reach.
		if cp.Status == verbs.OK {
			c.invalidated(c.calls.at(i))
		}
	}
	c.drain()
	c.mu.Unlock()
	if finished != nil {
		if n := len(finished.plan.Writes); n > 0 {
			c.eventSince(finished.began, obs.Event{Kind: obs.WriteDone, XID: finished.Header.XID, Bytes: finished.written(), Segs: n})
		}
		finished.finish()
	}
}

// Disconnected implements verbs.Handler: every work has completed, every window is fenced.
func (c *Conn) Disconnected(err error) {
	c.mu.Lock()
	c.down, c.err = true, err
	c.shut.Store(true)
	if c.ticker != nil {
		c.ticker.Stop()
	}
	probing := c.client && c.neg.State == NegProbing && c.neg.Version >= wire.Version2 && c.pending.n > 0 && !c.ours.Load()
	finished := c.dropRequests()
	c.dropCalls(err)
	c.sends.release()
	c.mu.Unlock()

	if probing && c.cfg.MinVersion < wire.Version2 {
		c.cfg.Versions.lost(c.cfg.Peer)
	}
	for _, r := range finished {
		r.finish()
	}
	c.ext.end(err)
	// Handlers still hold receives: what was promised to this connection is free when they are done.
	c.afterServing(func() {
		c.endRaise()
		c.in.close()
		c.unreserve()
	})
	var failed int64
	if err != nil {
		failed = 1
	}
	c.event(obs.Event{Kind: obs.ConnDown, Arg: failed})
	close(c.gone)
	c.group.disown(c) // after gone: adopt must not take in what has ended
	if c.cfg.Closed != nil {
		c.cfg.Closed(c, err)
	}
}

// dropRequests ends what waits for room or depth, and returns the requests that are over with it. Called
// with mu held, when down.
func (c *Conn) dropRequests() (finished []*request) {
	unsent := c.outbox
	c.outbox, c.readq = nil, readQueue{}
	for _, w := range unsent {
		if i := uint32(w.ID >> 3); workKind(w.ID&7) == workSend {
			if c.sends.all[i].answer {
				c.owed--
			}
			if r := c.sends.complete(i); r != nil {
				finished = append(finished, r)
			}
		}
	}
	finished = c.ext.dropParcels(finished)
	for r := range c.requests.all() {
		if r.left > 0 {
			r.left = 0
			finished = append(finished, r)
		}
	}
	return finished
}

// dropCalls ends all calls: nothing is in reach of the peer any more. Called with mu held, when down.
func (c *Conn) dropCalls(err error) {
	for call := range c.calls.all() {
		for i := range call.windows {
			call.windows[i].state = windowFenced
		}
		call.fencing = 0
		if call.state == callFencing {
			c.settled(call)
		} else {
			c.end(call, callDone, c.lost(true, err))
		}
	}
	for call := c.waiting.pop(); call != nil; call = c.waiting.pop() {
		call.wakeUp()
	}
}

// reserve takes the connection's receives. Where we grant, fewer will do: a connection that came late
// works with fewer credits.
func (c *Conn) reserve() error {
	for {
		c.reserved = c.asks() + c.allows() + c.controlReceives()
		if c.ep.recv == nil {
			return nil
		}
		err := c.ep.shared.reserve(c.reserved)
		if err == nil {
			return nil
		}
		if c.client || c.cfg.Credits == 1 {
			return err
		}
		c.cfg.Credits /= 2
	}
}

// controlReceives is the receives for messages without an RPC.
func (c *Conn) controlReceives() int { return baseControl + c.ext.extra() }

func (c *Conn) unreserve() {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.ep.pool.dropShare(c.share)
	c.ep.shared.unreserve(c.reserved)
	c.ep.shared.shrink(c.grown)
}

// lostErr is what a call gets that was never sent. Called with mu held.
func (c *Conn) lostErr() error { return c.lost(false, c.err) }

// lost is what a call gets by the connection's end. Called with mu held.
func (c *Conn) lost(sent bool, err error) error {
	if c.refused != nil {
		return c.refused
	}
	return &transport.LostError{Sent: sent, Err: err}
}

func (c *Conn) ended() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}
