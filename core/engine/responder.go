package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/rpcrdma/rpcrdma/core/chunk"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// request is a transport.Request as the engine has it.
type request struct {
	transport.Request
	Header *wire.Header // of the call

	conn   *Conn
	index  uint32 // in Conn.requests
	buf    buffer // the receive that holds header and inline bytes
	inline []byte
	chunks []chunk.ReadChunk
	data   [][]byte
	pulled []*memory
	left   int  // RDMA Reads not completed; guarded by Conn.mu
	owed   bool // counted in Conn.owed; guarded by Conn.mu
	broken bool
	// release is of Stream, which an extension keeps until the request is over; nil: it lies in buf.
	release loan

	began time.Duration // RDMA Reads, then the reply's transmission; where events are recorded

	plan   chunk.ReplyPlan
	head   wire.Header // of the reply
	works  []verbs.Work
	segs   []verbs.Seg
	regs   []verbs.Region
	stream *memory // of a reply that goes to the Reply chunk

	// Of a reply in pieces; see cutReply.
	by            *wrapper
	pieces        []ext.Piece
	partOp, parts int
	placed        bool // places are reserved for parts
	move          bool // the binding allows moving bulk results

	last *sendBuffer // of the reply's last Send
}

// readOp is an RDMA Read that waits for depth.
type readOp struct {
	req    *request
	mem    *memory
	off, n int
	seg    wire.Segment
}

// readQueue keeps its room, up to keepReads, for the next ones.
type readQueue struct {
	ops []readOp
	at  int // all before it are gone
}

const keepReads = 512

func (q *readQueue) len() int { return len(q.ops) - q.at }

func (q *readQueue) push(op readOp) {
	if q.at > 0 && len(q.ops) == cap(q.ops) {
		n := copy(q.ops, q.ops[q.at:])
		clear(q.ops[n:])
		q.ops, q.at = q.ops[:n], 0
	}
	q.ops = append(q.ops, op)
}

func (q *readQueue) pop() readOp {
	op := q.ops[q.at]
	q.ops[q.at] = readOp{}
	if q.at++; q.at == len(q.ops) {
		q.ops, q.at = q.ops[:0], 0
		if cap(q.ops) > keepReads {
			q.ops = nil
		}
	}
	return op
}

var requestPool = sync.Pool{New: func() any {
	r := &request{Header: new(wire.Header)}
	r.Init(r)
	return r
}}

// call takes a call; it takes buf. Of one that is taken release, if there is one, is called when it is over.
func (in *inbound) call(h *wire.Header, payload []byte, buf buffer, release loan) (taken bool) {
	c := in.c
	body, why := c.admit(h, payload)
	if why == nil && !c.group.users.enter() {
		why = errSilent
	}
	if why != nil {
		buf.put()
		if why == errSilent {
			in.drop(h.XID)
			return false
		}
		c.sendError(nil, h.XID, h.Version, body)
		return false
	}
	r := requestPool.Get().(*request)
	r.conn, r.buf, r.inline, r.release = c, buf, payload, release
	r.Header, in.hdr = in.hdr, r.Header // the call keeps the header, its old memory serves the next

	c.mu.Lock()
	r.index = c.requests.add(r)
	c.serving++
	c.countMessage(r.Header, len(payload), c.pick(theirs, &c.counters.CallsRecv, &c.counters.BackCallsRecv))
	r.owed = true
	c.rule.heard(r.Header.Credit, c.client)
	within := c.owe()
	closing := c.closing
	room := c.ext.called()
	c.mu.Unlock()
	if room {
		c.ext.pump()
	}
	if !within || closing {
		if closing {
			in.drop(r.Header.XID)
		}
		r.finish()
		return true
	}
	if c.recording() {
		c.record(obs.Event{Kind: obs.CallRecv, XID: r.Header.XID, Bytes: len(payload), Segs: len(r.Header.Reads), Arg: int64(formOf(r.Header))})
	}
	switch {
	case len(r.Header.Reads) == 0:
		r.deliver()
	case c.gated(): // nothing is read for it
		c.bar(r)
	default:
		c.pull(r)
	}
	return true
}

