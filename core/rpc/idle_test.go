package rpc_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

// TestIdleConnections: what an idle connection holds of the heap, at both ends together, once it has been
// used. Beside it there are 12 KiB of stacks, and 8 KiB of registered memory that messages left in.
func TestIdleConnections(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector takes memory too")
	}
	const conns, limit = 300, 56 << 10
	f := serve(t, "iwarp://127.0.0.1:0")
	used := func() int {
		runtime.GC()
		runtime.GC() // what pools keep goes with the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	call := func(c *rpc.Client) {
		in, out := blob(pattern(64)), make(blob, 0, 64)
		if err := c.Call(context.Background(), procEcho, &in, &out, rpc.MaxReply(72)); err != nil {
			t.Fatal(err)
		}
	}
	call(dial(t, f.url))
	before := used()
	c := dial(t, f.url, rpc.WithConnections(conns))
	if err := c.Connect(context.Background()); err != nil {
		t.Fatal(err)
	}
	for range 2 * conns {
		call(c)
	}
	each := (used() - before) / conns
	t.Logf("%d bytes a connection", each)
	if each > limit {
		t.Errorf("%d bytes a connection, want at most %d", each, limit)
	}
}
