package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/chunk"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Dest is where a bulk result is to be placed.
type Dest struct {
	Buf []byte
	Mem *Memory // that Buf lies in; nil: Buf is registered for the call
}

// Call is one RPC at its requester. Take one from a CallPool, fill it, run it with
// Conn.Do, read the reply, then Free it. It may be run again, with the same XID, on another
// connection once Do has returned a *LostError.
type Call struct {
	XID uint32
	// Msg is the RPC call message, its XID in the first word. Its bulk items must not change
	// until Do returns.
	Msg xdr.Writer
	// Move tells that the binding allows moving the bulk arguments, MoveResults the bulk results.
	Move, MoveResults bool
	// Into are the destinations of the bulk results, in order. Do returns only when nothing
	// can write to them any more.
	Into []Dest
	// MaxReply is the bytes of the largest reply message without its bulk results;
	// MaxWhole with them, as far as Into does not bound them.
	MaxReply, MaxWhole int
	// Grow lets a version 2 peer's answer that a result or the reply needs more room be followed by the same call with
	// that much, up to Grow bytes for what was too short (D-33). A result longer than its destination then
	// lies in memory of the call's.
	Grow int
	// Attach goes with the call where the connection allows it.
	Attach Attachment

	// Stream and Moved are the reply, as xdr.Reader.Reset takes them; valid until Free.
	Stream []byte
	Moved  []xdr.Moved

	pool    *CallPool
	group   *Group // whose memory it uses, until Free
	index   uint32 // in Conn.calls
	wake    chan struct{}
	settled atomic.Bool // Do has something to look at: set with Conn.mu held
	gaveUp  atomic.Bool // it has waited for CallTimeout
	leads   atomic.Bool // Do is in Drive, and looks by itself
	// For who leads: stop is what Drive asks, onCancel what its context's end calls; bound once. onCancel sets
	// cancelled, and driver is whom it kicks.
	stop      func() bool
	onCancel  func()
	cancelled atomic.Bool
	driver    verbs.Driver

	// Guarded by Conn.mu from the first step of Do on.
	state      callState
	outcome    callState // what follows the fence
	err        error     // with callDone
	credit     bool      // holds one
	lent       *Call     // a probe: whose credit it is
	orphan     bool
	prev, next *Call
	sameRow    *Call // in Conn.pending
	listed     bool
	tick       uint32 // when it began
	after      uint64 // operations without an RPC that were sent before it
	fencing    int    // Invalidates posted and not completed
	detaching  bool   // cancel works on the windows
	bounded    bool   // has a deadline of its own
	inlineOnly bool   // a backward call that may have no chunks
	short      bool   // no memory for a Send longer than the endpoint's receives
	recv       int    // bytes of an inline reply that it was planned for
	refusals   int    // pieces that the peer has refused as unknown
	placed     bool   // places are reserved for parts

	fenceBegan time.Duration // where events are recorded

	// Do's, until the call is an orphan.
	sends   int // how often it has been posted
	plan    chunk.CallPlan
	limits  chunk.Limits // that it was planned within
	head    wire.Header
	segs    []wire.Segment // backs head's chunks
	lens    []int
	writes  []int
	windows []window
	regs    []verbs.Region // registered for this call
	pulled  *Memory        // Position-Zero Read chunk
	reply   *Memory        // Reply chunk
	inline  []byte         // the reply's inline bytes
	results [][]byte       // memory of the Write chunks
	spares  []*Memory      // stand under the windows of an orphan
	grown   []*Memory      // destinations that replace those of Into that were too short
	release loan           // of Stream, which an extension keeps; else it lies in inline

	// How extensions have it travel; see planWrapped.
	wrap              wire.Wrap // Type 0: in no operation
	by                *wrapper  // that cuts it into pieces; nil: none
	pieces            []ext.Piece
	partOp, parts     int
	works             []verbs.Work // of the pieces
	reach, replyReach int          // of RPC message without chunks

	// What the peer's refusals ask for; see replan.
	replans           int
	growWrite, growTo int // Write chunk, and the bytes that it needs; 0: none
	minReply          int // bytes of the Reply chunk
	into              [][]byte
}

// callState is where a call stands.
//
//	callIdle -> callWaiting -> callReady -> callSent -> callFencing -> callDone
//	             (credit)          ^                        |
//	                               +------- callAgain <-----+  (ERR_VERS)
type callState uint8

