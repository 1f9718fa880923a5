package wire

import (
	"errors"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Reason is why a header, or the message it begins, is refused.
type Reason uint8

const (
	// TooShort: below the length from which anything in it is believed, the XID
	// included: 16 bytes, in version 1 28 (RFC 8166 §4.5, D-36).
	TooShort Reason = iota + 1
	// BadVersion: a version that the profile, or the connection, does not have.
	BadVersion
	// BadProc: a procedure that the version does not have.
	BadProc
	// Truncated: the message ends within the header.
	Truncated
	// BadXDR: a value outside its type: a bool that is neither 0 nor 1, an unknown direction, a
	// count above its limit.
	BadXDR
	// Misaligned: the Position of a read segment is no multiple of four (RFC 8166 §3.4.5).
	Misaligned
	// NoChunks: RDMA_NOMSG without any list (RFC 8166 §4.5.2).
	NoChunks
	// TooManyReads, TooManyWrites, TooManySegments: chunks or segments above MaxReadChunks,
	// MaxWriteChunks, MaxSegments. The lists were otherwise in order.
	TooManyReads
	TooManyWrites
	TooManySegments
	// UnknownCode: an RDMA_ERROR with a code that the version does not have.
	UnknownCode

	// The following are found by looking beyond the header; see Header.Refuse.

	// NoPayload: no RPC message where one must follow.
	NoPayload
	// Surplus: bytes behind a header that has no payload (D-26).
	Surplus
	// XIDMismatch: the header's XID is not the RPC message's (RFC 8166 §4.5.2).
	XIDMismatch
	// DirMismatch: the header's direction is not the RPC message's (D-27).
	DirMismatch
	// Obsolete: RDMA_MSGP or RDMA_DONE (RFC 8166 §4.6, D-40).
	Obsolete
	// UnknownOption: an rdma_opttype that is not supported (v2 draft §4.1).
	UnknownOption
)

var reasons = [...]string{
	TooShort:        "too short to be believed",
	BadVersion:      "version not supported",
	BadProc:         "procedure not known",
	Truncated:       "ends within the header",
	BadXDR:          "value outside its type",
	Misaligned:      "read position is no multiple of four",
	NoChunks:        "NOMSG without a chunk",
	TooManyReads:    "more Read chunks than supported",
	TooManyWrites:   "more Write chunks than supported",
	TooManySegments: "more segments in a chunk than supported",
	UnknownCode:     "error code not known",
	NoPayload:       "no RPC message follows",
	Surplus:         "bytes left over behind the header",
	XIDMismatch:     "XID is not the RPC message's",
	DirMismatch:     "direction is not the RPC message's",
	Obsolete:        "procedure no longer in use",
	UnknownOption:   "operation not supported",
}

func (r Reason) String() string {
	if int(r) < len(reasons) && reasons[r] != "" {
		return reasons[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// HeaderError is a header that we refuse. Answer says whether the peer is told.
type HeaderError struct {
	XID, Version uint32 // not to be believed when Reason is TooShort
	Proc         Proc
	Reason       Reason
	Dir          Direction // what the header says, if DirKnown
	DirKnown     bool
	Err          error // the decoder's, or nil
}

func (e *HeaderError) Error() string {
	if e.Reason == TooShort {
		return "wire: header " + e.Reason.String()
	}
	return fmt.Sprintf("wire: xid 0x%08x version %d %v: %v", e.XID, e.Version, e.Proc, e.Reason)
}

func (e *HeaderError) Unwrap() error { return e.Err }

// Refuse makes the error for a message whose header was read, on a ground that only the
// receiver can know.
func (h *Header) Refuse(why Reason) *HeaderError {
	e := &HeaderError{XID: h.XID, Version: h.Version, Proc: h.Proc, Reason: why}
	e.Dir, e.DirKnown = h.Dir()
	if e.DirKnown && e.Dir > Reply {
		e.Dir, e.DirKnown = 0, false
	}
	return e
}

func (h *Header) refuse(why Reason, err error) *HeaderError {
	switch {
	case why != 0:
	case errors.Is(err, xdr.ErrShort):
		why = Truncated
	default:
		why = BadXDR
	}
	e := h.Refuse(why)
	e.Err = err
	if h.Direction == unread {
		h.Direction = 0
	}
	return e
}

// Answer is the body of the RDMA_ERROR that a receiver sends because of e; ok is false
// when it must stay silent. as is what the receiver takes the message to be where the header
// does not tell: Call when it would be the responder. low and high are the versions to offer in
// ERR_VERS: those supported, or twice the one the connection is latched to (D-4).
//
// Only a message with an XID of the sender's is answered (RFC 8166 §4.5; D-12 widens v2 draft
// §6.2.4 to REQPROP, CONNPROP, UPDPROP and OPTIONAL calls): never an RDMA_ERROR, lest two
// peers answer each other for ever, never a RESPROP, never a reply.
func (e *HeaderError) Answer(as Direction, low, high uint32) (body ErrorBody, ok bool) {
	if e.DirKnown {
		as = e.Dir
	}
	switch {
	case e.Reason == TooShort, e.Proc == ErrorMsg, as != Call:
		return ErrorBody{}, false
	case e.Reason == BadVersion:
		return ErrorBody{Code: ErrVers, Low: low, High: high}, true
	case e.Version == Version1:
		return e.answerV1()
	}
	return e.answerV2(), true
}

func (e *HeaderError) answerV1() (ErrorBody, bool) {
	switch {
	case e.Proc == Done: // dropped by everyone (RFC 8166 §4.6.2)
		return ErrorBody{}, false
	case e.Reason == NoPayload:
		// Without an RPC message nothing says that it was a call; Linux drops it too.
		return ErrorBody{}, false
	}
	return ErrorBody{Code: ErrChunk}, true
}

func (e *HeaderError) answerV2() ErrorBody {
	switch e.Reason {
	case BadProc, Obsolete:
		return ErrorBody{Code: ErrInvalidProc}
	case UnknownOption:
		return ErrorBody{Code: ErrInvalidOption}
	case TooManyReads:
		return ErrorBody{Code: ErrReadChunks, Max: MaxReadChunks}
	case TooManyWrites:
		return ErrorBody{Code: ErrWriteChunks, Max: MaxWriteChunks}
	case TooManySegments:
		return ErrorBody{Code: ErrSegments, Max: MaxSegments}
	}
	return ErrorBody{Code: ErrBadXDR}
}

// SetError makes h the RDMA_ERROR that answers e: its XID and its version, whatever that
// is (RFC 8166 §4.5; v2 draft §6.2.4).
func (h *Header) SetError(e *HeaderError, body ErrorBody, credit uint32) {
	h.Reset()
	h.XID, h.Version, h.Credit = e.XID, e.Version, credit
	h.Proc, h.Err = ErrorMsg, body
}

// Retryable tells whether the call may succeed when it is sent again with other chunks.
// Version 1's errors are permanent (RFC 8166 §4.5); of version 2's those about the number and the size of
// chunks are not.
func (c Code) Retryable(version uint32) bool {
	return version == Version2 && c >= ErrReadChunks && c <= ErrReplyResource
}

var (
	codesV1 = [...]string{ErrVers: "ERR_VERS", ErrChunk: "ERR_CHUNK"}
	codesV2 = [...]string{
		ErrVers:          "RDMA2_ERR_VERS",
		ErrBadXDR:        "RDMA2_ERR_BAD_XDR",
		ErrInvalidProc:   "RDMA2_ERR_INVALID_PROC",
		ErrReadChunks:    "RDMA2_ERR_READ_CHUNKS",
		ErrWriteChunks:   "RDMA2_ERR_WRITE_CHUNKS",
		ErrSegments:      "RDMA2_ERR_SEGMENTS",
		ErrWriteResource: "RDMA2_ERR_WRITE_RESOURCE",
		ErrReplyResource: "RDMA2_ERR_REPLY_RESOURCE",
		ErrInvalidOption: "RDMA2_ERR_INVALID_OPTION",
		ErrSystem:        "RDMA2_ERR_SYSTEM",
	}
)

// Name is the code's name in the XDR of its version.
func (c Code) Name(version uint32) string {
	names := codesV1[:]
	if version == Version2 {
		names = codesV2[:]
	}
	if uint64(c) < uint64(len(names)) && names[c] != "" {
		return names[c]
	}
	return fmt.Sprintf("error code %d", uint32(c))
}
