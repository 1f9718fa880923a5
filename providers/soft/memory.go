package soft

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/pages"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Memory is a protection domain's registrations. Software needs no pinning: a registration
// is a name for memory that works may use. The zero value with its two fields set is ready.
type Memory struct {
	Provider string // whose errors these are
	Closed   error  // what is returned after Close

	mu     sync.Mutex // guards what follows
	closed bool
	idle   []*region            // released, for Register
	slabs  map[*region]struct{} // from Alloc
}

// region is registered memory; a released one has no bytes, so that a work which still
// names it is refused.
type region struct {
	dom  *Memory
	mem  []byte
	slab bool
}

func (r *region) Bytes() []byte { return r.mem }

func (r *region) Release() {
	m := r.dom
	if r.mem == nil {
		panic(m.Provider + ": region released twice")
	}
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
		_ = pages.Free(mem) // it was mapped
	}
}

// Alloc is verbs.Domain's.
func (m *Memory) Alloc(n int) (verbs.Region, error) {
	if n <= 0 {
		return nil, fmt.Errorf("%s: Alloc of %d bytes", m.Provider, n)
	}
	mem, err := pages.Alloc(n)
	if err != nil {
		return nil, fmt.Errorf("%s: Alloc of %d bytes: %w", m.Provider, n, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		_ = pages.Free(mem)
		return nil, m.Closed
	}
	r := &region{dom: m, mem: mem, slab: true}
	if m.slabs == nil {
		m.slabs = map[*region]struct{}{}
	}
	m.slabs[r] = struct{}{}
	return r, nil
}

// Register is verbs.Domain's. It reuses what was released, and so allocates nothing in the
// steady state.
func (m *Memory) Register(mem []byte) (verbs.Region, error) {
	if len(mem) == 0 {
		return nil, errors.New(m.Provider + ": Register of no memory")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, m.Closed
	}
	var r *region
	if n := len(m.idle); n > 0 {
		r, m.idle = m.idle[n-1], m.idle[:n-1]
	} else {
		r = &region{dom: m}
	}
	r.mem = mem
	return r, nil
}

// Close frees every slab: nothing of the domain runs any more.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	var errs []error
	for r := range m.slabs {
		errs = append(errs, pages.Free(r.mem))
	}
	clear(m.slabs)
	return errors.Join(errs...)
}

// Inside says that n bytes from off lie in r, and that r is of this domain.
func (m *Memory) Inside(r verbs.Region, off, n int) bool {
	own, ok := r.(*region)
	return ok && own != nil && own.dom == m && off >= 0 && n >= 0 && off <= len(own.mem) && n <= len(own.mem)-off
}
