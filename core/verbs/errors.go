package verbs

import (
	"errors"
	"fmt"
)

var (
	// ErrNoReceives: a pool has fewer receives left than were asked for.
	ErrNoReceives = errors.New("verbs: not enough receives left in the pool")
	// ErrForeignDomain: a request cannot be accepted into a domain of another provider, or of another device.
	ErrForeignDomain = errors.New("verbs: the domain is not of the listener's provider and device")
	// ErrBadWork: a work request that no connection could carry out.
	ErrBadWork = errors.New("verbs: malformed work request")
	// ErrRemoteAccess: a peer reached for memory that it may not; on its side or ours.
	ErrRemoteAccess = errors.New("verbs: remote access error")
	// ErrNoReceive: a message arrived for which no receive was posted.
	ErrNoReceive = errors.New("verbs: message without a posted receive")
	// ErrTooLong: a message was longer than the receive posted for it.
	ErrTooLong = errors.New("verbs: message longer than the posted receive")
	// ErrUnavailable: the provider cannot run on this machine, or there is no such device or local address, or the process
	// may not use it. Errors of the operating system that mean this need not wrap it. A provider reports this or ENODEV from
	// Dial and Accept where the domain's device is gone for good: users then open another domain.
	ErrUnavailable = errors.New("verbs: not available on this machine")
	// ErrUnreachable: no host answers at the address on this fabric, or the fabric itself refuses because
	// nothing listens there. ECONNREFUSED, EHOSTUNREACH and the like need not wrap it. A program that listens and refuses
	// is a *RejectedError.
	ErrUnreachable = errors.New("verbs: nothing listens there")
	// ErrProtocol: the peer broke the fabric's own protocol, or speaks another one.
	ErrProtocol = errors.New("verbs: fabric protocol error")
)

// OptionError is a provider option that Open does not take.
type OptionError struct {
	Provider, Key, Value string
	Want                 string // what would do
}

func (e *OptionError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: option %q: %s", e.Provider, e.Key, e.Want)
	}
	return fmt.Sprintf("%s: option %s=%q: want %s", e.Provider, e.Key, e.Value, e.Want)
}

// PrivateDataError is private data that is longer than its step of a set-up carries.
type PrivateDataError struct {
	Step     string // "dial", "accept" or "reject"
	Len, Max int    // bytes given, and the limit: of Caps.PrivateDial, PrivateAccept or PrivateReject
}

func (e *PrivateDataError) Error() string {
	return fmt.Sprintf("%d bytes of private data, but a %s carries at most %d here", e.Len, e.Step, e.Max)
}

// RejectedError is the refusal of a connection by the program that listens for it.
type RejectedError struct {
	Private []byte // what came with it
	Reason  string
}

func (e *RejectedError) Error() string { return "connection rejected by the peer: " + e.Reason }

// TerminatedError is an error that the peer reported through the fabric while it
// ended the connection (RFC 5040 §4.8 Terminate, an IB NAK).
type TerminatedError struct {
	Remote bool   // the peer said it; otherwise we did
	Layer  string // "RDMAP", "DDP", "MPA", "IB"
	Code   string // in the words of its specification
	Err    error  // ErrRemoteAccess, ErrNoReceive, ErrTooLong or ErrProtocol
}

func (e *TerminatedError) Error() string {
	who := "terminated"
	if e.Remote {
		who = "terminated by the peer"
	}
	return fmt.Sprintf("connection %s: %s: %s", who, e.Layer, e.Code)
}

func (e *TerminatedError) Unwrap() error { return e.Err }
