package iwarp

import (
	"slices"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// completeLocal reports works that were carried out, unless somebody is completing: that
// one looks again after it let go, so nothing is left behind and nobody waits. This
// covers a Flush from within Complete. reading: the caller is who reads.
func (c *conn) completeLocal(reading bool) {
	for {
		c.mu.Lock()
		none := c.done.head == nil
		c.mu.Unlock()
		if none || !c.completing.TryLock() {
			return
		}
		batch := c.takeDone(c.batch[:0])
		fenced := slices.ContainsFunc(batch, func(cp verbs.Completion) bool { return cp.Op == verbs.OpInvalidate })
		c.report(batch)
		c.completing.Unlock()
		if fenced && !reading {
			c.mu.Lock()
			if c.driving {
				c.interrupt() // it may wait for that
			}
			c.mu.Unlock()
		}
	}
}

// completeAll is the reader's: it reports what came in, and before it the works that were
// carried out by now, so that a Send rather completes before the answer to it arrives.
func (c *conn) completeAll() {
	in := &c.in
	if len(in.done) > 0 {
		c.completing.Lock()
		c.mu.Lock()
		in.publish(&c.stats)
		c.flying = max(0, c.flying-len(in.done))
		c.mu.Unlock()
		batch := append(c.takeDone(c.batch[:0]), in.done...)
		clear(in.done)
		in.done = in.done[:0]
		c.report(batch)
		c.completing.Unlock()
	}
	c.completeLocal(true)
}

// report is called with completing held.
func (c *conn) report(batch []verbs.Completion) {
	c.batch = batch
	if len(batch) > 0 {
		c.handler.Complete(batch)
		clear(batch)
	}
}

// takeDone moves reports into batch. The works' places in the queue are free from here
// on: Complete may post into them.
func (c *conn) takeDone(batch []verbs.Completion) []verbs.Completion {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(batch) < batchSize {
		w := c.done.pop()
		if w == nil {
			break
		}
		batch = append(batch, verbs.Completion{ID: w.id, Op: w.op, Status: w.status})
		if w.status == verbs.OK {
			switch w.op {
			case verbs.OpSend, verbs.OpSendInvalidate:
				c.stats.Sends++
			case verbs.OpWrite:
				c.stats.Writes++
			case verbs.OpRead:
				c.stats.Reads++
			}
		}
		c.recycle(w)
	}
	return batch
}
