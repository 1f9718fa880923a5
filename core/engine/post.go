package engine

import (
	"fmt"
	"slices"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// workKind is the low three bits of a work id; the rest is an index into the kind's table.
type workKind uint64

const (
	workPlain      workKind = iota // a Write: nobody waits, the Send behind it tells; sendBuffers
	workSend                       // sendBuffers
	workRead                       // requests
	workInvalidate                 // calls
)

func workID(k workKind, i uint32) uint64 { return uint64(i)<<3 | uint64(k) }

// post hands ws to the provider, or keeps what it does not take for drain. Called with
// mu held, and not when down. An error of Post means that the connection is ending: Disconnected
// follows and takes care of what is left.
func (c *Conn) post(ws []verbs.Work) {
	if len(c.outbox) == 0 {
		ws = ws[c.submit(ws):]
	}
	for _, w := range ws {
		w.Segs = slices.Clone(w.Segs)
		c.outbox = append(c.outbox, w)
	}
}

// drain posts what waited for room in the send queue (D-11: credits may come back
// before the slots they were posted in). Called with mu held.
func (c *Conn) drain() {
	if len(c.outbox) == 0 || c.down {
		return
	}
	if n := c.submit(c.outbox); n > 0 {
		c.outbox = slices.Delete(c.outbox, 0, n)
	}
}

// submit posts as many of ws as the send queue takes. Whoever made it do so flushes afterwards, or is within Complete,
// which does. Called with mu held.
func (c *Conn) submit(ws []verbs.Work) int {
	n, err := c.vc.Post(ws)
	if n > 0 {
		c.dirty.Store(true) // not before Post: another's flush would take the flag, and find nothing posted yet
	}
	for i := range ws[:n] {
		if id := ws[i].ID; workKind(id&7) == workSend {
			if b := c.sends.all[id>>3]; b.answer {
				b.answer = false
				c.owed--
			}
		}
	}
	if errIsBadWork(err) {
		c.Abort(err)
	}
	return n
}

// flush sends what lies posted. Called without mu.
func (c *Conn) flush() {
	if c.dirty.Load() && c.dirty.Swap(false) {
		c.vc.Flush()
	}
}

// sendBuffer is where a message is put together, from its header to its last inline
// byte. It is its taker's until posted, then the provider's until the completion.
type sendBuffer struct {
	mem  *memory
	off  int
	long *memory // instead of mem, for a message that does not fit there; from the endpoint's pool, until put
	i    uint32
	seg  [1]verbs.Seg
	req  *request // finished by the completion
	// answer: a call is answered by it (Conn.owed), once Post has taken it.
	answer bool
}

func (s *sendBuffer) bytes(n int) []byte {
	if s.long != nil {
		return s.long.Bytes()[:0:n]
	}
	return s.mem.Bytes()[s.off : s.off : s.off+n]
}

// work is the Send of the first n bytes.
func (s *sendBuffer) work(n int) verbs.Work {
	s.seg[0] = verbs.Seg{R: s.mem.reg, Off: s.off, N: n}
	if s.long != nil {
		s.seg[0] = verbs.Seg{R: s.long.reg, N: n}
	}
	return verbs.Work{ID: workID(workSend, s.i), Op: verbs.OpSend, Segs: s.seg[:]}
}

// sendBuffers are a connection's, guarded by its mutex. They are made in slabs as
// the traffic wants them, a single one for who calls now and then; calls and requests in flight
// bound their number.
type sendBuffers struct {
	all   []*sendBuffer
	free  []*sendBuffer
	slabs []*memory
	out   int
	done  uint64 // Sends and Writes that have completed
	ended bool
}

const sendSlab = 8 // buffers of a slab at most

// takeSend takes a buffer for a message of n bytes. errNoRoom: there is no memory for one longer than the
// endpoint's receives; a shorter one can go.
func (c *Conn) takeSend(n int) (*sendBuffer, error) {
	if n <= c.ep.size {
		return c.takeShort()
	}
	long, err := c.memory(n) // whose length the peer has chosen: of its share
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoRoom, err)
	}
	b, err := c.takeShort()
	if err != nil {
		long.Free()
		return nil, err
	}
	b.long = long
	return b, nil
}

func (c *Conn) takeShort() (*sendBuffer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.sends
	for len(s.free) == 0 {
		if c.down {
			return nil, c.lostErr()
		}
		size, n := c.ep.size, min(max(len(s.all), 1), sendSlab)
		c.mu.Unlock()
		slab, err := c.ep.getMemory(n * size)
		c.mu.Lock()
		if err != nil {
			return nil, fmt.Errorf("send buffers: %w", err)
		}
		if c.down {
			slab.Free()
			return nil, c.lostErr()
		}
		s.slabs = append(s.slabs, slab)
		for i := range n {
			b := &sendBuffer{mem: slab, off: i * size, i: uint32(len(s.all))}
			s.all = append(s.all, b)
			s.free = append(s.free, b)
		}
	}
	if c.down {
		return nil, c.lostErr()
	}
	b := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.out++
	return b, nil
}

// put gives back a buffer that was not posted, or whose Send completed. Called with mu held.
func (s *sendBuffers) put(b *sendBuffer) {
	if b.long != nil {
		b.long.Free()
		b.long = nil
	}
	b.req, b.answer = nil, false
	s.out--
	s.free = append(s.free, b)
	if s.ended {
		s.release()
	}
}

// complete takes the completion of a Send, and returns the request that it answers, if any.
func (s *sendBuffers) complete(i uint32) *request {
	b := s.all[i]
	r := b.req
	s.put(b)
	return r
}

// release frees the slabs once every buffer is back. Called with mu held, when down.
func (s *sendBuffers) release() {
	s.ended = true
	if s.out > 0 {
		return
	}
	for _, m := range s.slabs {
		m.Free()
	}
	*s = sendBuffers{ended: true, done: s.done}
}
