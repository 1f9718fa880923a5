package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Operation types of the optional form of the property operations (v2 draft §5.3,
// Table 2). They are sent as procedures 6..9, whose numbers the XDR has, and accepted as both (D-1).
const (
	OptConnProp = 1
	OptReqProp  = 2
	OptRespProp = 3
	OptUpdProp  = 4
)

// OptType is the operation type that stands for a property procedure.
func (p Proc) OptType() (t uint32, ok bool) {
	if p < ConnProp || p > UpdProp {
		return 0, false
	}
	return uint32(p-ConnProp) + OptConnProp, true
}

// PropProc is the procedure that a property operation type stands for.
func PropProc(t uint32) (p Proc, ok bool) {
	if t < OptConnProp || t > OptUpdProp {
		return 0, false
	}
	return ConnProp + Proc(t-OptConnProp), true
}

// appendV2 appends what follows the fixed words in version 2 (v2 draft §6.2).
func (h *Header) appendV2(b []byte) []byte {
	switch h.Proc {
	case Msg, NoMsg:
		return h.AppendChunkLists(b)
	case ErrorMsg:
		return h.Err.appendV2(b)
	case Optional:
		b = binary.BigEndian.AppendUint32(b, uint32(h.Direction))
		b = binary.BigEndian.AppendUint32(b, h.OptType)
		return appendOpaque(b, h.OptInfo)
	}
	return h.AppendPropBody(b)
}

func (h *Header) lenV2() int {
	switch h.Proc {
	case Msg, NoMsg:
		return 8 + h.Lists.Len()
	case ErrorMsg:
		return 4 + h.Err.Code.bodyLen()
	case Optional:
		return 12 + roundUp(len(h.OptInfo))
	}
	return h.PropBodyLen()
}

func (h *Header) parseV2(r *xdr.Reader) Reason {
	switch h.Proc {
	case Msg:
		return h.parseChunkLists(r)
	case NoMsg:
		reason := h.parseChunkLists(r)
		if reason == 0 && r.Err() == nil && h.Lists.Empty() {
			return NoChunks
		}
		return reason
	case Optional:
		h.parseDirection(r)
		h.OptType = r.Uint32()
		h.OptInfo = r.OpaqueView(MaxOpaque)
		return 0
	case ConnProp, ReqProp, RespProp, UpdProp:
		return h.parsePropBody(r)
	}
	return BadProc // MSGP and DONE too (D-40)
}

// AppendChunkLists appends an rpcrdma2_chunk_lists: Direction, InvHandle and the
// lists. It is MSG's and NOMSG's body, and part of the optinfo of an operation that wraps one.
func (h *Header) AppendChunkLists(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(h.Direction))
	b = binary.BigEndian.AppendUint32(b, h.InvHandle)
	return h.Lists.append(b)
}

// ChunkListsLen is the number of bytes AppendChunkLists appends.
func (h *Header) ChunkListsLen() int { return 8 + h.Lists.Len() }

// ParseChunkLists reads an rpcrdma2_chunk_lists at the start of b into h, Direction
// included; the other fields stay. n is its length; the error is a *HeaderError.
func (h *Header) ParseChunkLists(b []byte) (n int, err error) {
	h.Reads, h.Writes, h.segs = h.Reads[:0], h.Writes[:0], h.segs[:0]
	h.Reply, h.HasReply = nil, false
	var r xdr.Reader
	r.Reset(b, nil)
	reason := h.parseChunkLists(&r)
	if reason != 0 || r.Err() != nil {
		return 0, h.refuse(reason, r.Err())
	}
	return r.Offset(), nil
}

func (h *Header) parseChunkLists(r *xdr.Reader) Reason {
	h.parseDirection(r)
	h.InvHandle = r.Uint32()
	if r.Err() != nil {
		return 0
	}
	return h.parseLists(r)
}

// unread is the Direction of a header while its direction has not been read.
const unread = Direction(0xffffffff)

func (h *Header) parseDirection(r *xdr.Reader) {
	d := Direction(r.Uint32())
	if r.Err() != nil {
		return
	}
	h.Direction = d
	if d > Reply {
		r.Fail(xdr.ErrValue)
	}
}

// bodyLen is the size of what follows the code in version 2.
func (c Code) bodyLen() int {
	switch c {
	case ErrVers, ErrWriteResource:
		return 8
	case ErrReadChunks, ErrWriteChunks, ErrSegments, ErrReplyResource:
		return 4
	}
	return 0
}

// appendV2 appends code and body (v2 draft §6.2.4). Of a code above those of the draft,
// an extension's, it appends the code; the body is the extension's.
func (e *ErrorBody) appendV2(b []byte) []byte {
	if e.Code == 0 {
		panic("wire: an RDMA_ERROR without a code")
	}
	b = binary.BigEndian.AppendUint32(b, uint32(e.Code))
	switch e.Code {
	case ErrReadChunks, ErrWriteChunks, ErrSegments:
		b = binary.BigEndian.AppendUint32(b, e.Max)
	case ErrWriteResource:
		b = binary.BigEndian.AppendUint32(b, e.Index)
		b = binary.BigEndian.AppendUint32(b, e.Needed)
	case ErrReplyResource:
		b = binary.BigEndian.AppendUint32(b, e.Needed)
	}
	return b
}

