package chunk

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// value is one XDR item of a test message: a word, an opaque, or an opaque that may move.
type value struct {
	kind byte // 'w', 'o', 'b'
	word uint32
	data []byte
}

func word(v uint32) value { return value{kind: 'w', word: v} }
func opaque(n int) value  { return value{kind: 'o', data: pattern(n)} }
func bulk(n int) value    { return value{kind: 'b', data: pattern(n)} }

var patterns byte

// pattern is n bytes that no other item has.
func pattern(n int) []byte {
	patterns += 31
	b := make([]byte, n)
	for i := range b {
		b[i] = patterns + byte(i*7) + byte(i>>8)
	}
	return b
}

func write(vs ...value) *xdr.Writer {
	w := new(xdr.Writer)
	for _, v := range vs {
		switch v.kind {
		case 'w':
			w.Uint32(v.word)
		case 'o':
			w.Opaque(v.data)
		case 'b':
			w.BulkOpaque(v.data)
		}
	}
	return w
}

// readBack decodes what was joined and compares it with what was encoded.
func readBack(stream []byte, moved []xdr.Moved, vs []value) error {
	var r xdr.Reader
	r.Reset(stream, moved)
	for i, v := range vs {
		var got []byte
		switch v.kind {
		case 'w':
			if n := r.Uint32(); n != v.word && r.Err() == nil {
				return fmt.Errorf("item %d: word %#x, want %#x", i, n, v.word)
			}
			continue
		case 'o':
			got = r.OpaqueView(1 << 30)
		case 'b':
			got = r.Bulk(1 << 30)
		}
		if r.Err() == nil && !bytes.Equal(got, v.data) {
			return fmt.Errorf("item %d: %d bytes differ, want %d", i, len(got), len(v.data))
		}
	}
	return r.Done()
}

// memory is what a requester has exposed: windows by handle, each with its own base address.
type memory map[uint32]window

type window struct {
	base uint64
	mem  []byte
}

// expose makes segments of mem. Chunks of several segments get a handle for each, or
// one for all.
func (m memory) expose(mem []byte, lens []int, share bool) (c wire.Chunk) {
	at := 0
	for i, n := range lens {
		if i == 0 || !share {
			h := uint32(len(m)) + 1
			part := mem[at:]
			if !share {
				part = mem[at : at+n]
			}
			m[h] = window{base: uint64(h)<<40 | 0xfff, mem: part}
		}
		h := uint32(len(m))
		off := m[h].base
		if share {
			off += uint64(at)
		}
		c = append(c, wire.Segment{Handle: h, Length: uint32(n), Offset: off})
		at += n
	}
	return c
}

// at resolves a segment as a provider does: handle, range and rights, or a failure.
func (m memory) at(s wire.Segment, n int) ([]byte, error) {
	w, ok := m[s.Handle]
	if !ok || s.Offset < w.base || uint64(n) > uint64(s.Length) || s.Offset-w.base+uint64(n) > uint64(len(w.mem)) {
		return nil, fmt.Errorf("remote access failure: %+v, %d bytes", s, n)
	}
	return w.mem[s.Offset-w.base:][:n], nil
}

// send encodes header and payload, checks that they are what was planned and fit one
// Send, and parses them again, as the peer does.
func send(h *wire.Header, planned, limit int, payload []byte) (got *wire.Header, rest []byte, err error) {
	b := h.Append(nil)
	if len(b) != planned || h.Len() != planned {
		return nil, nil, fmt.Errorf("header of %d bytes, planned %d", len(b), planned)
	}
	b = append(b, payload...)
	if len(b) > limit {
		return nil, nil, fmt.Errorf("send of %d bytes, limit %d", len(b), limit)
	}
	got = new(wire.Header)
	n, err := got.Parse(b, wire.ProfileCel04)
	if err != nil {
		return nil, nil, err
	}
	return got, b[n:], got.CheckRest(len(b) - n)
}

