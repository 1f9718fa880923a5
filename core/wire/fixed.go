package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// FixedLen is the size of the words that all versions share (RFC 8166 §4.2): XID,
// version, credit, procedure.
const FixedLen = 16

// minV1 is the shortest version 1 message whose XID can be trusted (RFC 8166 §4.5). An
// RDMA_ERROR with ERR_CHUNK is shorter (§4.1.2) and excepted, as is RDMA_DONE, which is only ever
// dropped (D-36).
const minV1 = 28

// Reset empties h and keeps its memory. It goes field by field, as a literal would be built aside and
// then copied, 300 bytes for each message.
func (h *Header) Reset() {
	h.XID, h.Version, h.Credit, h.Proc = 0, 0, 0, 0
	h.Direction, h.InvHandle = 0, 0
	h.Reads, h.Writes, h.Reply, h.HasReply = h.Reads[:0], h.Writes[:0], nil, false
	h.Align, h.Thresh = 0, 0
	h.Err = ErrorBody{}
	h.OptType, h.OptInfo = 0, nil
	h.Props, h.NoChange, h.DoneSet, h.Rejected = h.Props[:0], h.NoChange[:0], h.DoneSet[:0], h.Rejected[:0]
	h.segs = h.segs[:0]
}

// Append appends the header in its version's layout. h must be well-formed (see
// Check): a procedure that its version does not have is a mistake of ours and panics.
func (h *Header) Append(b []byte) []byte {
	b = appendFixed(b, h.XID, h.Version, h.Credit, h.Proc)
	switch {
	case h.Proc == ErrorMsg && h.Err.Code == ErrVers:
		return h.Err.appendVers(b) // the same in all versions
	case h.Version == Version1:
		return h.appendV1(b)
	case h.Version == Version2:
		return h.appendV2(b)
	}
	panic(fmt.Sprintf("wire: append of %v in version %d", h.Proc, h.Version))
}

// AppendFixed appends the four words that all versions share, FixedLen bytes: what begins a message of a procedure
// that this package does not know.
func (h *Header) AppendFixed(b []byte) []byte {
	return appendFixed(b, h.XID, h.Version, h.Credit, h.Proc)
}

// Len is the number of bytes Append appends.
func (h *Header) Len() int {
	switch {
	case h.Proc == ErrorMsg && h.Err.Code == ErrVers:
		return FixedLen + 12
	case h.Version == Version1:
		return FixedLen + h.lenV1()
	case h.Version == Version2:
		return FixedLen + h.lenV2()
	}
	panic(fmt.Sprintf("wire: length of %v in version %d", h.Proc, h.Version))
}

// Parse reads the header at the start of b into h and returns its length; b[n:] is the
// payload (see Payload and CheckRest). It reuses h's slices and allocates nothing once they are large
// enough, so slices that were handed to h are h's from then on. Opaque data are views into b.
//
// The error is a *HeaderError; h then has the fixed words, if there were 16 bytes, and
// what was read before the fault. An RDMA_ERROR with ERR_VERS is understood whatever its
// version field says (D-5). With an error code that the version does not have (Reason UnknownCode)
// h.Err.Code is set and n is the offset of the code's body, for an extension that declares it.
func (h *Header) Parse(b []byte, p Profile) (n int, err error) {
	h.Reset()
	if len(b) < FixedLen {
		return 0, &HeaderError{Reason: TooShort}
	}
	h.XID = binary.BigEndian.Uint32(b)
	h.Version = binary.BigEndian.Uint32(b[4:])
	h.Credit = binary.BigEndian.Uint32(b[8:])
	h.Proc = Proc(binary.BigEndian.Uint32(b[12:]))

	var r xdr.Reader
	r.Reset(b[FixedLen:], nil)
	var reason Reason
	switch {
	case h.Proc == ErrorMsg:
		reason = h.parseError(&r, p)
	case h.Version == 0 || h.Version > p.MaxVersion():
		reason = BadVersion
	case h.Version == Version1:
		if len(b) < minV1 && h.Proc != Done {
			reason = TooShort
			break
		}
		reason = h.parseV1(&r)
	default:
		h.Direction = unread
		reason = h.parseV2(&r)
		if h.Proc != Msg && h.Proc != NoMsg && h.Proc != Optional {
			h.Direction = 0
		}
	}
	n = FixedLen + r.Offset()
	if reason == 0 && r.Err() == nil {
		return n, nil
	}
	if reason != UnknownCode {
		n = 0
	}
	return n, h.refuse(reason, r.Err())
}

func appendFixed(b []byte, xid, version, credit uint32, p Proc) []byte {
	b = binary.BigEndian.AppendUint32(b, xid)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint32(b, credit)
	return binary.BigEndian.AppendUint32(b, uint32(p))
}

// Payload says whether an RPC message, or a part of one, may and must follow the
// header (RFC 8166 §4.2.4; v2 draft §6.2.1). Whether it follows an OPTIONAL is the operation's affair.
func (h *Header) Payload() (may, must bool) {
	switch h.Proc {
	case Msg, MsgP:
		return true, true
	case Optional:
		return true, false
	}
	return false, false
}

// CheckRest refuses a message whose rest after the header, n bytes, is not as Payload
// has it. Surplus bytes are ignored in version 1, as Linux does, and after ERR_VERS, whose layout
// is version 1's in every version (D-26).
func (h *Header) CheckRest(n int) error {
	may, must := h.Payload()
	switch {
	case must && n == 0:
		return h.Refuse(NoPayload)
	case may || n == 0 || h.Version == Version1:
		return nil
	case h.Proc == ErrorMsg && h.Err.Code == ErrVers:
		return nil
	}
	return h.Refuse(Surplus)
}

// Dir is the direction that the header alone tells: a REPLY carries an XID of the
// receiver's. Version 1 tells it for RDMA_ERROR only, otherwise the RPC message does. Version 2's
// messages without the field have a fixed one (D-10).
func (h *Header) Dir() (d Direction, known bool) {
	switch {
	case h.Proc == ErrorMsg:
		return Reply, true
	case h.Version != Version2:
		return 0, false
	}
	switch h.Proc {
	case Msg, NoMsg, Optional:
		return h.Direction, true
	case RespProp:
		return Reply, true
	case ConnProp, ReqProp, UpdProp:
		return Call, true
	}
	return 0, false
}
