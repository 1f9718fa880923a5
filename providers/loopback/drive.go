package loopback

import (
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// residentAfter is how long nobody must have driven before the resident reader takes over.
const residentAfter = time.Millisecond

// Drive is the leader's loop. What arrives pokes driverWake while driving is set.
func (c *conn) Drive(stop func() bool) bool {
	c.mu.Lock()
	if free := !c.driving; !free || c.state == ended {
		c.mu.Unlock()
		return free
	}
	c.driving, c.kicked, c.resident = true, false, false
	c.drives++
	for {
		did := c.complete(true)
		c.mu.Unlock()
		enough := stop()
		c.mu.Lock()
		if enough || c.kicked || c.state == ended {
			break
		}
		if did {
			continue
		}
		c.mu.Unlock()
		<-c.driverWake
		c.mu.Lock()
	}
	for c.complete(false) { // what was posted from within Complete waits for nobody
	}
	c.driving = false
	if c.state == ended || !c.ticking {
		c.ticking = true
		poke(c.readerWake) // to bury the connection, or to begin its millisecond
	}
	c.mu.Unlock()
	return true
}

func (c *conn) Kick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driving {
		c.kicked = true
		poke(c.driverWake)
	}
}

// read is the resident reader. It reads when nobody drives, lets what Close left behind
// leave, and buries the connection.
func (c *conn) read() {
	tick := time.NewTimer(time.Hour)
	tick.Stop()
	c.mu.Lock()
	for {
		if c.state == closing {
			c.flush()
		}
		switch {
		case c.state == ended:
			if !c.driving && !c.completing && !c.pumping && !c.incoming {
				c.bury()
				return
			}
		case c.driving:
			c.ticking = false
			c.handOver() // what came while we were completing
		case !c.resident:
			c.ticking = true
			seen := c.drives
			c.mu.Unlock()
			tick.Reset(residentAfter)
			idle := false
			select {
			case <-tick.C:
				idle = true
			case <-c.readerWake:
				tick.Stop()
			}
			c.mu.Lock()
			if idle && !c.driving && c.drives == seen {
				c.resident, c.ticking = true, false
			}
			continue
		default:
			if c.completeAside(true) {
				continue
			}
		}
		c.mu.Unlock()
		<-c.readerWake
		c.mu.Lock()
	}
}

// bury flushes what is left and says good-bye. Nobody else moves anything now: Post
// refuses, pumps stop, the peer's pump sees that we have ended. It releases mu for good.
func (c *conn) bury() {
	c.mu.Unlock()
	c.windows.RevokeAll()
	c.mu.Lock()
	for e := c.sq.pop(); e != nil; e = c.sq.pop() {
		e.status = verbs.Flushed
		c.cq.push(e)
	}
	for c.rq.n > 0 {
		c.in.push(verbs.Completion{ID: c.rq.pop().ID, Op: verbs.OpRecv, Status: verbs.Flushed})
	}
	for c.complete(true) {
	}
	cause, there := c.cause, c.there
	c.mu.Unlock()
	if there != nil {
		c.end(nil, there)
	}
	c.handler.Disconnected(cause)
	c.dom.leave(c)
}
