package loopback

import (
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

// copySlice is how much is copied while a slot is locked: what Detach and Invalidate wait for
// at most, some ten microseconds. A MiB in one piece is as fast as memcpy gets (its
// streaming stores begin there); BenchmarkWrite1M compares.
const copySlice = 1 << 20

// pumpBytes is how much one pump carries out before it reports what is done.
const pumpBytes = 1 << 20

// fault is a work that ends the connection.
type fault struct {
	status verbs.Status
	here   error // Disconnected's at the poster
	there  error // at its peer
}

func newFault(status verbs.Status, err error, code string) fault {
	t := verbs.TerminatedError{Layer: "loopback", Code: code, Err: err}
	here := t
	here.Remote = true
	return fault{status: status, here: &here, there: &t}
}

var (
	badAccess = newFault(verbs.RemoteAccess, verbs.ErrRemoteAccess, "remote access error")
	noReceive = newFault(verbs.RemoteError, verbs.ErrNoReceive, "no receive posted")
	tooLong   = newFault(verbs.RemoteError, verbs.ErrTooLong, "message too long")
)

type work = qp.Work[struct{}]

// Flush carries out what is posted and reports it, both as far as nobody else is at it: a
// pump and a completer take along what others leave.
func (c *conn) Flush() {
	for more := true; more; {
		c.Mu.Lock()
		more = c.pump()
		sent := c.sent
		c.sent = false
		c.Mu.Unlock()
		if sent {
			c.visit()
		}
		c.ReportDone()
	}
	c.handOver() // Reads are for whoever reads
}

// visits is how many batches a visit reports at most: who flushes has something else to do.
const visits = 4

// visit lets the peer hear of what was sent to it: at once, on this goroutine, where nobody
// reads there, which spares a wake-up each way, else by waking who does. From within Complete
// it is always the latter, or the two ends would go on and on inside one another.
func (c *conn) visit() {
	p := c.peer
	for n := 0; !c.inside.Load() && n < visits && p.Resident(); n++ {
		if !p.TryReport() {
			return // nothing is left, or whoever is completing there reports it
		}
	}
	p.handOver()
}

// pump carries out works, in order. Mu is held, and released during each; pumping keeps
// others out. True: there is more to do.
func (c *conn) pump() bool {
	if s := c.State(); c.pumping || s == qp.SetUp || s == qp.Ended {
		return false
	}
	c.pumping = true
	c.Hold()
	for bytes := 0; c.State() != qp.Ended && bytes < pumpBytes; {
		w := c.Take()
		if w == nil {
			break
		}
		c.Mu.Unlock()
		f := c.carryOut(w)
		c.Mu.Lock()
		if f != nil {
			w.Status, c.there = f.status, f.there
			c.End(f.here)
		}
		bytes += w.N
		switch {
		case w.Op == verbs.OpRead:
			if w.Status == verbs.OK {
				c.received(w)
			}
			c.Deliver(c.EndRead())
			continue
		case w.Op != verbs.OpInvalidate && w.Status == verbs.OK:
			c.Counts.SentBytes += uint64(w.N)
			c.Counts.SentFrames++
			c.Counts.CopiedBytes += uint64(w.N)
		}
		c.sent = c.sent || w.Op == verbs.OpSend || w.Op == verbs.OpSendInvalidate
		c.Done(w)
	}
	c.pumping = false
	c.Release()
	if c.State() == qp.Closing && !c.Posted() {
		c.leave()
	}
	return c.Posted()
}

// received counts what came in by w. Mu is held.
func (c *conn) received(w *work) {
	c.Counts.RecvBytes += uint64(w.N)
	c.Counts.RecvFrames++
}

// carryOut does what w asks for, on the pump's goroutine.
func (c *conn) carryOut(w *work) *fault {
	switch w.Op {
	case verbs.OpInvalidate:
		c.Windows.Revoke(w.Key) // not in force any more is as good
		return nil
	case verbs.OpWrite, verbs.OpRead:
		return c.move(w)
	}
	return c.send(w)
}

// send copies a message into a receive of the peer.
func (c *conn) send(w *work) *fault {
	p := c.peer
	var invalidated uint32
	if w.Op == verbs.OpSendInvalidate {
		if p.Windows.Revoke(w.Key) != soft.Granted {
			return p.refused(w)
		}
		invalidated = w.Key
	}
	p.Mu.Lock()
	if p.State() == qp.Ended {
		p.Mu.Unlock()
		w.Status = verbs.Flushed
		return nil
	}
	p.Hold()
	p.Mu.Unlock()
	var f *fault
	r, ok := p.Draw()
	switch {
	case !ok:
		f = &noReceive
	case w.N > len(r.Buf):
		p.Undraw(r)
		f = &tooLong
	default:
		n := 0
		for i := range w.Segs {
			n += copy(r.Buf[n:], w.Segs[i].Bytes())
		}
		c.tapped(w, r.Buf[:n])
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if f == nil {
		p.received(w)
		p.Deliver(r.Completion(w.N, invalidated))
	}
	p.Release()
	return f
}

// move copies between w.Segs and the peer's memory, by slices: what Detach moves away under
// way goes on at its new place.
func (c *conn) move(w *work) *fault {
	p := c.peer
	right := verbs.RemoteWrite
	if w.Op == verbs.OpRead {
		right = verbs.RemoteRead
	}
	seg, off := 0, 0
	for done := 0; ; {
		s, mem, r := p.Windows.Resolve(w.Key, w.Remote, uint64(w.N), right)
		if r != soft.Granted {
			return p.refused(w)
		}
		for end := min(done+copySlice, w.N); done < end; {
			own := w.Segs[seg].Bytes()[off:]
			k := min(len(own), end-done)
			if w.Op == verbs.OpWrite {
				copy(mem[done:done+k], own)
			} else {
				copy(own, mem[done:done+k])
			}
			done += k
			if off += k; k == len(own) {
				seg, off = seg+1, 0
			}
		}
		s.Unlock()
		if done == w.N {
			break
		}
	}
	p.Mu.Lock()
	if w.Op == verbs.OpWrite {
		p.received(w)
	} else {
		p.Counts.SentBytes += uint64(w.N)
		p.Counts.SentFrames++
		p.Counts.CopiedBytes += uint64(w.N)
	}
	p.Mu.Unlock()
	return nil
}

// refused tells c's refusal of the peer's w from c's end, which has revoked everything.
func (c *conn) refused(w *work) *fault {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.State() == qp.Ended {
		w.Status = verbs.Flushed
		return nil
	}
	return &badAccess
}

// tapped gives a message to both ends' Taps.
func (c *conn) tapped(w *work, received []byte) {
	if c.Tap != nil {
		c.Show(verbs.LinkMessage, true, w.Slices(nil, 0, w.N)...)
	}
	if p := c.peer; p.Tap != nil {
		p.Show(verbs.LinkMessage, false, received)
	}
}
