package engine

import (
	"slices"

	"github.com/rpcrdma/rpcrdma/core/chunk"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// wrapper is a payload extension on a connection.
type wrapper struct {
	e   ext.Wrapper
	s   *session
	raw bool // a Cutter
	// partHead is the bytes of a Part's header, and lastExtra by how many the header of one that Wraps is longer than MSG's, with as much of
	// the extension's own as it declares.
	partHead, lastExtra int
}

func (x *extensions) newWrapper(s *session, r *role) *wrapper {
	w := &wrapper{e: r.wrapper, s: s, raw: r.cutter != nil}
	for i := range x.ops {
		op := &x.ops[i].Op
		info := op.Info + -op.Info&3
		switch {
		case x.ops[i].Ext != s.i:
		case op.Payload == ext.Part:
			w.partHead = max(w.partHead, wire.FixedLen+12+info)
		case op.Payload == ext.Wraps:
			w.lastExtra = max(w.lastExtra, 12+4+info)
		}
	}
	return w
}

// reach is the most bytes of RPC message that can go to the peer without chunks, and come from it. The error is a *PanicError.
func (x *extensions) reach() (send, recv int, err error) {
	list := x.wrap.wrappers.Load()
	if list == nil {
		return 0, 0, nil
	}
	for _, w := range *list {
		w.s.checkLoans()
		s, r, p := w.reach()
		if p != nil {
			return 0, 0, p
		}
		send, recv = max(send, s), max(recv, r)
	}
	return send, recv, nil
}

// carrying is the first payload extension that carries n bytes to the peer; nil: none does.
func (x *extensions) carrying(n int) (*wrapper, error) {
	for _, w := range *x.wrap.wrappers.Load() {
		s, _, p := w.reach()
		if p != nil {
			return nil, p
		}
		if n <= s {
			return w, nil
		}
	}
	return nil, nil
}

// cut has a message of n bytes cut whose header has so many, MSG's, and tells how many Parts of which operation there are.
func (x *extensions) cut(w *wrapper, into []ext.Piece, xid uint32, n, header, send int) (pieces []ext.Piece, op, parts int, ok bool, err error) {
	part, last := send-w.partHead, send-header-w.lastExtra
	if part <= 0 || last <= 0 {
		return into, 0, 0, false, nil
	}
	pieces, p := w.wrap(into, xid, n, part, last)
	if p != nil {
		return into, 0, 0, false, p
	}
	op, parts, ok = x.checkCut(w, pieces, n, part, last)
	return pieces, op, parts, ok, nil
}

// checkCut tells whether pieces are a message of n bytes.
func (x *extensions) checkCut(w *wrapper, pieces []ext.Piece, n, part, last int) (op, parts int, ok bool) {
	parts = len(pieces) - 1
	if parts < 0 {
		return 0, 0, false
	}
	at := 0
	for i := range pieces {
		p := &pieces[i]
		is := x.opNamed(w.s, p.Op)
		rule, most := ext.Part, part
		if i == parts {
			rule, most = ext.Wraps, last
		}
		if is < 0 || x.ops[is].Op.Payload != rule || len(p.Info) > x.ops[is].Op.Info ||
			p.From != at || p.To <= at || p.To-at > most || p.To > n || w.raw && i == parts && len(p.Info)%4 != 0 {
			return 0, 0, false
		}
		if i == 0 {
			op = is
		}
		if i < parts && is != op {
			return 0, 0, false
		}
		at = p.To
	}
	return op, parts, at == n && (parts == 0 || parts <= x.ctl.ops[op].window)
}

// takePlaces reserves n places in the window of op, if there are so many and no parcel waits for them.
func (x *extensions) takePlaces(op, n int) bool {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	ok := len(x.wrap.parcels) == 0 && x.reservePlaces(op, n)
	if !ok {
		x.c.counters.Unplaced++
	}
	return ok
}

// reservePlaces is called with mu held.
func (x *extensions) reservePlaces(op, n int) bool {
	if o := &x.ctl.ops[op]; o.window-o.out < n {
		return false
	}
	for range n {
		x.ctl.reserve(op, false)
	}
	return true
}

// postPlaces notes that so many Parts have been posted, in places that are reserved. Called with mu held.
func (x *extensions) postPlaces(op, n int, xid uint32) {
	for range n {
		x.ctl.post(sentOp{op: op, xid: xid, calls: x.c.callsRecv()})
	}
	x.c.counters.Parts += uint64(n)
}

// parcel is a message in pieces, put together, that waits for places.
type parcel struct {
	works     []verbs.Work
	op, parts int
	xid       uint32
	req       *request // whose reply it is; nil: a call
}

// postParcels posts what has places now. Called with mu held.
func (x *extensions) postParcels() {
	c := x.c
	for len(x.wrap.parcels) > 0 && !c.down {
		p := x.wrap.parcels[0]
		if send, _ := c.thresholds(wire.Version2); longest(p.works) > send {
			c.Abort(errShrunk) // they are cut; on another connection they are cut anew
			return
		}
		if !x.reservePlaces(p.op, p.parts) {
			return
		}
		x.wrap.parcels[0] = parcel{}
		x.wrap.parcels = x.wrap.parcels[1:]
		x.postPlaces(p.op, p.parts, p.xid)
		if p.req != nil {
			c.postReply(p.req)
			continue
		}
		c.post(p.works)
	}
}

// dropParcels gives back what the parcels hold, and returns the requests that they answer. Called with mu held, when down.
func (x *extensions) dropParcels(finished []*request) []*request {
	if x == nil {
		return finished
	}
	for _, p := range x.wrap.parcels {
		x.c.putSends(p.works)
		if p.req != nil {
			finished = append(finished, p.req)
		}
	}
	x.wrap.parcels = nil
	return finished
}

// carries tells whether w still cuts messages. Called with mu held.
func (x *extensions) carries(w *wrapper) bool { return slices.Contains(*x.wrap.wrappers.Load(), w) }

// divert has the parcels of a session that cuts no more messages go another way: nothing would free places for them. A call is planned
// anew; so is a reply, which its requester may fetch by a Reply chunk when it is told how long it is. Called with mu held.
func (x *extensions) divert(s *session) {
	c := x.c
	var calls []uint32
	var replies []*request
	x.wrap.parcels = slices.DeleteFunc(x.wrap.parcels, func(p parcel) bool {
		if x.ops[p.op].Ext != s.i {
			return false
		}
		c.putSends(p.works)
		if p.req != nil {
			replies = append(replies, p.req)
		} else {
			calls = append(calls, p.xid)
		}
		return true
	})
	for _, xid := range calls {
		if call := c.pending.at(xid); call != nil && call.state == callSent {
			c.end(call, callAgain, nil)
		}
	}
	if len(replies) > 0 {
		x.spawn(func() {
			for _, r := range replies {
				c.answerAgain(r)
			}
			c.flush()
		})
	}
	x.postParcels()
}

// putSends gives back the buffers of Sends that were not posted. Called with mu held.
func (c *Conn) putSends(works []verbs.Work) {
	for _, w := range works {
		if workKind(w.ID&7) == workSend {
			c.sends.put(c.sends.all[w.ID>>3])
		}
	}
}

// pack puts the Sends of a message in pieces together, behind works. h is its header as MSG; parts are what travels inline. last is the
// buffer of the last Send.
func (c *Conn) pack(works []verbs.Work, by *wrapper, pieces []ext.Piece, h *wire.Header, msg *xdr.Writer, parts []chunk.Part) (_ []verbs.Work, last *sendBuffer, size int, err error) {
	first := len(works)
	for i := range pieces {
		p, isLast := &pieces[i], i == len(pieces)-1
		head := by.headLen(p, h, isLast)
		sb, err := c.takeSend(head + p.To - p.From)
		if err != nil {
			c.mu.Lock()
			c.putSends(works[first:])
			c.mu.Unlock()
			return works[:first], nil, 0, err
		}
		b := by.header(sb.bytes(head+p.To-p.From), p, h, isLast)
		b = chunk.GatherRange(b, msg, parts, p.From, p.To-p.From)
		works, last = append(works, sb.work(len(b))), sb
		size += len(b)
	}
	return works, last, size, nil
}

// header appends that of a piece.
func (w *wrapper) header(b []byte, p *ext.Piece, h *wire.Header, last bool) []byte {
	op := w.s.x.opNamed(w.s, p.Op)
	opttype := w.s.x.ops[op].Op.Type
	if last {
		wrap := wire.Wrap{Type: opttype, Info: p.Info, Raw: w.raw}
		return h.AppendWrapped(b, &wrap)
	}
	part := wire.Header{
		XID: h.XID, Version: h.Version, Credit: h.Credit, Proc: wire.Optional,
		Direction: h.Direction, OptType: opttype, OptInfo: p.Info,
	}
	return part.Append(b)
}

// headLen is the bytes that header appends.
func (w *wrapper) headLen(p *ext.Piece, h *wire.Header, last bool) int {
	if last {
		wrap := wire.Wrap{Info: p.Info, Raw: w.raw}
		return h.Len() + wrap.Extra()
	}
	return wire.FixedLen + 12 + len(p.Info) + -len(p.Info)&3
}

// longest is the bytes of the longest Send of works.
func longest(works []verbs.Work) (n int) {
	for i := range works {
		if workKind(works[i].ID&7) == workSend {
			n = max(n, works[i].Segs[0].N)
		}
	}
	return n
}

// planWrapped plans a call on a connection with extensions whose version stands: with what is attached to it, or in pieces where it is too
// long for one Send. Where that does not come about it goes plain; the call whose extension panics ends.
func (c *Conn) planWrapped(call *call, version uint32, learned chunkLimits) (chunk.Offer, error) {
	x := c.ext
	var err error
	call.by, call.wrap = nil, x.attachment(call)
	if call.reach, call.replyReach, err = x.reach(); err != nil {
		return chunk.Offer{}, c.takeDown(err)
	}
	if call.wrap.Type != 0 {
		call.reach = 0 // one message is wrapped once
	}
	offer, err := c.planCall(call, version, true, learned)
	cut := true
	if err == nil && call.plan.Pieces {
		if cut, err = c.cutCall(call); err != nil {
			return offer, c.takeDown(err)
		}
	}
	switch {
	case err != nil && call.wrap.Type != 0:
		call.wrap = wire.Wrap{} // there is no room for it
	case !cut:
		call.by, call.reach = nil, 0
	default:
		return offer, err
	}
	return c.planCall(call, version, true, learned)
}

// cutCall cuts a call into pieces. Where there is no place for them now it goes otherwise, but for one that cannot.
func (c *Conn) cutCall(call *call) (ok bool, err error) {
	x, p := c.ext, &call.plan
	if call.by, err = x.carrying(p.Len); call.by == nil {
		return false, err
	}
	call.pieces, call.partOp, call.parts, ok, err = x.cut(call.by, call.pieces[:0], call.XID, p.Len, p.Header, call.limits.Send)
	if !ok {
		return false, err
	}
	call.placed = x.takePlaces(call.partOp, call.parts)
	return call.placed || call.inlineOnly, nil
}

// leavePlaces gives back the places of a message that is not sent after all, if it has them. Called with mu held.
func (c *Conn) leavePlaces(placed *bool, op, n int) {
	if !*placed {
		return
	}
	*placed = false
	for range n {
		c.ext.ctl.cancel(op, false)
	}
	c.ext.postParcels()
}

// sendPieces posts a call that is planned in pieces.
func (c *Conn) sendPieces(call *call) error {
	x, h := c.ext, &call.head
	works, last, size, err := c.pack(call.works[:0], call.by, call.pieces, h, &call.Msg, call.plan.Parts)
	call.works = works
	if err != nil {
		return err
	}
	c.mu.Lock()
	err = errUncarried
	if x.carries(call.by) {
		err = c.begin(call, longest(works))
	}
	if err != nil {
		c.putSends(works)
		c.mu.Unlock()
		return err
	}
	c.stampAsk(last.bytes(wire.FixedLen)[:wire.FixedLen])
	if call.placed {
		call.placed = false
		x.postPlaces(call.partOp, call.parts, call.XID)
		c.post(works)
		clear(works) // calls are pooled across connections
	} else {
		call.works = nil // the call may be over before it is posted
		x.wrap.parcels = append(x.wrap.parcels, parcel{works: works, op: call.partOp, parts: call.parts, xid: call.XID})
		x.postParcels() // places may have come free since
	}
	c.counters.Wrapped++
	c.sent(call, size)
	return nil
}

// cutReply cuts a reply into pieces. Where there is no place for them now it goes to the Reply chunk, if that is long enough, or waits.
func (c *Conn) cutReply(r *request, send int) (ok bool, err error) {
	x, p := c.ext, &r.plan
	by, err := x.carrying(p.Len)
	if by == nil {
		return false, err
	}
	r.pieces, r.partOp, r.parts, ok, err = x.cut(by, r.pieces[:0], r.Header.XID, p.Len, p.Header, send)
	if !ok {
		return false, err
	}
	r.placed = x.takePlaces(r.partOp, r.parts)
	if !r.placed && r.Header.Reply.Len() >= uint64(p.Len) {
		return false, nil
	}
	r.by = by
	return true, nil
}

// uncut undoes cutReply for a reply that has not been sent.
func (c *Conn) uncut(r *request) {
	r.by, r.last = nil, nil
	if r.placed {
		c.mu.Lock()
		c.leavePlaces(&r.placed, r.partOp, r.parts)
		c.mu.Unlock()
	}
}

// postPieces posts a reply in pieces, or lets it wait. Called with mu held.
func (c *Conn) postPieces(r *request) {
	x := c.ext
	c.counters.Wrapped++
	if r.placed {
		r.placed = false
		x.postPlaces(r.partOp, r.parts, r.Header.XID)
		c.postReply(r)
		return
	}
	x.wrap.parcels = append(x.wrap.parcels, parcel{works: r.works, op: r.partOp, parts: r.parts, xid: r.Header.XID, req: r})
	x.postParcels() // places may have come free since
}
