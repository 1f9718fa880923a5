package chunk

import (
	"errors"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/wire"
)

var (
	// ErrHeader: the transport header, without any payload, is larger than one Send.
	ErrHeader = errors.New("chunk: transport header larger than one send")
	// ErrInline: the call may have no chunks, and is larger than one Send.
	ErrInline = errors.New("chunk: message larger than one send, and chunks are not allowed")
	// ErrTooLong: a message or a chunk above maxLen.
	ErrTooLong = errors.New("chunk: above 4 GiB")
	// ErrPayload: the chunks do not fit the payload stream. The header is sound: a
	// responder answers GARBAGE_ARGS (RFC 8166 §4.5.2, D-37).
	ErrPayload = errors.New("chunk: read chunk beyond the end of the message")
)

// PlanError tells why a message cannot travel: nothing was sent, this call alone fails.
type PlanError struct {
	Err         error // ErrHeader, ErrInline or ErrTooLong
	Need, Limit int   // bytes
}

func (e *PlanError) Error() string {
	return fmt.Sprintf("%v: %d bytes, limit %d", e.Err, e.Need, e.Limit)
}

func (e *PlanError) Unwrap() error { return e.Err }

func tooLong(n int) error { return &PlanError{ErrTooLong, n, maxLen} }

// ResourceError is a reply for which the requester has not offered enough: ERR_CHUNK in
// version 1; in version 2 Body tells it what is needed (D-33).
type ResourceError struct {
	Write  uint32 // the first Write chunk that is too short, from 1; 0: the Reply chunk is, or there is none
	Needed uint32 // bytes of that chunk that hold the result, or the reply stream
}

func (e *ResourceError) Error() string {
	if e.Write == 0 {
		return fmt.Sprintf("chunk: reply needs a reply chunk of %d bytes", e.Needed)
	}
	return fmt.Sprintf("chunk: result needs %d bytes in write chunk %d", e.Needed, e.Write)
}

// Body is the error to send in that version (RFC 8166 §4.5; v2 draft §6.2.4).
func (e *ResourceError) Body(version uint32) wire.ErrorBody {
	switch {
	case version == wire.Version1:
		return wire.ErrorBody{Code: wire.ErrChunk}
	case e.Write == 0:
		return wire.ErrorBody{Code: wire.ErrReplyResource, Needed: e.Needed}
	}
	return wire.ErrorBody{Code: wire.ErrWriteResource, Index: e.Write, Needed: e.Needed}
}

// ListError is a fault in the chunk lists of a header that could be read: RDMA_ERROR
// answers a call (RFC 8166 §4.5.2), a reply is discarded (§4.5).
type ListError struct {
	Body wire.ErrorBody // to answer a call with, in the version of its header
	What string
}

func (e *ListError) Error() string { return "chunk: " + e.What }

// badList is ERR_CHUNK in version 1, BAD_XDR in version 2: one and the same number.
func badList(what string) error {
	return &ListError{Body: wire.ErrorBody{Code: wire.ErrBadXDR}, What: what}
}
