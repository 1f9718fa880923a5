package wire

import (
	"bytes"
	"encoding/binary"
)

// Sizes that RFC 8797 §4.1 can say; the smallest is the default (RFC 8166 §3.3.3).
const (
	MinInline = 1024
	MaxInline = 262144
	// PrivateLen is the size of the private data in format version 1.
	PrivateLen = 8
)

const (
	privateMagic   = 0xf6ab0e18
	privateVersion = 1
	privateR       = 0x01
)

// PrivateData is what each side says of itself when a connection is made (RFC 8797 §4).
type PrivateData struct {
	// RemoteInvalidate: the sender supports remote invalidation (the R bit).
	RemoteInvalidate bool
	SendSize         int // the most bytes it sends in one message
	RecvSize         int // the most bytes it takes in one message
}

// DefaultPrivate is what a peer that sent no private data is taken to have said.
var DefaultPrivate = PrivateData{SendSize: MinInline, RecvSize: MinInline}

// Append appends the 8 bytes. Sizes are rounded down to a multiple of 1024 and brought
// into MinInline..MaxInline. Send it at offset 0: Linux looks nowhere else.
func (p PrivateData) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, privateMagic)
	var flags byte
	if p.RemoteInvalidate {
		flags = privateR
	}
	return append(b, privateVersion, flags, encodeSize(p.SendSize), encodeSize(p.RecvSize))
}

// ParsePrivate finds the private data in b, which may hold other layers' before it, at
// any alignment, and padding after it (RFC 8797 §5.1; IB CM always delivers its whole field). ok is false,
// and p is DefaultPrivate, when there is none of a known format.
func ParsePrivate(b []byte) (p PrivateData, ok bool) {
	magic := [4]byte{0xf6, 0xab, 0x0e, 0x18}
	for {
		at := bytes.Index(b, magic[:])
		if at < 0 || len(b)-at < PrivateLen {
			return DefaultPrivate, false
		}
		d := b[at : at+PrivateLen]
		if d[4] == privateVersion {
			return PrivateData{
				RemoteInvalidate: d[5]&privateR != 0, // the other bits are ignored
				SendSize:         decodeSize(d[6]),
				RecvSize:         decodeSize(d[7]),
			}, true
		}
		b = b[at+1:] // four bytes of another layer's may look like the identifier
	}
}

func encodeSize(n int) byte {
	n = min(max(n, MinInline), MaxInline)
	return byte(n/1024 - 1)
}

func decodeSize(v byte) int { return (int(v) + 1) * 1024 }