// owe counts a call until Post has taken its answer: how far a requester may get ahead of us,
// however late completions come. False: it is further than it may, which ends the connection. Called
// with mu held.
func (c *Conn) owe() bool {
	c.owed++
	if c.owed <= c.allows()+c.controlReceives() {
		return true
	}
	c.Abort(fmt.Errorf("%w: %d calls in flight, %d granted", ErrCreditOverrun, c.owed, c.allows()))
	return false
}

// errSilent: nothing is answered.
var errSilent = errors.New("dropped")

var errNoReads = errors.New("a Read chunk from a peer that serves no RDMA Reads")

// admit tells whether a call is allowed now; else what to answer. why is nil, errSilent, or the
// reason for body.
func (c *Conn) admit(h *wire.Header, payload []byte) (body wire.ErrorBody, why error) {
	neg, level := c.callable()
	stands := neg.stands()
	deaf := c.cfg.Serve == nil || c.client && (c.allows() == 0 || level == transport.BackwardNone)
	switch {
	case deaf && (h.Version == wire.Version1 || h.Proc < wire.Optional):
		return body, errSilent // we take no calls (D-40); an operation is answered all the same (D-12)
	case c.client && stands == 0 && (neg.State != NegProbing || h.Version != neg.Version):
		return body, errSilent // a server calls back in the version of its client's calls (RFC 8167 §5.1)
	case stands != 0 && h.Version != stands: // D-4
		return wire.ErrorBody{Code: wire.ErrVers, Low: stands, High: stands}, ErrVersion
	case h.Version < c.cfg.MinVersion || h.Version > c.cfg.MaxVersion:
		return wire.ErrorBody{Code: wire.ErrVers, Low: c.cfg.MinVersion, High: c.cfg.MaxVersion}, ErrVersion
	}
	switch h.Proc {
	case wire.Msg, wire.NoMsg:
	case wire.Optional:
		return c.refusal(h, wire.UnknownOption)
	default: // property operations without an extension, MSGP and DONE (D-2, D-40)
		if h.Version >= wire.Version2 && h.Proc >= wire.ConnProp {
			return c.refusal(h, wire.BadProc)
		}
		return c.refusal(h, wire.Obsolete)
	}
	if h.Proc == wire.Msg && len(payload) == 0 {
		return c.refusal(h, wire.NoPayload)
	}
	if c.client && c.inlineOnly(h.Version, level) && (len(h.Reads) > 0 || len(h.Writes) > 0 || h.HasReply) {
		return noChunks(h), errNoChunks
	}
	if c.ep.blamed(c, h.XID) { // D-41
		return replyFault(nil, h.Version), verbs.ErrRemoteAccess
	}
	if c.caps.MaxReads == 0 && len(h.Reads) > 0 { // the peer serves no RDMA Reads: it cannot mean it
		return replyFault(nil, h.Version), errNoReads
	}
	send, _ := c.thresholds(h.Version)
	err := chunk.CheckCall(h, len(payload), chunk.RecvLimits{
		MaxReads: c.cfg.MaxChunks, MaxWrites: c.cfg.MaxChunks, MaxSegs: c.cfg.MaxSegs,
		MaxBytes: uint64(c.cfg.MaxCall), Send: send,
	})
	if err != nil {
		if body, bad := listFault(err); bad {
			return body, err
		}
	}
	if stands == 0 {
		c.called(h.Version)
	}
	return wire.ErrorBody{}, nil
}

func (c *Conn) refusal(h *wire.Header, why wire.Reason) (wire.ErrorBody, error) {
	he := h.Refuse(why)
	low, high := c.versionRange()
	body, ok := he.Answer(wire.Call, low, high)
	if !ok {
		return body, errSilent
	}
	return body, he
}

