package engine

import (
	"errors"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// What extensions do with RPC messages is called where the message is, by callers, handlers and Complete: none of them may
// end by a panic of the extension's. The session is taken out of service when the message has been dealt with, as that ends
// the connection (session.panicked).

func (w *wrapper) reach() (send, recv int, p *PanicError) {
	defer w.s.survive(&p)
	send, recv = w.e.Reach()
	return send, recv, nil
}

func (w *wrapper) wrap(into []ext.Piece, xid uint32, n, part, last int) (pieces []ext.Piece, p *PanicError) {
	defer w.s.survive(&p)
	return w.e.Wrap(into, xid, n, part, last), nil
}

func (s *session) unwrap(by ext.Wrapper, piece ext.Piece, xid uint32, reply bool, payload []byte) (whole []byte, free func(), v ext.Verdict, p *PanicError) {
	defer s.survive(&p)
	whole, free, v = by.Unwrap(piece, xid, reply, payload)
	return whole, free, v, nil
}

// cut gives noCut for an rdma_optinfo that is none of the extension's.
func (s *session) cut(by ext.Cutter, op string, info []byte) (n int, p *PanicError) {
	defer s.survive(&p)
	n, err := by.Cut(op, info)
	if err != nil {
		n = noCut
	}
	return n, nil
}

const noCut = -2

// wraps tells whether RPC messages go through s. Called with mu held.
func (s *session) wraps() bool {
	return s.x.wrap.roles != nil && s.x.wrap.roles[s.i].wrapper != nil
}

// takeDown takes the session out of service whose panic err is, if it is one, and returns err. Without mu.
func (c *Conn) takeDown(err error) error {
	var p *PanicError
	if errors.As(err, &p) {
		p.s.panicked(p)
	}
	return err
}

// unreadable is done with an operation that carries an RPC message, and whose extension has panicked over it: a call is
// answered (D-38), a call of ours whose reply it is ends. Within Complete.
func (in *inbound) unreadable(xid uint32, reply bool, p *PanicError) {
	c := in.c
	if !reply {
		c.sendError(nil, xid, wire.Version2, wire.ErrorBody{Code: wire.ErrSystem})
	} else {
		c.mu.Lock()
		call := c.pending.at(xid)
		if call != nil && call.state == callSent {
			c.end(call, callDone, badReply(p))
		}
		c.counters.Dropped++
		c.mu.Unlock()
		c.event(obs.Event{Kind: obs.Dropped, XID: xid})
	}
	p.s.panicked(p)
}

// loan is memory of an extension's that a message lies in, until it is given back. Without free there is none.
type loan struct {
	s    *session
	free func()
}

// giveBack may be called with mu held: a panic is dealt with when the session is used next, by checkLoans.
func (l *loan) giveBack() {
	free := l.free
	if free == nil {
		return
	}
	l.free = nil
	if p := l.s.try(free); p != nil {
		l.s.spoiled.CompareAndSwap(nil, p)
	}
}

// checkLoans takes a session out of service that has panicked over memory of its own. Without mu.
func (s *session) checkLoans() {
	if s.spoiled.Load() == nil {
		return
	}
	if p := s.spoiled.Swap(nil); p != nil {
		s.panicked(p)
	}
}
