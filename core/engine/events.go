package engine

import (
	"encoding/binary"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// recording reports whether anybody takes events. What each call records asks first: building an event
// costs more than the answer.
func (c *Conn) recording() bool { return c.cfg.Recorder != nil }

// event records what happens now.
func (c *Conn) event(e obs.Event) {
	if c.recording() {
		c.record(e)
	}
}

// clock is when something begins that eventSince ends; 0, at no cost, where nobody records.
func (c *Conn) clock() time.Duration {
	if !c.recording() {
		return 0
	}
	return obs.Now()
}

// eventSince records the end of what began at a time of clock.
func (c *Conn) eventSince(began time.Duration, e obs.Event) {
	if c.recording() {
		e.Took = obs.Now() - began
		c.record(e)
	}
}

func (c *Conn) record(e obs.Event) {
	e.Conn, e.At = c.id, obs.Now()
	if e.Side == obs.NoSide {
		e.Side = e.Kind.Side()
	}
	// Forward calls are those of the client's.
	e.Back = e.Side == obs.Requester && !c.client || e.Side == obs.Responder && c.client
	c.cfg.Recorder.Record(e)
}

// procedureOf is the Arg that names the procedure of an RPC call message (RFC 5531 §9).
func procedureOf(call *call) int64 {
	b := call.Msg.Bytes()
	if len(b) < 24 {
		return 0
	}
	return obs.Procedure(binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint32(b[20:]))
}

// failed is the Arg of what can fail.
func failed(err error) int64 {
	if err != nil {
		return 1
	}
	return 0
}

var noteKinds = [...]obs.Kind{
	verbs.NoteRetry: obs.FabricRetry, verbs.NoteTerminateSent: obs.TerminateSent,
	verbs.NoteTerminateRecv: obs.TerminateRecv, verbs.NoteCorrupt: obs.CorruptReceived,
}

// notes is what the provider reports to, nil where nobody records.
func (c *Conn) notes() func(verbs.Note, int64) {
	if !c.recording() {
		return nil
	}
	return func(n verbs.Note, arg int64) {
		if n == verbs.NoteCorrupt {
			c.record(obs.Event{Kind: obs.CorruptReceived, Bytes: int(arg)})
		} else if int(n) < len(noteKinds) && noteKinds[n] != 0 {
			c.record(obs.Event{Kind: noteKinds[n], Arg: arg})
		}
	}
}