// pull reads the Read chunks of r (RFC 8166 §3.4.5). Within Complete, without mu.
func (c *Conn) pull(r *request) {
	r.chunks = chunk.ReadChunks(r.chunks[:0], r.Header.Reads)
	for _, ch := range r.chunks {
		mem, err := c.memory(ch.Len)
		if err != nil {
			c.sendError(r, r.Header.XID, r.Header.Version, replyFault(err, r.Header.Version))
			r.finish()
			return
		}
		r.pulled = append(r.pulled, mem)
		r.data = append(r.data, mem.Bytes())
	}
	c.mu.Lock()
	if c.down {
		c.mu.Unlock()
		r.finish()
		return
	}
	for i, ch := range r.chunks {
		off := 0
		for _, s := range r.Header.Reads[ch.First : ch.First+ch.N] {
			n := int(s.Length)
			if n > 0 {
				c.readq.push(readOp{r, r.pulled[i], off, n, s.Segment})
				r.left++
			}
			off += n
		}
		c.counters.ReadBytes += uint64(ch.Len)
	}
	ready := r.left == 0
	r.began = c.clock()
	c.postReads()
	c.mu.Unlock()
	if ready {
		r.deliver()
	}
}

// postReads posts what the depth allows: Reads beyond it would stall the replies behind
// them. Called with mu held.
func (c *Conn) postReads() {
	depth := max(c.caps.MaxReads, 1)
	for c.readq.len() > 0 && c.reading < depth {
		op := c.readq.pop()
		c.reading++
		c.readMost = max(c.readMost, op.n)
		op.req.segs = append(op.req.segs[:0], verbs.Seg{R: op.mem.reg, Off: op.off, N: op.n})
		c.works = append(c.works[:0], verbs.Work{
			ID: workID(workRead, op.req.index), Op: verbs.OpRead, Segs: op.req.segs,
			Key: op.seg.Handle, Remote: op.seg.Offset,
		})
		c.post(c.works)
	}
}

// readDone takes the completion of one RDMA Read.
func (c *Conn) readDone(r *request, s verbs.Status) {
	c.mu.Lock()
	c.reading--
	c.readsDone++
	r.left--
	if s != verbs.OK {
		r.broken = true // the connection is ending (RFC 8166 §4.5.3)
	}
	if s == verbs.RemoteAccess {
		c.ep.blame(c, r)
	}
	ready := r.left == 0
	c.drain()
	c.postReads()
	c.mu.Unlock()
	switch {
	case !ready:
	case r.broken:
		r.finish()
	default:
		c.eventSince(r.began, obs.Event{Kind: obs.ReadDone, XID: r.Header.XID, Bytes: readLen(r.chunks), Segs: len(r.Header.Reads)})
		r.deliver()
	}
}

func readLen(chunks []chunk.ReadChunk) (n int) {
	for _, ch := range chunks {
		n += ch.Len
	}
	return n
}

// deliver hands a whole call to the server. Within Complete, without mu.
func (r *request) deliver() {
	c, h := r.conn, r.Header
	r.Stream, r.Moved = chunk.JoinCall(r.Moved[:0], h, r.chunks, r.data, r.inline)
	xid, isReply, ok := rpcmsg.PeekType(r.Stream)
	var why wire.Reason
	switch {
	case !ok:
		why = wire.NoPayload
	case isReply: // D-27
		why = wire.DirMismatch
	case xid != h.XID: // RFC 8166 §4.5.2
		why = wire.XIDMismatch
	case c.bars(r.Stream):
		c.bar(r)
		return
	default:
		c.cfg.Serve(&r.Request)
		return
	}
	body, err := c.refusal(h, why)
	if err == errSilent {
		c.in.drop(h.XID)
	} else {
		c.sendError(r, h.XID, h.Version, body)
	}
	r.finish()
}

// memory takes n bytes of the endpoint's registered memory, for a call of the peer's.
func (c *Conn) memory(n int) (*memory, error) { return c.ep.memoryFor(n, &c.share.held) }

// Conn implements transport.Responder.
func (r *request) Conn() transport.Conn { return r.conn }

// Memory implements transport.Responder: registered memory, of the peer's share.
func (r *request) Memory(n int) (*transport.Memory, error) {
	m, err := r.conn.memory(n)
	if err != nil {
		return nil, err
	}
	return &m.Memory, nil
}

// Drop implements transport.Responder.
func (r *request) Drop() { r.finish() }

