package mpa

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	requestKey = "MPA ID Req Frame"
	replyKey   = "MPA ID Rep Frame"

	offFlags    = 16
	offRevision = 17
	offLength   = 18

	// HeaderLen is a start-up frame without its private data.
	HeaderLen = 20
	// MaxPrivate bounds PD_Length (RFC 5044 §7.1.1), the words for IRD and ORD included.
	MaxPrivate = 512
	// depthsLen is the IRD and the ORD word before the ULP's private data (RFC 6581 §6).
	depthsLen = 4
	// MaxULP is the private data that Linux takes: 256 bytes with the depths.
	MaxULP = 256 - depthsLen
)

// The flags octet (RFC 5044 §7.1.1; S: RFC 6581 §5).
const (
	flagMarkers  = 0x80
	flagCRC      = 0x40
	flagReject   = 0x20
	flagEnhanced = 0x10
)

// The two words of RFC 6581 §6.
const (
	irdPeerToPeer = 0x8000 // A
	irdRTRSend    = 0x4000 // B
	ordRTRWrite   = 0x8000 // C
	ordRTRRead    = 0x4000 // D

	// MaxDepth is the largest depth that 14 bits can ask for.
	MaxDepth = 0x3ffe
	// NoDepth says that a depth is not negotiated.
	NoDepth = 0x3fff
)

// RTR is a set of ready-to-receive messages (RFC 6581 §6): zero-length ones by which
// an initiator of a peer-to-peer connection lets the responder send.
type RTR uint8

const (
	RTRSend RTR = 1 << iota
	RTRWrite
	RTRRead
)

var (
	// ErrKey: the peer speaks something else than MPA.
	ErrKey = errors.New("mpa: no MPA start-up frame")
	// ErrMalformed: a start-up frame whose lengths disagree.
	ErrMalformed = errors.New("mpa: malformed start-up frame")
	// ErrRevision: a revision that we do not speak, or did not ask for.
	ErrRevision = errors.New("mpa: revision not supported")
	// ErrMarkers: the peer wants to receive markers.
	ErrMarkers = errors.New("mpa: markers are not supported")
)

// Frame is an MPA Request or Reply Frame.
type Frame struct {
	Reply    bool
	Revision uint8
	Markers  bool
	CRC      bool
	Rejected bool
	Enhanced bool // the depths are there
	Depths   Depths
	Private  []byte // the ULP's
}

// Depths are the words that RFC 6581 §6 puts before the private data.
type Depths struct {
	IRD, ORD   uint16 // Reads the sender of the frame serves; Reads it makes
	PeerToPeer bool
	RTR        RTR
}

// Append encodes f. Private data longer than MaxULP panics: its bound is asked for
// earlier.
func (f Frame) Append(b []byte) []byte {
	if len(f.Private) > MaxULP {
		panic(fmt.Sprintf("mpa: %d bytes of private data", len(f.Private)))
	}
	key := requestKey
	if f.Reply {
		key = replyKey
	}
	b = append(b, key...)
	var flags byte
	for _, v := range []struct {
		on   bool
		flag byte
	}{{f.Markers, flagMarkers}, {f.CRC, flagCRC}, {f.Rejected, flagReject}, {f.Enhanced, flagEnhanced}} {
		if v.on {
			flags |= v.flag
		}
	}
	n := len(f.Private)
	if f.Enhanced {
		n += depthsLen
	}
	b = append(b, flags, f.Revision)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	if f.Enhanced {
		b = f.Depths.append(b)
	}
	return append(b, f.Private...)
}

func (d Depths) append(b []byte) []byte {
	ird, ord := d.IRD&NoDepth, d.ORD&NoDepth
	if d.PeerToPeer {
		ird |= irdPeerToPeer
	}
	if d.RTR&RTRSend != 0 {
		ird |= irdRTRSend
	}
	if d.RTR&RTRWrite != 0 {
		ord |= ordRTRWrite
	}
	if d.RTR&RTRRead != 0 {
		ord |= ordRTRRead
	}
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, ird), ord)
}

// Length tells the whole length of the start-up frame that begins with head, of which
// HeaderLen bytes or fewer may be there: what is there is checked, so that a peer which
// speaks another protocol is found out by its first octets.
func Length(head []byte, reply bool) (int, error) {
	key := requestKey
	if reply {
		key = replyKey
	}
	k := min(len(head), len(key))
	if string(head[:k]) != key[:k] {
		return 0, ErrKey
	}
	if len(head) < HeaderLen {
		return HeaderLen, nil
	}
	n := int(binary.BigEndian.Uint16(head[offLength:]))
	if n > MaxPrivate {
		return 0, fmt.Errorf("%w: %d bytes of private data", ErrMalformed, n)
	}
	return HeaderLen + n, nil
}

// Parse decodes one whole frame. Private is a view into b. Reserved flags are ignored
// (RFC 5044 §7.1.1).
func Parse(b []byte, reply bool) (Frame, error) {
	n, err := Length(b, reply)
	switch {
	case err != nil:
		return Frame{}, err
	case n != len(b) || len(b) < HeaderLen:
		return Frame{}, fmt.Errorf("%w: %d bytes of %d", ErrMalformed, len(b), n)
	}
	flags := b[offFlags]
	f := Frame{
		Reply:    reply,
		Revision: b[offRevision],
		Markers:  flags&flagMarkers != 0,
		CRC:      flags&flagCRC != 0,
		Rejected: reply && flags&flagReject != 0,
		Private:  b[HeaderLen:len(b):len(b)],
	}
	// S is a reserved bit of revision 1.
	if f.Revision < 2 || flags&flagEnhanced == 0 {
		return f, nil
	}
	if len(f.Private) < depthsLen {
		return Frame{}, fmt.Errorf("%w: no room for IRD and ORD", ErrMalformed)
	}
	f.Enhanced = true
	ird, ord := binary.BigEndian.Uint16(f.Private), binary.BigEndian.Uint16(f.Private[2:])
	f.Private = f.Private[depthsLen:]
	f.Depths = Depths{IRD: ird & NoDepth, ORD: ord & NoDepth, PeerToPeer: ird&irdPeerToPeer != 0}
	if ird&irdRTRSend != 0 {
		f.Depths.RTR |= RTRSend
	}
	if ord&ordRTRWrite != 0 {
		f.Depths.RTR |= RTRWrite
	}
	if ord&ordRTRRead != 0 {
		f.Depths.RTR |= RTRRead
	}
	return f, nil
}
