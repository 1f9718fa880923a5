package rpc_test

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

// TestSlowCallsOfOne: a connection, and then many of one address, whose calls never end leave workers for others.
func TestSlowCallsOfOne(t *testing.T) {
	for _, scheme := range []string{"loopback", "tcp"} {
		t.Run(scheme, func(t *testing.T) {
			f := serve(t, scheme+"://127.0.0.1:0", rpc.WithWorkers(16), rpc.WithCredits(64))
			defer close(f.wait)
			slow := func(local string, calls int) {
				c := dial(t, f.url+"?local="+local, rpc.WithCredits(64))
				if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
					t.Fatal(err)
				}
				for range calls {
					go c.Call(ctx(t), procWait, bulk(nil), nil)
				}
			}
			quick := func(local string) {
				t.Helper()
				c := dial(t, f.url+"?local="+local)
				for range 20 {
					if err := c.Call(ctx(t), procWrite, bulk("x"), nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			slow("127.0.0.2", 60)
			for range 4 {
				<-f.inside
			}
			quick("127.0.0.2") // another connection of the same address
			for range 5 {
				slow("127.0.0.2", 60)
			}
			for range 4 {
				<-f.inside
			}
			quick("127.0.0.3")
		})
	}
}
