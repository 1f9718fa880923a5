package soft

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// A key is  index (18 bits) | generation (4) | tag (10).  The index finds the slot, the
// generation makes a stale key differ for sixteen reuses, and the tag and a start
// address of 62 bits, both from crypto/rand, make the pair unguessable.
const (
	tagBits   = 10
	genBits   = 4
	indexBits = 32 - genBits - tagBits
	pageBits  = 10 // slots are made by the page and never move
	pageSize  = 1 << pageBits
	pageCount = 1 << (indexBits - pageBits)
)

// ErrEnded is Expose's after RevokeAll. Each connection has its own words for that.
var ErrEnded = errors.New("soft: nothing can be exposed any more")

// Refusal is why a peer does not get at memory. A fabric has its own code for each.
type Refusal uint8

// What is asked of an access, in this order.
const (
	Granted     Refusal = iota
	NoKey               // no such key is in force
	NotTheirs           // it is, for the peer of another connection
	NoRight             // the exposure does not grant that
	OutOfBounds         // it is not all within
)

// Keys is a protection domain's exposed memory: a table of remote keys, which iWARP calls
// STags. The zero value with its field set is ready.
type Keys struct {
	Provider string // whose errors these are

	page [pageCount]atomic.Pointer[[pageSize]Slot] // read without a lock

	mu    sync.Mutex // guards what follows and the slots' links; taken before a slot's mu, never after
	free  *Slot
	made  int
	rnd   [512]byte
	spent int // bytes of rnd that were used; 0: none drawn yet
}

// Windows is what the peer of one connection may reach.
type Windows struct {
	keys    *Keys
	first   *Slot // guarded by keys.mu
	revoked bool  // guarded by keys.mu: nothing can be exposed any more
}

// Windows is a new connection's.
func (k *Keys) Windows() Windows { return Windows{keys: k} }

// Slot is one exposure, in force while key is not 0. The fields that have a capital are for
// who has it locked.
type Slot struct {
	index      uint32
	gen        uint32
	next, prev *Slot // of the free list (next), or of the connection's windows

	// mu is held while the peer's access touches the memory: during a copy, or one system
	// call that does not wait. Whoever takes it knows that no access is under way, and no
	// access outlives it: each looks the memory up anew. Detach so waits for no peer.
	mu  sync.Mutex
	key atomic.Uint32 // written with mu held

	Start   uint64 // the address of Mem
	Mem     []byte
	Reached int    // how far into Mem the peer has written (Reach)
	Moves   uint32 // counts Detach: what was resolved before is stale
	Access  verbs.Access
	owner   *Windows
}

// random is called with mu held.
func (k *Keys) random() uint64 {
	if k.spent == 0 || k.spent == len(k.rnd) {
		rand.Read(k.rnd[:]) // never fails
		k.spent = 0
	}
	v := binary.LittleEndian.Uint64(k.rnd[k.spent:])
	k.spent += 8
	return v
}

// Expose puts mem in force for ws's peer and tells w by which key and address. ErrEnded:
// ws has been revoked for good.
func (ws *Windows) Expose(w *verbs.Window, mem []byte, a verbs.Access) error {
	k := ws.keys
	if old, ok := w.Slot.(*Slot); ok && old.inForce(w.Key) {
		return fmt.Errorf("%s: the window is in force: %w", k.Provider, verbs.ErrBadWork)
	}
	k.mu.Lock()
	if ws.revoked {
		k.mu.Unlock()
		return ErrEnded
	}
	s := k.take()
	if s == nil {
		k.mu.Unlock()
		return fmt.Errorf("%s: all %d remote keys are in use", k.Provider, 1<<indexBits)
	}
	s.prev, s.next = nil, ws.first
	if ws.first != nil {
		ws.first.prev = s
	}
	ws.first = s
	tag, start := uint32(k.random()), k.random()>>2
	s.gen++
	key := s.index<<(genBits+tagBits) | s.gen&(1<<genBits-1)<<tagBits | tag&(1<<tagBits-1)
	if key == 0 {
		key = 1 // a tag as good as any
	}
	s.mu.Lock()
	s.Start, s.Mem, s.Access, s.owner, s.Reached = start, mem, a, ws, 0
	s.key.Store(key)
	s.mu.Unlock()
	k.mu.Unlock()
	w.Key, w.Addr, w.N, w.Slot = key, start, len(mem), s
	return nil
}

