package loopback

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// memory is a domain's registrations.
type memory struct {
	mu     sync.Mutex
	closed bool
	idle   []*region            // released ones, for Register to reuse
	slabs  map[*region]struct{} // from Alloc
}

// region is registered memory. A released one has no bytes, so a work that still names it
// is refused.
type region struct {
	dom  *domain
	mem  []byte
	slab bool
}

func (r *region) Bytes() []byte { return r.mem }

func (r *region) Release() {
	if r.mem == nil {
		panic("loopback: region released twice")
	}
	m := &r.dom.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	mem := r.mem
	r.mem = nil
	if !r.slab {
		m.idle = append(m.idle, r)
		return
	}
	if _, ok := m.slabs[r]; ok { // else Close has freed it
		delete(m.slabs, r)
		unmap(mem)
	}
}

func (d *domain) Alloc(n int) (verbs.Region, error) {
	if n <= 0 {
		return nil, fmt.Errorf("loopback: Alloc of %d bytes", n)
	}
	mem, err := mapMemory(n)
	if err != nil {
		return nil, fmt.Errorf("loopback: Alloc of %d bytes: %w", n, err)
	}
	m := &d.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		unmap(mem)
		return nil, errDomainClosed
	}
	r := &region{dom: d, mem: mem, slab: true}
	if m.slabs == nil {
		m.slabs = map[*region]struct{}{}
	}
	m.slabs[r] = struct{}{}
	return r, nil
}

func (d *domain) Register(mem []byte) (verbs.Region, error) {
	if len(mem) == 0 {
		return nil, errors.New("loopback: Register of no memory")
	}
	m := &d.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errDomainClosed
	}
	var r *region
	if n := len(m.idle); n > 0 {
		r, m.idle = m.idle[n-1], m.idle[:n-1]
	} else {
		r = &region{dom: d}
	}
	r.mem = mem
	return r, nil
}

func (m *memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	var first error
	for r := range m.slabs {
		if err := unmap(r.mem); err != nil && first == nil {
			first = err
		}
	}
	clear(m.slabs)
	return first
}

// inside says whether n bytes from off lie in r and r belongs to d.
func (d *domain) inside(r verbs.Region, off, n int) bool {
	own, ok := r.(*region)
	if !ok || own == nil || own.dom != d {
		return false
	}
	return off >= 0 && n >= 0 && off <= len(own.mem) && n <= len(own.mem)-off
}
