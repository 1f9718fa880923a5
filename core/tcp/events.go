package tcp

import (
	"encoding/binary"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Events are those of package engine, as far as a record can bring them about. Whoever records one has asked
// whether s.recorder is nil.

func (s *socket) record(e obs.Event) {
	e.Conn, e.Side, e.At = s.id, e.Kind.Side(), obs.Now()
	s.recorder.Record(e)
}

// ended records the end of what began at a time of obs.Now.
func (s *socket) ended(began time.Duration, e obs.Event) {
	e.Took = obs.Now() - began
	s.record(e)
}

// message records an RPC message that was sent or has come.
func (s *socket) message(k obs.Kind, xid uint32, n int) {
	s.record(obs.Event{Kind: k, XID: xid, Bytes: n, Arg: int64(obs.FormInline)})
}

// connection records the beginning, or the end, of the connection.
func (s *socket) connection(k obs.Kind, arg bool) {
	if s.recorder == nil {
		return
	}
	e := obs.Event{Kind: k}
	if arg {
		e.Arg = 1
	}
	s.record(e)
}

func xidOf(msg *xdr.Writer) uint32 {
	if b := msg.Bytes(); len(b) >= 4 {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// procedureOf is the Arg that names the procedure of an RPC call message (RFC 5531 §9).
func procedureOf(call *transport.Call) int64 {
	b := call.Msg.Bytes()
	if len(b) < 24 {
		return 0
	}
	return obs.Procedure(binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint32(b[20:]))
}
