package xdr

import (
	"encoding/binary"
	"math"
)

// Item is a bulk item of a stream that is passed on as it is: what a relay knows of it without knowing the rest.
type Item struct {
	Off     int    // of its content in the stream; its length word stands before
	Data    []byte // the content, without round-up; of Reader.Relay: a view
	Inline  bool   // the content and its round-up stand in the stream too, at Off; else they are left out
	Mem     any    // as of Bulk
	Release func() // as of Bulk
}

// Relay takes what is left of the stream and appends its bulk items to dst. Stream and items are views, as of RestView: they
// are passed on before they end, or copied.
//
// next finds them: it reads up to the length word of the next item from a Reader that stands behind the one before, and
// returns false where there is none. Without next they are those that were moved, by their positions; items
// that are known by their order alone are then a fault, ErrChunk, as is any that next does not come to.
func (r *Reader) Relay(dst []Item, next func(*Reader) bool) (stream []byte, items []Item) {
	start := r.off
	if next == nil {
		dst = r.movedItems(dst, start)
	} else {
		for r.err == nil && next(r) && r.err == nil {
			at := r.off
			d := r.Bulk(math.MaxUint32)
			if r.err == nil {
				dst = append(dst, Item{Off: at + 4 - start, Data: d, Inline: r.off > at+4})
			}
		}
	}
	for _, m := range r.moved[min(r.taken, len(r.moved)):] {
		if m.Position != InOrder || len(m.Data) > 0 {
			r.Fail(ErrChunk)
		}
	}
	if r.err != nil {
		return nil, dst
	}
	r.off = len(r.buf)
	return r.buf[start:len(r.buf):len(r.buf)], dst
}

// movedItems appends the items that were moved from a position, and takes them.
func (r *Reader) movedItems(dst []Item, start int) []Item {
	at := r.off
	for ; r.taken < len(r.moved) && r.moved[r.taken].Position != InOrder; r.taken++ {
		m := &r.moved[r.taken]
		off := m.Position - r.extra
		if off-4 < at || off > len(r.buf) {
			r.Fail(ErrChunk)
			return dst
		}
		n := int64(binary.BigEndian.Uint32(r.buf[off-4:]))
		if got := int64(len(m.Data)); got != n && got != n+(-n&3) {
			r.Fail(ErrChunk)
			return dst
		}
		dst = append(dst, Item{Off: off - start, Data: m.Data[:n:n]})
		r.extra += int(n + (-n & 3))
		at = off
	}
	return dst
}

// Relay appends a stream with its bulk items, which are those of Reader.Relay or of who knows where they stand, in
// order. They are taken over, as by BulkItem: each is released once. One that does not fit the stream is a fault, ErrChunk.
func (w *Writer) Relay(stream []byte, items []Item) {
	at := 0
	for i := range items {
		it := &items[i]
		end := it.Off
		if it.Inline {
			end += len(it.Data) + -len(it.Data)&3
		}
		if it.Off-4 < at || end > len(stream) || int64(binary.BigEndian.Uint32(stream[it.Off-4:])) != int64(len(it.Data)) {
			w.Fail(ErrChunk)
			for ; i < len(items); i++ {
				if f := items[i].Release; f != nil {
					f()
				}
			}
			return
		}
		w.Raw(stream[at : it.Off-4])
		w.BulkItem(Bulk{Data: it.Data, Mem: it.Mem, Release: it.Release})
		at = end
	}
	w.Raw(stream[at:])
}
