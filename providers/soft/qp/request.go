package qp

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Caller is a peer that wants to connect: the provider's side of a Request. Reject is called at most once, and not after
// Answer of what Half returned.
type Caller interface {
	RemoteAddr() netip.AddrPort
	LocalAddr() netip.AddrPort
	// Hear waits for the peer's request, within the set-up time-out, and returns its private data. Any error
	// drops the caller.
	Hear() (private []byte, err error)
	// Alive reports whether the peer still waits for an answer. It does not block.
	Alive() bool
	// Half makes our end, in the domain that Into names.
	Half(o *verbs.Options) (Acceptor, error)
	// Reject refuses.
	Reject(private []byte) error
	// Drop ends the request without an answer; also while Hear waits, and after it failed.
	Drop()
}

// Request is a verbs.Request: it is answered once, by Accept, by Reject, by the set-up time-out, or by the end
// of its listener (while it waits for Accept) or domain.
type Request struct {
	l       *Backlog
	caller  Caller
	private []byte

	mu    sync.Mutex
	taken bool
	late  *time.Timer // rejects
}

func (l *Backlog) request(c Caller) *Request { return &Request{l: l, caller: c} }

// hear waits for the peer's request.
func (r *Request) hear() {
	var err error
	if r.private, err = r.caller.Hear(); err != nil {
		r.l.forget(r)
		r.caller.Drop()
	} else if !r.l.heard(r) {
		r.caller.Drop()
	}
}

// handOut gives r to the user, if the peer still waits: from here on the user answers it, or time, or the domain's end.
func (r *Request) handOut() bool {
	d := r.l.dom
	r.mu.Lock() // take removes r from requests, and nothing does after it
	d.mu.Lock()
	closed := d.closed || r.taken
	if !closed {
		d.requests[r] = struct{}{}
	}
	d.mu.Unlock()
	r.mu.Unlock()
	if !closed && r.caller.Alive() {
		return true
	}
	if r.take() {
		r.caller.Drop()
	}
	return false
}

// take makes the caller the one who answers.
func (r *Request) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken {
		return false
	}
	r.taken = true
	r.late.Stop()
	d := r.l.dom
	d.mu.Lock()
	delete(d.requests, r)
	d.mu.Unlock()
	return true
}

// PeerPrivateData implements verbs.Request, as all that follows.
func (r *Request) PeerPrivateData() []byte    { return r.private }
func (r *Request) RemoteAddr() netip.AddrPort { return r.caller.RemoteAddr() }
func (r *Request) LocalAddr() netip.AddrPort  { return r.caller.LocalAddr() }

func (r *Request) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	if !r.take() {
		return nil, r.l.dom.errAnswered
	}
	c, err := r.accept(ctx, &o)
	if err != nil {
		return nil, fmt.Errorf("%s: accept: %w", r.l.dom.config.Provider, err)
	}
	return c, nil
}

func (r *Request) Reject(private []byte) error {
	if !r.take() {
		return r.l.dom.errAnswered
	}
	err := Fits("reject", private, r.l.dom.config.Caps.PrivateReject)
	if err != nil {
		private = nil // the peer is not to wait for its time-out
	}
	r.l.forget(r)
	if e := r.caller.Reject(private); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("%s: reject: %w", r.l.dom.config.Provider, err)
	}
	return nil
}
