package rdmap

import (
	"encoding/binary"
	"fmt"

	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
)

// Opcode is an RDMAP operation (RFC 5040 §4.3).
type Opcode uint8

const (
	Write Opcode = iota
	ReadRequest
	ReadResponse
	Send
	SendInvalidate
	SendSolicited
	SendSolicitedInvalidate
	Terminate
	opcodes
)

func (o Opcode) String() string {
	names := [opcodes]string{"Write", "Read Request", "Read Response", "Send", "Send with Invalidate",
		"Send with Solicited Event", "Send with Solicited Event and Invalidate", "Terminate"}
	if o < opcodes {
		return names[o]
	}
	return fmt.Sprintf("Opcode(%d)", uint8(o))
}

// IsSend covers the four kinds of Send.
func (o Opcode) IsSend() bool { return o >= Send && o <= SendSolicitedInvalidate }

// Invalidates says that the header names an STag of the receiver's to invalidate.
func (o Opcode) Invalidates() bool { return o == SendInvalidate || o == SendSolicitedInvalidate }

// Tagged says how the operation's segments travel.
func (o Opcode) Tagged() bool { return o == Write || o == ReadResponse }

// Queue is the untagged queue of an operation that is not tagged.
func (o Opcode) Queue() uint32 {
	switch o {
	case ReadRequest:
		return ddp.QueueRead
	case Terminate:
		return ddp.QueueTerminate
	}
	return ddp.QueueSend
}

const (
	version       = 1
	versionShift  = 6
	opcodeMask    = 0x0f
	ReadLen       = 28 // a Read Request's body
	terminateLen  = 4  // its control word
	segmentLenLen = 2
)

// Control is the octet that RDMAP puts into a DDP header (RFC 5040 §4.1).
func Control(o Opcode) byte { return version<<versionShift | byte(o) }

// Op is the operation of a segment.
func Op(h ddp.Header) Opcode { return Opcode(h.ULP() & opcodeMask) }

// Read is the body of a Read Request (RFC 5040 §4.4).
type Read struct {
	SinkSTag   uint32
	SinkTO     uint64
	Size       uint32
	SourceSTag uint32
	SourceTO   uint64
}

// Append encodes r.
func (r Read) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.SinkSTag)
	b = binary.BigEndian.AppendUint64(b, r.SinkTO)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, r.SourceSTag)
	return binary.BigEndian.AppendUint64(b, r.SourceTO)
}

// ParseRead decodes a Read Request's payload; ok is false when its length is wrong.
func ParseRead(b []byte) (r Read, ok bool) {
	if len(b) != ReadLen {
		return Read{}, false
	}
	return Read{
		SinkSTag:   binary.BigEndian.Uint32(b),
		SinkTO:     binary.BigEndian.Uint64(b[4:]),
		Size:       binary.BigEndian.Uint32(b[12:]),
		SourceSTag: binary.BigEndian.Uint32(b[16:]),
		SourceTO:   binary.BigEndian.Uint64(b[20:]),
	}, true
}
