package rpc_test

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/test/memory"
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

func (n *counting) Listen(ctx context.Context, addr string, admit func(netip.Addr) bool) (stream.Listener, error) {
	l, err := n.Network.Listen(ctx, addr, admit)
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
		// Many calls share them: without, there would be 2 and at least 2 as well. How many is the scheduler's doing, too: on an
		// idle machine 0.1 to 0.2, on a busy one, with the race detector, up to 0.3.
		{"64 callers", 64, time.Millisecond, 0.5, 0.6},
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

// TestCopiedBytes counts what is copied of a MiB that travels by chunk: at the engine, which puts messages together in send
// buffers, nothing of it; at the provider what came in one read with the header of its frame.
func TestCopiedBytes(t *testing.T) {
	const n = 1 << 20
	for _, tc := range []struct {
		name             string
		inline, provider uint64 // bytes at the client, at most
		call             func(*rpc.Client) error
	}{
		{"read", 128, n / 8, func(c *rpc.Client) error {
			return c.Call(context.Background(), procRead, readArgs(n), new(bulk), rpc.Into(make([]byte, n)))
		}},
		{"write", 128, 2048, func(c *rpc.Client) error {
			return c.Call(context.Background(), procWrite, bulk(make([]byte, n)), new(number))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				counter.Network = new(memory.Network)
				c := dial(t, serve(t, "iwarp-counted://127.0.0.1:0?mtu=65500").url+"?mtu=65500")
				counts := func() (inline, copied, placed uint64) {
					if err := tc.call(c); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					var s verbs.Stats
					c.Conns()[0].Fabric(&s)
					n := c.Counters()
					return n.InlineBytes, s.CopiedBytes, n.ReadBytes + n.WriteBytes
				}
				i, p, m := counts() // the version is settled
				inline, copied, placed := counts()
				inline, copied, placed = inline-i, copied-p, placed-m
				t.Logf("%d bytes in messages, %d copied by the provider", inline, copied)
				if placed != n || inline > tc.inline || copied > tc.provider {
					t.Errorf("%d bytes placed, %d in messages, %d copied by the provider; want %d, at most %d and %d", placed, inline, copied, n, tc.inline, tc.provider)
				}
			})
		})
	}
}
