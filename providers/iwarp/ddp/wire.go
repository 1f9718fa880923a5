package ddp

import (
	"encoding/binary"
	"fmt"
)

// Header is one segment's header (RFC 5041 §4), cut to its length by Cut.
type Header []byte

const (
	offControl = 0
	offULP     = 1 // RsvdULP: RDMAP's control octet

	offSTag = 2 // tagged
	offTO   = 6

	offULP2 = 2 // untagged: the rest of RsvdULP, RDMAP's STag to invalidate
	offQN   = 6
	offMSN  = 10
	offMO   = 14

	// TaggedLen and UntaggedLen are the lengths of the two headers.
	TaggedLen   = 14
	UntaggedLen = 18

	flagTagged = 0x80
	flagLast   = 0x40
	version    = 1
	versions   = 0x03
)

// The untagged queues that RDMAP uses (RFC 5040 §4.3).
const (
	QueueSend      = 0
	QueueRead      = 1
	QueueTerminate = 2
	Queues         = 3
)

// HeaderLen is the length of the header that begins with the octet control.
func HeaderLen(control byte) int {
	if control&flagTagged != 0 {
		return TaggedLen
	}
	return UntaggedLen
}

// Cut splits a ULPDU into header and payload. ok is false when it is too short.
func Cut(ulpdu []byte) (h Header, payload []byte, ok bool) {
	if len(ulpdu) == 0 {
		return nil, nil, false
	}
	n := HeaderLen(ulpdu[offControl])
	if len(ulpdu) < n {
		return nil, nil, false
	}
	return Header(ulpdu[:n:n]), ulpdu[n:], true
}

func (h Header) Tagged() bool   { return h[offControl]&flagTagged != 0 }
func (h Header) Last() bool     { return h[offControl]&flagLast != 0 }
func (h Header) Version() uint8 { return h[offControl] & versions }
func (h Header) ULP() byte      { return h[offULP] }

// STag and TO name the memory of a tagged segment.
func (h Header) STag() uint32 { return binary.BigEndian.Uint32(h[offSTag:]) }
func (h Header) TO() uint64   { return binary.BigEndian.Uint64(h[offTO:]) }

// ULP2, QN, MSN and MO are an untagged segment's.
func (h Header) ULP2() uint32 { return binary.BigEndian.Uint32(h[offULP2:]) }
func (h Header) QN() uint32   { return binary.BigEndian.Uint32(h[offQN:]) }
func (h Header) MSN() uint32  { return binary.BigEndian.Uint32(h[offMSN:]) }
func (h Header) MO() uint32   { return binary.BigEndian.Uint32(h[offMO:]) }

// Follows says that h is a segment of the same tagged kind, to the same STag, as prev;
// of the two only prev may not be the last.
func (h Header) Follows(prev Header) bool {
	return h[offControl]&^flagLast == prev[offControl]&^flagLast && h[offULP] == prev[offULP] && h.STag() == prev.STag()
}

func (h Header) String() string {
	if len(h) == 0 {
		return "none"
	}
	if h.Tagged() {
		return fmt.Sprintf("tagged last=%t ulp=%#02x stag=%#x to=%#x", h.Last(), h.ULP(), h.STag(), h.TO())
	}
	return fmt.Sprintf("untagged last=%t ulp=%#02x ulp2=%#x qn=%d msn=%d mo=%d",
		h.Last(), h.ULP(), h.ULP2(), h.QN(), h.MSN(), h.MO())
}

func control(tagged, last bool) byte {
	c := byte(version)
	if tagged {
		c |= flagTagged
	}
	if last {
		c |= flagLast
	}
	return c
}

// AppendTagged appends the header of a tagged segment.
func AppendTagged(b []byte, last bool, ulp byte, stag uint32, to uint64) []byte {
	b = append(b, control(true, last), ulp)
	b = binary.BigEndian.AppendUint32(b, stag)
	return binary.BigEndian.AppendUint64(b, to)
}

// AppendUntagged appends the header of an untagged segment.
func AppendUntagged(b []byte, last bool, ulp byte, ulp2, qn, msn, mo uint32) []byte {
	b = append(b, control(false, last), ulp)
	b = binary.BigEndian.AppendUint32(b, ulp2)
	b = binary.BigEndian.AppendUint32(b, qn)
	b = binary.BigEndian.AppendUint32(b, msn)
	return binary.BigEndian.AppendUint32(b, mo)
}