// Reply implements transport.Responder: results are placed first (RFC 8166 §3.5).
func (r *request) Reply(move, flush bool) error {
	c := r.conn
	r.keepResults()
	r.move = move
	r.buf.putFor(r) // the receive is posted again before the reply that grants it leaves (RFC 8166 §3.3.1)
	err := c.answer(r, move)
	if err != nil {
		r.finish()
	}
	if flush {
		c.flush()
	}
	return err
}

// answer plans the reply and sends it, once more where the plan no longer holds.
func (c *Conn) answer(r *request, move bool) error {
	for most := MaxSend; ; {
		if err := c.planReply(r, move, most); err != nil {
			c.uncut(r)
			c.sendError(r, r.Header.XID, r.Header.Version, replyFault(err, r.Header.Version))
			return c.takeDown(err)
		}
		switch err := c.sendReply(r); {
		case err == nil:
			return nil
		case errors.Is(err, errNoRoom):
			most = c.ep.size
		case err != errShrunk && err != errUncarried:
			return err
		}
		c.uncut(r)
		r.dropSources()
	}
}

// answerAgain answers, in another way, a request whose reply was put together and not posted. Without mu.
func (c *Conn) answerAgain(r *request) {
	c.uncut(r)
	r.dropSources()
	if c.answer(r, r.move) != nil {
		r.finish()
	}
}

// keepResults copies bulk results that are views into the arguments' receive, as those of an
// echo may be: the receive is about to take another message.
func (r *request) keepResults() {
	if r.release.free != nil {
		return
	}
	for i := range r.Results.Bulk() {
		if it := &r.Results.Bulk()[i]; within(it.Data, r.inline) {
			it.Data, it.Mem = slices.Clone(it.Data), nil
		}
	}
}

// within tells whether b lies in area.
func within(b, area []byte) bool {
	if len(b) == 0 || len(area) == 0 {
		return false
	}
	off := uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(area)))
	return off < uintptr(len(area))
}

// putFor gives the receive back; the arguments, which may lie in it, are over.
func (b *buffer) putFor(r *request) {
	r.Stream, r.inline, r.Header.OptInfo = nil, nil, nil
	b.put()
}

// planReply plans the reply within most bytes of a Send.
func (c *Conn) planReply(r *request, move bool, most int) error {
	h := r.Header
	send, _ := c.thresholds(h.Version)
	send = min(send, most)
	l := chunk.Limits{Version: h.Version, Send: send, MaxReads: -1, MaxWrites: -1}
	if c.ext != nil && h.Version >= wire.Version2 {
		var err error
		if l.Reach, _, err = c.ext.reach(); err != nil {
			return err
		}
	}
	if err := r.plan.Plan(&r.Results, move, l, &h.Lists); err != nil {
		return err
	}
	if r.plan.Pieces {
		cut, err := c.cutReply(r, send)
		if err != nil {
			return err
		}
		if !cut {
			l.Reach = 0
			if err := r.plan.Plan(&r.Results, move, l, &h.Lists); err != nil {
				return err
			}
		}
	}
	r.works, r.segs = r.works[:0], r.segs[:0]
	if cap(r.segs) < len(r.plan.Writes) { // Works point into it
		r.segs = make([]verbs.Seg, 0, len(r.plan.Writes))
	}
	bulk := r.Results.Bulk()
	began := c.clock()
	last, reg, off := -2, verbs.Region(nil), 0
	for _, w := range r.plan.Writes {
		if w.Bulk != last {
			last = w.Bulk
			var err error
			if reg, off, err = c.source(r, bulk, w.Bulk); err != nil {
				return err
			}
		}
		to := h.Reply
		if w.Chunk >= 0 {
			to = h.Writes[w.Chunk]
		}
		r.segs = append(r.segs, verbs.Seg{R: reg, Off: off + w.Off, N: w.N})
		r.works = append(r.works, verbs.Work{
			Op: verbs.OpWrite, Segs: r.segs[len(r.segs)-1:],
			Key: to[w.Seg].Handle, Remote: to[w.Seg].Offset,
		})
	}
	if n := len(r.regs); n > 0 {
		c.eventSince(began, obs.Event{Kind: obs.Registered, Side: obs.Responder, XID: h.XID, Bytes: r.written(), Segs: n, Arg: int64(n)})
	}
	return nil
}

