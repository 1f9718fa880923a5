package engine

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// blameList remembers calls whose chunks named memory that their requester refused us. That
// ended their connection (RFC 8166 §4.5.3); a requester that sends such a call again on a new one would
// end that as well, for ever: it is answered with an error instead, once (D-41).
type blameList struct {
	n     atomic.Int32 // of calls; most endpoints never look further
	mu    sync.Mutex
	calls map[blamedCall]time.Time
}

type blamedCall struct {
	from netip.Addr
	xid  uint32
}

const (
	blameMost   = 256
	blameMemory = time.Minute
)

func (e *Endpoint) blame(c *Conn, r *request) {
	b := &e.blames
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls == nil || len(b.calls) >= blameMost {
		b.calls = make(map[blamedCall]time.Time)
	}
	b.calls[blamedCall{c.RemoteAddr().Addr(), r.Header.XID}] = time.Now()
	b.n.Store(int32(len(b.calls)))
}

// blamed tells whether the call of that XID is one of them, and forgets it.
func (e *Endpoint) blamed(c *Conn, xid uint32) bool {
	b := &e.blames
	if b.n.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k := blamedCall{c.RemoteAddr().Addr(), xid}
	at, ok := b.calls[k]
	delete(b.calls, k)
	b.n.Store(int32(len(b.calls)))
	return ok && time.Since(at) < blameMemory
}
