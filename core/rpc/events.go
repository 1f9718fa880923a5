package rpc

import (
	"context"
	"errors"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Events of this package: connecting and sending again at a client; the queue, handlers and the duplicate request cache at
// a server. Nothing here runs where nobody records.

// recorder takes what happens on a server's connection; nil: nobody does.
func (r *Request) recorder() obs.Recorder { return r.line.recorder }

// event is an event of the call r.
func (r *Request) event(k obs.Kind, arg int64) obs.Event {
	return obs.Event{Kind: k, Side: obs.Responder, Back: r.backward, XID: r.XID, Conn: r.from.Conn().ID(), Arg: arg, At: obs.Now()}
}

// procedure and status are the Args of an event.
func (r *Request) procedure() int64 { return obs.Procedure(r.Program, r.Proc) }

func (r *Request) status() int64 {
	if r.discarded {
		return -2
	}
	if r.reply.Stat == rpcmsg.Denied {
		return -1
	}
	return int64(r.reply.Accept)
}

// note records an event of r, where anybody takes events.
func (r *Request) note(k obs.Kind, arg int64) {
	if to := r.recorder(); to != nil {
		to.Record(r.event(k, arg))
	}
}

// enqueued records that r is about to wait for a worker.
func (r *Request) enqueued() {
	if to := r.recorder(); to != nil {
		e := r.event(obs.Queued, r.procedure())
		r.queued = e.At
		to.Record(e)
	}
}

// runRecorded is run between the events of its handler.
func (r *Request) runRecorded(s *Server, to obs.Recorder) {
	began := r.event(obs.HandlerBegun, r.procedure())
	if r.queued > 0 {
		began.Took = began.At - r.queued
	}
	to.Record(began)
	defer func() { // also when the handler ends its goroutine
		done := r.event(obs.HandlerDone, r.status())
		done.Took = done.At - began.At
		to.Record(done)
	}()
	r.run(s)
}

// dialFor is dial between its events, for the call xid, or 0.
func (c *Client) dialFor(ctx context.Context, s *slot, xid uint32) (transport.Link, TakenRoute, error) {
	to := c.opts.engine.Recorder
	if to == nil {
		return c.dial(ctx)
	}
	e := obs.Event{Kind: obs.DialBegun, Side: obs.Requester, XID: xid, At: obs.Now()}
	if s.link.Load() != nil {
		e.Arg = 1
	}
	to.Record(e)
	began := e.At
	l, taken, err := c.dial(ctx)
	e.Kind, e.At = obs.DialDone, obs.Now()
	e.Took, e.Arg = e.At-began, int64(dialOutcome(err))
	if err == nil {
		e.Conn = l.ID()
	}
	to.Record(e)
	return l, taken, err
}

func dialOutcome(err error) obs.Dial {
	var rejected *verbs.RejectedError
	switch {
	case err == nil:
		return obs.DialUp
	case errors.Is(err, errnoRefused), errors.As(err, &rejected):
		return obs.DialRefused
	}
	return obs.DialFailed
}

// resent records that a call, which has been sent before, is about to be sent on l.
func (c *Client) resent(l transport.Link, xid uint32, before int) {
	if to := c.opts.engine.Recorder; to != nil {
		to.Record(obs.Event{Kind: obs.Resent, Side: obs.Requester, XID: xid, Conn: l.ID(), Arg: int64(before), At: obs.Now()})
	}
}

// turnedAway records that a listener has turned a connection away.
func (a *admission) turnedAway(why obs.Refusal) {
	if a.recorder != nil {
		a.recorder.Record(obs.Event{Kind: obs.ConnRefused, Arg: int64(why), At: obs.Now()})
	}
}
