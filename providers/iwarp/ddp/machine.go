package ddp

// Fault is a DDP error as RFC 5041 §8 numbers it: type in the high octet, code in the
// low one. Zero is none.
type Fault uint16

const (
	FaultSTag          Fault = 0x0100 // tagged buffer errors
	FaultBounds        Fault = 0x0101
	FaultStream        Fault = 0x0102 // the STag belongs to another stream
	FaultWrap          Fault = 0x0103
	FaultTaggedVersion Fault = 0x0104

	FaultQN              Fault = 0x0201 // untagged buffer errors
	FaultNoBuffer        Fault = 0x0202
	FaultMSN             Fault = 0x0203
	FaultMO              Fault = 0x0204
	FaultTooLong         Fault = 0x0205
	FaultUntaggedVersion Fault = 0x0206
)

// Type and Code are the fault's numbers on the wire.
func (f Fault) Type() uint8 { return uint8(f >> 8) }
func (f Fault) Code() uint8 { return uint8(f) }

// Check refuses headers of another DDP version or queue.
func Check(h Header) Fault {
	switch {
	case h.Version() != version && h.Tagged():
		return FaultTaggedVersion
	case h.Version() != version:
		return FaultUntaggedVersion
	case !h.Tagged() && h.QN() >= Queues:
		return FaultQN
	}
	return 0
}

// Inbound is the receiving side of one untagged queue: MSN counts messages from 1, MO
// the bytes of the message that is arriving. TCP keeps segments in order, so anything
// else is the peer's fault.
//
//	between messages ──segment, not last──► inside a message ──last──► between messages
//	        └───────────────segment, last, MSN+1──────────────────────────┘
type Inbound struct {
	done uint32 // messages that have arrived whole
	mo   uint32
	open bool // a message has begun and not ended
}

// Next checks a segment of n bytes against its place in the queue; it changes nothing.
func (q *Inbound) Next(h Header, n int) Fault {
	switch {
	case h.MSN() != q.done+1:
		return FaultMSN
	case h.MO() != q.mo:
		return FaultMO
	case uint64(q.mo)+uint64(n) > 1<<32-1:
		return FaultTooLong
	}
	return 0
}

// Inside says that a message has begun and not ended.
func (q *Inbound) Inside() bool { return q.open }

// Take passes over a segment that Next allowed.
func (q *Inbound) Take(h Header, n int) {
	if h.Last() {
		q.done, q.mo, q.open = q.done+1, 0, false
		return
	}
	q.mo += uint32(n)
	q.open = true
}
