package verbs

import "time"

// KeyKind is who makes remote keys, and what a key is worth to a peer that was not given it.
type KeyKind uint8

const (
	// KeysRandom are made in software: unguessable, with a random start address. A key of one connection is worth nothing
	// on another, so connections to any peers may share a domain.
	KeysRandom KeyKind = iota + 1
	// KeysDevice are made by the device. Range and rights are checked, and a key is dead after its fence. But a key may be
	// guessed (rxe: a running index and 8 bits), and it may work on every connection of its domain, until the
	// domain deregisters it. So peers that do not trust one another get a domain each (package fair has who counts as one peer).
	KeysDevice
)

// Caps is what a domain, or a connection of it, can do. It is discovered once and does not change from then on.
//
// A user must keep to MaxReads, Queue, MaxMessage and the Private limits, plans with Keys, Detach, RemoteInvalidate,
// SendInvalidate and PadsPrivate, and delays its first Post by Settle. MaxSegs, MaxReadSegs, MTU and
// InitiatorFirst are information: the provider acts on them by itself.
type Caps struct {
	// MaxReads is the RDMA Reads in flight towards the peer: of a domain the most that it can, of a connection what was agreed,
	// known once the connection is established. More may be posted; they wait in the queue. 0: the peer serves none, and Post refuses Reads.
	MaxReads int
	// Queue is the works that may be posted and not yet completed. Slots that a device needs besides (to bind a window, to split a
	// work) are managed by the provider.
	Queue int
	// MaxMessage is the bytes of one Send, Write or Read.
	MaxMessage int
	// PrivateDial, PrivateAccept and PrivateReject are the bytes of private data that a dialler, an accept and a reject carry
	// (IB CM's REQ under the RDMA CM: 56, REP: 196, REJ: 148; MPA: one limit for all, RFC 5044 §7.1.1). Longer is a
	// *PrivateDataError.
	PrivateDial, PrivateAccept, PrivateReject int
	// PadsPrivate: private data arrives zero-padded, so it may be longer than what was sent. It is read by its own
	// length field (RFC 8797 §4).
	PadsPrivate bool

	Keys KeyKind
	// Detach: Conn is a Detacher. Otherwise memory stays where it is while its key is in force, and a cancelled user
	// must invalidate: a late access of the peer's then ends the connection.
	Detach bool
	// RemoteInvalidate: the peer's SendInvalidate may name keys of ours; this is what to announce as R in RFC 8797's private
	// data. Where keys are of memory regions it is false: such a message costs the message or the connection.
	RemoteInvalidate bool
	// SendInvalidate: we can post SendInvalidate. Only to a peer that announced R, and only with a key that it gave.
	SendInvalidate bool
	// Settle is how long the first Post of a dialled connection is held back, unless the peer is known not to need it.
	Settle time.Duration

	// MaxSegs is the segments of a Send or Write, MaxReadSegs those of a Read's sink, that one request to the device
	// takes (libibverbs: max_sge and max_sge_rd). A Work may have any number: the provider splits it.
	MaxSegs, MaxReadSegs int
	// MTU is the payload bytes of one frame.
	MTU int
	// InitiatorFirst: the accepting side must not send before the dialling side has (MPA, RFC 5044 §7.1.3). What it posts
	// waits until then, and so do its completions.
	InitiatorFirst bool
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

	Unfinished uint64 // bytes of a frame that has begun to arrive and is not whole: now, not since the start
}
