package loopback

import (
	"fmt"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// pool is shared receives. It bounds how many messages may lie undelivered or unread;
// memory is made when a message needs it and kept for the next.
type pool struct {
	dom *domain

	mu       sync.Mutex
	n        int // bound on buffers out at once
	size     int
	reserved int
	out      int
	closed   bool
	bufs     []poolBuf // by BufID
	idle     []uint32  // the warmest last
}

type poolBuf struct {
	mem []byte
	out bool
}

func (d *domain) NewRecvPool(n, size int) (verbs.RecvPool, error) {
	if n <= 0 || size <= 0 {
		return nil, fmt.Errorf("loopback: receive pool of %d buffers of %d bytes", n, size)
	}
	return &pool{dom: d, n: n, size: size}, nil
}

func (p *pool) Reserve(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 0 || n > p.n-p.reserved {
		return fmt.Errorf("loopback: %d of %d receives asked for, %d reserved: %w", n, p.n, p.reserved, verbs.ErrNoReceives)
	}
	p.reserved += n
	return nil
}

func (p *pool) Unreserve(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 0 || n > p.reserved {
		panic(fmt.Sprintf("loopback: Unreserve of %d receives, %d are reserved", n, p.reserved))
	}
	p.reserved -= n
}

// draw takes a buffer for a message of need bytes.
func (p *pool) draw(need int) ([]byte, uint32, *fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.out == p.n || p.closed:
		return nil, 0, &noReceive
	case need > p.size:
		return nil, 0, &tooLong
	}
	p.out++
	var id uint32
	if k := len(p.idle); k > 0 {
		id, p.idle = p.idle[k-1], p.idle[:k-1]
	} else {
		id = uint32(len(p.bufs))
		p.bufs = append(p.bufs, poolBuf{})
	}
	b := &p.bufs[id]
	if len(b.mem) != p.size { // new, or from before a Resize
		b.mem = make([]byte, p.size)
	}
	b.out = true
	return b.mem[:need], id, nil
}

func (p *pool) Put(buf uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if int64(buf) >= int64(len(p.bufs)) || !p.bufs[buf].out {
		panic(fmt.Sprintf("loopback: Put of buffer %d, which is not out", buf))
	}
	p.bufs[buf].out = false
	p.out--
	if p.closed {
		p.bufs[buf].mem = nil
		return
	}
	p.idle = append(p.idle, buf)
}

func (p *pool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

func (p *pool) Resize(size int) error {
	if size <= 0 {
		return fmt.Errorf("loopback: receives of %d bytes", size)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = size
	return nil
}

func (p *pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, id := range p.idle {
		p.bufs[id].mem = nil
	}
	p.idle = nil
	return nil
}
