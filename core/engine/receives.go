package engine

import (
	"fmt"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// ownReceives are a connection's own receives, where the device shares none.
type ownReceives struct {
	mu  sync.Mutex // guards what follows
	mem *Memory
	n   int
	one [1]verbs.Recv // what put posts
}

// postOwn posts every receive of the connection; c.mu is held.
func (in *inbound) postOwn(vc verbs.Conn) error {
	c := in.c
	size := c.ep.size
	mem, err := c.ep.GetMemory(c.reserved * size)
	if err != nil {
		return fmt.Errorf("receives: %w", err)
	}
	in.own.mem, in.own.n = mem, c.reserved
	rs := make([]verbs.Recv, c.reserved)
	for i := range rs {
		rs[i] = verbs.Recv{ID: uint64(i), Seg: verbs.Seg{R: mem.reg, Off: i * size, N: size}}
	}
	n, err := vc.PostRecv(rs)
	if err == nil && n < len(rs) {
		err = fmt.Errorf("only %d of %d receives could be posted", n, len(rs))
	}
	if err != nil {
		mem.Free()
		in.own.mem = nil
	}
	return err
}

// put posts receive i again. After the end of the connection it does nothing.
func (o *ownReceives) put(vc verbs.Conn, i uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mem == nil {
		return
	}
	size := len(o.mem.b) / o.n
	o.one[0] = verbs.Recv{ID: uint64(i), Seg: verbs.Seg{R: o.mem.reg, Off: int(i) * size, N: size}}
	vc.PostRecv(o.one[:])
}

// close frees the receives: the connection has ended, and nobody holds a view into them.
func (in *inbound) close() {
	o := &in.own
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mem != nil {
		o.mem.Free()
		o.mem = nil
	}
}
