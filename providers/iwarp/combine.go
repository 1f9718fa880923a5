package iwarp

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
)

const (
	// gatherWorks and batchBytes bound what is taken from the queue at a time; between two
	// gatherings the peer's Reads have their turn.
	gatherWorks = 256

	// reportFrom is how large a batch is whose completions do not wait for the end of the
	// queue.
	reportFrom = 64 << 10

	// leadMost is how many gatherings whoever flushes writes before the writer goes on: others may post as fast as he
	// writes, and a Flush ends all the same.
	leadMost = 64

	// causeWait is how long the reader may look for the reason of a failed write.
	causeWait = time.Second
)

var errRevokedMidway = errors.New("iwarp: a window was invalidated while the peer's Read of it was answered")

// Flush is the send combiner: who comes first writes for all, and lets those who are
// about to post do so before its system call.
func (c *conn) Flush() {
	c.mu.Lock()
	if c.pumping || c.state == ended { // after the end the output is the reader's, for its last words
		if c.blocked {
			c.sweep()
		}
		c.mu.Unlock()
		c.completeLocal(false)
		return
	}
	c.pumping = true
	if c.flying > 1 && c.sq.head != nil && c.state == up {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	c.pump(leadMost)
	c.mu.Unlock()
	c.completeLocal(false)
}

// pump carries the role as far as it goes without waiting and in most gatherings, and lets it go or leaves it to
// the writer. mu is held, and released while bytes move.
func (c *conn) pump(most int) {
	o := &c.out
	o.borrow()
	for !c.broken && c.state != ended {
		if o.written() && o.size >= reportFrom && c.done.head != nil {
			o.size = 0
			c.mu.Unlock()
			c.completeLocal(false)
			c.mu.Lock()
			continue
		}
		if o.written() && !o.more() {
			if most <= 0 && (c.sq.head != nil || c.responses.n > 0) {
				c.leave()
				return
			}
			most--
			if !c.gather() {
				if c.invs > 0 { // behind a Read that is stalled, or before the peer's first frame
					c.sweep()
					continue
				}
				break
			}
		}
		c.mu.Unlock()
		if o.written() {
			o.encode()
		}
		if !o.written() {
			o.write()
		}
		c.mu.Lock()
		if !c.settle() {
			if c.state == ended {
				break // meanwhile: the writer may have gone, and nobody would let go of the role
			}
			c.leave()
			return
		}
	}
	if o.written() && !o.more() {
		o.giveBack()
	}
	c.pumping, c.blocked = false, false
	if c.state == ended {
		poke(c.readerWake)
	}
	c.finish()
}

// leave leaves the role to the writer, which may wait for room. mu is held, and released meanwhile.
func (c *conn) leave() {
	c.blocked = true
	c.sweep()
	poke(c.writerWake)
}

// settle judges one step: what was taken by the stream is carried out. It returns false when
// the rest has to wait. mu is held.
func (c *conn) settle() bool {
	o := &c.out
	o.publish(&c.stats)
	for w := o.sent.head; w != nil && w.end <= o.taken; w = o.sent.head {
		c.done.push(o.sent.pop())
	}
	c.serving -= o.served
	o.served = 0
	err := o.err
	o.err = nil
	switch {
	case err == nil:
		if o.failure != nil && o.written() {
			c.fail(o.failure)
		}
	case err == stream.ErrAgain:
		return false
	case errors.Is(err, errRevokedMidway):
		c.end(fmt.Errorf("%w: %w", err, verbs.ErrRemoteAccess), byReset)
	default:
		c.writeFailed(err)
	}
	return true
}

// writeFailed leaves it to the reader to find out why: a Terminate may lie unread before
// the end of the input. mu is held.
func (c *conn) writeFailed(err error) {
	if c.broken || c.state == ended {
		return
	}
	c.broken = true
	err = fmt.Errorf("iwarp: %w", err)
	t := time.AfterFunc(causeWait, func() {
		c.mu.Lock()
		c.end(err, byReset)
		c.mu.Unlock()
	})
	c.onEnd(func() { t.Stop() })
}

// gather takes the next messages: the peer's Reads and our works by turns. It returns
// false when there is nothing that could leave. mu is held.
func (c *conn) gather() bool {
	o := &c.out
	o.todo, o.at = o.todo[:0], 0
	if c.state == setUp || c.gated || c.finSent {
		return false
	}
	if o.turn = !o.turn; o.turn {
		return c.gatherResponses() || c.gatherWorks()
	}
	return c.gatherWorks() || c.gatherResponses()
}

func (c *conn) gatherResponses() bool {
	o := &c.out
	for bytes := 0; c.responses.n > 0 && bytes < batchBytes && len(o.todo) < gatherWorks; {
		it := c.responses.pop()
		bytes += it.n
		o.todo = append(o.todo, it)
	}
	return len(o.todo) > 0
}

func (c *conn) gatherWorks() bool {
	o := &c.out
	for bytes := 0; c.sq.head != nil && bytes < batchBytes && len(o.todo) < gatherWorks; {
		w := c.sq.head
		it := item{work: w, key: w.key, to: w.remote, n: w.n}
		switch w.op {
		case verbs.OpSend:
			it.op = rdmap.Send
		case verbs.OpSendInvalidate:
			it.op = rdmap.SendInvalidate
		case verbs.OpWrite:
			it.op = rdmap.Write
		case verbs.OpInvalidate:
			// It waits for no room in the socket: with bytes to write before it, it stays
			// where sweep finds it.
			if bytes > 0 || len(o.todo) > 0 && !o.todo[len(o.todo)-1].local {
				return true
			}
			it.local = true
			c.invs--
		case verbs.OpRead:
			if c.npending >= c.caps.MaxReads {
				return len(o.todo) > 0
			}
			c.npending++
			if c.sinkSTag++; c.sinkSTag == 0 {
				c.sinkSTag++
			}
			c.readMSN++
			w.msn = c.readMSN
			w.sink = rdmap.Sink{STag: c.sinkSTag, Size: w.n}
			// The work may complete, and be used anew, while the item still lies here.
			it = item{op: rdmap.ReadRequest, msn: w.msn, read: rdmap.Read{
				SinkSTag: w.sink.STag, SinkTO: w.sink.TO, Size: uint32(w.n), SourceSTag: w.key, SourceTO: w.remote,
			}}
			c.sq.pop()
			c.pending.push(w)
			o.todo = append(o.todo, it)
			continue
		}
		bytes += it.n
		c.sq.pop()
		o.todo = append(o.todo, it)
	}
	return len(o.todo) > 0
}

// sweep carries out every Invalidate that waits behind something else: it is local and must
// wait for no peer. mu is held, and released meanwhile.
func (c *conn) sweep() {
	if c.invs == 0 {
		return
	}
	var rest, invs works
	for w := c.sq.pop(); w != nil; w = c.sq.pop() {
		if w.op == verbs.OpInvalidate {
			invs.push(w)
		} else {
			rest.push(w)
		}
	}
	c.sq, c.invs = rest, 0
	c.sweeping++
	c.mu.Unlock()
	for w := invs.head; w != nil; w = w.next {
		c.windows.Revoke(w.key)
	}
	c.mu.Lock()
	for w := invs.pop(); w != nil; w = invs.pop() {
		c.done.push(w)
	}
	if c.sweeping--; c.state == ended {
		poke(c.readerWake)
	}
}

// write is the writer goroutine: it waits for room where pump may not, and sees to it that
// what Close found unflushed leaves.
func (c *conn) write() {
	defer c.dom.gone.Done()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.blocked:
			if !c.out.written() {
				c.mu.Unlock()
				c.out.await()
				c.mu.Lock()
				if !c.settle() {
					break // a deadline that was meant for another: wait again
				}
			}
			c.blocked = false
			c.pump(math.MaxInt)
		case c.state == ended:
			return
		case c.state == closing && !c.finSent && !c.pumping && !c.broken && c.sq.head != nil && !c.stalled():
			c.pumping = true
			c.pump(math.MaxInt)
		default:
			c.mu.Unlock()
			<-c.writerWake
			c.mu.Lock()
			continue
		}
		c.mu.Unlock()
		c.completeLocal(false)
		c.mu.Lock()
	}
}

// stalled says that the head of the queue is a Read which must wait for another's end. mu is
// held.
func (c *conn) stalled() bool {
	return c.gated || c.sq.head != nil && c.sq.head.op == verbs.OpRead && c.npending >= c.caps.MaxReads
}
