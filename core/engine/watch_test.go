package engine

import (
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/watch"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// TestSendsBehindReads: on a slow link a Send waits for the answer to the peer's Read before it.
func TestSendsBehindReads(t *testing.T) {
	cfg := Config{KeepAlive: -1}.withDefaults()
	c := &Conn{cfg: cfg, client: true}
	c.watch, c.period, _ = cfg.newWatch()
	large := &call{head: wire.Header{Lists: wire.Lists{Reads: []wire.ReadSegment{
		{Position: 76, Segment: wire.Segment{Length: 8 << 20}}, {Position: 76, Segment: wire.Segment{Length: 8 << 20}},
	}}}}
	at := c.calls.add(large)
	c.calls.add(new(call))
	c.sends.out = 1
	last := func() (v watch.Verdict, ticks int) {
		for v == watch.None && ticks < 1000 {
			v = c.watch.Step(c.activity())
			ticks++
		}
		return v, ticks
	}
	most := int((60 + 16<<20/watch.Slowest) * time.Second / c.period)
	if v, n := last(); v != watch.Stall || n < most {
		t.Errorf("verdict %d after %d ticks, want a stall after %d", v, n, most)
	}
	c.calls.remove(at)
	stall := watch.Ticks(cfg.StallTimeout, c.period)
	c.watch, _, _ = cfg.newWatch()
	if v, n := last(); v != watch.Stall || n > stall+2 {
		t.Errorf("verdict %d after %d ticks, want a stall after %d", v, n, stall)
	}
}
