package wire

import (
	"encoding/binary"
	"math"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// segLen is the size of a plain segment: HLOO (RFC 8166 §4.7).
const segLen = 16

func (s Segment) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, s.Handle)
	b = binary.BigEndian.AppendUint32(b, s.Length)
	return binary.BigEndian.AppendUint64(b, s.Offset)
}

func segmentAt(b []byte) Segment {
	return Segment{
		Handle: binary.BigEndian.Uint32(b),
		Length: binary.BigEndian.Uint32(b[4:]),
		Offset: binary.BigEndian.Uint64(b[8:]),
	}
}

func (c Chunk) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(c)))
	for _, s := range c {
		b = s.append(b)
	}
	return b
}

// append appends the three lists (RFC 8166 §4.3, §4.7): optional-data, a word of 1
// before each entry of a list and 0 after the last.
func (l *Lists) append(b []byte) []byte {
	for _, s := range l.Reads {
		b = append(b, 0, 0, 0, 1)
		b = binary.BigEndian.AppendUint32(b, s.Position)
		b = s.Segment.append(b)
	}
	b = append(b, 0, 0, 0, 0)
	for _, c := range l.Writes {
		b = append(b, 0, 0, 0, 1)
		b = c.append(b)
	}
	b = append(b, 0, 0, 0, 0)
	if !l.HasReply {
		return append(b, 0, 0, 0, 0)
	}
	b = append(b, 0, 0, 0, 1)
	return l.Reply.append(b)
}

// Len is the number of bytes of the three lists in a header.
func (l *Lists) Len() int {
	n := 12 + len(l.Reads)*(8+segLen)
	for _, c := range l.Writes {
		n += 8 + len(c)*segLen
	}
	if l.HasReply {
		n += 4 + len(l.Reply)*segLen
	}
	return n
}

// Empty tells whether all three are not present.
func (l *Lists) Empty() bool {
	return len(l.Reads) == 0 && len(l.Writes) == 0 && !l.HasReply
}

// HasHandle tells whether one of the segments names h: only such a handle may be
// invalidated by the responder (v2 draft §6.2.3, D-25).
func (l *Lists) HasHandle(h uint32) bool {
	for i := range l.Reads {
		if l.Reads[i].Handle == h {
			return true
		}
	}
	for _, c := range l.Writes {
		if c.hasHandle(h) {
			return true
		}
	}
	return l.Reply.hasHandle(h)
}

func (c Chunk) hasHandle(h uint32) bool {
	for i := range c {
		if c[i].Handle == h {
			return true
		}
	}
	return false
}

// OneHandle is the only handle that the segments name; ok is false when there is none,
// or more than one (D-25, version 1).
func (l *Lists) OneHandle() (h uint32, ok bool) {
	for i := range l.Reads {
		if h, ok = oneHandle(h, ok, l.Reads[i].Segment); !ok {
			return 0, false
		}
	}
	for _, c := range l.Writes {
		for _, s := range c {
			if h, ok = oneHandle(h, ok, s); !ok {
				return 0, false
			}
		}
	}
	for _, s := range l.Reply {
		if h, ok = oneHandle(h, ok, s); !ok {
			return 0, false
		}
	}
	return h, ok
}

func oneHandle(h uint32, have bool, s Segment) (uint32, bool) {
	return s.Handle, !have || h == s.Handle
}

// parseLists reads the three lists into h. Limits are asked after the bytes are known to
// be there, so that what a garbled count says is a fault of form, not of size.
func (h *Header) parseLists(r *xdr.Reader) Reason {
	chunks, run := 0, 0
	for r.Bool() {
		b := r.FixedView(4 + segLen)
		if b == nil {
			return 0 // r has the fault
		}
		s := ReadSegment{binary.BigEndian.Uint32(b), segmentAt(b[4:])}
		if n := len(h.Reads); n > 0 && h.Reads[n-1].Position == s.Position {
			run++
		} else {
			chunks, run = chunks+1, 1
		}
		switch {
		case s.Position&3 != 0: // RFC 8166 §3.4.5
			return Misaligned
		case run > MaxSegments:
			return TooManySegments
		case chunks > MaxReadChunks:
			return TooManyReads
		}
		h.Reads = append(h.Reads, s)
	}
	for r.Bool() {
		if len(h.Writes) == MaxWriteChunks {
			return TooManyWrites
		}
		c, reason := h.parseChunk(r)
		if reason != 0 || r.Err() != nil {
			return reason
		}
		h.Writes = append(h.Writes, c)
	}
	var reason Reason
	if r.Bool() {
		h.HasReply = true
		h.Reply, reason = h.parseChunk(r)
	}
	return reason
}

// parseChunk reads a counted array of segments; none is allowed (RFC 8166 §4.3.2.3). The chunk is
// cut out of h.segs with no spare capacity; chunks cut earlier keep the memory they have when
// h.segs moves.
func (h *Header) parseChunk(r *xdr.Reader) (Chunk, Reason) {
	n := r.Count(math.MaxUint32, segLen)
	if n > MaxSegments {
		return nil, TooManySegments
	}
	b := r.FixedView(n * segLen)
	at := len(h.segs)
	for ; len(b) > 0; b = b[segLen:] {
		h.segs = append(h.segs, segmentAt(b))
	}
	return h.segs[at:len(h.segs):len(h.segs)], 0
}
