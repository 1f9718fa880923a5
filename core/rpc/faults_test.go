package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/test/faults"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

var schemes atomic.Int64

// faulty registers loopback with faults under a scheme of its own.
func faulty(t *testing.T, plan faults.Plan) (url string, p *faults.Provider) {
	inner, _ := verbs.Lookup("loopback")
	p = faults.Wrap(t, inner, plan)
	scheme := fmt.Sprintf("faults%d", schemes.Add(1))
	verbs.Register(scheme, p)
	return scheme + "://127.0.0.1:0", p
}

// TestFaults: completions come late and overtake one another, connections are cut and works fail: no call
// is lost, none gets another's bytes, and nobody touches memory that was given back.
func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name string
		plan faults.Plan
		opts rpc.ConnOption
	}{
		{"late", faults.Plan{Late: 2 * time.Millisecond, LateFlush: time.Millisecond, Reorder: true}, none},
		{"late, few credits", faults.Plan{Late: 2 * time.Millisecond, Reorder: true}, rpc.WithCredits(2)},
		{"late, short queue", faults.Plan{Late: time.Millisecond, Reorder: true, Queue: 2}, none},
		{"late, no driver, version 1", faults.Plan{Late: time.Millisecond, Reorder: true, NoDriver: true}, rpc.WithVersions(1, 1)},
		{"late, no detach", faults.Plan{Late: time.Millisecond, Reorder: true, NoDetach: true}, rpc.WithCancelWait(time.Millisecond)},
		{"cut", faults.Plan{Late: time.Millisecond, CutEvery: 400, SlowDial: time.Millisecond, RefuseEvery: 10}, none},
		{"cut soon", faults.Plan{Late: 2 * time.Millisecond, CutWithin: 20 * time.Millisecond}, none},
		{"fail", faults.Plan{Late: time.Millisecond, Reorder: true, FailEvery: 400}, none},
		{"all of it", faults.Plan{Late: time.Millisecond, LateFlush: time.Millisecond, Reorder: true, FailEvery: 800, CutEvery: 800, Queue: 4}, none},
		{"all of it, no detach", faults.Plan{Late: time.Millisecond, Reorder: true, FailEvery: 800, CutEvery: 800, NoDetach: true, NoDriver: true},
			rpc.ConnOptions(rpc.WithCancelWait(time.Millisecond), rpc.WithVersions(1, 1))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				url, p := faulty(t, tc.plan)
				f := serve(t, url, tc.opts)
				c := dial(t, f.url, tc.opts, rpc.WithRetransmits(1000), rpc.WithLossLimit(1000))
				var cancelled atomic.Int64
				var wg sync.WaitGroup
				for g := range 32 {
					wg.Go(func() { trouble(t, c, uint64(g), &cancelled) })
				}
				wg.Wait()
				wait.For(t, "the orphans", func() bool { return c.Counters().Outstanding == 0 })
				if n := c.Counters(); n.BadInvalidate != 0 {
					t.Errorf("%+v", n)
				}
				t.Logf("%d cancelled; %+v", cancelled.Load(), p.Done())
			})
		})
	}
}

// trouble makes calls, and cancels some of them.
func trouble(t *testing.T, c *rpc.Client, seed uint64, cancelled *atomic.Int64) {
	rng := rand.New(rand.NewPCG(5, seed))
	area := make([]byte, 20_000+128)
	for range 30 {
		n := rng.IntN(20_000)
		for i := range area {
			area[i] = 0x5c
		}
		dst, want := area[64:64+n:64+n], pattern(n)
		cctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		doomed := rng.IntN(4) == 0
		if doomed {
			time.AfterFunc(time.Duration(rng.IntN(2000))*time.Microsecond, cancel)
		}
		var err error
		switch rng.IntN(3) {
		case 0:
			var res bulk
			if err = c.Call(cctx, procRead, readArgs(n), &res, rpc.Into(dst)); err == nil && !bytes.Equal(res, want) {
				t.Errorf("read of %d bytes: wrong ones", n)
			}
		case 1:
			var s number
			if err = c.Call(cctx, procWrite, bulk(want), &s); err == nil && uint32(s) != sum(want) {
				t.Errorf("write of %d bytes: wrong ones", n)
			}
		default:
			var got blob
			if err = c.Call(cctx, procEcho, blob(want), &got, rpc.MaxReply(n+8)); err == nil && !bytes.Equal(got, want) {
				t.Errorf("echo of %d bytes: wrong ones", n)
			}
		}
		cancel()
		clear(want)
		if err != nil {
			for i := range area {
				area[i] = 0x5c
			}
			time.Sleep(100 * time.Microsecond)
			for i := range area {
				if area[i] != 0x5c {
					t.Errorf("byte %d of %d was written after the return", i, n)
					break
				}
			}
		}
		switch {
		case doomed && errors.Is(err, context.Canceled):
			cancelled.Add(1)
		case errors.Is(err, syscall.ECONNREFUSED): // a connection at the call's start, which the plan refused
		case errors.Is(err, transport.ErrRefused): // it was sent again after the plan had let its chunks fail (D-41)
		case err != nil:
			t.Errorf("a call of %d bytes: %v", n, err)
		}
	}
}
