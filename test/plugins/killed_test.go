package plugins_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// TestKilled: plugins that are killed with -9 on both sides, among 64 callers and while operations of theirs are on their
// way, do not cost one plain RPC; they run again, and new connections have them.
func TestKilled(t *testing.T) {
	for _, url := range []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0"} {
		t.Run(url[:5], func(t *testing.T) {
			here, there := load(t, io.Discard, plugin(t, "busy")), load(t, io.Discard, plugin(t, "busy"))
			url := serve(t, url, rpc.WithExtensions(there.Set()))
			c := dial(t, url, rpc.WithExtensions(here.Set()))
			var calls, failed atomic.Uint64
			var wg sync.WaitGroup
			stop := make(chan struct{})
			end := sync.OnceFunc(func() { close(stop); wg.Wait() })
			defer end()
			for range 64 {
				wg.Go(func() {
					in, out := make(blob, 64), make(blob, 0, 64)
					for {
						select {
						case <-stop:
							return
						default:
						}
						if err := c.Call(context.Background(), echo, &in, &out); err != nil {
							failed.Add(1)
							t.Error(err)
							return
						}
						calls.Add(1)
					}
				})
			}
			more := func(what string) {
				t.Helper()
				from := calls.Load()
				wait.For(t, what, func() bool { return calls.Load() > from+1000 || failed.Load() > 0 })
			}
			more("calls")
			for i, side := range []*extensions.Loaded{here, there} {
				before := side.Health()[0].Plugin
				wait.For(t, "the plugin's connection", func() bool { return side.Health()[0].Plugin.Connections == 1 })
				if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				more("calls without it")
				wait.For(t, "another process", func() bool {
					h := side.Health()[0].Plugin
					return h.Restarts == 1 && h.PID != 0 && h.PID != before.PID
				})
				if h := side.Health()[0].Plugin; h.Connections != 0 {
					t.Errorf("side %d: the process after the first has %d of its connections", i, h.Connections)
				}
				more("calls with another")
			}
			second := dial(t, url, rpc.WithExtensions(here.Set()))
			in, out := make(blob, 64), make(blob, 0, 64)
			if err := second.Call(context.Background(), echo, &in, &out); err != nil {
				t.Fatal(err)
			}
			wait.For(t, "a new connection of the new processes", func() bool {
				return here.Health()[0].Plugin.Connections == 1 && there.Health()[0].Plugin.Connections == 1
			})
			end()
			if n := failed.Load(); n > 0 {
				t.Errorf("%d of %d calls failed", n, calls.Load())
			}
		})
	}
}
