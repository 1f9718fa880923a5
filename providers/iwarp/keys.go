package iwarp

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
)

// An STag is  index (18 bits) | generation (4) | tag (10).  The index finds the slot, the
// generation makes a stale key differ for sixteen reuses, and the tag and a start
// address of 62 bits, both from crypto/rand, make the pair unguessable.
const (
	tagBits   = 10
	genBits   = 4
	indexBits = 32 - genBits - tagBits
	pageBits  = 10 // slots are made by the page and never move
	pageSize  = 1 << pageBits
	pages     = 1 << (indexBits - pageBits)
)

var (
	errNoKeys      = fmt.Errorf("iwarp: all %d remote keys are in use", 1<<indexBits)
	errWindowInUse = fmt.Errorf("iwarp: the window is in force: %w", verbs.ErrBadWork)
)

// keys is a domain's exposed memory.
type keys struct {
	page [pages]atomic.Pointer[[pageSize]slot] // read without a lock

	mu    sync.Mutex // guards what follows and the slots' links; taken before a slot's mu, never after
	free  *slot
	made  int
	rnd   [512]byte
	spent int // bytes of rnd that were used; 0: none drawn yet
}

// slot is one exposure, in force while key is not 0.
type slot struct {
	index      uint32
	gen        uint32
	next, prev *slot // of the free list (next), or of the connection's windows

	// mu is held while the peer's access touches the memory: during a copy, or one system
	// call that does not wait. Whoever takes it knows that no access is under way, and no
	// access outlives it: each looks the memory up anew. Detach so waits for no peer.
	mu      sync.Mutex
	key     uint32
	addr    uint64
	mem     []byte
	reached int    // how far into mem the peer has written
	moves   uint32 // counts Detach: what was resolved before is stale
	access  verbs.Access
	owner   *conn
}

// random is called with mu held.
func (k *keys) random() uint64 {
	if k.spent == 0 || k.spent == len(k.rnd) {
		rand.Read(k.rnd[:]) // never fails
		k.spent = 0
	}
	v := binary.LittleEndian.Uint64(k.rnd[k.spent:])
	k.spent += 8
	return v
}

// expose puts mem in force for c's peer and tells by which key and address. ok is
// false when c has ended.
func (k *keys) expose(c *conn, w *verbs.Window, mem []byte, a verbs.Access) (ok bool, err error) {
	if old, ok := w.Slot.(*slot); ok && old.inForce(w.Key) {
		return true, errWindowInUse
	}
	k.mu.Lock()
	if c.revoked {
		k.mu.Unlock()
		return false, nil
	}
	s := k.take()
	if s == nil {
		k.mu.Unlock()
		return true, errNoKeys
	}
	s.prev, s.next = nil, c.windows
	if c.windows != nil {
		c.windows.prev = s
	}
	c.windows = s
	tag, start := uint32(k.random()), k.random()>>2
	s.gen++
	key := s.index<<(genBits+tagBits) | s.gen&(1<<genBits-1)<<tagBits | tag&(1<<tagBits-1)
	if key == 0 {
		key = 1 // a tag as good as any
	}
	s.mu.Lock()
	s.key, s.addr, s.mem, s.access, s.owner, s.reached = key, start, mem, a, c, 0
	s.mu.Unlock()
	k.mu.Unlock()
	w.Key, w.Addr, w.N, w.Slot = key, start, len(mem), s
	return true, nil
}

// take gives a free slot, or nil. mu is held.
func (k *keys) take() *slot {
	if k.free == nil {
		if k.made == 1<<indexBits {
			return nil
		}
		p := new([pageSize]slot)
		for i := range p {
			p[i].index = uint32(k.made + i)
			if i+1 < len(p) {
				p[i].next = &p[i+1]
			}
		}
		k.page[k.made>>pageBits].Store(p)
		k.made += pageSize
		k.free = &p[0]
	}
	s := k.free
	k.free = s.next
	return s
}

// resolve turns what a peer names into memory, or says what is wrong with it. It is the
// only way there. The sums are of 64 bits and do not wrap: an address below the start
// becomes an offset far beyond the end. Without a fault the slot is returned locked.
func (k *keys) resolve(key uint32, addr, n uint64, right verbs.Access, owner *conn) (*slot, []byte, rdmap.Fault) {
	s, f := k.lookup(key, owner)
	if f != 0 {
		return nil, nil, f
	}
	off, size := addr-s.addr, uint64(len(s.mem))
	switch {
	case s.access&right != right:
		f = rdmap.FaultAccess
	case off > size || n > size-off:
		f = rdmap.FaultBounds
	default:
		return s, s.mem[off : off+n : off+n], 0
	}
	s.mu.Unlock()
	return nil, nil, f
}

// lookup finds key's slot and locks it, if it is in force for owner's peer.
func (k *keys) lookup(key uint32, owner *conn) (*slot, rdmap.Fault) {
	i := key >> (genBits + tagBits)
	p := k.page[i>>pageBits].Load()
	if p == nil || key == 0 {
		return nil, rdmap.FaultSTag
	}
	s := &p[i&(pageSize-1)]
	s.mu.Lock()
	switch {
	case s.key != key:
	case s.owner != owner:
		s.mu.Unlock()
		return nil, rdmap.FaultStream
	default:
		return s, 0
	}
	s.mu.Unlock()
	return nil, rdmap.FaultSTag
}

// revoke ends the exposure of key, if it is in force for owner's peer. On return no
// access to its memory is under way and none will be.
func (k *keys) revoke(key uint32, owner *conn) rdmap.Fault {
	s, f := k.lookup(key, owner)
	if f != 0 {
		return f
	}
	s.clear()
	s.mu.Unlock()

	k.mu.Lock()
	defer k.mu.Unlock()
	if owner.revoked { // revokeAll has the list, and frees s
		return 0
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		owner.windows = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, k.free
	k.free = s
	return 0
}

// revokeAll ends each exposure of c, now and for ever.
func (k *keys) revokeAll(c *conn) {
	k.mu.Lock()
	c.revoked = true
	list := c.windows
	c.windows = nil
	k.mu.Unlock()
	for s := list; s != nil; s = s.next {
		s.mu.Lock()
		s.clear()
		s.mu.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for list != nil {
		s := list
		list = s.next
		s.prev, s.next = nil, k.free
		k.free = s
	}
}

// reach notes that the peer writes n bytes to the address to, which are within. mu is held.
func (s *slot) reach(to uint64, n int) { s.reached = max(s.reached, int(to-s.addr)+n) }

// clear is called with mu held.
func (s *slot) clear() {
	s.key, s.addr, s.mem, s.access, s.owner = 0, 0, nil, 0, nil
}

func (s *slot) inForce(key uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return key != 0 && s.key == key
}

// detach moves the exposure of key to spare.
func (s *slot) detach(key uint32, spare []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key == 0 || s.key != key {
		return false
	}
	if s.access&verbs.RemoteRead != 0 {
		copy(spare, s.mem)
	}
	s.mem = spare[:len(s.mem):len(s.mem)]
	s.moves++
	return true
}
