package iwarp

import "sync"

// What a connection needs while it moves bytes is a quarter of a MiB. It is lent to whoever has the
// role and given back when nothing is under way, so that an idle connection holds none of it, and a
// thousand connections need as much as are busy at once.
var (
	lookAheads = sync.Pool{New: func() any { return new([lookAhead]byte) }}
	batches    = sync.Pool{New: func() any {
		return &batch{
			todo: make([]item, 0, gatherWorks), buf: make([]byte, 0, combineSize),
			vec: make([][]byte, 0, 64), places: make([]place, 0, 64), ends: make([]uint64, 0, 64), // a MiB of frames
		}
	}}
)

// batch is the memory of an outbound.
type batch struct {
	todo   []item
	buf    []byte
	vec    [][]byte
	places []place
	wins   []held
	ends   []uint64
}

// borrow is called by who takes the role.
func (o *outbound) borrow() {
	if o.lent == nil {
		b := batches.Get().(*batch)
		o.lent = b
		o.todo, o.buf, o.vec, o.places, o.wins, o.ends = b.todo, b.buf, b.vec, b.places, b.wins, b.ends
	}
}

// giveBack is called by who lets it go: all is written.
func (o *outbound) giveBack() {
	b := o.lent
	clear(o.todo)
	clear(o.vec)
	clear(o.wins)
	b.todo, b.buf, b.vec, b.places, b.wins, b.ends = o.todo[:0], o.buf[:0], o.vec[:0], o.places[:0], o.wins[:0], o.ends[:0]
	o.lent, o.todo, o.buf, o.vec, o.places, o.wins, o.ends = nil, nil, nil, nil, nil, nil, nil
	o.at, o.next, o.loose = 0, 0, 0
	batches.Put(b)
}

// borrow is called before each read.
func (in *inbound) borrow() {
	if in.buf == nil {
		in.buf = lookAheads.Get().(*[lookAhead]byte)[:]
	}
}

// giveBack is called before who reads is put to sleep.
func (in *inbound) giveBack() {
	if in.r == in.w && in.buf != nil {
		lookAheads.Put((*[lookAhead]byte)(in.buf))
		in.buf, in.r, in.w = nil, 0, 0
	}
}
