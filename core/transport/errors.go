package transport

import (
	"errors"
	"fmt"
	"net"
)

var (
	// ErrTimeout: a call without a deadline of its own got no answer within the call timeout.
	ErrTimeout = errors.New("no reply within the call timeout")
	// ErrRefused matches the error of a call that the peer's transport refused, an *engine.TransportError.
	ErrRefused = errors.New("refused by the peer's transport")
	// ErrTooShort matches the *engine.TransportError of a version 2 peer whose result or reply is longer than the call
	// provides for; the call was executed.
	ErrTooShort = errors.New("a result or the reply did not fit what the call offered")
	// ErrNoMemory: the bound on memory is reached.
	ErrNoMemory = errors.New("endpoint memory limit reached")
	// ErrAcceptLater: the system has no room for a connection now, as it has run out of files, or the one that came has
	// gone.
	ErrAcceptLater = errors.New("no connection can be accepted now")
	// ErrStalled ends a connection: what was posted, or a frame or record that has begun to come, has made no progress
	// for the stall timeout.
	ErrStalled = errors.New("peer stalls")
	// ErrMute ends a connection: nothing was received from the peer while calls waited, even after a probe.
	ErrMute = errors.New("peer does not respond: neither to calls nor to a NULL call")
)

// LostError ends calls whose connection went away before their reply. Sent reports
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

// OrphanError is what Do returns for a call that was cancelled after it had been sent: the Call
// object now belongs to the connection and must not be touched again.
type OrphanError struct{ Err error }

func (e *OrphanError) Error() string { return e.Err.Error() }
func (e *OrphanError) Unwrap() error { return e.Err }

// XIDInUseError ends a call that was not sent, as another with its XID waits for a reply on the connection.
type XIDInUseError struct{ XID uint32 }

func (e *XIDInUseError) Error() string {
	return fmt.Sprintf("XID %#08x is in use by another call that waits for its reply", e.XID)
}

// BackwardError is the reason why a backward call was not sent.
type BackwardError struct{ Why string }

func (e *BackwardError) Error() string { return "backward call not sent: " + e.Why }
