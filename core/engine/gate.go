package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// A connection that an extension gates carries no RPC but NULL until the extension has opened it (D-3). A client finds
// out the version by a NULL call, and keeps its callers waiting as if there were no credit. A server executes
// NULL and refuses other calls. Version 1 has no extensions: a connection that is gated has version 2 or ends.

// DefaultGate is Config.GateTimeout where none is set.
const DefaultGate = 10 * time.Second

// GateError ends a connection that an extension gates and that was not opened, and the calls that waited for it. Calls are
// not sent again elsewhere by themselves: the next connection would most likely fare the same.
type GateError struct {
	Extension string // its name
	Err       error  // what it gave as reason, or what else kept the connection from being opened
}

func (e *GateError) Error() string {
	return fmt.Sprintf("extension %q gates the connection, and has not opened it: %v", e.Extension, e.Err)
}

func (e *GateError) Unwrap() []error { return []error{net.ErrClosed, e.Err} }

// FailedError is why a connection ended that an extension has ended.
type FailedError struct {
	Extension string // its name
	Err       error  // what it gave as reason
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("ended by extension %q: %v", e.Extension, e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }

var (
	errNoSession = errors.New("it is not there: its plugin does not run, or refused the connection")
	errPanicked  = errors.New("it has panicked")
)

// gater is the name of an extension that gates connections, or "".
func gater(s *ext.Set) string {
	for i := range s.Len() {
		if d := s.Declared(i); d.Gate {
			return d.Name
		}
	}
	return ""
}

// gated tells whether some extension has not opened the connection yet.
func (c *Conn) gated() bool { return c.ext != nil && c.ext.gates.Load() > 0 }

// gates tells whether s keeps the connection gated. Called with mu held.
func (s *session) gates() bool { return s.gate }

// openGate follows when the last extension has opened the connection. Without mu.
func (c *Conn) openGate() {
	c.mu.Lock()
	c.grantWaiting()
	c.mu.Unlock()
	c.flush()
}

// endGated ends a connection that was not opened.
func (c *Conn) endGated(name string, err error) {
	e := &GateError{Extension: name, Err: err}
	c.mu.Lock()
	if c.refused == nil {
		c.refused = e
	}
	c.mu.Unlock()
	c.Abort(e)
}

// fail ends the connection for the extension of s.
func (c *Conn) fail(s *session, err error) {
	c.mu.Lock()
	gates := s.gate
	c.mu.Unlock()
	if gates {
		c.endGated(s.decl.Name, err)
		return
	}
	c.Abort(&FailedError{Extension: s.decl.Name, Err: err})
}

// unopened ends a connection that has not been opened in time.
func (c *Conn) unopened() {
	c.mu.Lock()
	name := ""
	if i := slices.IndexFunc(c.ext.sessions, (*session).gates); i >= 0 {
		name = c.ext.sessions[i].decl.Name
	}
	c.mu.Unlock()
	if name != "" { // else it has been at the last moment
		c.endGated(name, fmt.Errorf("%v have passed", c.cfg.GateTimeout))
	}
}

// noVersion is what a call gets when no version is left to talk in.
func (c *Conn) noVersion(err error) error {
	var e *GateError
	if name := gater(c.cfg.Extensions); name != "" && errors.Is(err, ErrVersion) && !errors.As(err, &e) {
		return &GateError{Extension: name, Err: fmt.Errorf("it takes version 2: %w", err)}
	}
	return err
}

// errKnock: the call is to find out the version.
var errKnock = errors.New("no version yet")

// knock finds out the version of a gated connection by a NULL call, for all that wait, if no other call is at it.
func (c *Conn) knock(ctx context.Context, call *call) error {
	c.mu.Lock()
	if !c.mustKnock() {
		c.mu.Unlock()
		return nil
	}
	c.knocking = true
	call.tick = c.tick
	c.giveCredit(call)
	c.mu.Unlock()
	err := c.probe(ctx, call)
	c.mu.Lock()
	c.knocking = false
	call.state = callIdle
	c.dropCredit(call)
	c.mu.Unlock()
	return c.noVersion(err)
}

// knockNext wakes the first of those that wait, if it is to find out the version. Called with mu held.
func (c *Conn) knockNext() {
	if next := c.waiting.head; next != nil && c.mustKnock() {
		next.wakeUp()
	}
}

// mustKnock tells whether a call is to find out the version. Called with mu held.
func (c *Conn) mustKnock() bool {
	return c.client && c.neg.State == NegProbing && !c.knocking && !c.down && !c.closing && c.credits.free() && c.gated()
}

var errTooWeak error = &rpcmsg.AuthError{Stat: rpcmsg.AuthTooWeak}

// bars tells whether a call, or the beginning of one, is not to be executed.
func (c *Conn) bars(stream []byte) bool { return c.gated() && !isNull(stream) }

// isNull tells whether an RPC message is a call of procedure 0.
func isNull(b []byte) bool {
	const version, proc = 8, 20 // offsets (RFC 5531 §9)
	return len(b) >= proc+4 && binary.BigEndian.Uint32(b[version:]) == rpcmsg.Version && binary.BigEndian.Uint32(b[proc:]) == 0
}

// bar answers a call that is not executed. Within Complete.
func (c *Conn) bar(r *request) {
	c.mu.Lock()
	c.counters.Barred++
	c.mu.Unlock()
	var h rpcmsg.ReplyHeader
	h.Refuse(r.Header.XID, errTooWeak)
	h.Append(&r.Results)
	r.Reply(false, false)
}

// gateConfig is what gating changes of a configuration.
func (c *Config) gateConfig() {
	if c.GateTimeout == 0 {
		c.GateTimeout = DefaultGate
	}
	if c.Extensions.Gated() && c.MaxVersion >= wire.Version2 {
		c.MinVersion = wire.Version2
	}
}
