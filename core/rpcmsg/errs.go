package rpcmsg

import (
	"errors"
	"fmt"
)

// What a call can be answered with, for errors.Is. Each of them ends this call only; the
// connection is good for the next one.
var (
	ErrProgUnavail  = &AcceptError{Stat: ProgUnavail}
	ErrProgMismatch = &AcceptError{Stat: ProgMismatch}
	ErrProcUnavail  = &AcceptError{Stat: ProcUnavail}
	ErrGarbageArgs  = &AcceptError{Stat: GarbageArgs}
	ErrSystem       = &AcceptError{Stat: SystemErr}

	// ErrDenied is every answer of MSG_DENIED.
	ErrDenied = errors.New("rpc: call denied")
	// ErrAuth is every answer of AUTH_ERROR.
	ErrAuth = errors.New("rpc: authentication refused")
)

// AcceptError is an accept_stat other than SUCCESS. Two are the same to errors.Is when
// their Stat is.
type AcceptError struct {
	Stat      AcceptStat
	Low, High uint32 // ProgMismatch: the versions of the program that the server has
}

func (e *AcceptError) Error() string {
	if e.Stat == ProgMismatch {
		return fmt.Sprintf("rpc: %v, the server has versions %d to %d", e.Stat, e.Low, e.High)
	}
	return "rpc: " + e.Stat.String()
}

func (e *AcceptError) Is(target error) bool {
	t, ok := target.(*AcceptError)
	return ok && t.Stat == e.Stat
}

// AuthError is an AUTH_ERROR. Two are the same to errors.Is when their Stat is.
type AuthError struct{ Stat AuthStat }

func (e *AuthError) Error() string { return "rpc: authentication refused: " + e.Stat.String() }

func (e *AuthError) Is(target error) bool {
	if t, ok := target.(*AuthError); ok {
		return t.Stat == e.Stat
	}
	return target == ErrAuth || target == ErrDenied
}

// RejectError is an RPC_MISMATCH in a reply: the server does not speak our version of RPC.
type RejectError struct {
	Low, High uint32 // the versions of RPC that the server has
}

func (e *RejectError) Error() string {
	return fmt.Sprintf("rpc: RPC_MISMATCH, the server has versions %d to %d", e.Low, e.High)
}

func (e *RejectError) Is(target error) bool {
	if _, ok := target.(*RejectError); ok {
		return true
	}
	return target == ErrDenied
}

// RPCMismatch is a call that came with another version of RPC than 2. It is answered with an
// RPC_MISMATCH: see ReplyHeader.Refuse.
type RPCMismatch struct {
	XID     uint32
	Version uint32 // the caller's
}

func (e *RPCMismatch) Error() string {
	return fmt.Sprintf("rpcmsg: call of RPC version %d", e.Version)
}

func (h *ReplyHeader) refuse(err error) {
	var (
		accept   *AcceptError
		auth     *AuthError
		reject   *RejectError
		mismatch *RPCMismatch
	)
	switch {
	case errors.As(err, &accept) && accept.Stat != Success:
		h.Accept, h.Low, h.High = accept.Stat, accept.Low, accept.High
	case errors.As(err, &auth):
		h.Stat, h.Reject, h.Auth = Denied, RejectAuth, auth.Stat
	case errors.As(err, &reject):
		h.Stat, h.Reject, h.Low, h.High = Denied, RejectRPCMismatch, reject.Low, reject.High
	case errors.As(err, &mismatch):
		h.Stat, h.Reject, h.Low, h.High = Denied, RejectRPCMismatch, Version, Version
	default:
		h.Accept = SystemErr
	}
}
