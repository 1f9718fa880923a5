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
// method returns zero values, and Err returns it.
//
// String, Opaque, Fixed and Rest return memory of their own, which the caller may keep and change. StringView,
// OpaqueView, FixedView, RestView, Bulk, Relay and Ahead return views: memory of the stream, or of moved items, that the owner of
// the Reader uses again. A view is valid as long as that owner specifies. For the Args of an rpc.Request that is until the
// handler returns, for the results of a call until UnmarshalXDR returns, for a value or body that was passed in as
// a slice as long as that slice. After that it holds other bytes, those of another message as a rule. A view must not be
// written to. The same holds for what a value that reads itself keeps of a view.
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

// Rest reads what is left of the stream: a copy, as of Opaque.
func (r *Reader) Rest() []byte { return own(r.RestView()) }

// RestView is Rest without the copy: a view.
func (r *Reader) RestView() []byte { return r.take(len(r.buf) - r.off) }

// Unread is the bytes of the unreduced stream not yet consumed, moved items with their round-up.
func (r *Reader) Unread() int {
	n := r.Remaining()
	for _, m := range r.moved[r.taken:] {
		n += len(m.Data) + -len(m.Data)&3
	}
	return n
}

// Ahead calls f with the next bytes of the unreduced stream, n at most, in runs; nothing is consumed. However a
// message was cut into stream and moved items, the bytes are the same. Items without a position are left out. A run is a
// view that is valid until f returns.
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

// Fixed reads n opaque bytes (RFC 4506 §4.9): a copy, as of Opaque. The round-up bytes may have any value: libtirpc
// sends those that its buffer held.
func (r *Reader) Fixed(n int) []byte { return own(r.FixedView(n)) }

// FixedView is Fixed without the copy: a view.
func (r *Reader) FixedView(n int) []byte {
	b := r.take(n)
	r.take(-n & 3)
	if r.err != nil {
		return nil
	}
	return b
}

// Opaque reads a variable opaque of at most bound bytes (RFC 4506 §4.10): a copy, which is allocated when bound and
// stream are known to hold its length. It is nil after a fault only; an opaque of no bytes is empty and not nil. One that a
// Read chunk moved is a fault, ErrChunk: no binding allows it (RFC 8166 §6.1).
func (r *Reader) Opaque(bound uint32) []byte { return own(r.OpaqueView(bound)) }

// OpaqueView is Opaque without the copy: a view.
func (r *Reader) OpaqueView(bound uint32) []byte {
	n, ok := r.length(bound)
	if !ok {
		return nil
	}
	if r.taken < len(r.moved) && r.moved[r.taken].Position == r.Position() {
		r.Fail(ErrChunk)
		return nil
	}
	return r.FixedView(n)
}

// String reads a string of at most bound bytes (RFC 4506 §4.11): a copy, allocated as that of Opaque. RFC 4506 calls it ASCII;
// any byte is accepted.
func (r *Reader) String(bound uint32) string { return string(r.OpaqueView(bound)) }

// StringView is String without the copy: a view, which changes when the memory is used again, although it is a
// string. As a key of a map it corrupts the map. strings.Clone makes one that may be kept.
func (r *Reader) StringView(bound uint32) string {
	b := r.OpaqueView(bound)
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// own is a copy of b; nil stays nil.
func own(b []byte) []byte {
	if b == nil {
		return nil
	}
	c := make([]byte, len(b))
	copy(c, b)
	return c
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
