package transport

import (
	"sync"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Memory is memory that implementations reach without preparing it for each call: a user's, which each of them registers
// on first use and keeps registered until Free, or one's own, from its pool.
type Memory struct {
	b     []byte
	owner Owner  // of memory from a pool; nil: a user's
	free  func() // Free, bound once
	unmap func() // of NewMemory

	mu   sync.Mutex // guards regs
	regs []registered
}

// Owner is the pool that memory comes from.
type Owner interface {
	// Recycle takes the memory back.
	Recycle()
}

// Registrar keeps users' memory registered. Its dynamic type is a pointer: registrars are compared.
type Registrar interface {
	// Register makes the registration of m, and notes that m has one.
	Register(m *Memory) (Registration, error)
	// Forget reports whether the registration of m still stands, and is now the caller's to release.
	Forget(m *Memory) bool
}

// Registration is what a Registrar keeps of one memory.
type Registration interface{ Release() }

type registered struct {
	by  Registrar
	reg Registration
}

// NewMemory makes Memory of b, which must stay allocated until Free; free, if not nil, is
// called at its end.
func NewMemory(b []byte, free func()) *Memory {
	m := &Memory{b: b, unmap: free}
	m.free = m.Free
	return m
}

// Init makes m memory of a pool, once.
func (m *Memory) Init(owner Owner) {
	m.owner = owner
	m.free = m.Free
}

// SetBytes is for the owner, who sets what Bytes returns each time that it hands m out.
func (m *Memory) SetBytes(b []byte) { m.b = b }

// Owner is the pool that m comes from, nil for a user's memory.
func (m *Memory) Owner() Owner { return m.owner }

// Bulk is the first n bytes as a bulk item of a message; it frees m when the message
// is done with.
func (m *Memory) Bulk(n int) xdr.Bulk { return xdr.Bulk{Data: m.b[:n], Mem: m, Release: m.free} }

// Bytes is the memory.
func (m *Memory) Bytes() []byte { return m.b }

// Free gives the memory back: to its pool, or ends the registrations.
func (m *Memory) Free() {
	if m.owner != nil {
		m.owner.Recycle()
		return
	}
	m.mu.Lock()
	regs := m.regs
	m.regs = nil
	m.mu.Unlock()
	for _, r := range regs {
		if r.by.Forget(m) {
			r.reg.Release()
		}
	}
	if m.unmap != nil {
		m.unmap()
	}
}

// Registered is the registration of a user's memory with by, made on first use.
func (m *Memory) Registered(by Registrar) (Registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.regs {
		if m.regs[i].by == by {
			return m.regs[i].reg, nil
		}
	}
	reg, err := by.Register(m)
	if err != nil {
		return nil, err
	}
	m.regs = append(m.regs, registered{by, reg})
	return reg, nil
}

// Unregister ends the registration with by, which ends, if there is one.
func (m *Memory) Unregister(by Registrar) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range m.regs {
		if r.by == by {
			m.regs = append(m.regs[:i], m.regs[i+1:]...)
			r.reg.Release()
			return
		}
	}
}
