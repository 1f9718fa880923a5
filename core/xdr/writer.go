package xdr

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Marshaler is a type that writes itself; faults stick in w.
type Marshaler interface{ MarshalXDR(w *Writer) }

// Bulk is an opaque that a Writer took out of the stream: its length word is in,
// its bytes and round-up are not.
type Bulk struct {
	Off      int    // where in Bytes its content would stand
	Position int    // of its content in the unreduced stream
	Data     []byte // not copied: it belongs to whoever wrote it until the message is done with
	Mem      any    // what the engine knows Data's memory by, or nil
	Release  func() // called once when nothing needs Data any more, or nil
}

// Writer appends one XDR stream. The zero value is ready; Reset keeps the memory.
type Writer struct {
	buf   []byte
	bulk  []Bulk
	extra int // bytes of bulk with round-up
	err   error
}

// Reset empties w and keeps its memory. Releases of bulk items that were not taken over
// are not called: see DropBulk.
func (w *Writer) Reset() {
	clear(w.bulk)
	w.buf, w.bulk, w.extra, w.err = w.buf[:0], w.bulk[:0], 0, nil
}

// Bytes is the stream without its bulk items; valid until the next append.
func (w *Writer) Bytes() []byte { return w.buf }

// Bulk are the items taken out, in order.
func (w *Writer) Bulk() []Bulk { return w.bulk }

// Len is the length of the unreduced stream, round-up bytes included.
func (w *Writer) Len() int { return len(w.buf) + w.extra }

// Err is the first fault, or nil.
func (w *Writer) Err() error { return w.err }

// Fail makes err the fault if there is none yet.
func (w *Writer) Fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Truncate cuts the stream back to n bytes of Bytes and drops, and releases, the bulk
// items behind that: n is where an item ends. A fault stays.
func (w *Writer) Truncate(n int) {
	if n < 0 || n > len(w.buf) {
		panic(fmt.Sprintf("xdr: truncate of %d bytes to %d", len(w.buf), n))
	}
	w.buf = w.buf[:n]
	for len(w.bulk) > 0 && w.bulk[len(w.bulk)-1].Off > n {
		last := &w.bulk[len(w.bulk)-1]
		w.extra -= len(last.Data) + (-len(last.Data) & 3)
		if last.Release != nil {
			last.Release()
		}
		*last = Bulk{}
		w.bulk = w.bulk[:len(w.bulk)-1]
	}
}

// DropBulk releases all bulk items: the message will not be sent.
func (w *Writer) DropBulk() {
	for i := range w.bulk {
		if f := w.bulk[i].Release; f != nil {
			f()
		}
	}
	clear(w.bulk)
	w.bulk, w.extra = w.bulk[:0], 0
}

func (w *Writer) Uint32(v uint32) { w.buf = binary.BigEndian.AppendUint32(w.buf, v) }
func (w *Writer) Int32(v int32)   { w.Uint32(uint32(v)) }
func (w *Writer) Uint64(v uint64) { w.buf = binary.BigEndian.AppendUint64(w.buf, v) }
func (w *Writer) Int64(v int64)   { w.Uint64(uint64(v)) }

func (w *Writer) Bool(v bool) {
	if v {
		w.Uint32(1)
	} else {
		w.Uint32(0)
	}
}

var zeros [4]byte

// Fixed appends opaque bytes of a length known to both sides, with round-up (RFC 4506 §4.9).
func (w *Writer) Fixed(b []byte) {
	w.buf = append(w.buf, b...)
	w.buf = append(w.buf, zeros[:-len(b)&3]...)
}

// Opaque appends a variable opaque (RFC 4506 §4.10), copied.
func (w *Writer) Opaque(b []byte) {
	if w.length(len(b)) {
		w.Fixed(b)
	}
}

// length appends the length word of an item, which has 32 bits.
func (w *Writer) length(n int) bool {
	if uint64(n) > math.MaxUint32 {
		w.Fail(ErrBounds)
		return false
	}
	w.Uint32(uint32(n))
	return true
}

// String appends a string (RFC 4506 §4.11).
func (w *Writer) String(s string) {
	if !w.length(len(s)) {
		return
	}
	w.buf = append(w.buf, s...)
	w.buf = append(w.buf, zeros[:-len(s)&3]...)
}

// BulkOpaque appends a variable opaque that the binding may move: the length word only;
// b stays where it is until the message is done with.
func (w *Writer) BulkOpaque(b []byte) { w.BulkItem(Bulk{Data: b}) }

// BulkItem is BulkOpaque with its memory and release; Off and Position are set here. An item
// that is too long for XDR is a fault, and released like the others.
func (w *Writer) BulkItem(it Bulk) {
	n := len(it.Data)
	if !w.length(n) {
		if it.Release != nil {
			it.Release()
		}
		return
	}
	it.Off, it.Position = len(w.buf), len(w.buf)+w.extra
	w.bulk = append(w.bulk, it)
	w.extra += n + (-n & 3)
}

// Raw appends bytes that are XDR already; their length is a multiple of 4.
func (w *Writer) Raw(b []byte) { w.buf = append(w.buf, b...) }

// AppendUnreduced appends the whole stream, bulk items in place, to b.
func (w *Writer) AppendUnreduced(b []byte) []byte {
	at := 0
	for _, it := range w.bulk {
		b = append(b, w.buf[at:it.Off]...)
		b = append(b, it.Data...)
		b = append(b, zeros[:-len(it.Data)&3]...)
		at = it.Off
	}
	return append(b, w.buf[at:]...)
}
