package rdmap

import "github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"

// Check says whether a segment can be what it claims: version, opcode, tagged or not,
// and the queue (RFC 5040 §4.3). DDP's own checks come first.
func Check(h ddp.Header) Fault {
	if f := ddp.Check(h); f != 0 {
		return DDPFault(f)
	}
	op := Op(h)
	switch {
	case h.ULP()>>versionShift != version:
		return FaultVersion
	case op >= opcodes || op.Tagged() != h.Tagged():
		return FaultOpcode
	case !h.Tagged() && h.QN() != op.Queue():
		return DDPFault(ddp.FaultQN)
	}
	return 0
}

// Message is a Send that arrives in several segments: each says the same operation, and
// the same STag to invalidate.
type Message struct {
	op  Opcode
	inv uint32
}

// Begin takes the first segment's header.
func (m *Message) Begin(h ddp.Header) {
	m.op, m.inv = Op(h), 0
	if m.op.Invalidates() {
		m.inv = h.ULP2()
	}
}

// Continues checks a further segment.
func (m *Message) Continues(h ddp.Header) Fault {
	if Op(h) != m.op || m.op.Invalidates() && h.ULP2() != m.inv {
		return FaultOpcode
	}
	return 0
}

// Invalidates is the STag to invalidate when the message is whole.
func (m *Message) Invalidates() (stag uint32, ok bool) { return m.inv, m.op.Invalidates() }

// Sink is where the response to one Read goes: a range that exists for this Read only,
// so that no STag of real memory is ever told to the peer. Responses come in the order
// of the requests, whole, each byte once.
type Sink struct {
	STag uint32
	TO   uint64
	Size int
	done int
}

// Next checks a Read Response segment of n bytes against the oldest sink; it changes
// nothing.
func (s *Sink) Next(h ddp.Header, n int) Fault {
	switch {
	case h.STag() != s.STag:
		return DDPFault(ddp.FaultSTag)
	case h.TO() != s.TO+uint64(s.done), n > s.Size-s.done, h.Last() != (n == s.Size-s.done):
		return DDPFault(ddp.FaultBounds)
	case n == 0 && s.Size > 0:
		return DDPFault(ddp.FaultBounds) // a segment that carries nothing could come for ever
	}
	return 0
}

// Offset is where in the sink a segment that Next allowed belongs.
func (s *Sink) Offset(h ddp.Header) int { return int(h.TO() - s.TO) }

// Take passes over a segment that Next allowed; it returns true for the last.
func (s *Sink) Take(n int) bool {
	s.done += n
	return s.done == s.Size
}
