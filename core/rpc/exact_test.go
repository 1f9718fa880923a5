package rpc_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream/memory"
)

// counting counts the reads and writes of its streams.
type counting struct {
	stream.Network
	reads, writes atomic.Int64
}

type countingListener struct {
	stream.Listener
	n *counting
}

type countingStream struct {
	stream.Stream
	n *counting
}

// counter is iwarp-counted's network; each test gives it a fresh one.
var counter = new(counting)

func init() { verbs.Register("iwarp-counted", iwarp.New(counter)) }

func (n *counting) Dial(ctx context.Context, local, addr string) (stream.Stream, error) {
	s, err := n.Network.Dial(ctx, local, addr)
	if err != nil {
		return nil, err
	}
	return countingStream{s, n}, nil
}

func (n *counting) Listen(ctx context.Context, addr string) (stream.Listener, error) {
	l, err := n.Network.Listen(ctx, addr)
	if err != nil {
		return nil, err
	}
	return countingListener{l, n}, nil
}

func (l countingListener) Accept() (stream.Stream, error) {
	s, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingStream{s, l.n}, nil
}

func (s countingStream) Readv(v [][]byte) (int, error) {
	s.n.reads.Add(1)
	return s.Stream.Readv(v)
}

func (s countingStream) Writev(v [][]byte) (int, error) {
	s.n.writes.Add(1)
	return s.Stream.Writev(v)
}

// TestSystemCalls counts reads and writes of the stream, what would be system calls on a socket, at both
// ends together.
func TestSystemCalls(t *testing.T) {
	const rounds = 20
	for _, tc := range []struct {
		name          string
		callers       int
		delay         time.Duration // of the network; all else takes no time
		writes, reads float64       // a call, at most
	}{
		// Each end writes once. It reads once in vain, before it sleeps, and once to get the message.
		{"1 caller", 1, 0, 2, 4},
		// Many calls share them: without, there would be 2 and at least 2 as well.
		{"64 callers", 64, time.Millisecond, 0.25, 0.35},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				counter.Network = &memory.Network{Delay: tc.delay}
				f := serve(t, "iwarp-counted://127.0.0.1:0")
				c := dial(t, f.url)
				echo := func() {
					in, out := blob(pattern(64)), make(blob, 0, 64)
					if err := c.Call(context.Background(), procEcho, &in, &out, rpc.MaxReply(72)); err != nil {
						t.Error(err)
					}
				}
				echo() // the version is settled, and the credits are granted
				synctest.Wait()
				r, w := counter.reads.Load(), counter.writes.Load()
				for range rounds {
					var wg sync.WaitGroup
					for range tc.callers {
						wg.Go(echo)
					}
					wg.Wait()
				}
				calls := float64(rounds * tc.callers)
				writes, reads := float64(counter.writes.Load()-w)/calls, float64(counter.reads.Load()-r)/calls
				t.Logf("%.3f writes and %.3f reads a call", writes, reads)
				if writes > tc.writes {
					t.Errorf("%.3f writes a call, want at most %v", writes, tc.writes)
				}
				if reads > tc.reads {
					t.Errorf("%.3f reads a call, want at most %v", reads, tc.reads)
				}
			})
		})
	}
}
