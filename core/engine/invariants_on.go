//go:build invariants

package engine

import (
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/transport"
)

// With -tags invariants memory of chunks, receives and replies is poisoned as it comes back, and an endpoint that ends
// panics where anything is left in its pools, tables and lists.
const invariants = true

func (m *memory) poison() { transport.Poison(m.reg.Bytes()) }

// received is the memory of a receive, which is poisoned before it is posted again.
type received struct{ b []byte }

func receivedIn(b []byte) received { return received{b} }

func (r received) poison() { transport.Poison(r.b) }

// mustBeEmpty is called when nobody uses e any more.
func (e *Endpoint) mustBeEmpty() {
	if n := e.MemoryInUse(); n != 0 {
		panic(fmt.Sprintf("engine: %d bytes of memory in use at the end", n))
	}
}

// left counts what the end of a connection should have settled.
func (x *extensions) left() int {
	if x == nil {
		return 0
	}
	n := x.users + len(x.tokens) + x.out.waiting + len(x.out.known) + x.out.lent + x.ctl.held
	for _, s := range x.sessions {
		n += len(s.tasks)
	}
	return n
}

func (c *Conn) mustBeEmpty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls, requests := 0, 0
	for range c.calls.all() {
		calls++
	}
	for range c.requests.all() {
		requests++
	}
	for _, left := range []struct {
		what string
		n    int
	}{
		{"calls with work posted", calls}, {"requests", requests}, {"calls pending", c.pending.n},
		{"requests served", c.serving}, {"answers owed", c.owed}, {"credits in use", c.credits.inUse},
		{"send buffers out", c.sends.out}, {"works waiting", len(c.outbox)}, {"RDMA Reads waiting", c.readq.len()},
		{"orphans", c.orphans}, {"bytes of orphans", c.orphaned}, {"of its extensions' affairs", c.ext.left()},
	} {
		if left.n != 0 {
			panic(fmt.Sprintf("engine: connection %d ended with %d %s", c.id, left.n, left.what))
		}
	}
	if c.live.head != nil || c.waiting.head != nil || !c.down {
		panic("engine: a connection ended with calls that wait")
	}
}