// source is the registered memory of bulk item i, or of the whole stream (-1).
func (c *Conn) source(r *request, bulk []xdr.Bulk, i int) (verbs.Region, int, error) {
	if i < 0 {
		mem, err := c.memory(r.plan.Len)
		if err != nil {
			return nil, 0, err
		}
		r.stream = mem
		chunk.Gather(mem.Bytes()[:0], &r.Results, r.plan.Parts)
		return mem.reg, 0, nil
	}
	mem, _ := bulk[i].Mem.(*transport.Memory)
	reg, off, temporary, err := c.ep.locate(bulk[i].Data, mem)
	if temporary && err == nil {
		r.regs = append(r.regs, reg)
	}
	return reg, off, err
}

// sendReply posts the Writes and the Send that tells of them.
func (c *Conn) sendReply(r *request) error {
	h := &r.head // nothing else of it is ever set
	h.XID, h.Version, h.Credit, h.Proc = r.Header.XID, r.Header.Version, c.granted.Load(), wire.Msg
	h.Direction, h.Lists = wire.Reply, r.plan.Returned
	if r.plan.NoMsg {
		h.Proc = wire.NoMsg
	}
	size, err := c.packReply(r)
	if err != nil {
		if !errors.Is(err, errNoRoom) {
			c.Abort(err) // who cannot reply ends the connection (RFC 8166 §4.5.4)
		}
		return err
	}
	if inv := c.invalidate(r.Header); inv != 0 {
		w := &r.works[len(r.works)-1]
		w.Op, w.Key = verbs.OpSendInvalidate, inv
	}
	for i := range r.plan.Writes {
		r.works[i].ID = workID(workPlain, r.last.i)
	}
	xid, form, writes := h.XID, formOf(h), len(r.plan.Writes)
	r.began = c.clock()

	c.mu.Lock()
	if c.down {
		err = c.lostErr()
	} else if send, _ := c.thresholds(h.Version); longest(r.works) > send {
		err = errShrunk
	} else if r.by != nil && !c.ext.carries(r.by) {
		err = errUncarried
	}
	if err != nil {
		c.putSends(r.works)
		c.mu.Unlock()
		return err
	}
	if r.by == nil {
		c.postReply(r)
	} else {
		c.postPieces(r)
	}
	c.mu.Unlock()
	if c.recording() {
		c.record(obs.Event{Kind: obs.ReplySent, XID: xid, Bytes: size, Segs: writes, Arg: int64(form)})
	}
	return nil
}

// packReply puts what is sent together, behind the Writes in r.works.
func (c *Conn) packReply(r *request) (size int, err error) {
	if r.by != nil {
		r.works, r.last, size, err = c.pack(r.works, r.by, r.pieces, &r.head, &r.Results, r.plan.Parts)
		return size, err
	}
	size = r.plan.Header
	if !r.plan.NoMsg {
		size += r.plan.Len
	}
	sb, err := c.takeSend(size)
	if err != nil {
		return 0, err
	}
	b := r.head.Append(sb.bytes(size))
	if !r.plan.NoMsg {
		b = chunk.Gather(b, &r.Results, r.plan.Parts)
	}
	if len(b) != size {
		panic(fmt.Sprintf("engine: reply of %d bytes planned as %d", len(b), size))
	}
	r.works, r.last = append(r.works, sb.work(size)), sb
	return size, nil
}

// postReply posts a reply that is put together. Called with mu held.
func (c *Conn) postReply(r *request) {
	written := r.written()
	c.stampGrant(r.last.bytes(wire.FixedLen)[:wire.FixedLen], true)
	r.last.req, r.last.answer, r.owed = r, r.owed, false
	c.countMessage(&r.head, r.plan.Len, c.pick(theirs, &c.counters.RepliesSent, &c.counters.BackRepliesSent))
	c.counters.WriteBytes += uint64(written)
	c.sendMost = max(c.sendMost, written)
	c.post(r.works)
}

