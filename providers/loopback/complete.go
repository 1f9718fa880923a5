package loopback

import "github.com/rpcrdma/rpcrdma/core/verbs"

// complete reports one batch. mu is held, and released during the Handler's call;
// completing keeps others out, a Flush from within that call among them. Receives and
// Reads are for the reader (all); everything else may come from any Flush.
func (c *conn) complete(all bool) bool {
	if c.completing || c.state == ended && !all {
		return false
	}
	cs := c.take(all)
	if len(cs) == 0 {
		return false
	}
	c.completing = true
	c.mu.Unlock()
	c.handler.Complete(cs)
	clear(cs)
	c.mu.Lock()
	c.completing = false
	return true
}

// completeAside is complete for who does not drive. Who drives meanwhile is to ask whether that was what
// it waits for, unless Sends alone have completed: answers are waited for, and fences.
func (c *conn) completeAside(all bool) bool {
	did := c.complete(all)
	if did && c.driving && c.news {
		poke(c.driverWake)
	}
	return did
}

// take fills the batch: works before receives, so that the completion of a Send never
// trails the answer to it. Slots are free from here on: Complete may post into them.
func (c *conn) take(all bool) []verbs.Completion {
	n := 0
	c.news = all && c.in.n > 0
	for n < len(c.batch) && c.cq.head != nil && (all || c.cq.head.op != verbs.OpRead) {
		e := c.cq.pop()
		c.batch[n] = verbs.Completion{ID: e.id, Op: e.op, Status: e.status}
		n++
		c.news = c.news || e.op != verbs.OpSend && e.op != verbs.OpSendInvalidate
		e.drop()
		e.next, c.spare = c.spare, e
		c.posted--
	}
	for all && n < len(c.batch) && c.in.n > 0 {
		c.batch[n] = c.in.pop()
		n++
	}
	return c.batch[:n]
}

// handOver wakes whoever's turn it is, if something is left to report. mu is held.
func (c *conn) handOver() {
	switch {
	case c.state == ended:
		poke(c.readerWake)
	case c.cq.head == nil && c.in.n == 0 || c.completing: // who is completing looks again
	case c.driving:
		poke(c.driverWake)
	case c.resident:
		poke(c.readerWake)
	}
}
