package engine

import (
	"fmt"
	"unsafe"

	"github.com/rpcrdma/rpcrdma/core/chunk"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// exposeCall builds the header of call.plan: memory, windows and chunk lists.
func (c *Conn) exposeCall(call *call, version uint32, offer chunk.Offer) error {
	h, p := &call.head, &call.plan
	h.Reset()
	h.XID, h.Version, h.Credit = call.XID, version, uint32(c.asks())
	if p.NoMsg {
		h.Proc = wire.NoMsg
	}
	if len(p.Moved) == 0 && !p.NoMsg && len(offer.Writes) == 0 && offer.Reply == 0 {
		return nil
	}
	began := c.clock()
	call.makeRoom(offer)
	if err := c.exposeArguments(call); err != nil {
		return err
	}
	if err := c.exposeResults(call, offer); err != nil {
		return err
	}
	if version >= wire.Version2 && c.invites() && len(call.windows) > 0 {
		h.InvHandle = call.windows[0].w.Key // v2 draft §6.2.3
	}
	c.mu.Lock()
	c.counters.ReadChunks += uint64(len(p.Moved))
	if p.NoMsg {
		c.counters.ReadChunks++
	}
	c.counters.WriteChunks += uint64(len(h.Writes))
	if h.HasReply {
		c.counters.ReplyChunks++
	}
	c.counters.Exposed += uint64(len(call.windows))
	c.mu.Unlock()
	c.eventSince(began, obs.Event{Kind: obs.Registered, Side: obs.Requester, XID: call.XID, Bytes: call.exposed(), Segs: len(call.windows), Arg: int64(len(call.regs))})
	return nil
}

// makeRoom makes room for all windows and segments: they are pointed at while they are in force.
func (call *call) makeRoom(offer chunk.Offer) {
	l, p := call.limits, &call.plan
	segments := 0
	count := func(n int) {
		call.lens = l.Segments(call.lens[:0], n)
		segments += len(call.lens)
	}
	if p.NoMsg {
		count(p.Len)
	}
	for _, i := range p.Moved {
		count(len(call.Msg.Bulk()[i].Data))
	}
	for _, n := range offer.Writes {
		count(n)
	}
	count(offer.Reply)
	if cap(call.windows) < segments {
		call.windows = make([]window, 0, segments)
	}
	call.windows = call.windows[:0]
	if cap(call.segs) < segments {
		call.segs = make([]wire.Segment, 0, segments)
	}
	call.segs = call.segs[:0]
}

// exposeArguments makes the Read list: the Position-Zero chunk first (RFC 8166 §3.5.3).
func (c *Conn) exposeArguments(call *call) error {
	p, bulk := &call.plan, call.Msg.Bulk()
	read := func(position int, b []byte, mem *transport.Memory, users bool) error {
		segs, err := c.expose(call, b, mem, verbs.RemoteRead, users)
		for _, s := range segs {
			call.head.Reads = append(call.head.Reads, wire.ReadSegment{Position: uint32(position), Segment: s})
		}
		return err
	}
	if p.NoMsg {
		mem, err := c.ep.getMemory(p.Len)
		if err != nil {
			return err
		}
		call.pulled = mem
		chunk.Gather(mem.Bytes()[:0], &call.Msg, p.Parts)
		if err := read(0, mem.Bytes(), &mem.Memory, false); err != nil {
			return err
		}
	}
	for _, i := range p.Moved {
		mem, _ := bulk[i].Mem.(*transport.Memory)
		if err := read(bulk[i].Position, bulk[i].Data, mem, true); err != nil {
			return err
		}
	}
	return nil
}

// exposeResults makes the Write list over the caller's destinations, and the Reply chunk.
func (c *Conn) exposeResults(call *call, offer chunk.Offer) error {
	h := &call.head
	for i := range offer.Writes {
		d := call.Into[i]
		segs, err := c.expose(call, d.Buf, d.Mem, verbs.RemoteWrite|verbs.Scratch, true)
		if err != nil {
			return err
		}
		h.Writes = append(h.Writes, segs)
		call.results = append(call.results, d.Buf)
	}
	if offer.Reply == 0 {
		return nil
	}
	mem, err := c.ep.getMemory(offer.Reply)
	if err != nil {
		return err
	}
	call.reply = mem
	h.Reply, err = c.expose(call, mem.Bytes(), &mem.Memory, verbs.RemoteWrite|verbs.Scratch, false)
	h.HasReply = err == nil
	return err
}

// expose makes windows over b, one for each segment.
func (c *Conn) expose(call *call, b []byte, mem *transport.Memory, a verbs.Access, users bool) (wire.Chunk, error) {
	if len(b) == 0 {
		return nil, nil // an empty chunk has no segments
	}
	reg, off, temporary, err := c.ep.locate(b, mem)
	if err != nil {
		return nil, fmt.Errorf("register %d bytes: %w", len(b), err)
	}
	if temporary {
		call.regs = append(call.regs, reg)
	}
	first := len(call.segs)
	call.lens = call.limits.Segments(call.lens[:0], len(b))
	for _, n := range call.lens {
		call.windows = append(call.windows, window{users: users})
		w := &call.windows[len(call.windows)-1]
		if err := c.vc.Expose(&w.w, reg, off, n, a); err != nil {
			call.windows = call.windows[:len(call.windows)-1]
			return nil, c.exposeError(n, err)
		}
		w.state = windowLive
		call.segs = append(call.segs, wire.Segment{Handle: w.w.Key, Length: uint32(n), Offset: w.w.Addr})
		off += n
	}
	return call.segs[first:len(call.segs):len(call.segs)], nil
}

// exposeError is a *transport.LostError when the connection has ended.
func (c *Conn) exposeError(n int, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return c.lostErr()
	}
	if errIsClosed(err) {
		return &transport.LostError{Err: err}
	}
	return fmt.Errorf("expose %d bytes: %w", n, err)
}

// locate finds the region that b lies in, or registers b for now.
func (e *Endpoint) locate(b []byte, mem *transport.Memory) (reg verbs.Region, off int, temporary bool, err error) {
	if mem != nil {
		reg, err = e.region(mem)
		if err != nil {
			return nil, 0, false, err
		}
		off = int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) - uintptr(unsafe.Pointer(unsafe.SliceData(reg.Bytes()))))
		if off < 0 || off+len(b) > len(reg.Bytes()) {
			return nil, 0, false, fmt.Errorf("engine: %d bytes do not lie in their Memory", len(b))
		}
		return reg, off, false, nil
	}
	reg, err = e.dom.Register(b)
	return reg, 0, true, err
}
