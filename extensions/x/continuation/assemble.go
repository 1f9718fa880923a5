package continuation

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// piece is a cont_piece.
type piece struct{ offset, remaining uint32 }

func (p piece) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, p.offset)
	return binary.BigEndian.AppendUint32(b, p.remaining)
}

func parsePiece(b []byte) (p piece, ok bool) {
	if len(b) != pieceLen {
		return p, false
	}
	return piece{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}, true
}

// assembler puts messages together: a machine without time or locks. Its memory is bounded by Open messages of max bytes; what is whole is
// its taker's.
type assembler struct {
	max  int
	open []open
}

// open is a message of which pieces are missing.
type open struct {
	xid   uint32
	reply bool
	total int
	buf   *buffer
	n     int // bytes that are here
}

// What take says of a piece.
const (
	accepted  ext.Code = 0
	malformed          = ext.BadXDR
	tooMany            = ext.System
)

// take adds a piece. whole is the message when the last one has come; nil where the piece is all of it.
func (a *assembler) take(xid uint32, reply, last bool, info, payload []byte) (whole *buffer, v ext.Code) {
	p, ok := parsePiece(info)
	i := a.find(xid, reply)
	total := uint64(p.offset) + uint64(len(payload)) + uint64(p.remaining)
	switch {
	case i < 0 && ok && p.offset > 0 && !last:
		return nil, accepted // of a message that was refused
	case !ok, len(payload) == 0, last != (p.remaining == 0), total > uint64(a.max):
		a.forget(i)
		return nil, malformed
	case i < 0 && p.offset > 0:
		return nil, malformed
	case i < 0 && last:
		return nil, accepted
	case i < 0 && len(a.open) == Open:
		return nil, tooMany
	case i < 0:
		i = len(a.open)
		a.open = append(a.open, open{xid: xid, reply: reply, total: int(total), buf: getBuffer(int(total))})
	case int(p.offset) != a.open[i].n, int(total) != a.open[i].total:
		a.forget(i)
		return nil, malformed
	}
	o := &a.open[i]
	o.n += copy(o.buf.b[o.n:o.total], payload)
	if !last {
		return nil, accepted
	}
	whole = o.buf
	whole.b = whole.b[:o.total]
	a.remove(i)
	return whole, accepted
}

func (a *assembler) find(xid uint32, reply bool) int {
	for i := range a.open {
		if a.open[i].xid == xid && a.open[i].reply == reply {
			return i
		}
	}
	return -1
}

// forget drops message i, if there is one.
func (a *assembler) forget(i int) {
	if i >= 0 {
		a.open[i].buf.free()
		a.remove(i)
	}
}

func (a *assembler) remove(i int) {
	n := len(a.open) - 1
	a.open[i] = a.open[n]
	a.open[n] = open{}
	a.open = a.open[:n]
}

// drop forgets all.
func (a *assembler) drop() {
	for len(a.open) > 0 {
		a.forget(0)
	}
}

// buffer is where a message is assembled.
type buffer struct {
	b    []byte
	free func() // bound once
}

// buffers have a power of two bytes, MinMax to MaxMax.
var buffers [6]sync.Pool

func class(n int) int { return bits.Len(uint(max(n-1, 0) / MinMax)) }

func getBuffer(n int) *buffer {
	pool := &buffers[class(n)]
	if b, ok := pool.Get().(*buffer); ok {
		b.b = b.b[:cap(b.b)]
		return b
	}
	b := &buffer{b: make([]byte, MinMax<<class(n))}
	b.free = func() { pool.Put(b) }
	return b
}

// cut makes the pieces of a message of n bytes; none where they were more than a window without the unreported has.
func cut(into []ext.Piece, n, part, last int) []ext.Piece {
	const most = Window - AckEvery + 1
	if part &^= 3; part < 4 || last < 4 || n <= last || (n-last+part-1)/part > most {
		return into
	}
	for at := 0; at < n; {
		op, end := opPart, at+min(part, n-at-4)
		if n-at <= last {
			op, end = opLast, n
		}
		into = grow(into)
		p := &into[len(into)-1]
		p.Op, p.From, p.To = op, at, end
		p.Info = piece{uint32(at), uint32(n - end)}.append(p.Info[:0])
		at = end
	}
	return into
}

// grow appends an element, with the memory of Info that an earlier use may have left there.
func grow(into []ext.Piece) []ext.Piece {
	if len(into) < cap(into) {
		return into[:len(into)+1]
	}
	return append(into, ext.Piece{})
}
