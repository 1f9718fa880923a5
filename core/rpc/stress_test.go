package rpc_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

// TestNobodyIsForgotten: under 64 callers a batch may hold exactly as many completions as fit in
// one; whoever reads for the others must notice its own among them.
func TestNobodyIsForgotten(t *testing.T) {
	small := &rpc.Proc{Program: program, Version: 1, Number: 1, Name: "ECHO"}
	small.Binding.MaxReply = 100
	for _, url := range []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0"} {
		t.Run(url, func(t *testing.T) {
			for range 8 {
				f := serve(t, url)
				c := dial(t, f.url)
				done := make(chan struct{})
				go func() {
					defer close(done)
					var wg sync.WaitGroup
					for range 64 {
						wg.Go(func() {
							in, out := blob(pattern(64)), make(blob, 0, 64)
							for range 400 {
								if err := c.Call(context.Background(), small, &in, &out); err != nil {
									t.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
				}()
				select {
				case <-done:
				case <-time.After(5 * time.Minute):
					t.Fatalf("a caller waits for ever: %+v", c.Counters())
				}
			}
		})
	}
}
