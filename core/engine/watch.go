package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// Defaults of Config. A server waits longer than a client, and than Linux's, which closes
// after five minutes: who has to connect again then is who knows that nothing is under way.
const (
	DefaultClientIdle = 5 * time.Minute
	DefaultServerIdle = 6 * time.Minute
	DefaultStall      = time.Minute
	DefaultKeepAlive  = 20 * time.Second
)

// slowest is the pace, in bytes per second, at which a Read or a reply may move and still be in progress.
const slowest = 64 << 10

var (
	// ErrStalled: what was posted, or a frame that has begun to come, has made no progress for
	// Config.StallTimeout.
	ErrStalled = errors.New("peer stalls")
	// ErrMute: the peer said nothing while calls waited, nor answered when it was asked
	// (Config.KeepAlive).
	ErrMute = errors.New("peer is mute: calls and a NULL call have no answer")
)

// activity is what a connection has done up to a tick.
type activity struct {
	calls                uint64 // received and sent
	gated                bool   // version 2 stands, and an extension has not opened the connection
	busy                 bool   // something is served, awaited or owed
	awaiting             bool   // calls wait for replies
	heard                uint64 // bytes from the peer
	frames               uint64 // from the peer
	torn                 bool   // one has begun to come and is not whole
	reads, sends         int    // posted and not completed
	readsDone, sendsDone uint64
	readMost, sendMost   int // bytes of the largest among them
}

// verdict is what follows from a tick.
type verdict uint8

const (
	verdictNone  verdict = iota
	verdictIdle          // close in order
	verdictStall         // abort: ErrStalled
	verdictTorn          // the same
	verdictProbe         // ask by a NULL call; probed tells that one went out
	verdictMute          // abort: ErrMute
	verdictGate          // abort: it was not opened
)

// watch judges a connection once a tick: a pure value, in ticks.
type watch struct {
	idle, stall, mute int // limits; 0: none
	gate              int // the same
	pace              int // bytes that move in one tick at least

	last                          activity
	quiet, reading, sending, hush int // ticks without a call, a Read, a Send or Write, a byte
	outside                       int // ticks gated
	torn                          int // ticks with the same frame unfinished
	probed                        bool
}

// step takes what the connection has done since the last tick.
func (w *watch) step(a activity) verdict {
	count := func(n *int, same bool) {
		*n++
		if !same {
			*n = 0
		}
	}
	count(&w.quiet, !a.busy && a.calls == w.last.calls)
	count(&w.reading, a.reads > 0 && a.readsDone == w.last.readsDone && w.last.reads > 0)
	count(&w.sending, a.sends > 0 && a.sendsDone == w.last.sendsDone && w.last.sends > 0)
	count(&w.outside, a.gated && w.last.gated)
	count(&w.hush, a.awaiting && a.heard == w.last.heard && w.last.awaiting)
	count(&w.torn, a.torn && w.last.torn && a.frames == w.last.frames)
	w.last = a
	if w.hush == 0 {
		w.probed = false
	}
	switch {
	case w.stall > 0 && (w.reading > w.stall+a.readMost/w.pace || w.sending > w.stall+a.sendMost/w.pace):
		return verdictStall
	case w.stall > 0 && w.torn > w.stall:
		return verdictTorn
	case w.gate > 0 && w.outside >= w.gate:
		return verdictGate
	case w.mute > 0 && w.probed && w.hush >= 2*w.mute:
		return verdictMute
	case w.mute > 0 && !w.probed && w.hush >= w.mute:
		w.hush = w.mute // what follows is counted from the question
		return verdictProbe
	case w.idle > 0 && w.quiet >= w.idle:
		return verdictIdle
	}
	return verdictNone
}

// ticksPer is how many ticks the shortest limit has.
const ticksPer = 8

// newWatch chooses a connection's tick and its limits in ticks.
func (c *Config) newWatch() (w watch, period time.Duration, timeout uint32) {
	period = c.CallTimeout
	gate := c.GateTimeout
	if !c.Extensions.Gated() {
		gate = 0
	}
	for _, d := range []time.Duration{c.IdleTimeout, c.StallTimeout, c.KeepAlive, gate} {
		if d > 0 {
			period = min(period, d)
		}
	}
	period = max(period/ticksPer, time.Millisecond)
	ticks := func(d time.Duration) int {
		if d <= 0 {
			return 0
		}
		return int((d + period - 1) / period)
	}
	w = watch{idle: ticks(c.IdleTimeout), stall: ticks(c.StallTimeout), mute: ticks(c.KeepAlive), gate: ticks(gate)}
	w.pace = max(int(slowest*period.Seconds()), 1)
	return w, period, uint32(ticks(c.CallTimeout))
}

// KeepOpen lifts the default limit on idleness from a connection of which more is expected than calls of the peer's: at a
// server, by which it calls its client, who alone could make another. An IdleTimeout that was set stands.
func (c *Conn) KeepOpen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.idleAsked {
		c.watch.idle = 0
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
	v := c.watch.step(c.activity())
	if v == verdictIdle {
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
	case verdictIdle:
		c.Close()
	case verdictStall:
		c.Abort(fmt.Errorf("%w: nothing posted has completed for %v", ErrStalled, c.cfg.StallTimeout))
	case verdictTorn:
		c.Abort(fmt.Errorf("%w: a frame that began is not whole after %v", ErrStalled, c.cfg.StallTimeout))
	case verdictProbe:
		c.ask()
	case verdictGate:
		c.unopened()
	case verdictMute:
		c.Abort(fmt.Errorf("%w for %v", ErrMute, 2*c.cfg.KeepAlive))
	}
}

// look reads what has come from the peer, of any kind.
func (c *Conn) look() {
	if c.watch.mute > 0 && c.client || c.watch.stall > 0 {
		c.vc.Stats(&c.fabric)
	}
}

// activity is the connection's, with mu held.
func (c *Conn) activity() activity {
	n := &c.counters
	a := activity{
		calls: n.CallsRecv + n.CallsSent + n.BackCallsRecv + n.BackCallsSent, heard: c.fabric.RecvBytes,
		frames: c.fabric.RecvFrames, torn: c.fabric.Unfinished > 0,
		gated:    c.gated() && c.stands() != 0,
		busy:     c.serving > 0 || c.owed > 0 || c.credits.inUse > 0 || !c.waiting.empty() || len(c.outbox) > 0,
		awaiting: c.pending.n > 0 && c.client,
		reads:    c.reading, readsDone: c.readsDone, readMost: c.cfg.largest(c.readMost),
		sends: c.sends.out, sendsDone: c.sends.done, sendMost: c.cfg.largest(c.sendMost),
	}
	if a.sends > 0 && a.sendsDone == c.watch.last.sendsDone {
		a.sendMost = max(a.sendMost, c.offered())
	}
	if a.reads == 0 {
		c.readMost = 0
	}
	if a.sends == 0 {
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
	if call == nil || c.down || c.neg.State != NegSettled || !c.credits.free() || !c.waiting.empty() || !c.group.gate.enter() {
		c.mu.Unlock()
		return
	}
	p := call.pool.Get()
	h, ok := nullCall(call.Msg.Bytes(), c.cfg.NextXID())
	if !ok || c.pending.at(h.XID) != nil {
		c.mu.Unlock()
		c.group.gate.leave()
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
	c.watch.probed = true
	c.mu.Unlock()
	if c.sendAsk(p) {
		c.flush()
	}
}

// sendAsk posts p, or gives it back.
func (c *Conn) sendAsk(p *Call) bool {
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
