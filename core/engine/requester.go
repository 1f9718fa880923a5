package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/chunk"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// call is a transport.Call as the engine has it: its State, from the first Do on for as long as it is used again.
type call struct {
	*transport.Call

	group   *Group // whose memory it uses, until Reset
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
	lent       *call     // a probe: whose credit it is
	orphan     bool
	prev, next *call
	sameRow    *call // in Conn.pending
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
	plan    chunk.CallPlan
	limits  chunk.Limits // that it was planned within
	head    wire.Header
	segs    []wire.Segment // backs head's chunks
	lens    []int
	writes  []int
	windows []window
	regs    []verbs.Region // registered for this call
	pulled  *memory        // Position-Zero Read chunk
	reply   *memory        // Reply chunk
	inline  []byte         // the reply's inline bytes
	results [][]byte       // memory of the Write chunks
	spares  []*memory      // stand under the windows of an orphan
	grown   []*memory      // destinations that replace those of Into that were too short
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

// callOf is what the engine keeps with t.
func callOf(t *transport.Call) *call {
	if c, ok := t.State.(*call); ok {
		return c
	}
	if t.State != nil { // another implementation's: the call has changed over
		t.State.Release()
		t.State.Reset()
	}
	c := &call{Call: t, wake: make(chan struct{}, 1)}
	t.State = c
	c.stop = func() bool { return c.settled.Load() || c.gaveUp.Load() || c.cancelled.Load() }
	c.onCancel = func() {
		d := c.driver // before the flag: who sees that may use the call anew
		c.cancelled.Store(true)
		d.Kick()
	}
	return c
}

// Release implements transport.CallState.
func (call *call) Release() {
	call.dropMemory()
	call.dropGrown()
	transport.Poison(call.inline)
}

// keepInline is the most of a call's memory for inline replies that is worth keeping.
const keepInline = 64 << 10

// Reset implements transport.CallState.
func (call *call) Reset() (keep bool) {
	clear(call.results)
	clear(call.into)
	call.results, call.into = call.results[:0], call.into[:0]
	call.growTo, call.minReply = 0, 0
	call.wrap, call.by = wire.Wrap{}, nil
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
		g.users.leave()
	}
	return cap(call.inline) <= keepInline
}

// wakeUp makes Do look. Called with Conn.mu held.
func (call *call) wakeUp() {
	select {
	case call.wake <- struct{}{}:
	default:
	}
}

// Do implements transport.Link: a client's call to its server, or, at a server, a backward call to the client. Errors
// beside those of every Link: *TransportError, ErrVersion, ErrBadReply, *GateError, *chunk.PlanError or of registering
// memory; of backward calls also *transport.BackwardError.
func (c *Conn) Do(ctx context.Context, t *transport.Call) error {
	call := callOf(t)
	if c.recording() {
		return c.doRecorded(ctx, call)
	}
	return c.do(ctx, call)
}

func (c *Conn) doRecorded(ctx context.Context, call *call) error {
	xid, began := call.XID, c.clock() // an orphan is no longer ours
	c.event(obs.Event{Kind: obs.CallBegun, XID: xid, Arg: procedureOf(call)})
	err := c.do(ctx, call)
	c.eventSince(began, obs.Event{Kind: obs.CallDone, XID: xid, Arg: failed(err)})
	return err
}

func (c *Conn) do(ctx context.Context, call *call) error {
	if call.group != c.group {
		if !c.group.users.enter() {
			return &transport.LostError{Err: errEndpointClosed}
		}
		if call.group != nil {
			call.group.users.leave()
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
func (c *Conn) run(ctx context.Context, call *call) error {
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
func (c *Conn) acquire(ctx context.Context, call *call) error {
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
func (c *Conn) waitCredit(ctx context.Context, call *call) error {
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

// causeOf is why ctx ended, or transport.ErrTimeout when it has not.
func causeOf(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return transport.ErrTimeout
}

// giveCredit and dropCredit move a credit to call and back. Called with mu held.
func (c *Conn) giveCredit(call *call) {
	c.credits.take()
	call.credit, call.state = true, callReady
}

func (c *Conn) dropCredit(call *call) {
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
func (c *Conn) transmit(ctx context.Context, call *call) error {
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

func (c *Conn) plan(call *call, version uint32, settled bool, learned chunkLimits) (chunk.Offer, error) {
	if settled && version >= wire.Version2 && c.ext != nil {
		return c.planWrapped(call, version, learned)
	}
	call.wrap, call.by, call.reach, call.replyReach = wire.Wrap{}, nil, 0, 0
	return c.planCall(call, version, settled, learned)
}

func (c *Conn) planCall(call *call, version uint32, settled bool, learned chunkLimits) (chunk.Offer, error) {
	send, recv := c.thresholds(version)
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
func (c *Conn) probe(ctx context.Context, call *call) error {
	b := call.Msg.Bytes()
	if len(b) < 24 {
		return fmt.Errorf("engine: not an RPC call message: %d bytes", len(b))
	}
	p := callOf(new(transport.Call)) // one for a connection
	p.XID, p.state, p.bounded, p.tick = c.cfg.NextXID(), callReady, call.bounded, call.tick
	h := rpcmsg.CallHeader{
		XID:     p.XID,
		Program: binary.BigEndian.Uint32(b[12:]), Version: binary.BigEndian.Uint32(b[16:]),
	}
	h.Append(&p.Msg)
	p.credit, call.credit = true, false
	p.lent = call
	err := c.run(ctx, p)
	var orphan *transport.OrphanError
	if errors.As(err, &orphan) {
		return orphan.Err
	}
	p.Free()
	return err
}

// sendCall posts the call.
func (c *Conn) sendCall(call *call) error {
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
func (c *Conn) begin(call *call, size int) error {
	if c.down {
		return c.lostErr()
	}
	if other := c.pending.at(call.XID); other != nil {
		return &transport.XIDInUseError{XID: call.XID}
	}
	if send, _ := c.thresholds(call.head.Version); size > send {
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
func (c *Conn) sent(call *call, size int) {
	h := &call.head
	c.countMessage(h, call.plan.Len, c.pick(ours, &c.counters.CallsSent, &c.counters.BackCallsSent))
	c.mu.Unlock()
	if c.recording() {
		c.record(obs.Event{Kind: obs.CallSent, XID: call.XID, Bytes: size, Segs: len(call.windows), Arg: int64(formOf(h))})
	}
	c.flush()
}

// abandon takes back the windows of a call that was not sent. again: it keeps its credit, and is ready to be.
func (c *Conn) abandon(call *call, again bool) {
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