// exposeCall makes the header of a planned call.
func exposeCall(m memory, p *CallPlan, o Offer, l Limits, msg *xdr.Writer, share bool) (h wire.Header, writes [][]byte, reply []byte) {
	h = wire.Header{XID: 7, Version: l.Version, Credit: 1, Proc: wire.Msg}
	read := func(at int, mem []byte) {
		for _, s := range m.expose(mem, l.Segments(nil, len(mem)), share) {
			h.Reads = append(h.Reads, wire.ReadSegment{Position: uint32(at), Segment: s})
		}
	}
	if p.NoMsg {
		h.Proc = wire.NoMsg
		read(0, Gather(nil, msg, p.Parts))
	}
	for _, i := range p.Moved {
		read(msg.Bulk()[i].Position, msg.Bulk()[i].Data)
	}
	for _, n := range o.Writes {
		mem := make([]byte, n)
		h.Writes = append(h.Writes, m.expose(mem, l.Segments(nil, n), share))
		writes = append(writes, mem)
	}
	if h.HasReply = o.Reply > 0; h.HasReply {
		reply = make([]byte, o.Reply)
		h.Reply = m.expose(reply, l.Segments(nil, o.Reply), share)
	}
	return h, writes, reply
}

// pull reads the chunks of a call.
func pull(m memory, h *wire.Header) (chunks []ReadChunk, data [][]byte, err error) {
	chunks = ReadChunks(nil, h.Reads)
	for _, c := range chunks {
		var d []byte
		for _, s := range h.Reads[c.First:][:c.N] {
			b, err := m.at(s.Segment, int(s.Length))
			if err != nil {
				return nil, nil, err
			}
			d = append(d, b...)
		}
		if len(d) != c.Len {
			return nil, nil, fmt.Errorf("chunk of %d bytes, expected %d", len(d), c.Len)
		}
		data = append(data, d)
	}
	return chunks, data, nil
}

// deliverCall carries a planned call to its end. It returns the lists as the
// responder has them, and the requester's memory.
func deliverCall(m memory, p *CallPlan, o Offer, l Limits, vs []value, msg *xdr.Writer, share bool) (got *wire.Header, h wire.Header, writes [][]byte, reply []byte, err error) {
	h, writes, reply = exposeCall(m, p, o, l, msg, share)
	var inline []byte
	if !p.NoMsg {
		inline = Gather(nil, msg, p.Parts)
	}
	got, rest, err := send(&h, p.Header, l.Send, inline)
	if err != nil {
		return
	}
	lim := RecvLimits{MaxReads: l.MaxReads, MaxWrites: l.MaxWrites, MaxSegs: l.MaxSegs}
	if err = CheckCall(got, len(rest), lim); err != nil {
		return
	}
	chunks, data, err := pull(m, got)
	if err != nil {
		return
	}
	stream, moved := JoinCall(nil, got, chunks, data, rest)
	err = readBack(stream, moved, vs)
	return
}

// deliverReply carries a planned reply to its end.
func deliverReply(m memory, p *ReplyPlan, l Limits, call *wire.Header, offered *wire.Lists, vs []value, msg *xdr.Writer, writes [][]byte, reply []byte, into [][]byte) error {
	for _, op := range p.Writes {
		if op.N <= 0 {
			return fmt.Errorf("write of %d bytes", op.N)
		}
		c, src := call.Reply, []byte(nil)
		if op.Chunk >= 0 {
			c, src = call.Writes[op.Chunk], msg.Bulk()[op.Bulk].Data[op.Off:][:op.N]
		} else {
			Range(p.Parts, op.Off, op.N, func(part Part) { src = Gather(src, msg, []Part{part}) })
		}
		if len(src) != op.N {
			return fmt.Errorf("write of %d bytes has %d", op.N, len(src))
		}
		dst, err := m.at(c[op.Seg], op.N)
		if err != nil {
			return err
		}
		copy(dst, src)
	}
	h := wire.Header{XID: 7, Version: l.Version, Credit: 1, Proc: wire.Msg, Direction: wire.Reply, Lists: p.Returned}
	var inline []byte
	if h.Proc = wire.NoMsg; !p.NoMsg {
		h.Proc = wire.Msg
		inline = Gather(nil, msg, p.Parts)
	}
	got, rest, err := send(&h, p.Header, l.Send, inline)
	if err != nil {
		return err
	}
	if err := CheckReply(got, offered, len(rest)); err != nil {
		return err
	}
	stream, moved := JoinReply(nil, &got.Lists, writes, reply, rest, into)
	return readBack(stream, moved, vs)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
