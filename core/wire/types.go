package wire

import "fmt"

// Versions of RPC-over-RDMA.
const (
	Version1 = 1 // RFC 8166
	Version2 = 2 // draft-cel-nfsv4-rpcrdma-version-two-04
)

// Profile says which text the number 2 on the wire stands for. Later drafts use the
// same number with other codes, so it is configured and never guessed (D-7).
type Profile uint8

const (
	ProfileV1    Profile = iota // version 1 only
	ProfileCel04                // version 1, and version 2 as draft -04 has it
)

// MaxVersion is the highest version of the profile.
func (p Profile) MaxVersion() uint32 {
	if p == ProfileCel04 {
		return Version2
	}
	return Version1
}

// Proc is rdma_proc (RFC 8166 §4.1.2; v2 draft §6.2). 0, 1 and 4 are common to both versions.
type Proc uint32

const (
	Msg      Proc = 0
	NoMsg    Proc = 1
	MsgP     Proc = 2 // version 1, not used (RFC 8166 §4.6)
	Done     Proc = 3 // version 1, not used (RFC 8166 §4.6)
	ErrorMsg Proc = 4
	Optional Proc = 5 // from here on version 2
	ConnProp Proc = 6
	ReqProp  Proc = 7
	RespProp Proc = 8
	UpdProp  Proc = 9
)

// Direction is rdma_direction and rdma_optdir, with the values of RFC 5531's msg_type.
type Direction uint32

const (
	Call  Direction = 0
	Reply Direction = 1
)

// Segment is rpcrdma1_segment, rpcrdma2_segment (RFC 8166 §3.4.3).
type Segment struct {
	Handle uint32
	Length uint32 // bytes
	Offset uint64
}

// ReadSegment is one entry of a Read list (RFC 8166 §3.4.5). Segments of one chunk
// follow one another and share the Position.
type ReadSegment struct {
	Position uint32 // in the unreduced stream; 0: the message itself (§3.5.3)
	Segment
}

// Chunk is a Write chunk or a Reply chunk (RFC 8166 §3.4.6): its segments, in order.
type Chunk []Segment

// Len is the sum of the segments' lengths.
func (c Chunk) Len() uint64 {
	var n uint64
	for _, s := range c {
		n += uint64(s.Length)
	}
	return n
}

// Lists are the three chunk lists of a header.
type Lists struct {
	Reads    []ReadSegment
	Writes   []Chunk
	Reply    Chunk
	HasReply bool // a Reply chunk is present, be it empty
}

// Property is rpcrdma2_propval (v2 draft §5.1.1).
type Property struct {
	ID   uint32
	Data []byte
}

// Subset is rpcrdma2_propsubset: bit N is bit N mod 32, the least significant being
// 0, of word N div 32 (D-17).
type Subset []uint32

// Code is an error code; its meaning depends on the version.
type Code uint32

// Error codes (RFC 8166 §4.5; v2 draft §6.2.4). Version 1 knows the first two.
const (
	ErrVers          Code = 1
	ErrChunk         Code = 2 // version 1's name of BadXDR
	ErrBadXDR        Code = 2
	ErrInvalidProc   Code = 3
	ErrReadChunks    Code = 4
	ErrWriteChunks   Code = 5
	ErrSegments      Code = 6
	ErrWriteResource Code = 7
	ErrReplyResource Code = 8
	ErrInvalidOption Code = 9
	ErrSystem        Code = 10
)

// ErrorBody is the body of an RDMA_ERROR.
type ErrorBody struct {
	Code      Code
	Low, High uint32 // ErrVers: the versions that the sender supports
	Max       uint32 // ErrReadChunks, ErrWriteChunks: chunks; ErrSegments: segments
	Index     uint32 // ErrWriteResource: the first Write chunk too short, from 1; 0: not known
	Needed    uint32 // ErrWriteResource, ErrReplyResource: bytes needed; 0: not known
}

// Header is a transport header of any version and procedure. Parse reuses the memory
// of the slices; Opt, Props and Subset bytes are views into what was parsed.
type Header struct {
	XID     uint32
	Version uint32
	Credit  uint32
	Proc    Proc

	Direction Direction // version 2: Msg, NoMsg and Optional
	InvHandle uint32    // version 2: Msg and NoMsg (v2 draft §6.2.3)
	Lists               // Msg, NoMsg (and MsgP, with Align and Thresh)
	Align     uint32    // MsgP
	Thresh    uint32    // MsgP

	Err ErrorBody // ErrorMsg

	OptType uint32 // Optional
	OptInfo []byte

	Props    []Property // ConnProp rdma_start, ReqProp rdma_want, RespProp rdma_other, UpdProp rdma_now
	NoChange Subset     // ConnProp
	DoneSet  Subset     // RespProp
	Rejected Subset     // RespProp

	segs []Segment // backs Writes and Reply of a parsed header
}

func (p Proc) String() string {
	switch p {
	case Msg:
		return "MSG"
	case NoMsg:
		return "NOMSG"
	case MsgP:
		return "MSGP"
	case Done:
		return "DONE"
	case ErrorMsg:
		return "ERROR"
	case Optional:
		return "OPTIONAL"
	case ConnProp:
		return "CONNPROP"
	case ReqProp:
		return "REQPROP"
	case RespProp:
		return "RESPROP"
	case UpdProp:
		return "UPDPROP"
	}
	return fmt.Sprintf("proc %d", uint32(p))
}

func (d Direction) String() string {
	switch d {
	case Call:
		return "CALL"
	case Reply:
		return "REPLY"
	}
	return fmt.Sprintf("direction %d", uint32(d))
}
