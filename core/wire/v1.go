package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// appendV1 appends what follows the fixed words in version 1 (RFC 8166 §4.1.2).
func (h *Header) appendV1(b []byte) []byte {
	switch h.Proc {
	case Msg, NoMsg:
		return h.Lists.append(b)
	case MsgP:
		b = binary.BigEndian.AppendUint32(b, h.Align)
		b = binary.BigEndian.AppendUint32(b, h.Thresh)
		return h.Lists.append(b)
	case Done:
		return b
	case ErrorMsg:
		if h.Err.Code == ErrChunk {
			return binary.BigEndian.AppendUint32(b, uint32(ErrChunk))
		}
		panic(fmt.Sprintf("wire: error code %d in version 1", h.Err.Code))
	}
	panic(fmt.Sprintf("wire: %v in version 1", h.Proc))
}

func (h *Header) lenV1() int {
	switch h.Proc {
	case Msg, NoMsg:
		return h.Lists.Len()
	case MsgP:
		return 8 + h.Lists.Len()
	case Done:
		return 0
	case ErrorMsg:
		return 4 // ERR_CHUNK
	}
	panic(fmt.Sprintf("wire: %v in version 1", h.Proc))
}

// parseV1 reads what follows the fixed words in version 1, RDMA_ERROR excepted. MSGP and
// DONE are read although nobody may send them: refusing them is the receiver's decision (D-40).
func (h *Header) parseV1(r *xdr.Reader) Reason {
	switch h.Proc {
	case Msg:
		return h.parseLists(r)
	case NoMsg:
		return h.parseNoMsg(r)
	case MsgP:
		h.Align = r.Uint32()
		h.Thresh = r.Uint32()
		return h.parseLists(r)
	case Done:
		return 0
	}
	return BadProc
}

// parseNoMsg reads lists of which one must be present, because the message is in there
// (RFC 8166 §4.2.4, §4.5.2).
func (h *Header) parseNoMsg(r *xdr.Reader) Reason {
	reason := h.parseLists(r)
	if reason == 0 && r.Err() == nil && h.Lists.Empty() {
		return NoChunks
	}
	return reason
}

// appendVers appends the body of ERR_VERS, whose values and layout are fixed for all
// versions (RFC 8166 §4.1.2).
func (e *ErrorBody) appendVers(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(ErrVers))
	b = binary.BigEndian.AppendUint32(b, e.Low)
	return binary.BigEndian.AppendUint32(b, e.High)
}

// parseError reads the body of an RDMA_ERROR. The code is read before the version is
// asked: a server without version 2 answers in version 1's layout and may echo our 2 (D-5).
func (h *Header) parseError(r *xdr.Reader, p Profile) Reason {
	h.Err.Code = Code(r.Uint32())
	switch {
	case r.Err() != nil:
		return 0
	case h.Err.Code == ErrVers:
		h.Err.Low = r.Uint32()
		h.Err.High = r.Uint32()
		return 0
	case h.Version == 0 || h.Version > p.MaxVersion():
		return BadVersion
	case h.Version == Version2:
		return h.Err.parseV2(r)
	case h.Err.Code == ErrChunk:
		return 0
	}
	return UnknownCode
}
