package soft

import (
	"fmt"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// slabBytes is what a pool takes from the system at a time, about.
const slabBytes = 256 << 10

// Pool is shared receives, a verbs.RecvPool. n bounds how many are out at once; memory is
// made when more are out than ever before. The last one that came back goes out first: it
// is warm.
type Pool struct {
	dom *Memory

	mu       sync.Mutex // guards what follows
	n, size  int
	reserved int
	out      int
	closed   bool
	bufs     []poolBuf // by BufID
	idle     []uint32
	slab     []byte // not cut yet
}

type poolBuf struct {
	mem []byte
	out bool
}

// NewRecvPool is verbs.Domain's.
func (m *Memory) NewRecvPool(n, size int) (verbs.RecvPool, error) {
	if n <= 0 || size <= 0 {
		return nil, fmt.Errorf("%s: receive pool of %d buffers of %d bytes", m.Provider, n, size)
	}
	return &Pool{dom: m, n: n, size: size}, nil
}

// Pool is p as its provider needs it; nil: it is not of this domain.
func (m *Memory) Pool(p verbs.RecvPool) *Pool {
	if own, ok := p.(*Pool); ok && own != nil && own.dom == m {
		return own
	}
	return nil
}

// Reserve is verbs.RecvPool's, as all but Draw.
func (p *Pool) Reserve(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 0 || n > p.n-p.reserved {
		return fmt.Errorf("%s: %d receives asked for, %d of %d reserved: %w", p.dom.Provider, n, p.reserved, p.n, verbs.ErrNoReceives)
	}
	p.reserved += n
	return nil
}

// Unreserve takes back what was reserved.
func (p *Pool) Unreserve(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 0 || n > p.reserved {
		panic(fmt.Sprintf("%s: Unreserve of %d receives, %d are reserved", p.dom.Provider, n, p.reserved))
	}
	p.reserved -= n
}

// Draw takes the buffer for a message that begins to arrive. ok is false when as many as
// there may be are out, or after Close.
func (p *Pool) Draw() (mem []byte, id uint32, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == p.n || p.closed {
		return nil, 0, false
	}
	if k := len(p.idle); k > 0 {
		id, p.idle = p.idle[k-1], p.idle[:k-1]
	} else {
		id = uint32(len(p.bufs))
		p.bufs = append(p.bufs, poolBuf{})
	}
	b := &p.bufs[id]
	if len(b.mem) != p.size { // new, or from before a Resize
		b.mem = p.cut()
	}
	b.out = true
	p.out++
	return b.mem, id, true
}

// cut makes one buffer. mu is held.
func (p *Pool) cut() []byte {
	if len(p.slab) < p.size {
		p.slab = make([]byte, p.size*min(max(slabBytes/p.size, 1), p.n))
	}
	mem := p.slab[:p.size:p.size]
	p.slab = p.slab[p.size:]
	return mem
}

// Put gives back the buffer id, once.
func (p *Pool) Put(buf uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if int64(buf) >= int64(len(p.bufs)) || !p.bufs[buf].out {
		panic(fmt.Sprintf("%s: Put of receive buffer %d, which is not out", p.dom.Provider, buf))
	}
	b := &p.bufs[buf]
	b.out = false
	p.out--
	if p.closed {
		b.mem = nil
		return
	}
	p.idle = append(p.idle, buf)
}

// Size is the bytes of a receive that is drawn from now on.
func (p *Pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

// Resize takes effect with each buffer's next use.
func (p *Pool) Resize(size int) error {
	if size <= 0 {
		return fmt.Errorf("%s: receives of %d bytes", p.dom.Provider, size)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size, p.slab = size, nil
	return nil
}

// Close frees what is not out now, and the rest as it comes back.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.slab = true, nil
	for _, id := range p.idle {
		p.bufs[id].mem = nil
	}
	p.idle = nil
	return nil
}
