package iwarp

import (
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/providers/soft"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

// A segment goes through  check (may it come now)  place (its bytes, to where they belong)
// finish (what follows when they are all there).  A fault ends the connection.

// check refuses what cannot come at this place of the stream. It draws the receive that a
// new message needs, and changes nothing else.
func (in *inbound) check(h ddp.Header, n int) bool {
	f := rdmap.Check(h)
	if f == 0 {
		f = in.inOrder(h, n)
	}
	if f != 0 {
		in.fault = &failure{fault: f, header: h, size: len(h) + n}
	}
	return f == 0
}

func (in *inbound) inOrder(h ddp.Header, n int) rdmap.Fault {
	op := rdmap.Op(h)
	if op.Tagged() {
		if op == rdmap.Write {
			return 0
		}
		if in.read == nil {
			in.read = in.c.oldestRead()
		}
		if in.read == nil {
			return rdmap.FaultOpcode // nobody asked
		}
		return in.read.X.sink.Next(h, n)
	}
	q := &in.queues[h.QN()]
	if f := q.Next(h, n); f != 0 {
		return rdmap.DDPFault(f)
	}
	switch {
	case op == rdmap.ReadRequest:
		if !h.Last() || n != rdmap.ReadLen {
			return rdmap.DDPFault(ddp.FaultTooLong)
		}
	case op.IsSend():
		if q.Inside() {
			if f := in.message.Continues(h); f != 0 {
				return f
			}
		} else if in.isRTR(h, n) {
			return 0
		} else if f := in.draw(); f != 0 {
			return rdmap.DDPFault(f)
		}
		if n > len(in.recv.Buf)-int(h.MO()) {
			return rdmap.DDPFault(ddp.FaultTooLong)
		}
	}
	return 0
}

// isRTR says that h is the empty Send by which the initiator of a peer-to-peer
// connection lets us send (RFC 6581 §9); it takes no receive.
func (in *inbound) isRTR(h ddp.Header, n int) bool {
	return !in.heard && in.rtr&mpa.RTRSend != 0 && rdmap.Op(h) == rdmap.Send && n == 0 && h.Last()
}

// draw takes the receive for a message that begins, once.
func (in *inbound) draw() ddp.Fault {
	if in.recv.Buf != nil {
		return 0
	}
	var ok bool
	if in.recv, ok = in.c.Draw(); !ok {
		return ddp.FaultNoBuffer
	}
	return 0
}

// refusals are RFC 5040's errors (§4.8) for what is wrong with the memory that a peer names.
var refusals = [...]rdmap.Fault{
	soft.NoKey:       rdmap.FaultSTag,
	soft.NotTheirs:   rdmap.FaultStream,
	soft.NoRight:     rdmap.FaultAccess,
	soft.OutOfBounds: rdmap.FaultBounds,
}

// reachable says whether a Write may be placed.
func (in *inbound) reachable(h ddp.Header, n int) bool {
	if rdmap.Op(h) != rdmap.Write {
		return rdmap.Op(h) == rdmap.ReadResponse || rdmap.Op(h).IsSend()
	}
	s, _, r := in.c.Windows.Resolve(h.STag(), h.TO(), uint64(n), verbs.RemoteWrite)
	if r != soft.Granted {
		return false
	}
	s.Unlock()
	return true
}

// place copies a payload, or the beginning of one, to where it belongs.
func (in *inbound) place(h ddp.Header, b []byte) bool {
	if len(b) == 0 {
		return true // an empty Write may name any STag (RFC 5040 §5.1)
	}
	switch op := rdmap.Op(h); {
	case op == rdmap.Write:
		s, mem, r := in.c.Windows.Resolve(h.STag(), h.TO(), uint64(len(b)), verbs.RemoteWrite)
		if r != soft.Granted {
			in.fault = &failure{fault: refusals[r], header: h, size: len(h) + len(b)}
			return false
		}
		copy(mem, b)
		s.Reach(h.TO(), len(b))
		s.Unlock()
	case op == rdmap.ReadResponse:
		in.vec = in.read.Slices(in.vec[:0], in.read.X.sink.Offset(h), len(b))
		rest := b
		for _, to := range in.vec {
			rest = rest[copy(to, rest):]
		}
		clear(in.vec)
	case op.IsSend():
		copy(in.recv.Buf[h.MO():], b)
	default:
		return true
	}
	in.stats.CopiedBytes += uint64(len(b))
	return true
}

// finish is what follows when n bytes of a segment are in their place. payload is given
// where the segment came whole.
func (in *inbound) finish(h ddp.Header, payload []byte, n int) {
	rtr := in.isRTR(h, n)
	in.heard = true
	op := rdmap.Op(h)
	if !op.Tagged() {
		in.queues[h.QN()].Take(h, n)
	}
	switch {
	case op.IsSend() && !rtr:
		in.finishSend(h, n)
	case op == rdmap.ReadRequest:
		in.asked(h, payload)
	case op == rdmap.ReadResponse:
		if in.read.X.sink.Take(n) {
			in.read = nil
			in.resumed = true
			in.done = append(in.done, in.c.endRead())
		}
	case op == rdmap.Terminate:
		t, ok := rdmap.ParseTermination(payload)
		if !ok {
			t.Fault = rdmap.FaultUnspecified
		}
		in.fault = &failure{fault: t.Fault, peers: true, header: t.Header}
	}
}

func (in *inbound) finishSend(h ddp.Header, n int) {
	if h.MO() == 0 {
		in.message.Begin(h)
	}
	if !h.Last() {
		return
	}
	c := in.c
	invalidated := uint32(0)
	if stag, ok := in.message.Invalidates(); ok {
		// It must be one of ours that is in force: taking back what another stream uses, or
		// what is gone, is a protection error (RFC 5040 §7.2).
		if c.Windows.Revoke(stag) != soft.Granted {
			in.fault = &failure{fault: rdmap.FaultInvalidate, header: h, size: len(h) + n}
			return
		}
		invalidated = stag
	}
	in.done = append(in.done, in.recv.Completion(int(h.MO())+n, invalidated))
	in.recv = qp.Receive{}
	in.stats.Recvs++
}

// asked queues the answer to a Read. Its STag is checked now, to refuse it by the
// request's own header, and again whenever the memory is touched.
func (in *inbound) asked(h ddp.Header, payload []byte) {
	c := in.c
	r, _ := rdmap.ParseRead(payload) // its length was checked
	if r.Size > 0 {
		s, _, no := c.Windows.Resolve(r.SourceSTag, r.SourceTO, uint64(r.Size), verbs.RemoteRead)
		if no != soft.Granted {
			in.fault = &failure{fault: refusals[no], header: h, size: len(h) + len(payload), read: payload}
			return
		}
		s.Unlock()
	}
	if !c.serve(item{op: rdmap.ReadResponse, key: r.SinkSTag, to: r.SinkTO, n: int(r.Size), read: r}) {
		in.fault = &failure{fault: rdmap.DDPFault(ddp.FaultNoBuffer), header: h, size: len(h) + len(payload)}
		return
	}
	in.answers = true
}

// serve queues an answer, within the depth that was agreed. An answer is counted until it
// lies in the stream; the peer may see it and ask again a little before we count, so
// twice the depth is the bound.
func (c *conn) serve(it item) bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.serving >= 2*c.agreed.Reading {
		return false
	}
	c.serving++
	c.responses.Push(it)
	return true
}

// oldestRead is the one that the next Read Response answers.
func (c *conn) oldestRead() *work {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.Reads().Head()
}

// endRead completes it.
func (c *conn) endRead() verbs.Completion {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.EndRead()
}

// ungate lets an acceptor send: the initiator has been heard (RFC 5044 §7.1.3).
func (c *conn) ungate() {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.gated = false
	c.in.resumed = true
}

// resume pumps what input has set free. The role may be somebody else's: he looks again
// before he lets it go.
func (c *conn) resume() {
	c.Mu.Lock()
	if !c.pumping && c.State() != qp.SetUp {
		c.lead()
		c.pump(leadMost)
	}
	c.Mu.Unlock()
	c.Report(nil)
}
