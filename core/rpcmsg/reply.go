package rpcmsg

import (
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// ReplyStat is reply_stat (RFC 5531 §9).
type ReplyStat uint32

const (
	Accepted ReplyStat = 0
	Denied   ReplyStat = 1
)

// AcceptStat is accept_stat (RFC 5531 §9).
type AcceptStat uint32

const (
	Success      AcceptStat = 0
	ProgUnavail  AcceptStat = 1
	ProgMismatch AcceptStat = 2
	ProcUnavail  AcceptStat = 3
	GarbageArgs  AcceptStat = 4
	SystemErr    AcceptStat = 5
)

// RejectStat is reject_stat (RFC 5531 §9).
type RejectStat uint32

const (
	RejectRPCMismatch RejectStat = 0
	RejectAuth        RejectStat = 1
)

// AuthStat is auth_stat (RFC 5531 §9).
type AuthStat uint32

const (
	AuthOK               AuthStat = 0
	AuthBadCred          AuthStat = 1
	AuthRejectedCred     AuthStat = 2
	AuthBadVerf          AuthStat = 3
	AuthRejectedVerf     AuthStat = 4
	AuthTooWeak          AuthStat = 5
	AuthInvalidResp      AuthStat = 6
	AuthFailed           AuthStat = 7
	AuthKerbGeneric      AuthStat = 8
	AuthTimeExpire       AuthStat = 9
	AuthTktFile          AuthStat = 10
	AuthDecode           AuthStat = 11
	AuthNetAddr          AuthStat = 12
	RPCSECGSSCredProblem AuthStat = 13
	RPCSECGSSCtxProblem  AuthStat = 14
)

// ReplyHeader is a reply up to its results (RFC 5531 §9, reply_body). The zero value with an
// XID is a success with a verifier of AUTH_NONE.
type ReplyHeader struct {
	XID  uint32
	Stat ReplyStat

	Verf   Auth       // Accepted
	Accept AcceptStat // Accepted

	Reject RejectStat // Denied
	Auth   AuthStat   // Denied, RejectAuth

	Low, High uint32 // ProgMismatch, RejectRPCMismatch: the versions supported
}

// Append appends h; after Success the results come behind it.
func (h *ReplyHeader) Append(w *xdr.Writer) {
	w.Uint32(h.XID)
	w.Uint32(msgReply)
	w.Uint32(uint32(h.Stat))
	if h.Stat == Accepted {
		h.Verf.Append(w)
		w.Uint32(uint32(h.Accept))
		if h.Accept == ProgMismatch {
			w.Uint32(h.Low)
			w.Uint32(h.High)
		}
		return
	}
	w.Uint32(uint32(h.Reject))
	if h.Reject == RejectAuth {
		w.Uint32(uint32(h.Auth))
		return
	}
	w.Uint32(h.Low)
	w.Uint32(h.High)
}

// Len is the number of bytes Append appends.
func (h *ReplyHeader) Len() int {
	switch {
	case h.Stat == Denied && h.Reject == RejectAuth:
		return 20
	case h.Stat == Denied:
		return 24
	case h.Accept == ProgMismatch:
		return 24 + h.Verf.Len()
	}
	return 16 + h.Verf.Len()
}

// Parse reads h; after Success r is left at the results. The error is about the bytes; what
// the reply says is Err. An accept_stat and an auth_stat that are not known are kept as they are:
// the first has no data by the XDR's default arm, the second may be a newer mechanism's.
func (h *ReplyHeader) Parse(r *xdr.Reader) error {
	*h = ReplyHeader{XID: r.Uint32()}
	mtype := r.Uint32()
	h.Stat = ReplyStat(r.Uint32())
	switch {
	case r.Err() != nil:
	case mtype == msgCall:
		r.Fail(ErrType)
	case mtype != msgReply:
		r.Fail(xdr.ErrValue)
	case h.Stat == Accepted:
		h.Verf.Parse(r)
		h.Accept = AcceptStat(r.Uint32())
		if h.Accept == ProgMismatch {
			h.Low = r.Uint32()
			h.High = r.Uint32()
		}
	case h.Stat == Denied:
		h.parseRejected(r)
	default:
		r.Fail(xdr.ErrValue)
	}
	return r.Err()
}

func (h *ReplyHeader) parseRejected(r *xdr.Reader) {
	h.Reject = RejectStat(r.Uint32())
	switch h.Reject {
	case RejectRPCMismatch:
		h.Low = r.Uint32()
		h.High = r.Uint32()
	case RejectAuth:
		h.Auth = AuthStat(r.Uint32())
	default:
		r.Fail(xdr.ErrValue)
	}
}

// Err is nil when the reply is a success, otherwise an *AcceptError, *RejectError or
// *AuthError.
func (h *ReplyHeader) Err() error {
	switch {
	case h.Stat == Accepted && h.Accept == Success:
		return nil
	case h.Stat == Accepted:
		return &AcceptError{Stat: h.Accept, Low: h.Low, High: h.High}
	case h.Reject == RejectAuth:
		return &AuthError{Stat: h.Auth}
	}
	return &RejectError{Low: h.Low, High: h.High}
}

// Refuse makes h the reply to xid that says err, which is, or wraps, one of the error
// types of this package; anything else is SYSTEM_ERR. It is the inverse of Err.
func (h *ReplyHeader) Refuse(xid uint32, err error) {
	*h = ReplyHeader{XID: xid}
	h.refuse(err)
}

var (
	acceptStats = [...]string{"SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"}
	authStats   = [...]string{"AUTH_OK", "AUTH_BADCRED", "AUTH_REJECTEDCRED", "AUTH_BADVERF", "AUTH_REJECTEDVERF",
		"AUTH_TOOWEAK", "AUTH_INVALIDRESP", "AUTH_FAILED", "AUTH_KERB_GENERIC", "AUTH_TIMEEXPIRE",
		"AUTH_TKT_FILE", "AUTH_DECODE", "AUTH_NET_ADDR", "RPCSEC_GSS_CREDPROBLEM", "RPCSEC_GSS_CTXPROBLEM"}
)

func (s AcceptStat) String() string {
	if uint64(s) < uint64(len(acceptStats)) {
		return acceptStats[s]
	}
	return fmt.Sprintf("accept_stat %d", uint32(s))
}

func (s AuthStat) String() string {
	if uint64(s) < uint64(len(authStats)) {
		return authStats[s]
	}
	return fmt.Sprintf("auth_stat %d", uint32(s))
}

func (s RejectStat) String() string {
	switch s {
	case RejectRPCMismatch:
		return "RPC_MISMATCH"
	case RejectAuth:
		return "AUTH_ERROR"
	}
	return fmt.Sprintf("reject_stat %d", uint32(s))
}
