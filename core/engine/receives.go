package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// sharedReceives are an endpoint's receives where its connections draw from one pool. What they may come to is
// bounded: the bytes of all that are reserved, however long they grow, and half of that when they grow, so
// that connections that come later find some.
type sharedReceives struct {
	pool   verbs.RecvPool // nil: each connection posts its own
	base   int            // bytes of a receive that has not grown
	most   int            // bytes that one may grow to
	budget int            // bytes of all together
	limit  int            // of all together
	fixed  bool           // the pool cannot replace what is posted

	mu       sync.Mutex // guards what follows
	size     int        // bytes of a receive now
	reserved int
	grown    map[int]int // connections that need longer ones than base, by size
}

// ReceivesError is a connection that finds too few receives at its endpoint: the endpoint's other connections have
// them. Fewer credits (Config.Credits), more receives (EndpointConfig.Receives) or another endpoint help.
type ReceivesError struct {
	Want     int // by the connection
	Reserved int // by the others
	Limit    int // of the endpoint
}

func (e *ReceivesError) Error() string {
	return fmt.Sprintf("a connection needs %d receives, but %d of the endpoint's %d are reserved by its other connections", e.Want, e.Reserved, e.Limit)
}

func (e *ReceivesError) Unwrap() error { return verbs.ErrNoReceives }

// reserve takes n receives for a connection.
func (s *sharedReceives) reserve(n int) error {
	if s.pool == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size > s.base && (s.reserved+n)*s.size > s.budget {
		return &ReceivesError{Want: n, Reserved: s.reserved, Limit: s.budget / s.size}
	}
	switch err := s.pool.Reserve(n); {
	case errors.Is(err, verbs.ErrNoReceives):
		return &ReceivesError{Want: n, Reserved: s.reserved, Limit: s.limit}
	case err != nil:
		return err
	}
	s.reserved += n
	return nil
}

func (s *sharedReceives) unreserve(n int) {
	if s.pool == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pool.Unreserve(n)
	s.reserved -= n
}

// grow sees to it that receives that begin from now on have to bytes at least, until shrink(to): for a connection
// that had from before, 0 at first.
func (s *sharedReceives) grow(from, to int) error {
	if to <= s.base {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if to > s.size {
		if s.reserved*to > s.budget/2 {
			return fmt.Errorf("%d receives of that size, for all connections of the endpoint, are more than half of the %d bytes there are for them", s.reserved, s.budget)
		}
		if err := s.pool.Resize(to); err != nil {
			return err
		}
		s.size = to
	}
	if s.grown == nil {
		s.grown = make(map[int]int)
	}
	s.grown[to]++
	s.drop(from)
	return nil
}

// shrink takes back what grow did for a connection: it has ended.
func (s *sharedReceives) shrink(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(size)
	need := s.base
	for n := range s.grown {
		need = max(need, n)
	}
	if need < s.size && s.pool.Resize(need) == nil {
		s.size = need
	}
}

// drop counts one connection less that needs size. Called with mu held.
func (s *sharedReceives) drop(size int) {
	if size <= s.base {
		return
	}
	if s.grown[size]--; s.grown[size] == 0 {
		delete(s.grown, size)
	}
}

// ownReceives are a connection's own receives, where the device shares none. Longer ones take the place of shorter
// ones as these are consumed (D-22); two lengths at most are posted at a time.
type ownReceives struct {
	mu      sync.Mutex // guards what follows
	slots   []ownSlot  // by the receive's id
	spare   []uint32   // ids without memory
	size    int        // bytes of what is posted from now on
	next    *ownSlab   // where shorter ones move to
	old     int        // slots in slabs of another size
	surplus int        // to be given up as they are consumed
	raise   *raise     // waits for short to become 0
	short   int        // posted receives of fewer bytes than raise wants
	closed  bool
	one     [1]verbs.Recv // what put posts
}

type ownSlot struct {
	slab   *ownSlab // nil: spare
	off    int
	posted bool
}

type ownSlab struct {
	mem         *memory
	size        int // bytes of a receive
	used, holds int // places that were taken; slots that lie in it, and one for more to come
}

// raise is a receive size that is not in force yet, of sizes.
type raise struct {
	size  int
	sizes *sizes
	done  func(error)
}

// postOwn posts every receive of the connection; c.mu is held.
func (in *inbound) postOwn(vc verbs.Conn) error {
	c := in.c
	in.own.size = c.ep.shared.base
	return in.own.add(c.ep, vc, c.reserved)
}

// add posts n receives more, or none. Within Options.Ready or later.
func (o *ownReceives) add(ep *Endpoint, vc verbs.Conn, n int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return errEnded
	}
	back := min(n, o.surplus) // they are posted still
	o.surplus -= back
	if n -= back; n == 0 {
		return nil
	}
	mem, err := ep.getMemory(n * o.size)
	if err != nil {
		o.surplus += back
		return fmt.Errorf("receives: %w", err)
	}
	slab := &ownSlab{mem: mem, size: o.size, used: n, holds: n}
	rs := make([]verbs.Recv, n)
	for i := range rs {
		var id uint32
		if k := len(o.spare); k > 0 {
			id, o.spare = o.spare[k-1], o.spare[:k-1]
		} else {
			id = uint32(len(o.slots))
			o.slots = append(o.slots, ownSlot{})
		}
		o.slots[id] = ownSlot{slab: slab, off: i * o.size, posted: true}
		rs[i] = o.recv(id)
	}
	posted, err := vc.PostRecv(rs)
	if err == nil && posted == n {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("only %d of %d receives could be posted", posted, n)
	}
	for _, r := range rs[posted:] {
		o.leave(uint32(r.ID))
	}
	o.surplus += back + posted
	return err
}

