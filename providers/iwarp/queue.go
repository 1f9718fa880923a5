package iwarp

import (
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
)

// work is a posted work request: the copy that Post makes. Works are recycled with the
// room for their Segs, so a connection in its steady state makes none.
type work struct {
	next   *work
	id     uint64
	op     verbs.Op
	status verbs.Status
	key    uint32
	remote uint64
	n      int // bytes in segs
	segs   []verbs.Seg
	sink   rdmap.Sink // of a Read that is under way
	msn    uint32     // and its request's
	end    uint64     // output position after its last byte
}

func (w *work) fill(from *verbs.Work, n int) {
	w.id, w.op, w.status = from.ID, from.Op, verbs.OK
	w.key, w.remote, w.n = from.Key, from.Remote, n
	w.segs = append(w.segs[:0], from.Segs...)
	if from.Op == verbs.OpInvalidate {
		w.key = from.Window.Key
	}
}

// drop forgets the memory that w names; it may be gone tomorrow.
func (w *work) drop() {
	clear(w.segs)
	w.segs = w.segs[:0]
}

// works is a queue of works.
type works struct{ head, tail *work }

func (q *works) push(w *work) {
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
}

func (q *works) pop() *work {
	w := q.head
	if w == nil {
		return nil
	}
	if q.head = w.next; q.head == nil {
		q.tail = nil
	}
	w.next = nil
	return w
}

// ring is a queue that grows and keeps what it has grown to.
type ring[T any] struct {
	buf  []T // a power of two long
	head int
	n    int
}

func (r *ring[T]) push(v T) {
	if r.n == len(r.buf) {
		bigger := make([]T, max(16, 2*len(r.buf)))
		k := copy(bigger, r.buf[r.head:])
		copy(bigger[k:], r.buf[:r.head])
		r.buf, r.head = bigger, 0
	}
	r.buf[(r.head+r.n)&(len(r.buf)-1)] = v
	r.n++
}

func (r *ring[T]) pop() T {
	var zero T
	v := r.buf[r.head]
	r.buf[r.head] = zero
	r.head = (r.head + 1) & (len(r.buf) - 1)
	r.n--
	return v
}
