package rpc_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// TestAllocations: a small call with reused arguments and results allocates nothing on either
// side, nor does a bulk read into a buffer of the caller's, or a bulk write out of one.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties pools, which are then filled again
	for _, url := range []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0", "iwarp://127.0.0.1:0?crc=false"} {
		t.Run(url, func(t *testing.T) {
			f := serve(t, url)
			c := dial(t, f.url)
			bg := context.Background()
			in, out := blob(pattern(64)), make(blob, 0, 64)
			echo := func() {
				if err := c.Call(bg, procEcho, &in, &out); err != nil {
					t.Fatal(err)
				}
			}
			for range 100 {
				echo()
			}
			if n := testing.AllocsPerRun(2000, echo); n > 0 {
				t.Errorf("a call of 64 bytes: %v allocations", n)
			}
			buf, err := rpc.NewBuffer(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			defer buf.Free()
			args, res := readArgs(1<<20), bulk(nil)
			read := func() {
				if err := c.Call(bg, procRead, &args, &res, rpc.IntoBuffer(buf, 0, 1<<20)); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 {
				read()
			}
			if n := testing.AllocsPerRun(50, read); n > 0 {
				t.Errorf("a read of 1 MiB: %v allocations", n)
			}
			out1M, stored := fromBuffer{buf}, number(0)
			write := func() {
				if err := c.Call(bg, procWrite, &out1M, &stored); err != nil {
					t.Fatal(err)
				}
			}
			for range 20 {
				write()
			}
			if n := testing.AllocsPerRun(50, write); n > 0 {
				t.Errorf("a write of 1 MiB: %v allocations", n)
			}
		})
	}
}

// fromBuffer is opaque<>, eligible, in registered memory.
type fromBuffer struct{ b *rpc.Buffer }

func (f *fromBuffer) MarshalXDR(w *xdr.Writer) {
	w.BulkItem(xdr.Bulk{Data: f.b.Bytes(), Mem: f.b})
}

// TestAllocationsOfContexts: a context that may be cancelled costs its watcher, at whoever leads.
func TestAllocationsOfContexts(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, url := range []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0"} {
		t.Run(url, func(t *testing.T) {
			f := serve(t, url)
			c := dial(t, f.url)
			cctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			in, out := blob(pattern(64)), make(blob, 0, 64)
			echo := func() {
				if err := c.Call(cctx, procEcho, &in, &out); err != nil {
					t.Fatal(err)
				}
			}
			echo()
			if n := testing.AllocsPerRun(2000, echo); n > 2 {
				t.Errorf("a call of 64 bytes: %v allocations", n)
			}
			// Among 16 callers most follow.
			const callers, calls = 16, 500
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					in, out := blob(pattern(64)), make(blob, 0, 64)
					for range calls {
						if err := c.Call(cctx, procEcho, &in, &out); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			runtime.ReadMemStats(&after)
			n := float64(after.Mallocs-before.Mallocs) / (callers * calls)
			t.Logf("%.2f allocations a call among %d callers", n, callers)
			if n > 2.5 {
				t.Errorf("%.2f allocations a call among %d callers", n, callers)
			}
		})
	}
}

func BenchmarkEcho64(b *testing.B) {
	f := serve(b, "loopback://127.0.0.1:0")
	c := dial(b, f.url)
	bg := context.Background()
	in, out := blob(pattern(64)), make(blob, 0, 64)
	if err := c.Call(bg, procEcho, &in, &out); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Call(bg, procEcho, &in, &out); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSmall64 is the same with a reply that is known to fit, so that no chunk is offered: what
// a call costs at least.
func BenchmarkSmall64(b *testing.B) {
	f := serve(b, "loopback://127.0.0.1:0")
	c := dial(b, f.url)
	bg := context.Background()
	in, out := blob(pattern(64)), make(blob, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Call(bg, procEcho, &in, &out, rpc.MaxReply(72)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEcho64Parallel(b *testing.B) {
	f := serve(b, "loopback://127.0.0.1:0")
	c := dial(b, f.url)
	bg := context.Background()
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		in, out := blob(pattern(64)), make(blob, 0, 64)
		for pb.Next() {
			if err := c.Call(bg, procEcho, &in, &out); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
