package engine

import (
	"errors"
	"slices"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// claims tells whether the message, whose header has been read with err, is an operation of an extension. Within Complete.
func (x *extensions) claims(h *wire.Header, err error) bool {
	if x == nil || !x.begun || h.Version != wire.Version2 || h.Proc == wire.Optional && err != nil {
		return false // D-4, or BAD_XDR
	}
	_, ok := x.find(h)
	return ok
}

// find is the operation of a header: either of its encodings (D-1).
func (x *extensions) find(h *wire.Header) (i int, ok bool) {
	if h.Proc == wire.Optional {
		return x.set.Type(h.OptType)
	}
	return x.set.Proc(uint32(h.Proc))
}

// operation takes an operation that claims has: msg, whose header has n bytes, or was refused by the codec with err.
func (in *inbound) operation(h *wire.Header, msg []byte, n int, err error, buf buffer) {
	c, x := in.c, in.c.ext
	i, _ := x.find(h)
	r := &x.ops[i]
	s := x.sessions[r.Ext]
	c.mu.Lock()
	state := s.state
	c.mu.Unlock()

	if r.Op.Payload != ext.NoPayload && state != sessionAbsent {
		in.wrapped(h, msg[n:], buf)
		return
	}
	defer buf.put()
	m := ext.Message{Op: r.Op.Name, XID: h.XID, Credit: h.Credit, Optional: h.Proc == wire.Optional}
	info, surplus := h.OptInfo, err == nil && n < len(msg)
	if !m.Optional {
		info = msg[wire.FixedLen:]
		surplus = surplus && h.Proc <= wire.UpdProp // of others the end is where the message ends
		if h.Proc > wire.UpdProp {
			err = nil // the codec does not know it
		}
	}
	// D-10: what has no direction of its own has that of its kind.
	m.Reply = m.Optional && h.Direction == wire.Reply || !m.Optional && r.Op.Reply
	mine := m.Reply && r.Answer == i // who answers is not who asks
	unknown := wire.BadProc
	if m.Optional {
		unknown = wire.UnknownOption
	}
	switch {
	case state == sessionAbsent, !x.may(r, mine):
		in.refuseOperation(h, m.Reply, unknown)
	case err != nil:
		in.refuseOperation(h, m.Reply, wire.BadXDR)
	case surplus:
		in.refuseOperation(h, m.Reply, wire.Surplus)
	case len(info) > s.decl.Limits.Info, m.Reply != r.Op.Reply && !(m.Reply && r.Answer == i):
		in.refuseOperation(h, m.Reply, wire.BadXDR)
	default:
		m.Info = slices.Clone(info)
		in.accepted(s, i, m)
	}
}

// refuseOperation answers an operation, where it may be (D-12).
func (in *inbound) refuseOperation(h *wire.Header, reply bool, why wire.Reason) {
	as := wire.Call
	if reply {
		as = wire.Reply
	}
	body, ok := h.Refuse(why).Answer(as, wire.Version2, wire.Version2)
	if !ok {
		in.drop(h.XID)
		return
	}
	in.c.sendError(nil, h.XID, h.Version, body)
}

// accepted hands an operation to its session, or to who has asked for it.
func (in *inbound) accepted(s *session, i int, m ext.Message) {
	c, x := in.c, in.c.ext
	op := &x.ops[i].Op
	q := &question{s: s, op: i, msg: m}
	var late, stray bool
	c.mu.Lock()
	c.counters.ControlRecv++
	x.heard(s)
	if m.Reply && (op.Credit || isGrant(op)) { // D-9
		c.takeGrant(m.Credit, false)
		c.grantWaiting()
	}
	if !m.Reply && op.Credit {
		c.rule.heard(m.Credit, c.client)
	}
	o := x.out.known[m.XID]
	if op, ok := x.ctl.find(m.XID); m.Reply && ok && x.ops[op].Answer == i { // be it too late to be told as its outcome
		x.prove(controlEvent{kind: proofAnswer, xid: m.XID})
	}
	switch {
	case m.Reply && o != nil && x.ops[o.op].Answer == i:
		x.tell(o, ext.Outcome{Kind: ext.Answered, XID: m.XID, Info: m.Info, Credit: m.Credit, Optional: m.Optional})
	case m.Reply && o != nil:
		stray = true
	case s.full(), s.state == sessionDown:
		late = true
	case m.Reply:
		s.push(task{run: func(e ext.Session) { e.Message(m) }, counts: true})
	default:
		s.ask(q, op.Deadline, nil)
	}
	c.mu.Unlock()
	x.event(obs.ControlRecv, m.XID, op, len(m.Info))
	switch {
	case stray, late && m.Reply:
		in.drop(m.XID)
	case late:
		x.late(q)
	}
	x.pump()
}

// isGrant: RESPROP's credit counts (D-9).
func isGrant(op *ext.Op) bool {
	return wire.Proc(op.Proc) == wire.RespProp || op.Type == wire.OptRespProp
}

// refused takes an RDMA_ERROR that names an operation of ours: those are looked up first (D-20). Called with mu held.
func (x *extensions) refused(h *wire.Header) bool {
	if x == nil || len(x.out.known)+len(x.ctl.sent) == 0 {
		return false
	}
	o := x.out.known[h.XID]
	if op, ok := x.ctl.find(h.XID); o == nil && (!ok || x.ops[op].Op.Payload != ext.NoPayload) {
		return false
	}
	c := x.c
	c.counters.ErrorsRecv++
	c.counters.ControlRefused++
	if c.neg.State == NegSettled {
		c.takeGrant(h.Credit, false)
	}
	if o != nil { // else it has timed out
		x.tell(o, ext.Outcome{Kind: ext.Refused, XID: h.XID, Code: ext.Code(h.Err.Code)})
	}
	x.prove(controlEvent{kind: proofAnswer, xid: h.XID})
	return true
}

// late ends a question with what its operation declares (D-38). Without mu.
func (x *extensions) late(q *question) {
	x.c.mu.Lock()
	x.c.counters.ControlLate++
	if q.settle != nil {
		q.settle(ext.Change{Kind: ext.Rejected})
	}
	x.c.mu.Unlock()
	if q.op >= 0 {
		x.event(obs.ControlLate, q.msg.XID, &x.ops[q.op].Op, 0)
		x.carryOut(q, x.ops[q.op].Op.Late)
	}
}

// unsupported answers a question to a session that is not there. Without mu.
func (x *extensions) unsupported(q *question) {
	if q.op >= 0 {
		x.refuse(q, ext.InvalidOption)
		return
	}
	x.c.mu.Lock()
	q.settle(ext.Change{Kind: ext.Rejected})
	x.c.mu.Unlock()
}

// answer is Conn.Answer. Without mu.
func (x *extensions) answer(s *session, t ext.Token, v ext.Verdict) {
	c := x.c
	c.mu.Lock()
	q := x.tokens[t]
	if q == nil || q.s != s || q.op < 0 {
		c.counters.ExtIgnored++
		c.mu.Unlock()
		return
	}
	x.settled(q)
	c.mu.Unlock()
	if v.Kind == ext.Default {
		v = x.ops[q.op].Op.Late
	}
	x.carryOut(q, v)
	c.flush()
}

// carryOut does what v says of q. Without mu.
func (x *extensions) carryOut(q *question, v ext.Verdict) {
	r := &x.ops[q.op]
	switch v.Kind {
	case ext.Refuse:
		x.refuse(q, v.Code)
	case ext.Answer:
		if r.Answer < 0 {
			x.ignored()
			return
		}
		if !x.sendAnswer(q, v.Info) {
			x.ignored()
			x.refuse(q, ext.System)
		}
	}
}

func (x *extensions) ignored() {
	x.c.mu.Lock()
	x.c.counters.ExtIgnored++
	x.c.mu.Unlock()
}

// refuse sends an RDMA_ERROR. Without mu.
func (x *extensions) refuse(q *question, code ext.Code) {
	switch {
	case code == ext.InvalidOption && !q.msg.Optional:
		code = ext.InvalidProc // D-2: the same of a procedure
	case code != ext.BadXDR && code != ext.InvalidOption:
		code = ext.System
	}
	x.c.sendError(nil, q.msg.XID, wire.Version2, wire.ErrorBody{Code: wire.Code(code)})
}

// sendAnswer answers q in the form in which it came; false: info is too long, or there is no memory for it. Without mu.
func (x *extensions) sendAnswer(q *question, info []byte) bool {
	c, op := x.c, &x.ops[x.ops[q.op].Answer].Op
	send, _ := c.thresholds(wire.Version2)
	if len(info) > q.s.decl.Limits.Info || operationLen(q.msg.Optional, len(info)) > send {
		return false
	}
	sb, err := c.takeSend(operationLen(q.msg.Optional, len(info)))
	switch {
	case errors.Is(err, errNoRoom):
		return false
	case err != nil:
		c.Abort(err)
		return true
	}
	h := wire.Header{XID: q.msg.XID, Version: wire.Version2, Credit: c.granted.Load(), Direction: wire.Reply}
	b := appendOperation(sb, &h, op, q.msg.Optional, info)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		c.sends.put(sb)
		return true
	}
	if send, _ := c.thresholds(wire.Version2); len(b) > send {
		c.sends.put(sb)
		return false
	}
	if !c.owe() {
		c.owed--
		c.sends.put(sb)
		return true
	}
	if op.Credit || isGrant(op) {
		c.stampGrant(b, false)
	}
	sb.answer = true
	c.works = append(c.works[:0], sb.work(len(b)))
	c.post(c.works)
	c.counters.ControlSent++
	x.event(obs.ControlSent, h.XID, op, len(b))
	return true
}