// recv is the receive of slot id. Called with mu held.
func (o *ownReceives) recv(id uint32) verbs.Recv {
	s := &o.slots[id]
	return verbs.Recv{ID: uint64(id), Seg: verbs.Seg{R: s.slab.mem.reg, Off: s.off, N: s.slab.size}}
}

// leave takes slot id out of its slab. Called with mu held.
func (o *ownReceives) leave(id uint32) {
	o.slots[id].slab.release()
	o.slots[id] = ownSlot{}
	o.spare = append(o.spare, id)
}

func (s *ownSlab) release() {
	if s.holds--; s.holds == 0 {
		s.mem.Free()
	}
}

// took notes that receive id has been consumed, and returns the raise that is complete by it.
func (o *ownReceives) took(id uint32) *raise {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	s := &o.slots[id]
	s.posted = false
	if o.raise == nil || s.slab.size >= o.raise.size {
		return nil
	}
	if o.short--; o.short > 0 {
		return nil
	}
	r := o.raise
	o.raise = nil
	r.sizes.receive(r.size)
	return r
}

// put posts receive id again, in longer memory where there is some. After the end of the connection it does nothing.
func (o *ownReceives) put(vc verbs.Conn, id uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	old := o.slots[id].slab.size != o.size
	if o.surplus > 0 {
		o.surplus--
		o.leave(id)
	} else {
		if old {
			o.slots[id].slab.release()
			o.slots[id] = ownSlot{slab: o.next, off: o.next.used * o.next.size}
			o.next.used++
			o.next.holds++
		}
		o.slots[id].posted = true
		o.one[0] = o.recv(id)
		vc.PostRecv(o.one[:])
	}
	if old {
		if o.old--; o.old == 0 {
			o.next.release()
			o.next = nil
		}
	}
}

var errReplacing = errors.New("the receives are being replaced by ones of another size: ask again when that is done")

// grow makes r wait until no receive is posted that has fewer bytes, instead of old. now: there is none already.
func (o *ownReceives) grow(ep *Endpoint, r *raise) (old *raise, now bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, false, errEnded
	}
	if r.size > o.size {
		if o.old > 0 {
			return nil, false, errReplacing
		}
		n := len(o.slots) - len(o.spare)
		mem, err := ep.getMemory(n * r.size)
		if err != nil {
			return nil, false, err
		}
		o.size, o.old = r.size, n
		o.next = &ownSlab{mem: mem, size: r.size, holds: 1}
	}
	o.short = 0
	for i := range o.slots {
		if s := &o.slots[i]; s.posted && s.slab.size < r.size {
			o.short++
		}
	}
	old, o.raise = o.raise, r
	if now = o.short == 0; now {
		o.raise = nil
		r.sizes.receive(r.size)
	}
	return old, now, nil
}

// cancel takes back a raise that is not in force yet, and returns it.
func (o *ownReceives) cancel() *raise {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.raise
	o.raise = nil
	return r
}

// giveUp has n receives fewer, as they are consumed.
func (o *ownReceives) giveUp(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.surplus += n
}

// close frees the receives: the connection has ended, and nobody holds a view into them.
func (in *inbound) close() {
	o := &in.own
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.closed = true
	if o.next != nil {
		o.next.release()
	}
	for i := range o.slots {
		if slab := o.slots[i].slab; slab != nil {
			slab.release()
		}
	}
	o.slots, o.spare, o.next = nil, nil, nil
}