const (
	callIdle    callState = iota
	callWaiting           // for a credit
	callReady             // has a credit
	callSent              // its reply is awaited
	callFencing           // the reply is here, windows are being invalidated
	callAgain             // ERR_VERS: to be sent once more in another version
	callDone
)

// CallPool keeps calls for use again. The zero value is ready. Calls own channels: a pool belongs to
// one client, so that one that lives in a bubble of testing/synctest shares none with the world.
type CallPool struct{ free sync.Pool }

// Get takes an empty call; Call.Free gives it back.
func (p *CallPool) Get() *Call {
	if c, ok := p.free.Get().(*Call); ok {
		return c
	}
	c := &Call{wake: make(chan struct{}, 1), pool: p}
	c.stop = func() bool { return c.settled.Load() || c.gaveUp.Load() || c.cancelled.Load() }
	c.onCancel = func() {
		d := c.driver // before the flag: who sees that may use the call anew
		c.cancelled.Store(true)
		d.Kick()
	}
	return c
}

// Free gives the call back and releases its bulk items. Not after Do returned an *OrphanError:
// then the connection keeps it until its reply comes.
func (call *Call) Free() {
	call.dropMemory()
	call.dropGrown()
	call.Msg.DropBulk()
	clear(call.Into)
	clear(call.Moved)
	clear(call.results)
	clear(call.into)
	call.Msg.Reset()
	call.Into, call.Moved = call.Into[:0], call.Moved[:0]
	call.results, call.into = call.results[:0], call.into[:0]
	call.XID, call.Move, call.MoveResults, call.MaxReply, call.MaxWhole, call.Stream = 0, false, false, 0, 0, nil
	call.Grow, call.growTo, call.minReply, call.sends = 0, 0, 0, 0
	call.Attach, call.wrap, call.by = Attachment{}, wire.Wrap{}, nil
	call.state, call.err = callIdle, nil
	call.settled.Store(false)
	call.gaveUp.Store(false)
	call.cancelled.Store(false)
	call.driver = nil
	select {
	case <-call.wake:
	default:
	}
	if g := call.group; g != nil {
		call.group = nil
		g.gate.leave()
	}
	if cap(call.inline) <= 64<<10 {
		call.pool.free.Put(call)
	}
}

// wakeUp makes Do look. Called with Conn.mu held.
func (call *Call) wakeUp() {
	select {
	case call.wake <- struct{}{}:
	default:
	}
}

// OrphanError is what Do returns for a call that was cancelled after it had been sent: the Call
// object now belongs to the connection and must not be touched again.
type OrphanError struct{ Err error }

func (e *OrphanError) Error() string { return e.Err.Error() }
func (e *OrphanError) Unwrap() error { return e.Err }

// Do sends call and waits for its reply: a client's call to its server, or, at a server, a backward call
// to the client. Errors: the context's, ErrTimeout, *LostError, *TransportError, ErrVersion, ErrBadReply,
// *chunk.PlanError or of registering memory; of backward calls also *BackwardError. In each case no peer
// can reach the caller's memory any more.
func (c *Conn) Do(ctx context.Context, call *Call) error {
	if c.recording() {
		return c.doRecorded(ctx, call)
	}
	return c.do(ctx, call)
}

func (c *Conn) doRecorded(ctx context.Context, call *Call) error {
	xid, began := call.XID, c.clock() // an orphan is no longer ours
	c.event(obs.Event{Kind: obs.CallBegun, XID: xid, Arg: procedureOf(call)})
	err := c.do(ctx, call)
	c.eventSince(began, obs.Event{Kind: obs.CallDone, XID: xid, Arg: failed(err)})
	return err
}

func (c *Conn) do(ctx context.Context, call *Call) error {
	if call.group != c.group {
		if !c.group.gate.enter() {
			return &LostError{Err: errEndpointClosed}
		}
		if call.group != nil {
			call.group.gate.leave()
		}
		call.group = c.group
	}
	call.gaveUp.Store(false) // a timeout on another connection
	call.replans = 0
	_, call.bounded = ctx.Deadline()
	if err := c.settlePause(ctx); err != nil {
		return err
	}
	for {
		if c.gated() {
			if err := c.knock(ctx, call); err != nil {
				return err
			}
		}
		switch err := c.acquire(ctx, call); err {
		case nil:
			return c.run(ctx, call)
		case errKnock:
		default:
			return err
		}
	}
}

