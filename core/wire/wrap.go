package wire

import (
	"encoding/binary"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Wrap is how an RDMA2_OPTIONAL carries an RPC message. The v2 draft leaves it to each operation (§6.2.1); with us
// rdma_optinfo is, unless the operation's document has it otherwise, what the extension has to say, as opaque<>, and the
// message's rpcrdma2_chunk_lists. What follows the header is the message, or, where a chunk holds that, nothing.
type Wrap struct {
	Type uint32 // rdma_opttype
	Info []byte // the extension's bytes
	// Raw: they are in a layout of their own, a multiple of 4 long, and no opaque<>.
	Raw bool
}

// Extra is by how many bytes the header is longer than that of RDMA2_MSG with the same lists.
func (w *Wrap) Extra() int { return 12 + w.infoLen() }

func (w *Wrap) infoLen() int {
	if w.Raw {
		return len(w.Info)
	}
	return 4 + roundUp(len(w.Info))
}

// AppendWrapped appends the header of the RPC message h, RDMA2_MSG or RDMA2_NOMSG, as that of the operation w.
func (h *Header) AppendWrapped(b []byte, w *Wrap) []byte {
	b = appendFixed(b, h.XID, h.Version, h.Credit, Optional)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Direction))
	b = binary.BigEndian.AppendUint32(b, w.Type)
	b = binary.BigEndian.AppendUint32(b, uint32(w.infoLen()+h.ChunkListsLen()))
	if w.Raw {
		b = append(b, w.Info...)
	} else {
		b = appendOpaque(b, w.Info)
	}
	return h.AppendChunkLists(b)
}

// Unwrap makes of h, that of an RDMA2_OPTIONAL just parsed, the header of the RPC message that it wraps: RDMA2_MSG, or
// RDMA2_NOMSG where payload, the bytes behind the header, is 0. OptType stays, and OptInfo is then the extension's bytes
// alone. cut is how many they are, or -1 where they are an opaque<>. The error is a *HeaderError, and h the OPTIONAL's still.
func (h *Header) Unwrap(cut, payload int) error {
	dir, whole := h.Direction, h.OptInfo
	info, rest, err := cutInfo(whole, cut)
	if err == nil {
		var n int
		n, err = h.ParseChunkLists(rest)
		switch {
		case err != nil:
		case n != len(rest):
			err = h.refuse(Surplus, nil)
		case h.Direction != dir: // v2 draft §6.2.2: both are the RPC message's
			err = h.refuse(DirMismatch, nil)
		}
	} else {
		err = h.refuse(0, err)
	}
	h.Direction = dir
	if err != nil {
		he := err.(*HeaderError)
		he.Dir, he.DirKnown = dir, true
		return he
	}
	h.OptInfo, h.Proc = info, Msg
	if payload == 0 {
		h.Proc = NoMsg
	}
	return nil
}

func cutInfo(b []byte, cut int) (info, rest []byte, err error) {
	if cut >= 0 {
		if cut > len(b) || cut%4 != 0 {
			return nil, nil, xdr.ErrValue
		}
		return b[:cut:cut], b[cut:], nil
	}
	var r xdr.Reader
	r.Reset(b, nil)
	info = r.OpaqueView(MaxOpaque)
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	return info, b[r.Offset():], nil
}
