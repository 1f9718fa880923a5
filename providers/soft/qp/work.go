package qp

import "github.com/rpcrdma/rpcrdma/core/verbs"

// Work is a posted work request: the copy that Post makes. Works are recycled with the room for
// their Segs, so that a connection in its steady state makes none. X is what the fabric keeps of a
// work while it is under way: a position in the stream, packet numbers, a count of retries.
type Work[X any] struct {
	next   *Work[X]
	ID     uint64
	Op     verbs.Op
	Status verbs.Status
	Key    uint32 // of an Invalidate: its window's
	Remote uint64
	N      int // bytes in Segs
	Segs   []verbs.Seg
	X      X
}

func (w *Work[X]) fill(from *verbs.Work, n int) {
	w.ID, w.Op, w.Status = from.ID, from.Op, verbs.OK
	w.Key, w.Remote, w.N = from.Key, from.Remote, n
	w.Segs = append(w.Segs[:0], from.Segs...)
	if from.Op == verbs.OpInvalidate {
		w.Key = from.Window.Key
	}
}

// Next is the work behind w in its queue, or nil.
func (w *Work[X]) Next() *Work[X] { return w.next }

// Slices appends to vec the memory of n bytes from off of what w's Segs name.
func (w *Work[X]) Slices(vec [][]byte, off, n int) [][]byte {
	for i := range w.Segs {
		s := &w.Segs[i]
		if off >= s.N {
			off -= s.N
			continue
		}
		if n == 0 {
			break
		}
		k := min(n, s.N-off)
		vec = append(vec, s.R.Bytes()[s.Off+off:s.Off+off+k])
		off, n = 0, n-k
	}
	return vec
}

// Works is a queue of works. A work is in one queue at a time.
type Works[X any] struct {
	head, tail *Work[X]
	n          int
}

// Head is the work that Pop takes next, or nil.
func (q *Works[X]) Head() *Work[X] { return q.head }

// Len is how many works there are.
func (q *Works[X]) Len() int { return q.n }

// Push puts w behind the others.
func (q *Works[X]) Push(w *Work[X]) {
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	q.n++
}

// Pop takes the first work, or nil.
func (q *Works[X]) Pop() *Work[X] {
	w := q.head
	if w == nil {
		return nil
	}
	if q.head = w.next; q.head == nil {
		q.tail = nil
	}
	w.next = nil
	q.n--
	return w
}