// run sends a call that has a credit, again where another version is wanted.
func (c *Conn) run(ctx context.Context, call *Call) error {
	for {
		if err := c.transmit(ctx, call); err != nil {
			c.mu.Lock()
			call.state = callIdle
			c.dropCredit(call)
			c.mu.Unlock()
			return err
		}
		if err := c.await(ctx, call); err != nil {
			return err
		}
		state, err := call.state, call.err // settled: they are ours
		if state == callDone && err == nil {
			return nil
		}
		call.dropMemory() // it may be sent once more
		if state == callDone {
			return err
		}
		c.mu.Lock()
		call.state = callReady
		call.settled.Store(false)
		c.mu.Unlock()
		if err := c.grow(call); err != nil {
			c.mu.Lock()
			call.state = callIdle
			c.dropCredit(call)
			c.mu.Unlock()
			return err
		}
	}
}

// settlePause keeps the first Post back where the provider asks for it (D-39).
func (c *Conn) settlePause(ctx context.Context) error {
	if c.settle.IsZero() {
		return nil
	}
	d := time.Until(c.settle)
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.gone:
	}
	return nil
}

// acquire waits for a credit (RFC 8166 §3.3.1), and until a connection that is gated is open, first come, first
// served.
func (c *Conn) acquire(ctx context.Context, call *Call) error {
	c.mu.Lock()
	call.tick = c.tick
	switch {
	case c.down || c.closing:
		err := c.lostErr()
		c.mu.Unlock()
		return err
	case c.neg.State == NegFailed:
		c.mu.Unlock()
		return c.noVersion(ErrVersion)
	case !c.client && c.mayCallBack() != nil:
		err := c.mayCallBack()
		c.mu.Unlock()
		return err
	case c.credits.free() && c.waiting.empty() && !c.gated():
		c.giveCredit(call)
		c.mu.Unlock()
		return nil
	}
	call.state = callWaiting
	c.waiting.push(call)
	c.counters.CreditWaits++
	c.mu.Unlock()
	began := c.clock()
	c.event(obs.Event{Kind: obs.CreditBegun, XID: call.XID})
	err := c.waitCredit(ctx, call)
	c.eventSince(began, obs.Event{Kind: obs.CreditWait, XID: call.XID, Arg: failed(err)})
	return err
}

// waitCredit returns when call, which is in c.waiting, has a credit or will get none.
func (c *Conn) waitCredit(ctx context.Context, call *Call) error {
	for {
		select {
		case <-call.wake: // perhaps a token of an earlier life
		case <-ctx.Done():
		}
		c.mu.Lock()
		over := call.over(ctx)
		var err error
		switch {
		case call.state == callReady && over: // a credit, too late
			c.dropCredit(call)
			err = causeOf(ctx)
		case call.state == callReady:
			c.mu.Unlock()
			return nil
		case c.down:
			err = c.lostErr()
		case c.neg.State == NegFailed:
			err = c.noVersion(ErrVersion)
		case over:
			err = causeOf(ctx)
		case c.mustKnock():
			err = errKnock
		default:
			c.mu.Unlock()
			continue
		}
		c.waiting.remove(call)
		if over {
			c.knockNext() // it may have been woken to do so
		}
		c.mu.Unlock()
		return err
	}
}

// causeOf is why ctx ended, or ErrTimeout when it has not.
func causeOf(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return ErrTimeout
}

// giveCredit and dropCredit move a credit to call and back. Called with mu held.
func (c *Conn) giveCredit(call *Call) {
	c.credits.take()
	call.credit, call.state = true, callReady
}

func (c *Conn) dropCredit(call *Call) {
	if !call.credit {
		return
	}
	call.credit = false
	if to := call.lent; to != nil { // a probe's goes back to its lender
		call.lent, to.credit = nil, true
		return
	}
	c.credits.put()
	c.grantWaiting()
}

// grantWaiting hands out what is free. Called with mu held.
func (c *Conn) grantWaiting() {
	c.ext.lend()
	failed := c.neg.State == NegFailed
	for failed || c.credits.free() && !c.gated() {
		call := c.waiting.pop()
		if call == nil {
			return
		}
		if !failed {
			c.giveCredit(call)
		}
		call.wakeUp()
	}
	c.knockNext() // a NULL call that was given up has kept its credit until now
}

