package qp

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft"
)

const (
	maxRecvs  = 1 << 16 // receives posted on one connection
	batchSize = 64      // completions in one call of Handler.Complete, about
)

// QP is a software queue pair: the part of a verbs.Conn that is the same for every fabric. A
// provider's connection embeds it and adds Flush, and what moves bytes.
//
// Who owns what: Mu guards the queues and the state. A work belongs to the QP while it is posted
// and when it is done, and to the provider in between: it takes works with Take, keeps them for as
// long as its fabric requires (until they have left, or until the peer has acknowledged them) and
// gives each back once, by Done, by Finish or by Bury. Completions are reported by one goroutine at a
// time, which also takes along those that others leave meanwhile.
type QP[X any] struct {
	Life
	caps          verbs.Caps
	handler       verbs.Handler
	local, remote netip.AddrPort
	private       []byte // the peer's

	Pool    *soft.Pool                     // where receives are drawn; nil: receives are posted
	Windows soft.Windows                   // what the peer may reach
	Tap     verbs.Tap                      // nil: none; frames are given to it by Show
	Note    func(note verbs.Note, n int64) // nil: nobody observes the connection
	shown   atomic.Bool                    // the Tap has had a frame

	completing sync.Mutex         // taken before Mu
	batch      []verbs.Completion // belongs to whoever is completing

	inbound // of whoever reads

	// What follows is guarded by Mu.

	Counts verbs.Stats // since the start

	sq     Works[X] // posted, not taken
	invs   int      // Invalidates among them
	posted int      // works that have not been reported
	reads  Works[X] // Reads that were taken, and have not been answered
	done   Works[X] // carried out, not reported
	spare  *Work[X] // for the next Post
	recvs  Ring[verbs.Recv]
	drawn  verbs.Recv             // the last of them
	in     Ring[verbs.Completion] // receives and Reads, not reported
	want   bool                   // a TryReport has left in to whoever is completing
}

// Init makes q a connection of d before its set-up.
func (q *QP[X]) Init(d *Domain, p Port, o *verbs.Options) error {
	if o.Handler == nil {
		return errors.New(d.Keys.Provider + ": Options.Handler is missing")
	}
	if o.Recv != nil {
		if q.Pool = d.Mem.Pool(o.Recv); q.Pool == nil {
			return errors.New(d.Keys.Provider + ": Options.Recv is not a pool of this domain")
		}
	}
	q.dom, q.port, q.handler, q.Tap, q.Note = d, p, o.Handler, o.Tap, o.Note
	q.led, _ = p.(led)
	q.caps, q.Windows = d.config.Caps, d.Keys.Windows()
	q.batch = make([]verbs.Completion, 0, batchSize)
	return nil
}

// Meet is what set-up finds out: both addresses, the peer's private data, and what was agreed with it:
// the domain's Caps, with MaxReads and others narrowed.
func (q *QP[X]) Meet(local, remote netip.AddrPort, private []byte, agreed verbs.Caps) {
	q.local, q.remote, q.private, q.caps = local, remote, private, agreed
}

// Caps is verbs.Conn's, as all that follows.
func (q *QP[X]) Caps() verbs.Caps           { return q.caps }
func (q *QP[X]) PeerPrivateData() []byte    { return q.private }
func (q *QP[X]) LocalAddr() netip.AddrPort  { return q.local }
func (q *QP[X]) RemoteAddr() netip.AddrPort { return q.remote }

func (q *QP[X]) Stats(s *verbs.Stats) {
	q.Mu.Lock()
	*s = q.Counts
	q.Mu.Unlock()
}

// Show gives the Tap, which must be there, a frame of the connection, or of its set-up once Meet has told the addresses.
func (q *QP[X]) Show(link verbs.LinkType, sent bool, parts ...[]byte) {
	q.Tap.Frame(verbs.Frame{Link: link, Local: q.local, Remote: q.remote, Sent: sent, First: !q.shown.Swap(true), Parts: parts})
}

func (q *QP[X]) Expose(w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
	if w == nil || !a.Valid() || !q.dom.Mem.Inside(r, off, n) {
		return fmt.Errorf("%s: Expose of %d bytes from %d with rights %d: %w", q.dom.Keys.Provider, n, off, a, verbs.ErrBadWork)
	}
	q.Mu.Lock()
	refuse := q.refuse
	q.Mu.Unlock()
	if refuse != nil {
		return refuse
	}
	err := q.Windows.Expose(w, r.Bytes()[off:off+n:off+n], a)
	if err == soft.ErrEnded {
		q.Mu.Lock()
		defer q.Mu.Unlock()
		return q.refuse
	}
	return err
}

// Detach is verbs.Detacher's.
func (q *QP[X]) Detach(w *verbs.Window, spare []byte) bool { return q.Windows.Detach(w, spare) }

