package engine

import (
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// window is one exposure of a call.
type window struct {
	w     verbs.Window
	state windowState
	users bool // over the caller's own memory
	peers bool // the peer has invalidated it
}

type windowState uint8

const (
	windowNone    windowState = iota
	windowLive                // the peer can reach the memory
	windowFencing             // its Invalidate is posted
	windowFenced
)

// fence ends what call exposes, and settles the call once nothing is exposed any more:
// no caller continues while a peer can still reach its memory (RFC 8166 §3.4.1,
// §8.1). call.outcome says what then follows. Called with mu held.
func (c *Conn) fence(call *call) {
	call.state = callFencing
	call.fenceBegan = c.clock()
	c.works = c.works[:0]
	for i := range call.windows {
		w := &call.windows[i]
		switch {
		case w.state == windowLive && c.down:
			w.state = windowFenced
		case w.state == windowLive:
			c.closeWindow(call, w)
		}
	}
	if len(c.works) > 0 {
		c.post(c.works)
	}
	if call.fencing == 0 {
		c.settled(call)
	}
}

// closeWindow adds the Invalidate of one of the windows of call to works. Called with mu held.
func (c *Conn) closeWindow(call *call, w *window) {
	w.state = windowFencing
	call.fencing++
	c.counters.LocalInv++
	c.works = append(c.works, verbs.Work{
		ID: workID(workInvalidate, call.index), Op: verbs.OpInvalidate, Window: &w.w,
	})
}

// invalidated takes the completion of one Invalidate. Called with mu held.
func (c *Conn) invalidated(call *call) {
	if call == nil {
		return // Disconnected has settled it
	}
	if call.fencing--; call.fencing > 0 {
		return
	}
	for i := range call.windows {
		if call.windows[i].state == windowFencing {
			call.windows[i].state = windowFenced
		}
	}
	if call.state != callFencing { // a cancelled call's own memory: it waits on
		call.wakeUp()
		return
	}
	c.settled(call)
}

// settled ends a call's time with the connection, or sends it round again. Called with mu held.
func (c *Conn) settled(call *call) {
	c.calls.remove(call.index)
	c.fenced(call)
	call.state = call.outcome
	if call.state != callAgain {
		c.dropCredit(call)
	}
	if call.orphan {
		c.orphans--
		c.orphaned -= call.exposed()
		if call.detaching {
			call.wakeUp() // freeCallers waits for the fences, and frees the call
		} else {
			call.retire()
		}
		return
	}
	call.settled.Store(true)
	if !call.leads.Load() { // if it leaves the lead now, it looks after that
		call.wakeUp()
	}
}

// fenced records that nothing of call is exposed any more. Called with mu held.
func (c *Conn) fenced(call *call) {
	if c.cfg.Recorder == nil || len(call.windows) == 0 {
		return
	}
	e := obs.Event{Kind: obs.Fenced, XID: call.XID, Segs: len(call.windows)}
	for i := range call.windows {
		if call.windows[i].peers {
			e.Arg++
		}
	}
	c.eventSince(call.fenceBegan, e)
}

// end takes call out of what waits for replies; it is settled when it is fenced. Called with mu
// held.
func (c *Conn) end(call *call, outcome callState, err error) {
	c.pending.remove(call)
	c.live.remove(call)
	if call.orphan && outcome == callAgain {
		outcome = callDone
	}
	call.outcome, call.err = outcome, err
	c.fence(call)
}

// remoteInvalidated notes that the peer ended the window with this key. False: no window
// of the call has it. Called with mu held.
func (c *Conn) remoteInvalidated(call *call, key uint32) bool {
	for i := range call.windows {
		w := &call.windows[i]
		if w.w.Key != key {
			continue
		}
		if w.state == windowLive { // else its Invalidate is on its way, or done: the caller was in a hurry
			w.state, w.peers = windowFenced, true
			c.counters.RemoteInv++
		}
		return true
	}
	return false
}

// exposed is the bytes that a call's windows cover.
func (call *call) exposed() int {
	n := 0
	for i := range call.windows {
		n += call.windows[i].w.N
	}
	return n
}

// dropMemory gives back what the call took for its chunks. Everything is fenced.
func (call *call) dropMemory() {
	call.dropRegions()
	call.release.giveBack()
	if call.pulled != nil {
		call.pulled.Free()
		call.pulled = nil
	}
	if call.reply != nil {
		call.reply.Free()
		call.reply = nil
	}
	for i, m := range call.spares {
		m.Free()
		call.spares[i] = nil
	}
	call.spares = call.spares[:0]
	clear(call.windows) // calls are pooled across providers: a Slot must not travel
	call.windows = call.windows[:0]
	clear(call.results)
	call.results = call.results[:0]
}

func (call *call) dropRegions() {
	for i, r := range call.regs {
		r.Release()
		call.regs[i] = nil
	}
	call.regs = call.regs[:0]
}

// retire frees an orphan.
func (call *call) retire() {
	call.orphan, call.detaching = false, false
	call.Free()
}
