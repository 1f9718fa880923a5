package iwarp

import (
	"fmt"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
)

// slabBytes is what a pool takes from the system at a time, about.
const slabBytes = 256 << 10

// pool is shared receives. n bounds how many are out at once; memory is made when more
// are out than ever before. The last one that came back goes out first: it is warm.
type pool struct {
	dom *domain

	mu       sync.Mutex
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

// NewRecvPool implements verbs.Domain.
func (d *domain) NewRecvPool(n, size int) (verbs.RecvPool, error) {
	if n <= 0 || size <= 0 {
		return nil, fmt.Errorf("iwarp: receive pool of %d buffers of %d bytes", n, size)
	}
	return &pool{dom: d, n: n, size: size}, nil
}

func (p *pool) Reserve(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 0 || n > p.n-p.reserved {
		return fmt.Errorf("iwarp: %d receives asked for, %d of %d reserved: %w", n, p.reserved, p.n, verbs.ErrNoReceives)
	}
	p.reserved += n
	return nil
}

func (p *pool) Unreserve(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 0 || n > p.reserved {
		panic(fmt.Sprintf("iwarp: Unreserve of %d receives, %d are reserved", n, p.reserved))
	}
	p.reserved -= n
}

// draw takes the buffer for a message that begins to arrive.
func (p *pool) draw() (mem []byte, id uint32, f ddp.Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == p.n || p.closed {
		return nil, 0, ddp.FaultNoBuffer
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
	return b.mem, id, 0
}

// cut makes one buffer. mu is held.
func (p *pool) cut() []byte {
	if len(p.slab) < p.size {
		p.slab = make([]byte, p.size*min(max(slabBytes/p.size, 1), p.n))
	}
	mem := p.slab[:p.size:p.size]
	p.slab = p.slab[p.size:]
	return mem
}

func (p *pool) Put(buf uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if int64(buf) >= int64(len(p.bufs)) || !p.bufs[buf].out {
		panic(fmt.Sprintf("iwarp: Put of receive buffer %d, which is not out", buf))
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

func (p *pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

// Resize takes effect with each buffer's next use.
func (p *pool) Resize(size int) error {
	if size <= 0 {
		return fmt.Errorf("iwarp: receives of %d bytes", size)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size, p.slab = size, nil
	return nil
}

func (p *pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.slab = true, nil
	for _, id := range p.idle {
		p.bufs[id].mem = nil
	}
	p.idle = nil
	return nil
}