// take gives a free slot, or nil. mu is held.
func (k *Keys) take() *Slot {
	if k.free == nil {
		if k.made == 1<<indexBits {
			return nil
		}
		p := new([pageSize]Slot)
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

// Resolve turns what a peer names into memory, or says what is wrong with it. It is the
// only way there. The sums are of 64 bits and do not wrap: an address below the start
// becomes an offset far beyond the end. Where it is Granted, the slot is returned locked.
func (ws *Windows) Resolve(key uint32, addr, n uint64, right verbs.Access) (*Slot, []byte, Refusal) {
	s, r := ws.lookup(key)
	if r != Granted {
		return nil, nil, r
	}
	off, size := addr-s.Start, uint64(len(s.Mem))
	switch {
	case s.Access&right != right:
		r = NoRight
	case off > size || n > size-off:
		r = OutOfBounds
	default:
		return s, s.Mem[off : off+n : off+n], Granted
	}
	s.mu.Unlock()
	return nil, nil, r
}

// lookup finds key's slot and locks it, if it is in force for ws's peer.
func (ws *Windows) lookup(key uint32) (*Slot, Refusal) {
	i := key >> (genBits + tagBits)
	p := ws.keys.page[i>>pageBits].Load()
	if p == nil || key == 0 {
		return nil, NoKey
	}
	s := &p[i&(pageSize-1)]
	s.mu.Lock()
	switch {
	case s.key.Load() != key:
	case s.owner != ws:
		s.mu.Unlock()
		return nil, NotTheirs
	default:
		return s, Granted
	}
	s.mu.Unlock()
	return nil, NoKey
}

// Revoke ends the exposure of key, if it is in force for ws's peer. On return no access to
// its memory is under way and none will be.
func (ws *Windows) Revoke(key uint32) Refusal {
	s, r := ws.lookup(key)
	if r != Granted {
		return r
	}
	s.clear()
	s.mu.Unlock()

	k := ws.keys
	k.mu.Lock()
	defer k.mu.Unlock()
	if ws.revoked { // RevokeAll has the list, and frees s
		return Granted
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		ws.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, k.free
	k.free = s
	return Granted
}

// RevokeAll ends each exposure, now and for ever: its connection ends.
func (ws *Windows) RevokeAll() {
	k := ws.keys
	k.mu.Lock()
	ws.revoked = true
	list := ws.first
	ws.first = nil
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

// Detach is verbs.Detacher's: it moves the exposure of w to spare.
func (ws *Windows) Detach(w *verbs.Window, spare []byte) bool {
	s, ok := w.Slot.(*Slot)
	if !ok {
		return false
	}
	if len(spare) < w.N {
		panic(fmt.Sprintf("%s: Detach of %d bytes to %d", ws.keys.Provider, w.N, len(spare)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inForce(w.Key) {
		return false
	}
	if s.Access&verbs.RemoteRead != 0 {
		copy(spare, s.Mem)
	}
	s.Mem = spare[:len(s.Mem):len(s.Mem)]
	s.Moves++
	return true
}

// Hold locks s if key is still in force, for an access to memory that was resolved before.
func (s *Slot) Hold(key uint32) bool {
	s.mu.Lock()
	if s.inForce(key) {
		return true
	}
	s.mu.Unlock()
	return false
}

// Unlock ends an access.
func (s *Slot) Unlock() { s.mu.Unlock() }

// Key is the one in force, while s is locked.
func (s *Slot) Key() uint32 { return s.key.Load() }

// Reach notes that the peer writes n bytes to the address to, which are within. s is locked.
func (s *Slot) Reach(to uint64, n int) { s.Reached = max(s.Reached, int(to-s.Start)+n) }

// clear is called with mu held.
func (s *Slot) clear() {
	s.key.Store(0)
	s.Start, s.Mem, s.Access, s.owner = 0, nil, 0, nil
}

func (s *Slot) inForce(key uint32) bool { return key != 0 && s.key.Load() == key }
