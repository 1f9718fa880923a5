package engine

import "time"

// control is the sender's side of operations without an RPC (D-8): how many of each may be unconsumed at the peer, which
// are known to be consumed, and which hold one of the connection's credits until then. A pure value.
//
// A place in an operation's window is taken before the message is put together (reserve), and is free again when the
// message could not be posted (cancel) or is known to be consumed (step).
type control struct {
	ops  []controlOp // by index in ext.Set.Ops
	sent []sentOp    // not known to be consumed, oldest first
	seq  uint64      // of the last one sent
	held int         // credits taken for such messages, posted or not
}

type controlOp struct {
	window int
	out    int  // reserved, and sent and not known to be consumed
	own    bool // only its extension proves consumption
}

// sentOp is a message that the peer may not have consumed.
type sentOp struct {
	seq    uint64
	op     int
	xid    uint32
	calls  uint64 // calls received when it was sent
	credit bool   // it holds one
	until  time.Time
}

// controlEvent is a proof of consumption.
type controlEvent struct {
	kind  controlProof
	xid   uint32
	seq   uint64 // of the last message before the call
	calls uint64 // received
	grant uint64
	op, n int
}

type controlProof uint8

const (
	// proofAnswer: an answer or an RDMA_ERROR names xid.
	proofAnswer controlProof = iota + 1
	// proofReply: a call that was sent after seq has been answered; a connection delivers in order.
	proofReply
	// proofCalls: calls have been received, and none was ever granted more than grant at a time. Of more than that many
	// since a message, the last was sent after a reply that came behind the message.
	proofCalls
	// proofOwn: the extension knows that the n oldest of op are consumed. Of an operation that declares so it is the
	// only proof, of others it is none.
	proofOwn
)

func (c *control) room(op int) bool { return c.ops[op].out < c.ops[op].window }

// reserve takes a place in op's window; ask room first.
func (c *control) reserve(op int, credit bool) {
	if !c.room(op) {
		panic("engine: an operation beyond its window")
	}
	c.ops[op].out++
	if credit {
		c.held++
	}
}

// cancel gives back what reserve took.
func (c *control) cancel(op int, credit bool) {
	c.ops[op].out--
	if credit {
		c.held--
	}
}

// post notes that what was reserved has been posted.
func (c *control) post(s sentOp) {
	c.seq++
	s.seq = c.seq
	c.sent = append(c.sent, s)
}

// step takes a proof and appends to gone what is consumed by it. Their places are free; those that held a credit are marked.
func (c *control) step(ev controlEvent, gone []sentOp) []sentOp {
	keep := c.sent[:0]
	for _, s := range c.sent {
		if c.ops[s.op].own != (ev.kind == proofOwn) || !ev.proves(&s) {
			keep = append(keep, s)
			continue
		}
		if ev.kind == proofOwn {
			ev.n--
		}
		c.cancel(s.op, s.credit)
		gone = append(gone, s)
	}
	c.sent = keep
	return gone
}

// find is the operation that was sent with an XID and is not known to be consumed.
func (c *control) find(xid uint32) (op int, ok bool) {
	for i := range c.sent {
		if c.sent[i].xid == xid {
			return c.sent[i].op, true
		}
	}
	return 0, false
}

func (ev *controlEvent) proves(s *sentOp) bool {
	switch ev.kind {
	case proofAnswer:
		return s.xid == ev.xid
	case proofReply:
		return s.seq <= ev.seq
	case proofCalls:
		return ev.calls-s.calls > ev.grant
	case proofOwn:
		return s.op == ev.op && ev.n > 0
	}
	return false
}

// release takes the credits from the messages that match, and tells how many there were.
func (c *control) release(match func(*sentOp) bool) (n int) {
	for i := range c.sent {
		if s := &c.sent[i]; s.credit && match(s) {
			s.credit = false
			c.held--
			n++
		}
	}
	return n
}
