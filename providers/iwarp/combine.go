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
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
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
	c.Mu.Lock()
	if s := c.State(); c.pumping || s == qp.Ended || s == qp.SetUp { // after the end the output is the reader's, for its last words
		if c.blocked {
			c.Sweep()
		}
		c.Mu.Unlock()
		c.ReportDone()
		return
	}
	c.lead()
	if c.Crowd() && c.Posted() && c.State() == qp.Up {
		c.Mu.Unlock()
		runtime.Gosched()
		c.Mu.Lock()
	}
	c.pump(leadMost)
	c.Mu.Unlock()
	c.ReportDone()
}

// lead takes the role. Mu is held.
func (c *conn) lead() {
	c.pumping = true
	c.Hold()
}

// pump carries the role as far as it goes without waiting and in most gatherings, and lets it go or leaves it to
// the writer. Mu is held, and released while bytes move.
func (c *conn) pump(most int) {
	o := &c.out
	o.borrow()
	for !c.broken && c.State() != qp.Ended {
		if o.written() && o.size >= reportFrom && c.Reportable(false) {
			o.size = 0
			c.Mu.Unlock()
			c.ReportDone()
			c.Mu.Lock()
			continue
		}
		if o.written() && !o.more() {
			if most <= 0 && (c.Posted() || c.responses.Len() > 0) {
				c.leave()
				return
			}
			most--
			if !c.gather() {
				if c.Invalidates() > 0 { // behind a Read that is stalled, or before the peer's first frame
					c.Sweep()
					continue
				}
				break
			}
		}
		c.Mu.Unlock()
		if o.written() {
			o.encode()
		}
		if !o.written() {
			o.write()
		}
		c.Mu.Lock()
		if !c.settle() {
			if c.State() == qp.Ended {
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
	c.Release()
	c.finish()
}

// leave leaves the role to the writer, which may wait for room. Mu is held, and released meanwhile.
func (c *conn) leave() {
	c.blocked = true
	c.Sweep()
	qp.Poke(c.writerWake)
}

// settle judges one step: what was taken by the stream is carried out. It returns false when
// the rest has to wait. Mu is held.
func (c *conn) settle() bool {
	o := &c.out
	c.Count(&o.stats)
	for w := o.sent.Head(); w != nil && w.X.end <= o.taken; w = o.sent.Head() {
		c.Done(o.sent.Pop())
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
// the end of the input. Mu is held.
func (c *conn) writeFailed(err error) {
	if c.broken || c.State() == qp.Ended {
		return
	}
	c.broken = true
	err = fmt.Errorf("iwarp: %w", err)
	t := time.AfterFunc(causeWait, func() {
		c.Mu.Lock()
		c.end(err, byReset)
		c.Mu.Unlock()
	})
	c.onEnd(func() { t.Stop() })
}

// gather takes the next messages: the peer's Reads and our works by turns. It returns
// false when there is nothing that could leave. Mu is held.
func (c *conn) gather() bool {
	o := &c.out
	o.todo, o.at = o.todo[:0], 0
	if c.gated || c.finSent {
		return false
	}
	if o.turn = !o.turn; o.turn {
		return c.gatherResponses() || c.gatherWorks()
	}
	return c.gatherWorks() || c.gatherResponses()
}

func (c *conn) gatherResponses() bool {
	o := &c.out
	for bytes := 0; c.responses.Len() > 0 && bytes < batchBytes && len(o.todo) < gatherWorks; {
		it := c.responses.Pop()
		bytes += it.n
		o.todo = append(o.todo, it)
	}
	return len(o.todo) > 0
}

func (c *conn) gatherWorks() bool {
	o := &c.out
	for bytes := 0; c.Next() != nil && bytes < batchBytes && len(o.todo) < gatherWorks; {
		w := c.Next()
		it := item{work: w, key: w.Key, to: w.Remote, n: w.N}
		switch w.Op {
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
		case verbs.OpRead:
			if c.sinkSTag++; c.sinkSTag == 0 {
				c.sinkSTag++
			}
			c.readMSN++
			w.X.msn = c.readMSN
			w.X.sink = rdmap.Sink{STag: c.sinkSTag, Size: w.N}
			// The work may complete, and be used anew, while the item still lies here.
			it = item{op: rdmap.ReadRequest, msn: w.X.msn, read: rdmap.Read{
				SinkSTag: w.X.sink.STag, SinkTO: w.X.sink.TO, Size: uint32(w.N), SourceSTag: w.Key, SourceTO: w.Remote,
			}}
			c.Take()
			o.todo = append(o.todo, it)
			continue
		}
		bytes += it.n
		c.Take()
		o.todo = append(o.todo, it)
	}
	return len(o.todo) > 0
}

// write is the writer goroutine: it waits for room where pump may not, and lets leave
// what Close found unflushed.
func (c *conn) write() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for {
		switch {
		case c.blocked:
			if !c.out.written() {
				c.Mu.Unlock()
				c.out.await()
				c.Mu.Lock()
				if !c.settle() {
					break // a deadline that was meant for another: wait again
				}
			}
			c.blocked = false
			c.pump(math.MaxInt)
		case c.State() == qp.Ended:
			return
		case c.State() == qp.Closing && !c.finSent && !c.pumping && !c.broken && !c.gated && c.Next() != nil:
			c.lead()
			c.pump(math.MaxInt)
		default:
			c.Mu.Unlock()
			<-c.writerWake
			c.Mu.Lock()
			continue
		}
		c.Mu.Unlock()
		c.ReportDone()
		c.Mu.Lock()
	}
}