// written is the bytes that were placed by RDMA Write.
func (r *request) written() (n int) {
	for _, op := range r.plan.Writes {
		n += op.N
	}
	return n
}

// invalidate is the key to end with the reply, or 0 (D-25): in version 2 the one the call
// names, if it is in its lists (v2 draft §6.2.3); in version 1 when both sides can and the call has
// exactly one (RFC 8797 §3.1).
func (c *Conn) invalidate(h *wire.Header) uint32 {
	if !c.caps.SendInvalidate {
		return 0
	}
	if h.Version >= wire.Version2 {
		if h.InvHandle == 0 {
			return 0
		}
		if h.HasHandle(h.InvHandle) {
			return h.InvHandle
		}
		c.mu.Lock()
		c.counters.BadInvalidate++
		c.mu.Unlock()
		return 0
	}
	if !c.peer.RemoteInvalidate || !c.local.RemoteInvalidate {
		return 0
	}
	only, _ := h.OneHandle()
	return only
}

// finish ends the request: its reply has left, or there is none. Without mu.
func (r *request) finish() {
	c := r.conn
	r.buf.put()
	for i, m := range r.pulled {
		m.Free()
		r.pulled[i] = nil
	}
	r.dropSources()
	r.release.giveBack()
	r.by, r.last = nil, nil
	r.Results.DropBulk()
	r.Results.Reset()
	clear(r.data)
	clear(r.Moved)
	clear(r.works)
	clear(r.segs)
	r.Stream, r.inline, r.broken = nil, nil, false
	r.pulled, r.data, r.Moved = r.pulled[:0], r.data[:0], r.Moved[:0]
	r.chunks, r.works, r.segs = r.chunks[:0], r.works[:0], r.segs[:0]
	c.mu.Lock()
	c.requests.remove(r.index)
	c.serving--
	if r.owed {
		r.owed = false
		c.owed--
	}
	after := c.takeAfter()
	c.mu.Unlock()
	r.conn = nil
	requestPool.Put(r)
	after()
	c.group.users.leave()
}

// dropSources gives back what planReply has taken to send from.
func (r *request) dropSources() {
	for i, reg := range r.regs {
		reg.Release()
		r.regs[i] = nil
	}
	r.regs = r.regs[:0]
	if r.stream != nil {
		r.stream.Free()
		r.stream = nil
	}
}

// afterServing calls f once no request is being served.
func (c *Conn) afterServing(f func()) {
	c.mu.Lock()
	c.after = f
	g := c.takeAfter()
	c.mu.Unlock()
	g()
}

func (c *Conn) takeAfter() func() {
	if c.serving > 0 || c.after == nil {
		return func() {}
	}
	f := c.after
	c.after = nil
	return f
}

// sendError sends an RDMA_ERROR (RFC 8166 §4.5, v2 draft §6.2.4): in answer to r, or, with nil, to
// a call that has become no Request.
func (c *Conn) sendError(r *request, xid, version uint32, body wire.ErrorBody) {
	h := wire.Header{XID: xid, Version: version, Credit: c.granted.Load(), Proc: wire.ErrorMsg, Err: body}
	sb, err := c.takeSend(h.Len())
	if err != nil {
		c.Abort(err) // who cannot reply ends the connection (RFC 8166 §4.5.4)
		return
	}
	b := h.Append(sb.bytes(h.Len()))
	c.mu.Lock()
	sb.answer = true
	switch {
	case c.down:
		c.sends.put(sb)
		c.mu.Unlock()
		return
	case r != nil && r.owed:
		r.owed = false
	case !c.owe():
		c.owed--
		c.sends.put(sb)
		c.mu.Unlock()
		return
	}
	c.rule.tell(int(h.Credit))
	c.works = append(c.works[:0], sb.work(len(b)))
	c.post(c.works)
	c.counters.ErrorsSent++
	c.mu.Unlock()
	c.event(obs.Event{Kind: obs.ErrorSent, XID: xid, Arg: int64(body.Code)})
}
