package load

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/cli/bench"
)

// Run asks for one measurement.
type Run struct {
	Op      Op  `json:"op"`
	N       int `json:"n"`
	Callers int `json:"callers"`
	MS      int `json:"ms"`
}

// Result is what a client measured. Latencies are in nanoseconds.
type Result struct {
	Ops     int64  `json:"ops"`
	NS      int64  `json:"ns"`
	P50     int64  `json:"p50"`
	P99     int64  `json:"p99"`
	P999    int64  `json:"p999"`
	Mallocs uint64 `json:"mallocs"`
	Bytes   uint64 `json:"bytes"` // allocated
	Error   string `json:"error,omitempty"`
}

// caller is one goroutine's counts, on cache lines of its own.
type caller struct {
	hist bench.Hist
	ops  int64
	err  error
	_    [64]byte
}

// Drive keeps r.Callers callers of p busy for r.MS milliseconds.
func Drive(p Peer, r Run) Result {
	ctx, d := context.Background(), time.Duration(r.MS)*time.Millisecond
	callers := make([]caller, r.Callers)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	start := time.Now()
	for w := range callers {
		wg.Go(func() {
			c := &callers[w]
			for last := time.Since(start); last < d; c.ops++ {
				if c.err = p.Do(ctx, r.Op, w, r.N); c.err != nil {
					return
				}
				now := time.Since(start)
				c.hist.Add(now - last)
				last = now
			}
		})
	}
	wg.Wait()
	res := Result{NS: int64(time.Since(start))}
	runtime.ReadMemStats(&after)
	sum := &callers[0].hist
	for w := range callers {
		c := &callers[w]
		res.Ops += c.ops
		if c.err != nil && res.Error == "" {
			res.Error = c.err.Error()
		}
		if w > 0 {
			sum.Merge(&c.hist)
		}
	}
	res.P50, res.P99, res.P999 = int64(sum.Quantile(.5)), int64(sum.Quantile(.99)), int64(sum.Quantile(.999))
	res.Mallocs, res.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return res
}
