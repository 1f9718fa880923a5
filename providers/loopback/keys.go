package loopback

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// A key is  index (20 bits) | generation (4) | random tag (8).  The index finds the slot,
// the generation makes a stale key differ for sixteen reuses, and the tag and a random
// start address (62 bits) make a good pair of both unguessable.
const (
	indexBits = 20
	genBits   = 4
	tagBits   = 8
	pageBits  = 10 // slots are made by the page and never move
	pageSize  = 1 << pageBits
	pages     = 1 << (indexBits - pageBits)
)

var errNoKeys = errors.New("loopback: all remote keys are in use")

// keys is a domain's exposed memory.
type keys struct {
	page [pages]atomic.Pointer[[pageSize]slot] // read without a lock

	mu    sync.Mutex // guards what follows, and each slot's links; taken before a slot's mu
	free  *slot
	made  int // slots made so far
	rnd   [512]byte
	spent int // bytes of rnd used; 0: none drawn yet
}

// slot is one exposure, in force while key is not 0.
type slot struct {
	index      uint32
	next, prev *slot // of the free list (next), or of the connection's windows
	gen        uint32

	// mu is held while a peer's access copies: whoever takes it knows that none is under
	// way. Copies are cut to copySlice, so it is never held for long.
	mu     sync.Mutex
	key    atomic.Uint32 // written with mu held
	addr   uint64
	mem    []byte
	access verbs.Access
	owner  *conn
}

// random is called with mu held.
func (k *keys) random() uint64 {
	if k.spent == 0 || k.spent+8 > len(k.rnd) {
		rand.Read(k.rnd[:]) // never fails
		k.spent = 0
	}
	v := binary.LittleEndian.Uint64(k.rnd[k.spent:])
	k.spent += 8
	return v
}

// expose puts mem in force for c's peer.
func (k *keys) expose(c *conn, w *verbs.Window, mem []byte, a verbs.Access) error {
	if old, ok := w.Slot.(*slot); ok && old.inForce(w.Key) {
		return errWindowInUse
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.revoked {
		return errRevoked
	}
	s, err := k.slot()
	if err != nil {
		return err
	}
	s.next, s.prev = c.windows, nil
	if c.windows != nil {
		c.windows.prev = s
	}
	c.windows = s

	r, start := k.random(), k.random()
	s.gen++
	key := s.index<<(genBits+tagBits) | s.gen&(1<<genBits-1)<<tagBits | uint32(r)&(1<<tagBits-1)
	if key == 0 {
		key = 1 // a tag as good as any
	}
	s.mu.Lock()
	s.addr, s.mem, s.access, s.owner = start>>2, mem, a, c
	s.key.Store(key)
	s.mu.Unlock()
	w.Key, w.Addr, w.N = key, start>>2, len(mem)
	w.Slot = s
	return nil
}

// slot takes a free one. mu is held.
func (k *keys) slot() (*slot, error) {
	if s := k.free; s != nil {
		k.free = s.next
		return s, nil
	}
	if k.made == 1<<indexBits {
		return nil, errNoKeys
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
	k.free = p[0].next
	return &p[0], nil
}

// resolve turns what a peer names into memory, or refuses (nil). It is the only way there.
// On success the slot is locked: the caller copies and unlocks.
func (k *keys) resolve(key uint32, addr, n uint64, right verbs.Access, owner *conn) (*slot, []byte) {
	s := k.lookup(key, owner)
	if s == nil {
		return nil, nil
	}
	off, size := addr-s.addr, uint64(len(s.mem)) // addr below s.addr wraps to far beyond size
	if s.access&right != right || off > size || n > size-off {
		s.mu.Unlock()
		return nil, nil
	}
	return s, s.mem[off : off+n : off+n]
}

// lookup finds key's slot and locks it, if it is in force for owner's peer.
func (k *keys) lookup(key uint32, owner *conn) *slot {
	i := key >> (genBits + tagBits)
	p := k.page[i>>pageBits].Load()
	if p == nil {
		return nil
	}
	s := &p[i&(pageSize-1)]
	s.mu.Lock()
	if key == 0 || s.key.Load() != key || s.owner != owner {
		s.mu.Unlock()
		return nil
	}
	return s
}

// revoke ends the exposure of key, if it is in force for owner's peer. On return no access
// to its memory is under way and none will be.
func (k *keys) revoke(key uint32, owner *conn) bool {
	s := k.lookup(key, owner)
	if s == nil {
		return false
	}
	s.clear()
	s.mu.Unlock()

	k.mu.Lock()
	defer k.mu.Unlock()
	if owner.revoked { // revokeAll has the list and frees s
		return true
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
	return true
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

// clear is called with mu held.
func (s *slot) clear() {
	s.key.Store(0)
	s.addr, s.mem, s.access, s.owner = 0, nil, 0, nil
}

func (s *slot) inForce(key uint32) bool { return key != 0 && s.key.Load() == key }

// detach moves the exposure of key to spare.
func (s *slot) detach(key uint32, spare []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inForce(key) {
		return false
	}
	if s.access&verbs.RemoteRead != 0 {
		copy(spare, s.mem)
	}
	s.mem = spare[:len(s.mem):len(s.mem)]
	return true
}
