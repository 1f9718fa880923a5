package engine

import (
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// answerSlack is how much longer than its deadline the answer to an operation of ours may take; so long, too, one that may
// not have been consumed keeps an RPC credit.
const answerSlack = 10 * time.Second

// outbound are the operations that our extensions send. Guarded by Conn.mu.
type outbound struct {
	waits   [][]*outgoing        // for their window or a credit, by operation, oldest first
	waiting int                  // in all of waits
	known   map[uint32]*outgoing // sent, their outcome not told, by XID
	pumping bool                 // somebody sends what may go
	starved bool                 // one waits for a credit
	lent    int                  // credits taken for who waits (lend)
	gone    []sentOp             // step's
}

// outgoing is an operation of ours, until its outcome is told.
type outgoing struct {
	s      *session
	op     int
	info   []byte
	asOpt  bool // as RDMA2_OPTIONAL
	credit bool
	xid    uint32
	until  time.Time // its answer's; zero: there is none
	done   func(ext.Outcome)
}

func (o *outbound) init(ops int) {
	o.waits = make([][]*outgoing, ops)
	o.known = make(map[uint32]*outgoing)
}

// send queues an operation; pump follows. Called with mu held.
func (x *extensions) send(s *session, m ext.Outgoing, done func(ext.Outcome)) {
	i := x.opNamed(s, m.Op)
	o := &outgoing{s: s, op: i, done: done}
	if i >= 0 {
		op := &x.ops[i].Op
		o.asOpt = op.Proc == 0 || m.Optional && op.Type != 0
	}
	if i < 0 || x.over || !x.mayQueue(o, m.Info) {
		kind := ext.NotSent
		if x.over {
			kind = ext.Lost
		}
		x.tell(o, ext.Outcome{Kind: kind})
		return
	}
	o.info = append([]byte(nil), m.Info...)
	x.out.waits[i] = append(x.out.waits[i], o)
	x.out.waiting++
}

// opNamed is the index of an operation of s, or -1.
func (x *extensions) opNamed(s *session, name string) int {
	for i := range x.ops {
		if x.ops[i].Ext == s.i && x.ops[i].Op.Name == name {
			return i
		}
	}
	return -1
}

// mayQueue tells whether the declaration and the limits allow an operation to be sent unasked. Called with mu held.
func (x *extensions) mayQueue(o *outgoing, info []byte) bool {
	s, r := o.s, &x.ops[o.op]
	send, _ := x.c.thresholds(wire.Version2)
	switch {
	case !x.may(r, ours), r.Op.Payload != ext.NoPayload, r.Op.Reply && x.isAnswer(o.op):
		return false
	case len(info) > s.decl.Limits.Info, operationLen(o.asOpt, len(info)) > send:
		return false
	}
	n := 0
	for j := range x.ops {
		if x.ops[j].Ext == s.i {
			n += len(x.out.waits[j])
		}
	}
	return n < s.decl.Limits.Queue
}

// operationLen is the bytes of an operation on the wire.
func operationLen(asOpt bool, info int) int {
	if asOpt {
		return wire.FixedLen + 12 + info + -info&3
	}
	return wire.FixedLen + info
}

// tell ends o. Called with mu held.
func (x *extensions) tell(o *outgoing, out ext.Outcome) {
	if o.xid != 0 && x.out.known[o.xid] == o {
		delete(x.out.known, o.xid)
	}
	if o.done == nil {
		return
	}
	done := o.done
	o.done = nil
	o.s.push(task{run: func(ext.Session) { done(out) }})
}

// pump sends what may go now. Without mu.
func (x *extensions) pump() {
	c := x.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.out.pumping {
		return
	}
	x.out.pumping = true
	for o := x.next(); o != nil; o = x.next() {
		c.mu.Unlock()
		sb, err := c.takeSend(operationLen(o.asOpt, len(o.info)))
		c.mu.Lock()
		x.transmit(o, sb, err)
	}
	x.out.pumping = false
	x.returnLent()
}

// next takes an operation that may go from those that wait, with its place in the window and its credit. Called with mu held.
func (x *extensions) next() *outgoing {
	x.out.starved = false
	if x.out.waiting == 0 || x.over || !x.started {
		return nil
	}
	for i, q := range x.out.waits {
		if len(q) == 0 || !x.ctl.room(i) {
			continue
		}
		o := q[0]
		if !o.s.known { // D-8: nothing says yet that the peer has receives for it
			if !x.c.client {
				continue
			}
			if !x.takeCredit() {
				x.out.starved = true
				continue
			}
			o.credit = true
		}
		x.ctl.reserve(i, o.credit)
		q[0] = nil
		x.out.waits[i] = q[1:]
		x.out.waiting--
		return o
	}
	return nil
}

// takeCredit takes an RPC credit for an operation: one that lend has taken, or a free one that no call
// waits for, or may have yet. They hold half of the credits at most. Called with mu held.
func (x *extensions) takeCredit() bool {
	c := x.c
	switch {
	case x.out.lent > 0:
		x.out.lent--
	case c.credits.free() && (c.waiting.empty() || c.gated()) && x.mayHold():
		c.credits.take()
	default:
		return false
	}
	return true
}

func (x *extensions) mayHold() bool { return x.ctl.held+x.out.lent < max(x.c.credits.limit/2, 1) }

// lend gives an operation that waits for a credit the one that is free, before calls that wait. Called with mu held.
func (x *extensions) lend() {
	if x == nil || !x.out.starved || x.over || !x.c.credits.free() || !x.mayHold() {
		return
	}
	x.out.starved = false
	x.c.credits.take()
	x.out.lent++
	x.spawn(func() {
		x.pump()
		x.c.flush()
	})
}

// returnLent gives back what lend took and nobody has used. Called with mu held.
func (x *extensions) returnLent() {
	if x.out.lent == 0 {
		return
	}
	for ; x.out.lent > 0; x.out.lent-- {
		x.c.credits.put()
	}
	x.c.grantWaiting()
}

// transmit posts o in sb, or says why not. Called with mu held.
func (x *extensions) transmit(o *outgoing, sb *sendBuffer, err error) {
	c, r := x.c, &x.ops[o.op]
	if err == nil && c.down {
		c.sends.put(sb)
		err = c.lostErr()
	}
	if send, _ := c.thresholds(wire.Version2); err == nil && operationLen(o.asOpt, len(o.info)) > send {
		c.sends.put(sb)
		err = errShrunk
	}
	if err != nil {
		x.ctl.cancel(o.op, o.credit)
		if o.credit {
			c.credits.put()
			c.grantWaiting()
		}
		kind := ext.NotSent
		if c.down {
			kind = ext.Lost
		}
		x.tell(o, ext.Outcome{Kind: kind})
		return
	}
	o.xid = x.newXID()
	h := wire.Header{XID: o.xid, Version: wire.Version2, Credit: uint32(c.asks())}
	if r.Op.Reply {
		h.Credit, h.Direction = c.granted.Load(), wire.Reply
	}
	b := appendOperation(sb, &h, &r.Op, o.asOpt, o.info)
	switch {
	case !r.Op.Credit && !isGrant(&r.Op):
	case r.Op.Reply:
		c.stampGrant(b, false)
	default:
		c.stampAsk(b)
	}
	until := time.Now().Add(r.Op.Deadline + answerSlack)
	if r.Answer >= 0 {
		o.until = until
	}
	if r.Answer >= 0 || o.credit {
		x.alarm(until)
	}
	x.out.known[o.xid] = o
	x.ctl.post(sentOp{op: o.op, xid: o.xid, calls: c.callsRecv(), credit: o.credit, until: until})
	c.works = append(c.works[:0], sb.work(len(b)))
	c.post(c.works)
	c.counters.ControlSent++
	x.event(obs.ControlSent, o.xid, &r.Op, len(b))
}

// newXID is one that no call and no operation of ours has (D-20), and not 0. Called with mu held.
func (x *extensions) newXID() uint32 {
	for {
		xid := x.c.cfg.NextXID()
		if xid != 0 && x.out.known[xid] == nil && x.c.pending.at(xid) == nil {
			return xid
		}
	}
}

// appendOperation puts an operation together.
func appendOperation(sb *sendBuffer, h *wire.Header, op *ext.Op, asOpt bool, info []byte) []byte {
	b := sb.bytes(operationLen(asOpt, len(info)))
	if asOpt {
		h.Proc, h.OptType, h.OptInfo = wire.Optional, op.Type, info
		return h.Append(b)
	}
	h.Proc = wire.Proc(op.Proc)
	return append(h.AppendFixed(b), info...)
}

// callsRecv is the calls that the peer has made. Called with mu held.
func (c *Conn) callsRecv() uint64 {
	return *c.pick(theirs, &c.counters.CallsRecv, &c.counters.BackCallsRecv)
}

// sentSoFar marks a call that is sent now; see replied. Called with mu held.
func (x *extensions) sentSoFar() uint64 {
	if x == nil {
		return 0
	}
	return x.ctl.seq
}

// replied: a call that was sent after so many operations has its reply. It tells whether pump is to follow. Called with mu held.
func (x *extensions) replied(seq uint64) bool {
	return x != nil && len(x.ctl.sent) > 0 && x.prove(controlEvent{kind: proofReply, seq: seq})
}

// called: a call of the peer's has come. Called with mu held.
func (x *extensions) called() bool {
	return x != nil && len(x.ctl.sent) > 0 &&
		x.prove(controlEvent{kind: proofCalls, calls: x.c.callsRecv(), grant: uint64(x.c.allows())})
}

// prove takes a proof of consumption; see replied. Called with mu held.
func (x *extensions) prove(ev controlEvent) bool {
	x.out.gone = x.ctl.step(ev, x.out.gone[:0])
	for _, s := range x.out.gone {
		if s.credit {
			x.c.credits.put()
		}
		if o := x.out.known[s.xid]; o != nil && x.ops[o.op].Answer < 0 {
			x.tell(o, ext.Outcome{Kind: ext.Consumed, XID: o.xid})
		}
	}
	if len(x.out.gone) > 0 {
		x.c.grantWaiting()
		x.postParcels()
	}
	return len(x.out.gone) > 0 && x.out.waiting > 0
}

// heard: the peer has shown that it has the extension, and so receives for its operations. Called with mu held.
func (x *extensions) heard(s *session) {
	if s.known {
		return
	}
	s.known = true
	x.freeCredits(func(o *sentOp) bool { return x.ops[o.op].Ext == s.i })
}

func (x *extensions) freeCredits(match func(*sentOp) bool) {
	n := x.ctl.release(match)
	for range n {
		x.c.credits.put()
	}
	if n > 0 {
		x.c.grantWaiting()
	}
}

// expireSends ends what has waited for its answer, or kept a credit, for too long. Called with mu held.
func (x *extensions) expireSends(now time.Time) {
	for _, o := range x.out.known {
		switch {
		case o.until.IsZero():
		case o.until.After(now):
			x.alarm(o.until)
		default:
			x.c.counters.ControlTimedOut++
			x.tell(o, ext.Outcome{Kind: ext.TimedOut, XID: o.xid})
		}
	}
	x.freeCredits(func(s *sentOp) bool {
		if s.until.After(now) {
			x.alarm(s.until)
			return false
		}
		return true
	})
}

// endSends: the connection is lost. Called with mu held.
func (x *extensions) endSends() {
	for i, q := range x.out.waits {
		for _, o := range q {
			x.tell(o, ext.Outcome{Kind: ext.Lost})
		}
		x.out.waits[i] = nil
	}
	x.out.waiting = 0
	for _, o := range x.out.known {
		x.tell(o, ext.Outcome{Kind: ext.Lost, XID: o.xid})
	}
	x.freeCredits(func(*sentOp) bool { return true })
	x.returnLent()
	x.ctl.sent = nil
}

// dropSends forgets what waits to be sent by a session that is down. Called with mu held.
func (x *extensions) dropSends(s *session) {
	for i := range x.out.waits {
		if x.ops[i].Ext == s.i {
			x.out.waiting -= len(x.out.waits[i])
			x.out.waits[i] = nil
		}
	}
}
