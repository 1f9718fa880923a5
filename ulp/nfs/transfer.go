package nfs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// Transfer says how a whole file is moved. The zero value is good.
type Transfer struct {
	Window int // READs or WRITEs in flight; 0: 8
	Chunk  int // bytes of each; 0: what the server prefers, at most nfs3.MaxData

	// Progress, if not nil, is told how much is done; never by two goroutines at once.
	Progress func(done, total int64)
}

const (
	defaultWindow = 8
	minChunk      = 512
)

// shape settles window and chunk for size bytes, with the server's preference and limit.
func (t Transfer) shape(size int64, pref, most uint32) (window int, chunk int64) {
	n := int64(t.Chunk)
	if n <= 0 {
		n = int64(pref)
	}
	if most > 0 {
		n = min(n, int64(most))
	}
	n = max(min(n, nfs3.MaxData), minChunk)
	n = min(n, max(size, 1)) // memory is touched before it is used
	w := t.Window
	if w <= 0 {
		w = defaultWindow
	}
	return int(min(int64(w), max(chunks(size, n), 1))), n
}

func chunks(size, chunk int64) int64 { return (size + chunk - 1) / chunk }

// move runs work on the chunks 0…n-1, or those that want accepts, window at a time, each worker
// with a buffer of its own. The first error ends it.
func move(ctx context.Context, window int, n, chunk int64, want func(i int64) bool, work func(ctx context.Context, i int64, b *rpc.Buffer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range window {
		workers.Go(func() {
			b, err := rpc.NewBuffer(int(chunk))
			if err != nil {
				cancel(err)
				return
			}
			defer b.Free()
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= n {
					return
				}
				if want != nil && !want(i) {
					continue
				}
				if err := work(ctx, i, b); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// meter counts what is done.
type meter struct {
	mu    sync.Mutex
	tell  func(done, total int64)
	done  int64
	total int64
}

func (m *meter) add(n int64) {
	if m.tell == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	m.tell(m.done, m.total)
}

// partName is the name of a file while it is being written: hidden, and of a length of its
// own, so that a long final name has room.
func partName(random [8]byte) string { return fmt.Sprintf(".rpcrdma-%x.part", random) }
