package rpc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// TestFencedEvents: every window that was exposed is recorded as fenced, after the reply and before its call ends.
func TestFencedEvents(t *testing.T) {
	for _, tr := range transports {
		if !rdma(tr.name) {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			events := make(recorder, 1000)
			f := serve(t, tr.url, tr.opts)
			c := dial(t, f.url, rpc.WithRecorder(events), tr.opts)
			for _, n := range []int{1, 5000, 100_000} {
				var res bulk
				if err := c.Call(ctx(t), procRead, readArgs(n), &res, rpc.Into(make([]byte, n))); err != nil {
					t.Fatal(err)
				}
				if err := c.Call(ctx(t), procWrite, bulk(pattern(n)), new(number)); err != nil {
					t.Fatal(err)
				}
			}
			short, cancel := context.WithCancel(ctx(t))
			go func() { <-f.inside; cancel() }()
			if err := c.Call(short, procWait, bulk(pattern(9000)), new(bulk), rpc.Into(make([]byte, 9000))); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			close(f.wait)
			wait.For(t, "the orphan's reply", func() bool { return c.Counters().Outstanding == 0 })
			n := c.Counters()
			c.Close()
			var segs, peers uint64
			last := map[uint32]obs.Kind{}
			for len(events) > 0 {
				e := <-events
				switch was := last[e.XID]; e.Kind {
				case obs.Fenced:
					segs += uint64(e.Segs)
					peers += uint64(e.Arg)
					if was != obs.ReplyRecv && was != obs.CallCancel && was != obs.CallDone {
						t.Errorf("fenced after %d", was)
					}
				case obs.CallDone:
					if was == obs.CallSent {
						t.Errorf("done after %d", was)
					}
				case obs.CallSent, obs.ReplyRecv, obs.CallCancel:
				default:
					continue
				}
				last[e.XID] = e.Kind
			}
			if n.Exposed == 0 || segs != n.Exposed || peers != n.RemoteInv {
				t.Errorf("%d windows fenced, %d of them by the peer; the counters are %+v", segs, peers, n)
			}
		})
	}
}
