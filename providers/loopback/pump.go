package loopback

import (
	"fmt"
	"syscall"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft"
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

	errAborted = fmt.Errorf("loopback: aborted by the peer: %w", syscall.ECONNRESET)
)

// Flush carries out what is posted and reports it, both as far as nobody else is at it: a
// pump and a completer take along what others leave.
func (c *conn) Flush() {
	c.mu.Lock()
	c.flush()
	c.mu.Unlock() // not deferred: a Handler that panics does so without mu
}

// flush is called with mu held and releases it on the way.
func (c *conn) flush() {
	for more := true; more; {
		more = c.pump()
		c.visit()
		for c.completeAside(false) {
		}
	}
	c.handOver()
}

// visits is how many batches a visit reports at most: who flushes has something else to do.
const visits = 4

// visit lets the peer hear of what was sent to it: at once, on this goroutine, where nobody
// reads there, which spares a wake-up each way, else by waking who does. From within Complete
// it is always the latter, or the two ends would go on and on inside one another. mu is held, and
// released meanwhile.
func (c *conn) visit() {
	if !c.sent {
		return
	}
	c.sent = false
	here := !c.completing
	c.mu.Unlock()
	p := c.peer
	p.mu.Lock()
	for n := 0; here && n < visits && p.resident && p.state != ended && p.completeAside(true); n++ {
	}
	p.handOver()
	p.mu.Unlock()
	c.mu.Lock()
}

// pump carries out works, in order. mu is held, and released during each; pumping keeps
// others out. True: there is more to do.
func (c *conn) pump() bool {
	if c.pumping || c.state == setUp || c.state == ended {
		return false
	}
	c.pumping = true
	for bytes := 0; c.sq.head != nil && c.state != ended && bytes < pumpBytes; {
		e := c.sq.pop()
		c.mu.Unlock()
		f := c.carryOut(e)
		c.mu.Lock()
		if f != nil {
			e.status, c.there = f.status, f.there
			c.terminate(f.here, nil)
		}
		c.cq.push(e)
		c.sent = c.sent || e.op == verbs.OpSend || e.op == verbs.OpSendInvalidate
		bytes += e.n
	}
	c.pumping = false
	if c.state == closing && c.sq.head == nil {
		c.mu.Unlock()
		c.end(nil, nil)
		c.mu.Lock()
	}
	return c.sq.head != nil
}

// carryOut does what e asks for, on the pump's goroutine.
func (c *conn) carryOut(e *work) *fault {
	switch e.op {
	case verbs.OpInvalidate:
		c.windows.Revoke(e.key) // not in force any more is as good
		return nil
	case verbs.OpWrite, verbs.OpRead:
		return c.move(e)
	}
	return c.send(e)
}

// send copies a message into a receive of the peer.
func (c *conn) send(e *work) *fault {
	p := c.peer
	var invalidated uint32
	if e.op == verbs.OpSendInvalidate {
		if p.windows.Revoke(e.key) != soft.Granted {
			return c.refused(e, &badAccess)
		}
		invalidated = e.key
	}

	p.mu.Lock()
	if p.state == ended {
		p.mu.Unlock()
		e.status = verbs.Flushed
		return nil
	}
	cp := verbs.Completion{Op: verbs.OpRecv, Invalidated: invalidated}
	switch {
	case p.pool != nil:
		buf, id, ok := p.pool.Draw()
		if !ok {
			p.mu.Unlock()
			return &noReceive
		}
		if e.n > len(buf) {
			p.pool.Put(id)
			p.mu.Unlock()
			return &tooLong
		}
		cp.Buf, cp.BufID = buf[:e.n], id
	case p.rq.n == 0:
		p.mu.Unlock()
		return &noReceive
	case p.rq.buf[p.rq.head].Seg.N < e.n:
		p.mu.Unlock()
		return &tooLong
	default:
		r := p.rq.pop()
		cp.ID, cp.Buf = r.ID, r.Seg.Bytes()[:e.n]
	}
	p.incoming = true
	p.mu.Unlock()

	n := 0
	for i := range e.segs {
		n += copy(cp.Buf[n:], e.segs[i].Bytes())
	}
	c.tapped(e, cp.Buf)
	c.stats.sent(&c.stats.sends, e.n)
	c.stats.copied.Add(uint64(e.n))
	p.stats.received(&p.stats.recvs, e.n)

	p.mu.Lock()
	p.incoming = false
	p.in.push(cp)
	p.mu.Unlock()
	return nil
}

// move copies between e.segs and the peer's memory, by slices: what Detach moves away under
// way goes on at its new place.
func (c *conn) move(e *work) *fault {
	p := c.peer
	right := verbs.RemoteWrite
	if e.op == verbs.OpRead {
		right = verbs.RemoteRead
	}
	seg, off := 0, 0
	for done := 0; ; {
		s, mem, r := p.windows.Resolve(e.key, e.remote, uint64(e.n), right)
		if r != soft.Granted {
			return c.refused(e, &badAccess)
		}
		for end := min(done+copySlice, e.n); done < end; {
			own := e.segs[seg].Bytes()[off:]
			k := min(len(own), end-done)
			if e.op == verbs.OpWrite {
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
		if done == e.n {
			break
		}
	}
	c.stats.copied.Add(uint64(e.n))
	if e.op == verbs.OpWrite {
		c.stats.sent(&c.stats.writes, e.n)
		p.stats.received(nil, e.n)
	} else {
		p.stats.sent(nil, e.n)
		c.stats.received(&c.stats.reads, e.n)
	}
	return nil
}

// refused tells a peer's refusal from a peer that has ended and revoked everything.
func (c *conn) refused(e *work, f *fault) *fault {
	c.peer.mu.Lock()
	defer c.peer.mu.Unlock()
	if c.peer.state == ended {
		e.status = verbs.Flushed
		return nil
	}
	return f
}

// tapped gives a message to both ends' Taps.
func (c *conn) tapped(e *work, received []byte) {
	if c.tap != nil {
		parts := make([][]byte, len(e.segs))
		for i := range parts {
			parts[i] = e.segs[i].Bytes()
		}
		c.tap.Frame(c.local, c.remote, true, parts...)
	}
	if p := c.peer; p.tap != nil {
		p.tap.Frame(p.local, p.remote, false, received)
	}
}
