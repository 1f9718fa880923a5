package qp

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// State is where a connection is in its life.
//
//	SetUp ──Begin──► Up ──Close──► Closing ──the provider: all has left──► Ended ──Bury──► gone
//	  └───────────────┴── Abort, a fault, the peer's end, the linger time ───┘
//
// A connection that ends in SetUp is abandoned: its Handler is never called.
type State uint8

const (
	SetUp   State = iota // receives may be posted, nothing else
	Up                   // everything moves
	Closing              // nothing more may be posted, what was posted leaves
	Ended                // nothing moves; what is left is flushed
)

// Port is the provider's side of a connection. The methods are called with Mu held, so they must
// not block or call a method that takes Mu: they set deadlines and wake goroutines.
type Port interface {
	// Closing follows Close: what was posted is to leave, then the provider calls End(nil). The
	// linger time ends the connection if that takes too long.
	Closing()
	// Ended follows the end, once: whatever waits for the fabric is to stop and to call Release.
	Ended()
	// Idle reports that the connection has ended and that nothing holds it: the provider calls Bury once,
	// from one of the connection's goroutines or by Life.Run. It is called once, and only if the connection
	// has begun. Reader implements it.
	Idle()
}

// led is a Port whose input a waiting caller may read (Reader).
type led interface {
	stop() // the connection has ended
	look() // something has completed that whoever drives may wait for; Mu is not held
}

// Life is a connection's life: part of a QP, which embeds it.
type Life struct {
	dom  *Domain
	port Port
	led  led // port, or nil

	// Mu guards the connection: the fields documented as such, and those that the provider adds. It is
	// never held over a copy of bulk data, a system call that may wait, or a call of the Handler.
	Mu     sync.Mutex
	state  State
	lived  bool  // it was Up
	cause  error // once Ended: what Disconnected gets
	refuse error // from Closing on: what methods return
	holds  int
	linger *time.Timer
	flying int // Sends posted, less the receives reported since
}

// State is the present one. Mu is held.
func (l *Life) State() State { return l.state }

// Cause is what End was given. Mu is held.
func (l *Life) Cause() error { return l.cause }

// Crowd reports whether several Sends are unanswered, so that others are likely to post soon. Mu is held.
func (l *Life) Crowd() bool { return l.flying > 1 }

// Held reports whether something holds the connection. Mu is held.
func (l *Life) Held() bool { return l.holds > 0 }

// Hold keeps the connection from being buried while something of it is in use without Mu. It is not for a
// connection that has ended. Mu is held.
func (l *Life) Hold() { l.holds++ }

// Release ends a Hold. Mu is held.
func (l *Life) Release() {
	if l.holds--; l.holds == 0 && l.state == Ended && l.lived {
		l.port.Idle()
	}
}

// End ends the connection by cause; nil: in good order. False: it has ended already. Mu is held.
func (l *Life) End(cause error) bool {
	if l.state == Ended {
		return false
	}
	l.state, l.cause = Ended, cause
	if l.refuse == nil {
		l.refuse = l.refusal(cause)
	}
	if l.linger != nil {
		l.linger.Stop()
	}
	if l.led != nil {
		l.led.stop()
	}
	l.port.Ended()
	if l.holds == 0 && l.lived {
		l.port.Idle()
	}
	return true
}

// refusal is what methods return after the end: it wraps net.ErrClosed and the cause.
func (l *Life) refusal(cause error) error {
	switch {
	case cause == nil:
		return l.dom.errPeerClosed
	case errors.Is(cause, net.ErrClosed):
		return cause
	}
	return fmt.Errorf("%s: connection ended: %w: %w", l.dom.Keys.Provider, net.ErrClosed, cause)
}

// Close is verbs.Conn's.
func (l *Life) Close() error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	switch l.state {
	case SetUp:
		l.refuse = l.dom.errClosed
		l.End(nil)
	case Up:
		l.state, l.refuse = Closing, l.dom.errClosed
		if d := l.dom.config.Linger; d >= 0 {
			l.linger = time.AfterFunc(d, func() {
				l.Mu.Lock()
				l.End(nil)
				l.Mu.Unlock()
			})
		}
		l.port.Closing()
	}
	return nil
}

// Abort is verbs.Conn's.
func (l *Life) Abort(err error) {
	l.Mu.Lock()
	if l.refuse == nil && err == nil {
		l.refuse = l.dom.errAborted
	}
	l.End(err)
	l.Mu.Unlock()
}

// Go is Begin for who does not hold Mu.
func (l *Life) Go(run ...func()) error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.Begin(run...)
}

// Run runs f on a goroutine that Domain.Close waits for, also while the domain is being closed. It is for a connection
// that has begun and is not buried: for Bury, from Port.Idle, where a connection has no goroutine of its own.
func (l *Life) Run(f func()) { l.dom.gone.Go(f) }

// Begin lets the connection move: it starts run, the connection's goroutines, which Domain.Close
// waits for. An error says that the connection or its domain has ended. Mu is held.
func (l *Life) Begin(run ...func()) error {
	if l.state != SetUp {
		return l.refuse
	}
	if !l.dom.enter(l, run) {
		return l.dom.errDomainClosed
	}
	l.state, l.lived = Up, true
	return nil
}
