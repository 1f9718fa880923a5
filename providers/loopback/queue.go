package loopback

import "github.com/rpcrdma/rpcrdma/core/verbs"

// work is a posted work request: the copy that Post makes. Works are recycled with their
// Segs, so a connection in steady state allocates none.
type work struct {
	next   *work
	id     uint64
	op     verbs.Op
	status verbs.Status
	key    uint32 // Invalidate: the window's
	remote uint64
	n      int // bytes in segs
	segs   []verbs.Seg
}

func (e *work) fill(w *verbs.Work, n int) {
	e.id, e.op, e.status = w.ID, w.Op, verbs.OK
	e.key, e.remote, e.n = w.Key, w.Remote, n
	e.segs = append(e.segs[:0], w.Segs...)
	if w.Op == verbs.OpInvalidate {
		e.key = w.Window.Key
	}
}

// drop forgets the memory that e names; it may be gone tomorrow.
func (e *work) drop() {
	clear(e.segs)
	e.segs = e.segs[:0]
}

// workList is a queue of works.
type workList struct{ head, tail *work }

func (l *workList) push(e *work) {
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
}

func (l *workList) pop() *work {
	e := l.head
	if e == nil {
		return nil
	}
	if l.head = e.next; l.head == nil {
		l.tail = nil
	}
	e.next = nil
	return e
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
