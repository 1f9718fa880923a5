package xdr

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"
)

var (
	// ErrShort: the stream ended within an item.
	ErrShort = errors.New("xdr: stream ends within an item")
	// ErrBounds: a length is above the bound of its type, or of the destination.
	ErrBounds = errors.New("xdr: length above its bound")
	// ErrValue: a value outside its type: a bool that is neither 0 nor 1, an unknown discriminant.
	ErrValue = errors.New("xdr: value outside its type")
	// ErrChunk: a moved item's length or position disagrees with the stream.
	ErrChunk = errors.New("xdr: chunk disagrees with the stream")
	// ErrTrailing: bytes or moved items are left over.
	ErrTrailing = errors.New("xdr: bytes left over")
)

// Unmarshaler is a type that reads itself; faults stick in r.
type Unmarshaler interface{ UnmarshalXDR(r *Reader) }

// Reader is a cursor over one XDR stream. The first fault sticks: after it every
// method returns zero values, and Err tells what it was. What it returns by
// reference are views into the stream or into moved items.
type Reader struct {
	buf   []byte
	off   int
	err   error
	moved []Moved
	taken int // of moved
	extra int // bytes of moved items so far, with round-up: position = off + extra
}

// NewReader reads b.
func NewReader(b []byte) *Reader { return &Reader{buf: b} }

// Reset makes r read b anew; moved items are those that are not in b.
func (r *Reader) Reset(b []byte, moved []Moved) {
	r.buf, r.off, r.err, r.moved, r.taken, r.extra = b, 0, nil, moved, 0, 0
}

// Err is the first fault, or nil.
func (r *Reader) Err() error { return r.err }

// Fail makes err the fault if there is none yet.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Offset is the number of bytes of the stream consumed; moved items do not count.
func (r *Reader) Offset() int { return r.off }

// Position is the offset in the unreduced stream (RFC 8166 §3.4.5): moved items count.
func (r *Reader) Position() int { return r.off + r.extra }

// Remaining is the number of bytes of the stream not yet consumed.
func (r *Reader) Remaining() int { return len(r.buf) - r.off }

// Rest takes what is left of the stream.
func (r *Reader) Rest() []byte { return r.take(len(r.buf) - r.off) }

// Unread is the bytes of the unreduced stream not yet consumed, moved items with their round-up.
func (r *Reader) Unread() int {
	n := r.Remaining()
	for _, m := range r.moved[r.taken:] {
		n += len(m.Data) + -len(m.Data)&3
	}
	return n
}

// Ahead calls f with the next bytes of the unreduced stream, n at most, in runs; nothing is consumed. However a
// message was cut into stream and moved items, the bytes are the same. Items without a position are left out.
func (r *Reader) Ahead(n int, f func([]byte)) {
	run := func(b []byte) {
		if b = b[:min(n, len(b))]; len(b) > 0 {
			n -= len(b)
			f(b)
		}
	}
	rest, at := r.buf[r.off:], r.Position()
	for _, m := range r.moved[r.taken:] {
		if m.Position == InOrder {
			continue
		}
		before := min(max(m.Position-at, 0), len(rest))
		run(rest[:before])
		run(m.Data)
		run(zeros[:-len(m.Data)&3])
		rest, at = rest[before:], at+before+len(m.Data)+-len(m.Data)&3
	}
	run(rest)
}

// Done reports the fault, or ErrTrailing when bytes or moved items at a position are
// left over.
func (r *Reader) Done() error {
	if r.err != nil {
		return r.err
	}
	if r.off != len(r.buf) {
		return ErrTrailing
	}
	for _, m := range r.moved[r.taken:] {
		if m.Position != InOrder {
			return ErrTrailing
		}
	}
	return nil
}

// take hands out n bytes, capped so that an append cannot run into the next item.
func (r *Reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.buf)-r.off {
		r.err = ErrShort
		return nil
	}
	b := r.buf[r.off : r.off+n : r.off+n]
	r.off += n
	return b
}

// Uint32 reads an unsigned integer (RFC 4506 §4.2).
func (r *Reader) Uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// Int32 reads an integer or an enum (RFC 4506 §4.1, §4.3).
func (r *Reader) Int32() int32 { return int32(r.Uint32()) }

// Uint64 reads an unsigned hyper (RFC 4506 §4.5).
func (r *Reader) Uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Int64 reads a hyper (RFC 4506 §4.5).
func (r *Reader) Int64() int64 { return int64(r.Uint64()) }

// Bool reads a bool, also the one before an optional item (RFC 4506 §4.4, §4.19).
func (r *Reader) Bool() bool {
	switch r.Uint32() {
	case 0:
		return false
	case 1:
		return true
	}
	r.Fail(ErrValue)
	return false
}

// Count reads the length of a variable array of at most bound items, each of at
// least size bytes, in the stream as it is, that is 4 for an item that may be moved
// (RFC 4506 §4.13): a length that the stream cannot hold is refused before anything is
// allocated for it.
func (r *Reader) Count(bound uint32, size int) int {
	n := r.Uint32()
	if r.err != nil {
		return 0
	}
	if n > bound {
		r.err = ErrBounds
		return 0
	}
	if int64(n)*int64(max(size, 1)) > int64(r.Remaining()) {
		r.err = ErrShort
		return 0
	}
	return int(n)
}

// Fixed reads n opaque bytes (RFC 4506 §4.9): a view into the stream. What the
// round-up bytes hold is not looked at: libtirpc sends what was in its buffer.
func (r *Reader) Fixed(n int) []byte {
	b := r.take(n)
	r.take(-n & 3)
	if r.err != nil {
		return nil
	}
	return b
}

// Opaque reads a variable opaque of at most bound bytes (RFC 4506 §4.10): a view. One that a Read
// chunk moved is refused: no binding allows it (RFC 8166 §6.1).
func (r *Reader) Opaque(bound uint32) []byte {
	n, ok := r.length(bound)
	if !ok {
		return nil
	}
	if r.taken < len(r.moved) && r.moved[r.taken].Position == r.Position() {
		r.Fail(ErrChunk)
		return nil
	}
	return r.Fixed(n)
}

// String reads a string of at most bound bytes (RFC 4506 §4.11) as a view: it is
// valid as long as the stream.
func (r *Reader) String(bound uint32) string {
	b := r.Opaque(bound)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (r *Reader) length(bound uint32) (int, bool) {
	n := r.Uint32()
	if r.err != nil {
		return 0, false
	}
	if n > bound {
		r.err = ErrBounds
		return 0, false
	}
	if uint64(n) > math.MaxInt { // an int of 32 bits: no stream is that long
		r.err = ErrShort
		return 0, false
	}
	return int(n), true
}
