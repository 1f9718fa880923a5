package engine

import (
	"fmt"
	"math/bits"
	"net/netip"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/fair"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// memory is registered memory of an endpoint's pool.
type memory struct {
	transport.Memory
	ep    *Endpoint // where it goes back
	reg   verbs.Region
	class int
	out   bool // handed out; guarded by the pool's mutex
	held  *int // a peer's share that it counts in, or nil; guarded by the pool's mutex
}

// Recycle implements transport.Owner.
func (m *memory) Recycle() { m.ep.putMemory(m) }

// Free is transport.Memory's, without the way round.
func (m *memory) Free() { m.ep.putMemory(m) }

// registration is an endpoint's of a user's memory.
type registration struct{ verbs.Region }

// region is the registration of m with e: of a user's memory made on first use, and kept until Free.
func (e *Endpoint) region(m *transport.Memory) (verbs.Region, error) {
	if own, ok := m.Owner().(*memory); ok && own.ep == e {
		return own.reg, nil
	}
	reg, err := m.Registered(e)
	if err != nil {
		return nil, err
	}
	return reg.(registration).Region, nil
}

// Register implements transport.Registrar.
func (e *Endpoint) Register(m *transport.Memory) (transport.Registration, error) {
	reg, err := e.dom.Register(m.Bytes())
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.registered[m] = struct{}{}
	}
	return registration{reg}, nil
}

// Forget implements transport.Registrar.
func (e *Endpoint) Forget(m *transport.Memory) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.registered[m]
	delete(e.registered, m)
	return ok
}

// Size classes are powers of two from 4 KiB; above 64 MiB memory is not pooled.
const (
	minClass = 12
	maxClass = 26
	// keepFree is the most a pool keeps for reuse.
	keepFree = 64 << 20
)

// memoryBudget bounds chunk memory, of one endpoint or of several (EndpointConfig.Beside).
type memoryBudget struct {
	mu     sync.Mutex // guards what follows, and the pools
	idle   int        // bytes that lie free in pools
	total  int        // bytes handed out and idle
	limit  int
	shares map[netip.Addr]*share
	pools  map[*memoryPool]struct{}
}

// memoryPool is an endpoint's chunk memory. Its fields are guarded by the budget's mutex.
type memoryPool struct {
	*memoryBudget
	free   [maxClass + 1][]*memory
	out    int // bytes of this pool that are handed out
	closed bool
}

// open gives the pool a budget of its own, or another's, if that is not nil.
func (p *memoryPool) open(limit int, b *memoryBudget) {
	if b == nil {
		b = &memoryBudget{limit: limit, pools: make(map[*memoryPool]struct{})}
	}
	p.memoryBudget = b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pools[p] = struct{}{}
}

// share is what the connections of one address hold together. Guarded by the pool's mutex.
type share struct {
	peer  netip.Addr
	held  int // bytes of chunk memory
	conns int
}

// shareOf is the share of a connection of peer, until dropShare.
func (p *memoryBudget) shareOf(peer netip.Addr) *share {
	peer = fair.PeerKey(peer)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.shares[peer]
	if s == nil {
		if p.shares == nil {
			p.shares = make(map[netip.Addr]*share)
		}
		s = &share{peer: peer}
		p.shares[peer] = s
	}
	s.conns++
	return s
}

func (p *memoryBudget) dropShare(s *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.conns--; s.conns == 0 {
		delete(p.shares, s.peer)
	}
}

// getMemory takes n bytes, for Free. They hold whatever they held before.
func (e *Endpoint) getMemory(n int) (*memory, error) { return e.memoryFor(n, nil) }

