package verbs

import "time"

// KeyKind says who makes remote keys.
type KeyKind uint8

const (
	KeysRandom KeyKind = iota + 1 // software: unguessable, random start address, checked per connection
	// KeysDevice are the device's own: range and rights are checked, and a key is dead after its fence,
	// but it may be guessed, and may work on other connections of the domain. Where peers do not trust one another
	// each gets its own domain.
	KeysDevice
)

// Caps is what a domain, or a connection of it, can do. It is discovered once and
// then only read.
type Caps struct {
	MaxReads         int           // RDMA Reads in flight towards the peer; 0: the peer serves none
	MaxSegs          int           // segments that one Work takes without being split; information only
	Queue            int           // works that may be posted and not yet completed
	MaxMessage       int           // bytes of one Send, Write or Read
	Private          int           // bytes of private data, the smaller of both directions
	MTU              int           // payload bytes of one frame; information only
	Keys             KeyKind       // how guessable keys are
	Detach           bool          // Conn is a Detacher
	RemoteInvalidate bool          // the peer's SendInvalidate may name our windows' keys
	SendInvalidate   bool          // we can post SendInvalidate
	PadsPrivate      bool          // received private data may be longer than what was sent, zero-padded
	InitiatorFirst   bool          // the accepting side must not send before the dialling side has (MPA, RFC 5044 §7.1.3): what it posts waits, and so do its completions
	Settle           time.Duration // hold the first Post of a dialled connection back by this, unless the peer is known not to need it
}

// Stats are a connection's counters since its start.
type Stats struct {
	SentBytes, RecvBytes   uint64 // on the fabric, with framing
	SentFrames, RecvFrames uint64
	Sends, Writes, Reads   uint64 // works completed
	Recvs                  uint64
	WriteCalls, ReadCalls  uint64 // system calls that moved bytes, or tried to
	CopiedBytes            uint64 // bytes that the provider copied itself
	Retransmits            uint64

	Unfinished uint64 // bytes of a frame that has begun to come and is not whole: now, not since the start
}
