package iwarp

import (
	"runtime"
	"time"
)

// residentAfter is how long nobody must have driven before the resident reader takes over.
const residentAfter = time.Millisecond

// Drive is the leader's loop.
func (c *conn) Drive(stop func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driving || c.state == setUp {
		return false
	}
	if c.state == ended || c.gotFIN {
		return true
	}
	c.driving, c.kicked = true, false
	c.drives++
	if c.resident {
		c.evict = true
		c.interrupt()
		c.mu.Unlock()
		<-c.evicted
		c.mu.Lock()
	}
	for c.state != ended && !c.kicked && !c.gotFIN {
		c.mu.Unlock()
		if stop() {
			c.mu.Lock()
			break
		}
		c.receive()
		c.mu.Lock()
	}
	if c.kicked {
		c.listen()
	}
	c.driving = false
	if c.state >= closing || !c.ticking {
		c.ticking = true
		poke(c.readerWake) // to bury the connection, or to begin its millisecond
	}
	return true
}

// Kick implements verbs.Driver. It does nothing where nobody drives.
func (c *conn) Kick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driving && !c.kicked {
		c.kicked = true
		c.interrupt()
	}
}

// read is the resident reader. It has the role when nobody drives, and buries the
// connection. While calls follow each other it only looks up once in a millisecond.
func (c *conn) read() {
	defer c.dom.gone.Done()
	if c.dom.opt.thread {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	tick := time.NewTimer(time.Hour)
	tick.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.evict:
			c.evict, c.resident = false, false
			c.listen()
			c.evicted <- struct{}{}
		case c.state == ended:
			c.resident = false
			if !c.driving && !c.pumping && c.sweeping == 0 {
				c.bury()
				return
			}
			c.sleep(nil)
		case c.driving:
			c.ticking = false
			c.sleep(nil)
		case c.gotFIN:
			c.sleep(nil)
		case !c.resident && c.state != closing:
			c.ticking = true
			seen := c.drives
			tick.Reset(residentAfter)
			if idle := c.sleep(tick.C); idle && !c.driving && c.drives == seen {
				c.resident, c.ticking = true, false
				c.flying = 0
			}
			tick.Stop()
		default:
			c.resident, c.ticking = true, false
			c.mu.Unlock()
			c.receive()
			c.mu.Lock()
		}
	}
}

// sleep waits for a poke, or for tick: then it returns true. mu is released meanwhile.
func (c *conn) sleep(tick <-chan time.Time) bool {
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-tick:
		return true
	case <-c.readerWake:
		return false
	}
}

// interrupt makes whoever reads look at the flags. mu is held.
func (c *conn) interrupt() {
	c.wanted.Store(true)
	_ = c.stream.SetReadDeadline(past)
}

// listen undoes it. mu is held.
func (c *conn) listen() {
	if c.state != ended {
		c.wanted.Store(false)
		_ = c.stream.SetReadDeadline(time.Time{})
	}
}
