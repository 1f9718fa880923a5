package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/transport"
)

// await waits until call is settled. Where the provider can, one waiting caller reads the
// connection for all (leader and followers); one that leaves the lead wakes
// another. An error ends Do: the context's or transport.ErrTimeout, in an *transport.OrphanError.
func (c *Conn) await(ctx context.Context, call *call) error {
	var stop func() bool
	for !call.settled.Load() && !call.over(ctx) {
		if !c.takeLead(call) {
			select {
			case <-call.wake:
			case <-ctx.Done():
			}
			c.followers.Add(-1)
			continue
		}
		if stop == nil && ctx.Done() != nil {
			call.driver = c.driver
			stop = context.AfterFunc(ctx, call.onCancel)
		}
		c.driver.Drive(call.stop)
		c.endLead(call)
	}
	if stop != nil && !stop() {
		// The function has run or runs: it must not meet the call's next use.
		for !call.cancelled.Load() {
			time.Sleep(time.Microsecond)
		}
	}
	if call.settled.Load() {
		return nil
	}
	return c.giveUp(ctx, call)
}

// over tells whether call's caller wants no more of it.
func (call *call) over(ctx context.Context) bool {
	return call.gaveUp.Load() || ctx.Err() != nil
}

// takeLead makes call's caller the leader, or else one of followers: it is to wait. Who has become one
// looks once more whether there is a leader, so that no leader leaves between the two unseen.
func (c *Conn) takeLead(call *call) bool {
	if c.driver == nil || !c.leading.CompareAndSwap(false, true) {
		c.followers.Add(1)
		if c.driver == nil || !c.leading.CompareAndSwap(false, true) {
			return false
		}
		c.followers.Add(-1)
	}
	call.leads.Store(true)
	return true
}

// endLead lets others lead.
func (c *Conn) endLead(call *call) {
	call.leads.Store(false)
	c.leading.Store(false)
	if !call.stop() {
		runtime.Gosched() // kicked, or the connection has ended and Disconnected is on its way
		return
	}
	if c.followers.Load() > 0 {
		c.passLead(call)
	}
}

// passLead wakes one caller that waits, to take the lead. One that is woken and has given up
// passes it on in giveUp; where it is lost all the same, the provider's reader takes over.
func (c *Conn) passLead(from *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for next := c.live.head; next != nil; next = next.next {
		if next != from {
			next.wakeUp()
			return
		}
	}
}

// giveUp cancels a call whose context ended, or that waited for Config.CallTimeout. Its XID, its credit
// and its windows stay until the reply comes or the connection ends: a credit given back early would
// break RFC 8166 §3.3.1, and a key taken away would make the peer's next access end the connection
// for all. The caller gets its memory back first.
func (c *Conn) giveUp(ctx context.Context, call *call) error {
	cause := causeOf(ctx)
	c.mu.Lock()
	if call.settled.Load() {
		c.mu.Unlock()
		return nil
	}
	if call.state == callFencing {
		// The reply is here; what is left is local and short.
		c.mu.Unlock()
		return c.sitOut(call)
	}
	call.orphan, call.detaching = true, true
	c.live.remove(call)
	c.orphans++
	c.orphaned += call.exposed()
	c.counters.Cancelled++
	tooMany := c.orphans > c.cfg.Orphans || c.orphaned > c.cfg.OrphanBytes
	if call.lent != nil { // a probe keeps the credit it was lent
		call.lent = nil
	}
	c.mu.Unlock()
	c.event(obs.Event{Kind: obs.CallCancel, XID: call.XID})
	if c.driver != nil {
		c.passLead(call)
	}

	if tooMany {
		c.Abort(fmt.Errorf("%w: %d calls", ErrTooManyOrphans, c.cfg.Orphans))
	}
	err := c.freeCallers(call)
	call.Msg.DropBulk() // nobody needs the arguments any more
	c.mu.Lock()
	defer c.mu.Unlock()
	call.detaching = false
	if call.state != callSent && call.state != callFencing { // settled meanwhile
		call.retire()
	}
	if err != nil {
		cause = errors.Join(cause, err)
	}
	return &transport.OrphanError{Err: cause}
}

// sitOut waits for fences that are under way, whoever reads the connection.
func (c *Conn) sitOut(call *call) error {
	for !call.settled.Load() {
		if !c.takeLead(call) {
			<-call.wake
			c.followers.Add(-1)
			continue
		}
		c.driver.Drive(call.settled.Load)
		c.endLead(call)
	}
	return nil
}

// freeCallers takes the caller's memory out of reach of the peer: at once by Detach, else after
// CancelWait by Invalidate.
func (c *Conn) freeCallers(call *call) error {
	users := false
	for i := range call.windows {
		users = users || call.windows[i].users
	}
	switch {
	case !users:
		call.dropRegions()
		return nil
	case c.detach != nil:
		for i := range call.windows {
			w := &call.windows[i]
			if !w.users {
				continue
			}
			spare, err := c.ep.getMemory(w.w.N)
			if err != nil {
				c.Abort(err) // the memory must not stay reachable
				<-c.gone
				break
			}
			call.spares = append(call.spares, spare)
			c.detach.Detach(&w.w, spare.Bytes())
		}
		call.dropRegions()
		return nil
	}
	t := time.NewTimer(c.cfg.CancelWait)
	defer t.Stop()
	for waiting := true; waiting; {
		c.mu.Lock()
		waiting = call.state == callSent
		c.mu.Unlock()
		if !waiting {
			break
		}
		select {
		case <-t.C:
			waiting = false
		case <-call.wake:
		case <-c.gone:
		}
	}
	return c.invalidateUsers(call)
}

// expire makes the calls of l that have waited for CallTimeout give up.
func (c *Conn) expire(l *callList) (any bool) {
	for call := l.head; call != nil; call = call.next {
		if !call.bounded && c.tick-call.tick > c.timeout && !call.gaveUp.Load() {
			call.gaveUp.Store(true)
			call.wakeUp()
			any = true
		}
	}
	return any
}

// invalidateUsers fences the caller's own windows while the call goes on waiting.
func (c *Conn) invalidateUsers(call *call) error {
	c.mu.Lock()
	if call.state == callSent && !c.down {
		c.works = c.works[:0]
		for i := range call.windows {
			if w := &call.windows[i]; w.users && w.state == windowLive {
				c.closeWindow(call, w)
			}
		}
		if len(c.works) > 0 {
			c.post(c.works)
		}
	}
	c.mu.Unlock()
	c.flush()
	for {
		c.mu.Lock()
		busy := call.fencing > 0 && !c.down
		c.mu.Unlock()
		if !busy {
			break
		}
		select {
		case <-call.wake:
		case <-c.gone:
		}
	}
	call.dropRegions()
	return nil
}
