package iwarp

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// memory is a domain's registrations. Software needs no pinning: a registration is a
// name for memory that works may use.
type memory struct {
	mu     sync.Mutex
	closed bool
	idle   []*region            // released, for Register
	slabs  map[*region]struct{} // from Alloc
}

// region is registered memory; a released one has no bytes, so that a work which still
// names it is refused.
type region struct {
	dom  *domain
	mem  []byte
	slab bool
}

func (r *region) Bytes() []byte { return r.mem }

func (r *region) Release() {
	if r.mem == nil {
		panic("iwarp: region released twice")
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
		_ = unmapMemory(mem) // it was mapped
	}
}

// Alloc implements verbs.Domain.
func (d *domain) Alloc(n int) (verbs.Region, error) {
	if n <= 0 {
		return nil, fmt.Errorf("iwarp: Alloc of %d bytes", n)
	}
	mem, err := mapMemory(n)
	if err != nil {
		return nil, fmt.Errorf("iwarp: Alloc of %d bytes: %w", n, err)
	}
	m := &d.mem
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = unmapMemory(mem)
		return nil, errDomainClosed
	}
	r := &region{dom: d, mem: mem, slab: true}
	m.slabs[r] = struct{}{}
	return r, nil
}

// Register implements verbs.Domain.
func (d *domain) Register(mem []byte) (verbs.Region, error) {
	if len(mem) == 0 {
		return nil, errors.New("iwarp: Register of no memory")
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

// close frees every slab: nothing of the domain runs any more.
func (m *memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	var errs []error
	for r := range m.slabs {
		errs = append(errs, unmapMemory(r.mem))
	}
	clear(m.slabs)
	return errors.Join(errs...)
}

// inside says that n bytes from off lie in r, and that r is d's.
func (d *domain) inside(r verbs.Region, off, n int) bool {
	own, ok := r.(*region)
	return ok && own != nil && own.dom == d && off >= 0 && n >= 0 && off <= len(own.mem) && n <= len(own.mem)-off
}
