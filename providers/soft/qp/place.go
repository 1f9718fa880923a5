package qp

import (
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft"
)

// inbound is what arrives in pieces. It belongs to whoever reads.
type inbound struct {
	recv Receive // of the message that arrives, of which
	at   int     // bytes are there
	got  int     // bytes of the answer to the oldest Read
}

// PlaceMessage places the next piece of a message, which the last one completes; key is that which it
// invalidates, where invalidate is set. The error is one of package verbs: the peer is at fault. It is for whoever reads, as
// the other Place methods; a provider that has bytes read to where they belong does without.
func (q *QP[X]) PlaceMessage(piece []byte, last, invalidate bool, key uint32) error {
	in := &q.inbound
	if in.recv.Buf == nil {
		var ok bool
		if in.recv, ok = q.Draw(); !ok {
			return verbs.ErrNoReceive
		}
		in.at = 0
	}
	if len(piece) > len(in.recv.Buf)-in.at {
		return verbs.ErrTooLong
	}
	in.at += copy(in.recv.Buf[in.at:], piece)
	if !last {
		return nil
	}
	if !invalidate {
		key = 0
	} else if q.Windows.Revoke(key) != soft.Granted {
		return verbs.ErrRemoteAccess
	}
	q.Mu.Lock()
	q.Deliver(in.recv.Completion(in.at, key))
	q.Mu.Unlock()
	in.recv = Receive{}
	return nil
}

// PlaceWrite places a piece of a Write.
func (q *QP[X]) PlaceWrite(piece []byte, key uint32, addr uint64) error {
	s, mem, refusal := q.Windows.Resolve(key, addr, uint64(len(piece)), verbs.RemoteWrite)
	if refusal != soft.Granted {
		return verbs.ErrRemoteAccess
	}
	copy(mem, piece)
	s.Unlock()
	return nil
}

// PlaceAnswer places the next piece of the answer to the oldest Read, which the last one completes.
func (q *QP[X]) PlaceAnswer(piece []byte, last bool) error {
	in := &q.inbound
	q.Mu.Lock()
	defer q.Mu.Unlock()
	w := q.reads.head
	if w == nil || len(piece) > w.N-in.got || last && len(piece) < w.N-in.got {
		return verbs.ErrProtocol
	}
	for _, mem := range w.Slices(nil, in.got, len(piece)) {
		n := copy(mem, piece)
		in.got, piece = in.got+n, piece[n:]
	}
	if last {
		in.got = 0
		q.Deliver(q.EndRead())
	}
	return nil
}
