package engine

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/watch"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// newWatch chooses a connection's tick and its limits, and CallTimeout in ticks.
func (c *Config) newWatch() (w watch.Watch, tick time.Duration, timeout uint32) {
	gate := c.GateTimeout
	if !c.Extensions.Gated() {
		gate = 0
	}
	w, tick = watch.New(watch.Limits{Idle: c.IdleTimeout, Stall: c.StallTimeout, Mute: c.KeepAlive, Gate: gate}, c.CallTimeout)
	return w, tick, uint32(watch.Ticks(c.CallTimeout, tick))
}

// KeepOpen implements transport.Backlink. At a server only the client could make another connection to be called by. An
// IdleTimeout that was set stands.
func (c *Conn) KeepOpen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.idleAsked {
		c.watch.KeepOpen()
	}
}

// startTicker starts the connection's one timer.
func (c *Conn) startTicker() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.down {
		c.ticker = time.AfterFunc(c.period, c.onTick)
	}
}

// onTick ends calls without a deadline of their own that have waited too long, and the connection where
// it is idle, stalled or mute.
func (c *Conn) onTick() {
	c.look()
	short := c.ep.pool.short() || c.cfg.Busy != nil && c.cfg.Busy()
	c.mu.Lock()
	if c.down {
		c.mu.Unlock()
		return
	}
	c.tick++
	kick := c.expire(&c.live)
	c.expire(&c.waiting.callList)
	c.grants.step(short)
	c.granted.Store(uint32(c.grants.now))
	stale := c.ext.grantChanges()
	v := c.watch.Step(c.activity())
	if v == watch.Idle {
		c.shut.Store(true)
		c.closing = true // decided with mu held: no call begins any more, here or there
	}
	c.ticker.Reset(c.period)
	c.mu.Unlock()
	if kick && c.driver != nil {
		c.driver.Kick()
	}
	answerAll(stale, nil)
	switch v {
	case watch.Idle:
		c.Close()
	case watch.Stall:
		c.Abort(fmt.Errorf("%w: nothing posted has completed for %v", transport.ErrStalled, c.cfg.StallTimeout))
	case watch.Torn:
		c.Abort(fmt.Errorf("%w: a frame that began is not whole after %v", transport.ErrStalled, c.cfg.StallTimeout))
	case watch.Probe:
		c.ask()
	case watch.Gate:
		c.unopened()
	case watch.Mute:
		c.Abort(fmt.Errorf("%w for %v", transport.ErrMute, 2*c.cfg.KeepAlive))
	}
}

// look reads what has come from the peer, of any kind.
func (c *Conn) look() {
	if c.watch.Hears(c.client) {
		c.vc.Stats(&c.fabric)
	}
}

// activity is the connection's, with mu held.
func (c *Conn) activity() watch.Activity {
	n := &c.counters
	a := watch.Activity{
		Calls: n.CallsRecv + n.CallsSent + n.BackCallsRecv + n.BackCallsSent, Heard: c.fabric.RecvBytes,
		Frames: c.fabric.RecvFrames, Torn: c.fabric.Unfinished > 0,
		Gated:    c.gated() && c.stands() != 0,
		Busy:     c.serving > 0 || c.owed > 0 || c.credits.inUse > 0 || !c.waiting.empty() || len(c.outbox) > 0,
		Awaiting: c.pending.n > 0 && c.client,
		Reads:    c.reading, ReadsDone: c.readsDone, ReadMost: c.cfg.largest(c.readMost),
		Sends: c.sends.out, SendsDone: c.sends.done, SendMost: c.cfg.largest(c.sendMost),
	}
	if a.Sends > 0 && c.watch.SendsStuck(a.SendsDone) {
		a.SendMost = max(a.SendMost, c.offered())
	}
	if a.Reads == 0 {
		c.readMost = 0
	}
	if a.Sends == 0 {
		c.sendMost = 0
	}
	return a
}

// offered is the most bytes that the peer may be reading of one call: answers to its Reads go the same way as
// our Sends, which wait for them. Called with mu held.
func (c *Conn) offered() (most int) {
	for call := range c.calls.all() {
		n := 0
		for _, s := range call.head.Reads {
			n += int(s.Length)
		}
		most = max(most, n)
	}
	return most
}

func (c *Config) largest(n int) int { return min(n, c.MaxCall) }

// Closing tells that the connection is about to end in order, and takes no calls any more.
func (c *Conn) Closing() bool {
	return c.shut.Load()
}

// ask sends a NULL call of the program that waits longest. It is a call like others, of the credits as
// well: while none is free, or no version is settled, it is not sent, and silence proves nothing. Whatever
// answers it does, as does anything else that comes.
func (c *Conn) ask() {
	c.mu.Lock()
	call := c.live.head
	if call == nil || c.down || c.neg.State != NegSettled || !c.credits.free() || !c.waiting.empty() || !c.group.users.enter() {
		c.mu.Unlock()
		return
	}
	p := callOf(new(transport.Call)) // seldom
	h, ok := nullCall(call.Msg.Bytes(), c.cfg.NextXID())
	if !ok || c.pending.at(h.XID) != nil {
		c.mu.Unlock()
		c.group.users.leave()
		p.Free()
		return
	}
	p.group, p.XID = c.group, h.XID
	h.Append(&p.Msg)
	p.head = wire.Header{
		XID: p.XID, Version: c.neg.Version, Credit: uint32(c.cfg.Credits), Direction: wire.Call, Proc: wire.Msg,
	}
	c.giveCredit(p)
	p.orphan = true // nobody waits for it: its reply frees it
	c.orphans++
	c.watch.Probed()
	c.mu.Unlock()
	if c.sendAsk(p) {
		c.flush()
	}
}

// sendAsk posts p, or gives it back.
func (c *Conn) sendAsk(p *call) bool {
	sb, err := c.takeSend(p.head.Len() + p.Msg.Len())
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.down {
		c.sends.put(sb)
		err = c.lostErr()
	}
	if err != nil {
		c.orphans--
		c.dropCredit(p)
		p.orphan = false
		p.Free()
		return false
	}
	b := append(p.head.Append(sb.bytes(p.head.Len()+p.Msg.Len())), p.Msg.Bytes()...)
	c.stampAsk(b)
	p.state = callSent
	p.index, p.after = c.calls.add(p), c.ext.sentSoFar()
	c.pending.add(p)
	c.works = append(c.works[:0], sb.work(len(b)))
	c.post(c.works)
	c.countMessage(&p.head, p.Msg.Len(), &c.counters.CallsSent)
	c.event(obs.Event{Kind: obs.CallSent, XID: p.XID, Bytes: len(b), Arg: int64(obs.FormInline)})
	return true
}

// nullCall is the header of a NULL call of the program that the call message b is for.
func nullCall(b []byte, xid uint32) (h rpcmsg.CallHeader, ok bool) {
	if len(b) < 20 {
		return h, false
	}
	return rpcmsg.CallHeader{XID: xid, Program: binary.BigEndian.Uint32(b[12:]), Version: binary.BigEndian.Uint32(b[16:])}, true
}