func (e *ErrorBody) parseV2(r *xdr.Reader) Reason {
	switch e.Code {
	case ErrBadXDR, ErrInvalidProc, ErrInvalidOption, ErrSystem:
	case ErrReadChunks, ErrWriteChunks, ErrSegments:
		e.Max = r.Uint32()
	case ErrWriteResource:
		e.Index = r.Uint32()
		e.Needed = r.Uint32()
	case ErrReplyResource:
		e.Needed = r.Uint32()
	default:
		return UnknownCode
	}
	return 0
}

// AppendPropBody appends the body of the property procedure h.Proc (v2 draft §5.3): what
// follows the fixed words, or the content of optinfo in the optional form.
func (h *Header) AppendPropBody(b []byte) []byte {
	switch h.Proc {
	case ConnProp:
		b = appendProps(b, h.Props)
		return h.NoChange.append(b)
	case ReqProp, UpdProp:
		return appendProps(b, h.Props)
	case RespProp:
		b = h.DoneSet.append(b)
		b = h.Rejected.append(b)
		return appendProps(b, h.Props)
	}
	panic(fmt.Sprintf("wire: %v in version 2", h.Proc))
}

// PropBodyLen is the number of bytes AppendPropBody appends.
func (h *Header) PropBodyLen() int {
	n := 4
	for _, p := range h.Props {
		n += 8 + roundUp(len(p.Data))
	}
	switch h.Proc {
	case ConnProp:
		return n + 4 + 4*len(h.NoChange)
	case ReqProp, UpdProp:
		return n
	case RespProp:
		return n + 8 + 4*len(h.DoneSet) + 4*len(h.Rejected)
	}
	panic(fmt.Sprintf("wire: %v in version 2", h.Proc))
}

// ParsePropBody reads the body of property procedure p, the whole of b, into h's property
// fields; h.Proc and the rest stay. It serves the optional form, where b is rdma_optinfo. The
// error is a *HeaderError. b may be h.OptInfo.
func (h *Header) ParsePropBody(p Proc, b []byte) error {
	h.Props, h.NoChange = h.Props[:0], h.NoChange[:0]
	h.DoneSet, h.Rejected = h.DoneSet[:0], h.Rejected[:0]
	var r xdr.Reader
	r.Reset(b, nil)
	was := h.Proc
	h.Proc = p
	reason := h.parsePropBody(&r)
	h.Proc = was
	switch {
	case reason != 0 || r.Err() != nil:
		return h.refuse(reason, r.Err())
	case r.Remaining() != 0:
		return h.refuse(Surplus, nil)
	}
	return nil
}

func (h *Header) parsePropBody(r *xdr.Reader) Reason {
	switch h.Proc {
	case ConnProp:
		h.Props = parseProps(r, h.Props)
		h.NoChange = parseSubset(r, h.NoChange)
	case ReqProp, UpdProp:
		h.Props = parseProps(r, h.Props)
	case RespProp:
		h.DoneSet = parseSubset(r, h.DoneSet)
		h.Rejected = parseSubset(r, h.Rejected)
		h.Props = parseProps(r, h.Props)
	default:
		return BadProc
	}
	return 0
}

func appendProps(b []byte, ps []Property) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(ps)))
	for _, p := range ps {
		b = binary.BigEndian.AppendUint32(b, p.ID)
		b = appendOpaque(b, p.Data)
	}
	return b
}

func parseProps(r *xdr.Reader, into []Property) []Property {
	for n := r.Count(MaxProps, 8); n > 0; n-- {
		p := Property{ID: r.Uint32(), Data: r.OpaqueView(MaxOpaque)}
		if r.Err() != nil {
			break
		}
		into = append(into, p)
	}
	return into
}

func (s Subset) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	for _, w := range s {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

func parseSubset(r *xdr.Reader, into Subset) Subset {
	for n := r.Count(MaxSubset, 4); n > 0; n-- {
		into = append(into, r.Uint32())
	}
	return into
}

// Has tells whether the property at position n of the set is in the subset; words
// that are not there are zero (v2 draft §5.1.1).
func (s Subset) Has(n int) bool {
	return n >= 0 && n/32 < len(s) && s[n/32]&(1<<(n%32)) != 0
}

// Add puts position n into the subset, which grows as needed.
func (s *Subset) Add(n int) {
	for len(*s) <= n/32 {
		*s = append(*s, 0)
	}
	(*s)[n/32] |= 1 << (n % 32)
}

// End is the position behind the last one in the subset; 0 when it is empty.
func (s Subset) End() int {
	for i := len(s) - 1; i >= 0; i-- {
		for b := 31; b >= 0; b-- {
			if s[i]&(1<<b) != 0 {
				return i*32 + b + 1
			}
		}
	}
	return 0
}

func roundUp(n int) int { return n + (-n & 3) }

func appendOpaque(b, data []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	b = append(b, data...)
	var pad [3]byte
	return append(b, pad[:-len(data)&3]...)
}
