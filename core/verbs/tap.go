package verbs

import "net/netip"

// Tap receives a copy of a connection's frames, for captures. A connection without one spends nothing on it.
type Tap interface {
	// Frame is called for every frame, in the order of the wire in each direction; calls for the two directions of
	// a connection, and for different connections, may be concurrent. It must not block, must not call the
	// connection, and must not keep f.Parts or what they hold. When a frame was sent or came is for the Tap to note.
	Frame(f Frame)
}

// Frame is what a Tap gets.
type Frame struct {
	Link          LinkType
	Local, Remote netip.AddrPort // of the connection; a LinkIP packet has the same in its headers
	Sent          bool           // by us
	// First: the connection's first frame. What these two addresses carried before was another connection.
	First bool
	Parts [][]byte // the frame, put together
}

// LinkType is what the bytes of a Frame are. A provider's frames are all of one type.
type LinkType uint8

const (
	// LinkTCP is a piece of the stream that a TCP connection carries, from its first byte on, with nothing left out. Packets and their
	// headers are not known; a consumer that needs headers must synthesize them.
	LinkTCP LinkType = iota + 1
	// LinkIP is an IPv4 or IPv6 packet as it is on the wire, from its first header to its last byte: with its identification and
	// all else that a checksum covers (RoCEv2's ICRC). Packets that are sent again show again.
	LinkIP
	// LinkMessage is a message of a provider that has no wire format.
	LinkMessage
)
