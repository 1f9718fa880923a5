package soak

import (
	"fmt"
	"sync"
)

// Book takes down what must not happen.
type Book struct {
	mu     sync.Mutex
	faults []string
	more   int
}

// mostFaults is how many are kept; the first ones tell most.
const mostFaults = 20

func (b *Book) errorf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.faults) == mostFaults {
		b.more++
		return
	}
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

// Faults are what went wrong, in order.
func (b *Book) Faults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.more > 0 {
		return append(b.faults, fmt.Sprintf("and %d more", b.more))
	}
	return b.faults
}
