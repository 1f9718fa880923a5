package engine

import (
	"errors"
	"fmt"
	"net"

	"github.com/rpcrdma/rpcrdma/core/chunk"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

var (
	// ErrRefused matches a *TransportError that the peer sent.
	ErrRefused = errors.New("refused by the peer's transport")
	// ErrTimeout: a call without a deadline of its own got no answer within Config.CallTimeout.
	ErrTimeout = errors.New("no reply within the call timeout")
	// ErrVersion: client and server have no version in common.
	ErrVersion = errors.New("no common RPC-over-RDMA version")
	// ErrCreditOverrun: the peer has more calls in flight than were granted (RFC 8166 §3.3.1).
	ErrCreditOverrun = errors.New("peer exceeds its credits")
	// ErrTooManyOrphans: too many cancelled calls wait for replies.
	ErrTooManyOrphans = errors.New("too many cancelled calls without a reply")
	// ErrTooShort matches a *TransportError of a version 2 peer that had more to say than the call has room for; the
	// call was executed.
	ErrTooShort = errors.New("a result or the reply did not fit what the call offered")
	// ErrBadReply: a reply's chunk lists are not those that the call offered.
	ErrBadReply = errors.New("reply does not match its call")
	// ErrNoMemory: the endpoint's bound on memory is reached.
	ErrNoMemory = errors.New("endpoint memory limit reached")
)

// ConfigError is a setting that cannot be used.
type ConfigError struct{ Field, Want string }

func (e *ConfigError) Error() string { return e.Field + ": " + e.Want }

// TransportError is an RDMA_ERROR that the peer sent in answer to a call (RFC 8166
// §4.5, v2 draft §6.2.4). Its reach is this call, but for ErrVers.
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
	case ErrRefused:
		return true
	case ErrVersion:
		return e.Body.Code == wire.ErrVers
	case ErrTooShort:
		return e.Version >= wire.Version2 && (e.Body.Code == wire.ErrWriteResource || e.Body.Code == wire.ErrReplyResource)
	}
	return false
}

// LostError ends calls whose connection went away before their reply. Sent tells
// whether the call may have reached the peer. It satisfies errors.Is(err, net.ErrClosed).
type LostError struct {
	Sent bool
	Err  error // why the connection ended; nil after an orderly end
}

func (e *LostError) Error() string {
	if e.Err == nil {
		return "connection closed before the reply"
	}
	return "connection lost before the reply: " + e.Err.Error()
}

func (e *LostError) Unwrap() []error {
	if e.Err == nil {
		return []error{net.ErrClosed}
	}
	return []error{net.ErrClosed, e.Err}
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