// transmit plans, exposes and posts a call that has a credit.
func (c *Conn) transmit(ctx context.Context, call *Call) error {
	c.mu.Lock()
	neg, learned, level := c.neg, c.learned, c.level
	var err error
	if !c.client {
		err = c.mayCallBack() // it may have waited for its credit
	}
	c.mu.Unlock()
	if neg.State == NegFailed {
		return c.noVersion(ErrVersion)
	}
	if err != nil {
		return err
	}
	call.inlineOnly, call.short = !c.client && c.inlineOnly(neg.Version, level), false
	offer, err := c.plan(call, neg.Version, neg.State == NegSettled, learned)
	if neg.State != NegSettled && (err == nil && call.plan.NoMsg || errors.Is(err, chunk.ErrHeader)) {
		// The first message is at most 1024 octets and a call of the client's (D-3).
		if err := c.probe(ctx, call); err != nil {
			return err
		}
		c.mu.Lock()
		neg, learned = c.neg, c.learned
		c.mu.Unlock()
		offer, err = c.plan(call, neg.Version, true, learned)
	}
	for err == nil {
		if err = c.exposeCall(call, neg.Version, offer); err == nil {
			err = c.sendCall(call)
		}
		if err == nil {
			return nil
		}
		call.short = call.short || errors.Is(err, errNoRoom)
		again := err == errShrunk || err == errUncarried || errors.Is(err, errNoRoom)
		c.abandon(call, again)
		if again {
			offer, err = c.plan(call, neg.Version, true, learned)
		}
	}
	return err
}

func (c *Conn) plan(call *Call, version uint32, settled bool, learned chunkLimits) (chunk.Offer, error) {
	if settled && version >= wire.Version2 && c.ext != nil {
		return c.planWrapped(call, version, learned)
	}
	call.wrap, call.by, call.reach, call.replyReach = wire.Wrap{}, nil, 0, 0
	return c.planCall(call, version, settled, learned)
}

func (c *Conn) planCall(call *Call, version uint32, settled bool, learned chunkLimits) (chunk.Offer, error) {
	send, recv := c.limits(version)
	if !settled {
		send = min(send, ProbeSize)
	}
	if call.short {
		send = min(send, c.ep.size)
	}
	call.recv = recv
	l := chunk.Limits{
		Version: version, Send: send, MoveAbove: c.cfg.MoveAbove,
		MaxReads: learned.reads, MaxWrites: learned.writes, SegLen: c.cfg.SegLen, LongMore: c.cfg.LongMore, Inline: call.inlineOnly,
		Reach: call.reach,
	}
	if call.wrap.Type != 0 {
		l.Extra = call.wrap.Extra()
	}
	if version == wire.Version1 {
		l.MaxReads = c.cfg.ReadChunks
	}
	spec := chunk.ReplySpec{Max: call.MaxReply, MaxWhole: call.MaxWhole, Chunk: call.minReply, Reach: call.replyReach}
	call.writes = call.writes[:0]
	whole := spec.Max
	for _, d := range call.Into {
		call.writes = append(call.writes, len(d.Buf))
		whole += len(d.Buf) + -len(d.Buf)&3
	}
	spec.MaxWhole = max(spec.MaxWhole, whole)
	if call.MoveResults && len(call.writes) > 0 && spec.MaxWhole+headerReserve > recv && spec.MaxWhole > call.replyReach {
		spec.Writes = call.writes // else the results fit inline, and registering would cost more
	} else {
		spec.Max = spec.MaxWhole
	}
	if l.SegLen > 0 {
		l.MaxSegs = maxSegments(min(send, recv), max(len(call.Msg.Bulk()), 1), len(call.writes)+1)
		if learned.segs > 0 {
			l.MaxSegs = min(l.MaxSegs, learned.segs)
		}
	}
	call.limits = l
	return call.plan.Plan(&call.Msg, call.Move, l, spec, recv)
}

// maxSegments bounds a chunk's segments so that a header with so many Read chunks (24 bytes a segment,
// RFC 8166 §4.3.1) and Write or Reply chunks (16 bytes, and 8 a chunk, §4.3.2) fits in one Send of n bytes.
func maxSegments(n, reads, writes int) int {
	return max((n-128-8*writes)/(24*reads+16*writes), 1)
}

// headerReserve is the bytes of a reply's header without chunks, in either version.
const headerReserve = 36

// probe runs a NULL call of call's program, to learn the version with. It uses call's
// credit, and keeps it when the context ends first.
func (c *Conn) probe(ctx context.Context, call *Call) error {
	b := call.Msg.Bytes()
	if len(b) < 24 {
		return fmt.Errorf("engine: not an RPC call message: %d bytes", len(b))
	}
	p := call.pool.Get()
	p.XID, p.state, p.bounded, p.tick = c.cfg.NextXID(), callReady, call.bounded, call.tick
	h := rpcmsg.CallHeader{
		XID:     p.XID,
		Program: binary.BigEndian.Uint32(b[12:]), Version: binary.BigEndian.Uint32(b[16:]),
	}
	h.Append(&p.Msg)
	p.credit, call.credit = true, false
	p.lent = call
	err := c.run(ctx, p)
	var orphan *OrphanError
	if errors.As(err, &orphan) {
		return orphan.Err
	}
	p.Free()
	return err
}

