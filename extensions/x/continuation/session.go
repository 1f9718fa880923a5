package continuation

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// session is the extension on one connection. It is an ext.Owner and an ext.Wrapper.
type session struct {
	conn       ext.Conn
	max        int
	send, recv atomic.Int32 // Reach

	mu       sync.Mutex // guards what follows
	peerMax  int        // what it announces; 0: nothing
	greeted  bool       // its first acknowledgement is here
	told     bool       // ours has been sent
	closed   bool
	messages assembler
	taken    uint32      // pieces from the peer
	acks     []uint32    // what those say that the peer may not have had yet, oldest first
	reported uint32      // the last of them ever
	again    *time.Timer // repeats the last one; nil: it never had to be
	acked    uint32      // pieces of ours that the peer has taken
}

// Reach implements ext.Wrapper.
func (s *session) Reach() (send, recv int) { return int(s.send.Load()), int(s.recv.Load()) }

// Wrap implements ext.Wrapper.
func (s *session) Wrap(into []ext.Piece, _ uint32, n, part, last int) []ext.Piece {
	return cut(into, n, part, last)
}

// Unwrap implements ext.Wrapper.
func (s *session) Unwrap(p ext.Piece, xid uint32, reply bool, payload []byte) ([]byte, func(), ext.Verdict) {
	s.mu.Lock()
	s.messages.max = s.max
	if s.closed {
		s.mu.Unlock()
		return nil, nil, verdict(tooMany)
	}
	whole, v := s.messages.take(xid, reply, p.Op == opLast, p.Info, payload)
	proved, ack := 0, false
	if p.Op == opPart {
		proved, ack = s.count()
	}
	taken := s.taken
	s.mu.Unlock()
	if proved > 0 {
		s.conn.Consumed(opAck, proved)
	}
	if ack {
		s.acknowledge(taken)
	}
	if whole == nil {
		return nil, nil, verdict(v)
	}
	return whole.b, whole.free, verdict(v)
}

// count counts a piece, and tells how many of our acknowledgements the peer must have had to send it, and whether one is
// due. Called with mu held.
func (s *session) count() (proved int, ack bool) {
	s.taken++
	for len(s.acks) > 0 && int32(s.taken-Window-s.acks[0]) >= 0 {
		s.acks = s.acks[1:]
		proved++
	}
	if ack = s.taken-s.reported >= AckEvery; ack {
		s.reported = s.taken
		s.acks = append(s.acks, s.taken)
	}
	return proved, ack
}

func (s *session) acknowledge(taken uint32) {
	s.conn.Send(ext.Outgoing{Op: opAck, Info: binary.BigEndian.AppendUint32(nil, taken)}, func(o ext.Outcome) {
		if o.Kind == ext.NotSent {
			s.unsent(taken)
		}
	})
}

// ackPause is how long after one that could not be sent, for want of memory or of room in its queue, an acknowledgement is repeated.
const ackPause = 50 * time.Millisecond

// unsent has an acknowledgement repeated, unless a later one has taken its place: the peer may wait for it with all that would make
// the next one due.
func (s *session) unsent(taken uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.acks, taken); i >= 0 {
		s.acks = slices.Delete(s.acks, i, i+1)
	}
	if !s.closed && s.reported == taken {
		s.again = time.AfterFunc(ackPause, func() { s.repeat(taken) })
	}
}

func (s *session) repeat(unsent uint32) {
	s.mu.Lock()
	taken := s.taken
	due := !s.closed && s.reported == unsent
	if due {
		s.reported = taken
		s.acks = append(s.acks, taken)
	}
	s.mu.Unlock()
	if due {
		s.acknowledge(taken)
	}
}

// PeerValue implements ext.Owner.
func (s *session) PeerValue(_ uint32, value []byte, def bool) {
	n := 0
	if !def && len(value) == 4 {
		n = int(min(binary.BigEndian.Uint32(value), MaxMax))
	}
	s.mu.Lock()
	s.peerMax = n
	first := n > 0 && !s.told
	if first {
		s.told = true
		s.acks = append(s.acks, 0)
	}
	s.mu.Unlock()
	s.update()
	if first {
		s.acknowledge(0)
	}
}

// Requested implements ext.Owner. The engine refuses by itself: the property is not mutable.
func (s *session) Requested(t ext.Token, _ uint32, _ []byte) { s.conn.Settle(t, ext.Change{}) }

// Message implements ext.Session: an acknowledgement.
func (s *session) Message(m ext.Message) {
	v := accepted
	if !s.acknowledged(m.Info) {
		v = malformed
	}
	if m.Token != 0 {
		s.conn.Answer(m.Token, verdict(v))
	}
}

func verdict(c ext.Code) ext.Verdict {
	if c == accepted {
		return ext.Verdict{Kind: ext.Accept}
	}
	return ext.Verdict{Kind: ext.Refuse, Code: c}
}

func (s *session) acknowledged(info []byte) bool {
	if len(info) != ackLen {
		return false
	}
	taken := binary.BigEndian.Uint32(info)
	s.mu.Lock()
	n := taken - s.acked
	ok := n <= Window
	if ok {
		s.acked, s.greeted = taken, true
	}
	s.mu.Unlock()
	if !ok {
		return false
	}
	if n > 0 {
		s.conn.Consumed(opPart, int(n))
	}
	s.update()
	return true
}

// update sets the reach: nothing before the peer has shown that it knows us (its receives are there then, and it sends in pieces, too); no
// more than goes through the window.
func (s *session) update() {
	f := s.conn.Facts()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.greeted || s.peerMax == 0 || s.closed {
		s.send.Store(0)
		s.recv.Store(0)
		return
	}
	s.send.Store(int32(min(s.peerMax, through(f.SendLimit))))
	s.recv.Store(int32(min(s.max, through(f.RecvSize))))
}

// partHeader is the bytes of a piece's header: the four words of all versions, direction, type and optinfo.
const partHeader = 16 + 12 + pieceLen

// through is the bytes that a window without the unreported has room for in Sends of n bytes.
func through(n int) int { return max((Window-AckEvery+1)*((n-partHeader)&^3), 0) }

// Closed implements ext.Session.
func (s *session) Closed(error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.again != nil {
		s.again.Stop()
	}
	s.messages.drop()
	s.send.Store(0)
	s.recv.Store(0)
}
