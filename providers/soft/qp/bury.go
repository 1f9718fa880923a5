package qp

import (
	"slices"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Bury is a connection's last step, once it has ended and nothing holds it. It ends every exposure,
// reports all that was posted and has not completed, as flushed where it has no worse status, and calls
// Disconnected. under are the works other than Reads that the provider has taken, in the order in which they are to
// complete; those that are posted follow. Mu is not held.
func (q *QP[X]) Bury(under ...*Works[X]) {
	q.Windows.RevokeAll()
	if q.recv.Buf != nil {
		q.Undraw(q.recv)
	}
	q.completing.Lock() // a late Flush may be completing

	q.Mu.Lock()
	for _, ws := range slices.Concat([]*Works[X]{&q.reads}, under, []*Works[X]{&q.sq}) {
		for w := ws.Pop(); w != nil; w = ws.Pop() {
			if w.Status == verbs.OK {
				w.Status = verbs.Flushed
			}
			q.done.Push(w)
		}
	}
	for q.recvs.n > 0 {
		q.in.Push(verbs.Completion{ID: q.recvs.Pop().ID, Op: verbs.OpRecv, Status: verbs.Flushed})
	}
	for q.Reportable(true) {
		batch := q.take(true)
		q.Mu.Unlock()
		q.hand(batch)
		q.Mu.Lock()
	}
	cause := q.cause
	q.Mu.Unlock()
	q.completing.Unlock()
	q.handler.Disconnected(cause)
	q.dom.leave(&q.Life)
}

// Abandon ends a connection that has not begun, whose Handler is never called. False: it has begun. Mu is not held.
func (q *QP[X]) Abandon(err error) bool {
	q.Mu.Lock()
	if q.lived {
		q.Mu.Unlock()
		return false
	}
	q.End(err)
	q.Mu.Unlock()
	q.Windows.RevokeAll()
	return true
}
