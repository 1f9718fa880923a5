package rpcmsg

import (
	"encoding/binary"
	"errors"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Version is the version of the RPC protocol (RFC 5531 §9).
const Version = 2

const (
	msgCall  = 0
	msgReply = 1
)

// ErrType: the message is a reply where a call was to be read, or the reverse.
var ErrType = errors.New("rpcmsg: message of the other type")

// CallHeader is a call up to its arguments (RFC 5531 §9, call_body).
type CallHeader struct {
	XID                    uint32
	Program, Version, Proc uint32
	Cred, Verf             Auth
}

// Append appends h; the arguments come behind it.
func (h *CallHeader) Append(w *xdr.Writer) {
	h.appendToCred(w)
	h.Verf.Append(w)
}

func (h *CallHeader) appendToCred(w *xdr.Writer) {
	w.Uint32(h.XID)
	w.Uint32(msgCall)
	w.Uint32(Version)
	w.Uint32(h.Program)
	w.Uint32(h.Version)
	w.Uint32(h.Proc)
	h.Cred.Append(w)
}

// Len is the number of bytes Append appends.
func (h *CallHeader) Len() int { return 24 + h.Cred.Len() + h.Verf.Len() }

// Parse reads h; r is left at the arguments. Of a call of another RPC version only the XID
// is known, and the error is an *RPCMismatch, which has the answer.
func (h *CallHeader) Parse(r *xdr.Reader) error {
	*h = CallHeader{XID: r.Uint32()}
	mtype := r.Uint32()
	v := r.Uint32()
	switch {
	case r.Err() != nil:
		return r.Err()
	case mtype == msgReply:
		r.Fail(ErrType)
		return ErrType
	case mtype != msgCall:
		r.Fail(xdr.ErrValue)
		return xdr.ErrValue
	case v != Version:
		err := &RPCMismatch{XID: h.XID, Version: v}
		r.Fail(err)
		return err
	}
	h.Program = r.Uint32()
	h.Version = r.Uint32()
	h.Proc = r.Uint32()
	h.Cred.Parse(r)
	h.Verf.Parse(r)
	return r.Err()
}

// PeekType reads the two words that every RPC message begins with; ok is false when they are not
// there, or are no RPC message's.
func PeekType(b []byte) (xid uint32, isReply bool, ok bool) {
	if len(b) < 8 {
		return 0, false, false
	}
	t := binary.BigEndian.Uint32(b[4:])
	return binary.BigEndian.Uint32(b), t == msgReply, t <= msgReply
}