func (q *QP[X]) PostRecv(rs []verbs.Recv) (int, error) {
	if q.Pool != nil {
		return 0, q.dom.errPooled
	}
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.refuse != nil {
		return 0, q.refuse
	}
	for i := range rs {
		s := &rs[i].Seg
		if !q.dom.Mem.Inside(s.R, s.Off, s.N) {
			return i, fmt.Errorf("%s: receive %d of the batch: %w", q.dom.Keys.Provider, i, verbs.ErrBadWork)
		}
		if q.recvs.n == maxRecvs {
			return i, nil
		}
		q.recvs.Push(rs[i])
	}
	return len(rs), nil
}

func (q *QP[X]) Post(ws []verbs.Work) (int, error) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	if q.refuse != nil {
		return 0, q.refuse
	}
	if q.state == SetUp {
		return 0, q.dom.errNotUp
	}
	for i := range ws {
		n, ok := q.check(&ws[i])
		if !ok {
			return i, fmt.Errorf("%s: work %d of the batch, a %v: %w", q.dom.Keys.Provider, i, ws[i].Op, verbs.ErrBadWork)
		}
		if q.posted == q.caps.Queue {
			return i, nil
		}
		q.posted++
		w := q.spare
		if w != nil {
			q.spare, w.next = w.next, nil
		} else {
			w = new(Work[X])
		}
		w.fill(&ws[i], n)
		q.sq.Push(w)
		switch w.Op {
		case verbs.OpInvalidate:
			q.invs++
		case verbs.OpSend, verbs.OpSendInvalidate:
			q.flying++
		}
	}
	return len(ws), nil
}

// check returns how many bytes w moves; false: no connection could carry it out.
func (q *QP[X]) check(w *verbs.Work) (int, bool) {
	switch w.Op {
	case verbs.OpInvalidate:
		if w.Window == nil {
			return 0, false
		}
		_, ok := w.Window.Slot.(*soft.Slot)
		return 0, ok
	case verbs.OpRead:
		if q.caps.MaxReads == 0 {
			return 0, false
		}
	case verbs.OpSend, verbs.OpSendInvalidate, verbs.OpWrite:
	default:
		return 0, false
	}
	n := 0
	for i := range w.Segs {
		s := &w.Segs[i]
		if !q.dom.Mem.Inside(s.R, s.Off, s.N) || s.N > q.caps.MaxMessage-n {
			return 0, false
		}
		n += s.N
	}
	return n, true
}

// Posted reports whether works are posted that were not taken. Mu is held.
func (q *QP[X]) Posted() bool { return q.sq.head != nil }

// Next is the work that Take takes, or nil: there is none, or it is a Read that waits until an earlier one has been
// answered (Caps.MaxReads), and so does all that was posted behind it. Mu is held.
func (q *QP[X]) Next() *Work[X] {
	w := q.sq.head
	if w != nil && w.Op == verbs.OpRead && q.reads.n >= q.caps.MaxReads {
		return nil
	}
	return w
}

// Take takes the work that Next names. The caller gives it back by Done, Finish or Bury; a Read lies in Reads until
// EndRead or Bury. Mu is held.
func (q *QP[X]) Take() *Work[X] {
	w := q.Next()
	if w == nil {
		return nil
	}
	q.sq.Pop()
	switch w.Op {
	case verbs.OpInvalidate:
		q.invs--
	case verbs.OpRead:
		q.reads.Push(w)
	}
	return w
}

// Reads are those that the peer has not answered yet, in order. Mu is held.
func (q *QP[X]) Reads() *Works[X] { return &q.reads }

// EndRead is the completion of the oldest Read, which was answered. Mu is held.
func (q *QP[X]) EndRead() verbs.Completion { return q.Finish(q.reads.Pop()) }

// Done takes back a work that was carried out, or that failed with w.Status. Mu is held.
func (q *QP[X]) Done(w *Work[X]) { q.done.Push(w) }

// Reportable reports whether something waits to be reported: by whoever reads, or by anyone. Mu is held.
func (q *QP[X]) Reportable(reader bool) bool { return q.done.head != nil || reader && q.in.n > 0 }

// Invalidates is how many Invalidates are posted and not taken. Mu is held.
func (q *QP[X]) Invalidates() int { return q.invs }

// Sweep carries out every Invalidate that is posted and not taken, so that none waits for the peer behind another work:
// package verbs allows it to complete before works that were posted earlier. Mu is held, and released meanwhile.
func (q *QP[X]) Sweep() {
	if q.invs == 0 || q.state == Ended {
		return
	}
	var rest, invs Works[X]
	for w := q.sq.Pop(); w != nil; w = q.sq.Pop() {
		if w.Op == verbs.OpInvalidate {
			invs.Push(w)
		} else {
			rest.Push(w)
		}
	}
	q.sq, q.invs = rest, 0
	q.Hold()
	q.Mu.Unlock()
	for w := invs.head; w != nil; w = w.next {
		q.Windows.Revoke(w.Key)
	}
	q.Mu.Lock()
	for w := invs.Pop(); w != nil; w = invs.Pop() {
		q.done.Push(w)
	}
	q.Release()
}
