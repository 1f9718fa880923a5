package qp

import (
	"slices"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Deliver takes a completion of what came in, a receive or a Read, for whoever reads to report. Mu is held.
func (q *QP[X]) Deliver(cp verbs.Completion) {
	if cp.Op == verbs.OpRecv {
		q.Counts.Recvs++
	}
	q.in.Push(cp)
}

// Finish is the completion of a work whose place in the queue is free from here on. Mu is held.
func (q *QP[X]) Finish(w *Work[X]) verbs.Completion {
	cp := verbs.Completion{ID: w.ID, Op: w.Op, Status: w.Status}
	if w.Status == verbs.OK {
		switch w.Op {
		case verbs.OpSend, verbs.OpSendInvalidate:
			q.Counts.Sends++
		case verbs.OpWrite:
			q.Counts.Writes++
		case verbs.OpRead:
			q.Counts.Reads++
		}
	}
	clear(w.Segs) // the memory may be gone soon
	w.Segs = w.Segs[:0]
	w.next, q.spare = q.spare, w
	q.posted--
	return cp
}

// Count adds what since counts, and clears it. Mu is held.
func (q *QP[X]) Count(since *verbs.Stats) {
	c := &q.Counts
	c.SentBytes += since.SentBytes
	c.RecvBytes += since.RecvBytes
	c.SentFrames += since.SentFrames
	c.RecvFrames += since.RecvFrames
	c.Recvs += since.Recvs
	c.WriteCalls += since.WriteCalls
	c.ReadCalls += since.ReadCalls
	c.CopiedBytes += since.CopiedBytes
	c.Retransmits += since.Retransmits
	*since = verbs.Stats{}
}

// ReportDone reports works that were carried out, unless somebody is completing: that goroutine looks
// again after it has let go, so that nothing is left behind and nobody waits. This covers a Flush
// from within Complete.
func (q *QP[X]) ReportDone() {
	for q.report(false, false) {
	}
}

// TryReport reports a batch of all there is for whoever reads, who is elsewhere. False: there was
// nothing, or another goroutine is completing, which reports it after its batch. After true the caller calls again, as
// others may have left completions to it.
func (q *QP[X]) TryReport() bool { return q.report(true, false) }

// Report is for whoever reads. It reports more and what was delivered, and before it the works that were
// carried out by now, so that a Send rather completes before the answer to it arrives. It clears more,
// but does not count its receives. False: there was nothing.
func (q *QP[X]) Report(more []verbs.Completion) bool {
	some := len(more) > 0
	if some {
		q.completing.Lock()
		q.Mu.Lock()
		q.flying = max(0, q.flying-len(more))
		batch := append(q.take(false), more...)
		q.Mu.Unlock()
		clear(more)
		q.hand(batch)
		q.completing.Unlock()
	}
	for q.report(true, true) {
		some = true
	}
	return some
}

// report hands out one batch, with what came in if all is set. reader: the caller is whoever reads.
func (q *QP[X]) report(all, reader bool) bool {
	q.Mu.Lock()
	all = all || q.want
	switch {
	case !q.Reportable(all):
		q.Mu.Unlock()
		return false
	case q.completing.TryLock():
	case !reader || q.in.n == 0:
		q.want = all && q.in.n > 0
		q.Mu.Unlock()
		return false
	default: // nobody else takes along what came in
		q.Mu.Unlock()
		q.completing.Lock()
		q.Mu.Lock()
	}
	batch := q.take(all)
	q.want = q.want && q.in.n > 0
	q.Mu.Unlock()
	news := !reader && slices.ContainsFunc(batch, awaited)
	q.hand(batch)
	q.completing.Unlock()
	if news && q.led != nil {
		q.led.look()
	}
	return true
}

// awaited reports whether cp may be what whoever drives waits for.
func awaited(cp verbs.Completion) bool {
	return cp.Op == verbs.OpInvalidate || cp.Op == verbs.OpRecv || cp.Op == verbs.OpRead
}

// take moves reports into the batch. The works' places in the queue are free from here on: Complete may
// post into them. completing and Mu are held.
func (q *QP[X]) take(all bool) []verbs.Completion {
	batch := q.batch[:0]
	for len(batch) < batchSize && q.done.head != nil {
		batch = append(batch, q.Finish(q.done.Pop()))
	}
	for all && len(batch) < batchSize && q.in.n > 0 {
		batch = append(batch, q.in.Pop())
		q.flying = max(0, q.flying-1)
	}
	return batch
}

// hand is called with completing held.
func (q *QP[X]) hand(batch []verbs.Completion) {
	q.batch = batch
	if len(batch) > 0 {
		q.handler.Complete(batch)
		clear(batch)
	}
}
