package engine

import (
	"errors"
	"fmt"
	"net"

	"github.com/rpcrdma/rpcrdma/core/chunk"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

var (
	// ErrVersion: client and server have no version in common.
	ErrVersion = errors.New("no common RPC-over-RDMA version")
	// ErrCreditOverrun: the peer has more calls in flight than were granted (RFC 8166 §3.3.1).
	ErrCreditOverrun = errors.New("peer exceeds its credits")
	// ErrTooManyOrphans: too many cancelled calls wait for replies.
	ErrTooManyOrphans = errors.New("too many cancelled calls without a reply")
	// ErrBadReply: a reply's chunk lists are not those that the call offered.
	ErrBadReply = errors.New("reply does not match its call")
)

// ConfigError is a setting that cannot be used.
type ConfigError struct{ Field, Want string }

func (e *ConfigError) Error() string { return e.Field + ": " + e.Want }

// TransportError is an RDMA_ERROR that the peer sent in answer to a call (RFC 8166
// §4.5, v2 draft §6.2.4). Its reach is this call, but for ErrVers. It matches transport.ErrRefused, and
// transport.ErrTooShort or ErrVersion where its code says so.
type TransportError struct {
	XID     uint32
	Version uint32
	Body    wire.ErrorBody
}

func (e *TransportError) Error() string {
	s := fmt.Sprintf("peer refused the call's transport header: %s (version %d, XID %#08x)", e.Body.Text(e.Version), e.Version, e.XID)
	if a := e.advice(); a != "" {
		s += ": " + a
	}
	return s
}

// advice is what the caller can do.
func (e *TransportError) advice() string {
	switch {
	case e.Body.Code == wire.ErrVers:
		return ""
	case e.Version == wire.Version1: // it has one code for everything
		return "its chunks were not accepted, or the reply did not fit: allow a longer reply, or send less at once"
	}
	switch e.Body.Code {
	case wire.ErrBadXDR:
		return "one of the two sides is in error about the format; see a capture"
	case wire.ErrInvalidProc, wire.ErrInvalidOption:
		return "the peer does not support this operation"
	case wire.ErrReadChunks, wire.ErrWriteChunks, wire.ErrSegments:
		return "no plan for this call keeps within that"
	case wire.ErrWriteResource:
		return "the call was executed, its result is longer than its destination: give a longer one, or let it grow"
	case wire.ErrReplyResource:
		return "the call was executed, its reply is longer than was expected: allow a longer one, or let it grow"
	case wire.ErrSystem:
		return "the peer cannot serve it, for want of memory or because it is too large; send less at once"
	}
	return ""
}

func (e *TransportError) Is(target error) bool {
	switch target {
	case transport.ErrRefused:
		return true
	case ErrVersion:
		return e.Body.Code == wire.ErrVers
	case transport.ErrTooShort:
		return e.Version >= wire.Version2 && (e.Body.Code == wire.ErrWriteResource || e.Body.Code == wire.ErrReplyResource)
	}
	return false
}

// errUncarried: the extension that has cut a message does no more.
var errUncarried = errors.New("its extension cuts no more messages")

func errIsBadWork(err error) bool { return errors.Is(err, verbs.ErrBadWork) }

func errIsClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

func asHeaderError(err error) (he *wire.HeaderError, ok bool) {
	ok = errors.As(err, &he)
	return he, ok
}

// listFault is what to answer to a call whose chunk lists are at fault; what disagrees with the
// payload only is found again when that is decoded (D-37).
func listFault(err error) (body wire.ErrorBody, ok bool) {
	var list *chunk.ListError
	if errors.As(err, &list) {
		return list.Body, true
	}
	return body, false
}

// replyFault is what to answer when a call cannot be carried out or its reply not be sent (D-33).
func replyFault(err error, version uint32) wire.ErrorBody {
	var short *chunk.ResourceError
	switch {
	case errors.As(err, &short):
		return short.Body(version)
	case version == wire.Version1:
		return wire.ErrorBody{Code: wire.ErrChunk}
	}
	return wire.ErrorBody{Code: wire.ErrSystem}
}

func badReply(err error) error { return fmt.Errorf("%w: %w", ErrBadReply, err) }
