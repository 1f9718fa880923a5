package engine

import (
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// extConn is what an extension has of a connection.
type extConn struct{ *session }

// Facts implements ext.Conn.
func (e *extConn) Facts() ext.Facts {
	c := e.x.c
	send, _ := c.thresholds(wire.Version2)
	f := ext.Facts{
		ID: c.id, Client: c.client, Version: wire.Version2, Local: c.LocalAddr(), Remote: c.RemoteAddr(),
		SendLimit: send, RecvSize: int(c.sizes.recv.Load()), MaxRecv: c.recvMost(), Credits: c.cfg.Credits, Gated: c.gated(),
	}
	if l := c.Backward(); l > transport.BackwardNone && (!c.client || c.allows() > 0) {
		f.Backward = ext.BackwardLevel(l - transport.BackwardNone)
	}
	return f
}

// Send implements ext.Conn.
func (e *extConn) Send(m ext.Outgoing, done func(ext.Outcome)) {
	c := e.x.c
	c.mu.Lock()
	if e.state >= sessionAbsent {
		c.mu.Unlock()
		return
	}
	e.x.send(e.session, m, done)
	c.mu.Unlock()
	e.x.pump()
	c.flush()
}

// Answer implements ext.Conn.
func (e *extConn) Answer(t ext.Token, v ext.Verdict) { e.x.answer(e.session, t, v) }

// Request implements ext.Conn.
func (e *extConn) Request(r ext.Request, done func(error)) {
	if !e.serving() {
		return
	}
	e.x.c.request(e.i, r, func(err error) {
		if done == nil {
			return
		}
		e.x.c.mu.Lock()
		defer e.x.c.mu.Unlock()
		e.push(task{run: func(ext.Session) { done(err) }})
	})
}

// Attach implements ext.Conn.
func (e *extConn) Attach(op string, info []byte) {
	e.x.c.mu.Lock()
	defer e.x.c.mu.Unlock()
	if e.state < sessionAbsent && !e.x.over {
		e.x.attach(e.i, op, info)
	}
}

// Consumed implements ext.Conn.
func (e *extConn) Consumed(op string, n int) {
	c := e.x.c
	c.mu.Lock()
	if e.state < sessionAbsent {
		if i := e.x.opNamed(e.session, op); i >= 0 && n > 0 && e.x.ctl.ops[i].own {
			e.x.prove(controlEvent{kind: proofOwn, op: i, n: n})
		} else {
			c.counters.ExtIgnored++
		}
	}
	c.mu.Unlock()
	e.x.pump()
	c.flush()
}

// Open implements ext.Conn.
func (e *extConn) Open() {
	c := e.x.c
	c.mu.Lock()
	first := e.gate && e.state < sessionAbsent && !e.x.over
	if first {
		e.gate = false
	}
	c.mu.Unlock()
	if first && e.x.gates.Add(-1) == 0 {
		c.openGate()
	}
}

// Fail implements ext.Conn.
func (e *extConn) Fail(err error) {
	if e.serving() {
		e.x.c.fail(e.session, err)
	}
}

// serving tells whether the session may still do something.
func (s *session) serving() bool {
	s.x.c.mu.Lock()
	defer s.x.c.mu.Unlock()
	return s.state < sessionAbsent && !s.x.over
}