// sendCall posts the call.
func (c *Conn) sendCall(call *Call) error {
	if call.by != nil {
		return c.sendPieces(call)
	}
	p, h := &call.plan, &call.head
	size := p.Header
	if !p.NoMsg {
		size += p.Len
	}
	sb, err := c.takeSend(size)
	if err != nil {
		return err
	}
	b := sb.bytes(size)
	if call.wrap.Type != 0 {
		b = h.AppendWrapped(b, &call.wrap)
	} else {
		b = h.Append(b)
	}
	if !p.NoMsg {
		b = chunk.Gather(b, &call.Msg, p.Parts)
	}
	if len(b) != size {
		panic(fmt.Sprintf("engine: call of %d bytes planned as %d", len(b), size))
	}

	c.mu.Lock()
	if err := c.begin(call, size); err != nil {
		c.sends.put(sb)
		c.mu.Unlock()
		return err
	}
	c.stampAsk(b)
	c.works = append(c.works[:0], sb.work(size))
	c.post(c.works)
	if call.wrap.Type != 0 {
		c.counters.Wrapped++
	}
	c.sent(call, size)
	return nil
}

// begin makes call one that awaits its reply; its message is posted next, whose longest Send has size bytes. Called with mu held.
func (c *Conn) begin(call *Call, size int) error {
	if c.down {
		return c.lostErr()
	}
	if other := c.pending.at(call.XID); other != nil {
		return fmt.Errorf("engine: XID %#08x is in use on this connection", call.XID)
	}
	if send, _ := c.limits(call.head.Version); size > send {
		return errShrunk
	}
	call.state, call.refusals = callSent, 0
	call.settled.Store(false)
	call.index, call.after = c.calls.add(call), c.ext.sentSoFar()
	c.pending.add(call)
	c.live.push(call)
	return nil
}

// sent counts a call that has been posted, size bytes in all. Called with mu held, which it gives up.
func (c *Conn) sent(call *Call, size int) {
	h := &call.head
	c.countMessage(h, call.plan.Len, c.pick(ours, &c.counters.CallsSent, &c.counters.BackCallsSent))
	c.mu.Unlock()
	call.sends++
	if c.recording() {
		if call.sends > 1 {
			c.record(obs.Event{Kind: obs.Resent, XID: call.XID, Arg: int64(call.sends - 1)})
		}
		c.record(obs.Event{Kind: obs.CallSent, XID: call.XID, Bytes: size, Segs: len(call.windows), Arg: int64(formOf(h))})
	}
	c.flush()
}

// abandon takes back the windows of a call that was not sent. again: it keeps its credit, and is ready to be.
func (c *Conn) abandon(call *Call, again bool) {
	c.mu.Lock()
	c.leavePlaces(&call.placed, call.partOp, call.parts)
	call.index = c.calls.add(call)
	call.outcome = callIdle
	if again {
		call.outcome = callAgain
	}
	c.fence(call)
	c.mu.Unlock()
	c.flush()
	for !call.settled.Load() {
		<-call.wake
	}
	call.settled.Store(false)
	call.dropMemory()
	if again {
		c.mu.Lock()
		call.state = callReady
		c.mu.Unlock()
	}
}

func formOf(h *wire.Header) obs.Form {
	chunks := len(h.Reads) + len(h.Writes)
	switch {
	case h.Proc == wire.NoMsg && chunks > 1:
		return obs.FormLongMore
	case h.Proc == wire.NoMsg:
		return obs.FormLong
	case chunks > 0 || h.Reply.Len() > 0:
		return obs.FormChunked
	}
	return obs.FormInline
}

// countMessage counts an RPC message by its form. Called with mu held.
func (c *Conn) countMessage(h *wire.Header, inline int, what *uint64) {
	*what++
	switch formOf(h) {
	case obs.FormInline:
		c.counters.Inline++
	case obs.FormChunked:
		c.counters.Chunked++
	case obs.FormLong:
		c.counters.Long++
	case obs.FormLongMore:
		c.counters.LongMore++
	}
	if h.Proc == wire.Msg {
		c.counters.InlineBytes += uint64(inline)
	}
}
