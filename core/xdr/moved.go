package xdr

// InOrder is the position of an item that is matched by its order among the bulk
// items (a Write chunk, RFC 8166 §4.3.2.2), not by its place in the stream.
const InOrder = -1

// Moved is an item that may not be in the stream because a chunk carried it.
type Moved struct {
	// Position is that of its first content byte in the unreduced stream, or InOrder.
	Position int
	// Data is what was moved: the item, or the item with its round-up bytes. Empty, with
	// InOrder: the chunk was not used, or the item is empty.
	Data []byte
	// Into is where the item is to end up when it comes inline after all (InOrder only);
	// its length is the most accepted. Data lies in Into when it was moved.
	Into []byte
	// Loose: one that is longer than Into is no fault when it comes inline; it is read where it lies.
	Loose bool
}

// Bulk reads a variable opaque that a binding may move, of at most bound bytes: from its chunk, or inline. With a
// destination the result lies there, in memory of the caller's, who may keep it. Otherwise it is a view, valid as those of
// OpaqueView: a copy would defeat the purpose of placing bulk data. slices.Clone makes one that may be kept.
func (r *Reader) Bulk(bound uint32) []byte {
	n, ok := r.length(bound)
	if !ok || r.taken == len(r.moved) {
		return r.FixedView(n)
	}
	m := &r.moved[r.taken]
	switch {
	case m.Position == r.Position():
		return r.movedItem(n)
	case m.Position != InOrder:
		return r.FixedView(n)
	case len(m.Data) > 0:
		return r.movedItem(n)
	}
	r.taken++
	if m.Into == nil {
		return r.FixedView(n)
	}
	if n > len(m.Into) && m.Loose {
		return r.FixedView(n)
	}
	if n > len(m.Into) {
		r.Fail(ErrBounds)
		return nil
	}
	b := r.FixedView(n)
	if r.err != nil {
		return nil
	}
	return m.Into[:copy(m.Into, b):len(b)]
}

// movedItem takes the next moved item, whose length the stream gives as n. The
// chunk may carry the round-up as well (RFC 8166 §3.4.5.2).
func (r *Reader) movedItem(n int) []byte {
	d := r.moved[r.taken].Data
	if len(d) != n && len(d) != n+(-n&3) {
		r.Fail(ErrChunk)
		return nil
	}
	r.taken++
	r.extra += n + (-n & 3)
	return d[:n:n]
}
