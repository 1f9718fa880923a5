package rdmap

import (
	"encoding/binary"
	"fmt"

	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
)

// Fault is an error as a Terminate message reports it: layer, error type and code
// (RFC 5040 §4.8). Zero is none.
type Fault uint32

const faultSet Fault = 1 << 24

// The layers.
const (
	LayerRDMA = 0
	LayerDDP  = 1
	LayerMPA  = 2
)

// MakeFault puts the three numbers together.
func MakeFault(layer, typ, code uint8) Fault {
	return faultSet | Fault(layer)<<16 | Fault(typ)<<8 | Fault(code)
}

// Number is layer<<16 | type<<8 | code.
func (f Fault) Number() int64 { return int64(f &^ faultSet) }

// Remote protection errors (type 1) and remote operation errors (type 2).
const (
	FaultSTag         = faultSet | 0x0100
	FaultBounds       = faultSet | 0x0101
	FaultAccess       = faultSet | 0x0102
	FaultStream       = faultSet | 0x0103 // the STag belongs to another stream
	FaultWrap         = faultSet | 0x0104
	FaultInvalidate   = faultSet | 0x0109 // the STag cannot be invalidated
	FaultVersion      = faultSet | 0x0205
	FaultOpcode       = faultSet | 0x0206
	FaultCatastrophic = faultSet | 0x0207
	FaultUnspecified  = faultSet | 0x02ff

	FaultMPACRC = faultSet | LayerMPA<<16 | 0x0002
)

// DDPFault lifts a fault of the layer below.
func DDPFault(f ddp.Fault) Fault {
	if f == 0 {
		return 0
	}
	return MakeFault(LayerDDP, f.Type(), f.Code())
}

func (f Fault) Layer() uint8 { return uint8(f >> 16) }
func (f Fault) Type() uint8  { return uint8(f >> 8) }
func (f Fault) Code() uint8  { return uint8(f) }

// LayerName is the layer in the words of RFC 5040 §4.8.
func (f Fault) LayerName() string {
	switch f.Layer() {
	case LayerRDMA:
		return "RDMAP"
	case LayerDDP:
		return "DDP"
	case LayerMPA:
		return "MPA"
	}
	return fmt.Sprintf("layer %d", f.Layer())
}

var faultTexts = map[Fault]string{
	MakeFault(LayerRDMA, 0, 0): "local catastrophic error",
	FaultSTag:                  "invalid STag",
	FaultBounds:                "base or bounds violation",
	FaultAccess:                "access rights violation",
	FaultStream:                "STag not associated with the stream",
	FaultWrap:                  "TO wrap",
	FaultInvalidate:            "STag cannot be invalidated",
	MakeFault(0, 1, 0xff):      "unspecified protection error",
	FaultVersion:               "invalid RDMAP version",
	FaultOpcode:                "unexpected opcode",
	FaultCatastrophic:          "catastrophic error of the stream",
	MakeFault(0, 2, 8):         "global catastrophic error",
	MakeFault(0, 2, 9):         "STag cannot be invalidated",
	FaultUnspecified:           "unspecified operation error",

	MakeFault(LayerDDP, 0, 0):          "local catastrophic error",
	DDPFault(ddp.FaultSTag):            "invalid STag",
	DDPFault(ddp.FaultBounds):          "base or bounds violation",
	DDPFault(ddp.FaultStream):          "STag not associated with the stream",
	DDPFault(ddp.FaultWrap):            "TO wrap",
	DDPFault(ddp.FaultTaggedVersion):   "invalid DDP version",
	DDPFault(ddp.FaultQN):              "invalid queue number",
	DDPFault(ddp.FaultNoBuffer):        "no buffer available",
	DDPFault(ddp.FaultMSN):             "invalid MSN",
	DDPFault(ddp.FaultMO):              "invalid MO",
	DDPFault(ddp.FaultTooLong):         "DDP message too long",
	DDPFault(ddp.FaultUntaggedVersion): "invalid DDP version",

	MakeFault(LayerMPA, 0, 1): "TCP connection lost",
	FaultMPACRC:               "CRC error",
	MakeFault(LayerMPA, 0, 3): "marker and length mismatch",
	MakeFault(LayerMPA, 0, 4): "invalid MPA start-up frame",
	MakeFault(LayerMPA, 0, 5): "local catastrophic error",
	MakeFault(LayerMPA, 0, 6): "insufficient IRD",
	MakeFault(LayerMPA, 0, 7): "no matching RTR option",
}

// Text is the fault in the words of its specification.
func (f Fault) Text() string {
	if s, ok := faultTexts[f|faultSet]; ok {
		return s
	}
	return fmt.Sprintf("error type %d code %#x", f.Type(), f.Code())
}

// Protection says that the fault is about memory that may not be reached.
func (f Fault) Protection() bool {
	return f.Type() == 1 && f.Layer() <= LayerDDP || f == MakeFault(LayerRDMA, 2, 9)
}

// Termination is a Terminate message's content (RFC 5040 §4.8).
type Termination struct {
	Fault   Fault
	Segment int        // DDP Segment Length; 0: not there
	Header  ddp.Header // of the segment at fault; nil: not there
	Read    []byte     // the Read Request's body, when that was at fault; nil: not there
}

const (
	hasSegment = 0x80 // M: the segment's length
	hasHeader  = 0x40 // D: its DDP header
	hasRead    = 0x20 // R: its RDMAP header, a Read Request's
)

// Append encodes t as RFC 5040 has it: layer and type in the octet's high and low half.
func (t Termination) Append(b []byte) []byte {
	var flags byte
	if t.Header != nil {
		flags = hasSegment | hasHeader
	}
	if t.Read != nil {
		flags |= hasRead
	}
	b = append(b, t.Fault.Layer()<<4|t.Fault.Type()&0xf, t.Fault.Code(), flags, 0)
	if t.Header != nil {
		b = binary.BigEndian.AppendUint16(b, uint16(t.Segment))
		b = append(b, t.Header...)
	}
	return append(b, t.Read...)
}

// ParseTermination decodes leniently: Linux siw fills the bit fields from the other end
// of each octet (21 02 03 for what RFC 5040 writes 12 02 c0), so the flags, and where
// they are absent what combinations exist, tell whose octets these are. What is cut
// short is left out. ok is false only without a control word.
func ParseTermination(b []byte) (t Termination, ok bool) {
	if len(b) < terminateLen {
		return Termination{}, false
	}
	layer, typ, flags := b[0]>>4, b[0]&0xf, b[2]
	swapped := flags&0xe0 == 0 && (flags&0x07 != 0 || layer == LayerMPA && typ != 0 && typ <= LayerMPA)
	if swapped {
		layer, typ = typ, layer
		flags = flags&1<<7 | flags&2<<5 | flags&4<<3
	}
	t.Fault = MakeFault(layer, typ, b[1])
	b = b[terminateLen:]
	if flags&hasSegment != 0 && len(b) >= segmentLenLen {
		t.Segment = int(binary.BigEndian.Uint16(b))
		b = b[segmentLenLen:]
	}
	if flags&hasHeader != 0 {
		if h, rest, ok := ddp.Cut(b); ok {
			t.Header, b = h, rest
		} else {
			b = nil
		}
	}
	if flags&hasRead != 0 && len(b) >= ReadLen {
		t.Read = b[:ReadLen:ReadLen]
	}
	return t, true
}
