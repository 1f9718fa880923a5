package qp

import "github.com/rpcrdma/rpcrdma/core/verbs"

// Receive is a receive that was drawn for a message. Its completion gives it back, or Undraw.
type Receive struct {
	Buf []byte // nil: none was drawn
	id  uint64
	buf uint32
}

// Draw takes the receive for a message that begins to arrive. False: there is none. Messages arrive one
// after the other, so one receive at most is drawn at a time.
func (q *QP[X]) Draw() (Receive, bool) {
	if q.Pool != nil {
		mem, id, ok := q.Pool.Draw()
		return Receive{Buf: mem, buf: id}, ok
	}
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.recvs.n == 0 {
		return Receive{}, false
	}
	q.drawn = q.recvs.Pop()
	return Receive{Buf: q.drawn.Seg.Bytes(), id: q.drawn.ID}, true
}

// Undraw takes r back: its message does not come.
func (q *QP[X]) Undraw(r Receive) {
	if q.Pool != nil {
		q.Pool.Put(r.buf)
		return
	}
	q.Mu.Lock()
	defer q.Mu.Unlock()
	q.recvs.Unpop(q.drawn)
}

// Completion is r's, for a message of n bytes. invalidated is the key that came with it, or 0.
func (r *Receive) Completion(n int, invalidated uint32) verbs.Completion {
	return verbs.Completion{ID: r.id, Op: verbs.OpRecv, Buf: r.Buf[:n], BufID: r.buf, Invalidated: invalidated}
}