// memoryFor is getMemory. held, if not nil, counts what is taken on behalf of one peer: that may
// be as much as it leaves free. So one peer alone gets half of the limit, k of them k parts of
// k+1, and there is always some for another, and for the replies.
func (e *Endpoint) memoryFor(n int, held *int) (*memory, error) {
	class := max(bits.Len(uint(max(n, 1)-1)), minClass)
	size := n
	p := &e.pool
	p.mu.Lock()
	if class <= maxClass {
		size = 1 << class
	}
	if free := p.limit - (p.total - p.idle); held != nil && *held+size > free-size {
		share := *held
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: %d bytes wanted for a peer that has %d, %d are free", transport.ErrNoMemory, size, share, free)
	}
	if class <= maxClass {
		if l := len(p.free[class]); l > 0 {
			m := p.free[class][l-1]
			p.free[class] = p.free[class][:l-1]
			p.idle -= size
			p.out += size
			m.out = true
			if held != nil {
				m.held = held
				*held += size
			}
			p.mu.Unlock()
			m.SetBytes(m.reg.Bytes()[:n])
			return m, nil
		}
	}
	if p.total+size > p.limit && p.idle > 0 {
		p.release() // what lies idle in other classes and pools must not keep this one waiting
	}
	if p.total+size > p.limit {
		total := p.total
		p.mu.Unlock()
		return nil, fmt.Errorf("%w: %d bytes wanted, %d of %d in use", transport.ErrNoMemory, size, total, p.limit)
	}
	p.total += size
	p.out += size
	m := &memory{ep: e, class: class, out: true}
	if held != nil {
		m.held = held
		*held += size
	}
	p.mu.Unlock()

	reg, err := e.dom.Alloc(size)
	if err != nil {
		p.mu.Lock()
		p.total -= size
		p.out -= size
		if held != nil {
			*held -= size
		}
		p.mu.Unlock()
		return nil, fmt.Errorf("allocate %d bytes: %w", size, err)
	}
	m.reg = reg
	m.Init(m)
	m.SetBytes(reg.Bytes()[:n])
	return m, nil
}

func (e *Endpoint) putMemory(m *memory) {
	size := len(m.reg.Bytes())
	if invariants {
		m.poison()
	}
	p := &e.pool
	p.mu.Lock()
	if !m.out {
		p.mu.Unlock()
		panic("engine: memory freed twice")
	}
	m.out = false
	p.out -= size
	if m.held != nil {
		*m.held -= size
		m.held = nil
	}
	if m.class <= maxClass && p.idle+size <= keepFree && !p.closed {
		p.free[m.class] = append(p.free[m.class], m)
		p.idle += size
		p.mu.Unlock()
		return
	}
	p.total -= size
	p.mu.Unlock()
	m.reg.Release()
}

// charge counts n bytes that an extension holds for a message of a peer's as chunk memory handed out to that peer, or refuses
// them as memoryFor would. discharge takes them off.
func (e *Endpoint) charge(n int, held *int) error {
	p := &e.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total+n > p.limit && p.idle > 0 {
		p.release()
	}
	free := p.limit - (p.total - p.idle)
	if n > free || *held+n > free-n {
		return fmt.Errorf("%w: a message of %d bytes for a peer that has %d, %d are free", transport.ErrNoMemory, n, *held, free)
	}
	p.total += n
	p.out += n
	*held += n
	return nil
}

func (e *Endpoint) discharge(n int, held *int) {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	e.pool.total -= n
	e.pool.out -= n
	*held -= n
}

// MemoryInUse is the bytes of e handed out and not given back.
func (e *Endpoint) MemoryInUse() int {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	return e.pool.out
}

// short reports that three quarters of the memory are handed out.
func (b *memoryBudget) short() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total-b.idle > b.limit/4*3
}

// release frees what is idle in every pool. Called with mu held.
func (b *memoryBudget) release() {
	for p := range b.pools {
		p.empty()
	}
}

// drain frees what is idle, now and from now on.
func (p *memoryPool) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.empty()
	delete(p.pools, p)
}

// empty frees what is idle. Called with mu held.
func (p *memoryPool) empty() {
	for class := range p.free {
		for _, m := range p.free[class] {
			n := len(m.reg.Bytes())
			p.total -= n
			p.idle -= n
			m.reg.Release()
		}
		p.free[class] = nil
	}
}
