package rpc_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// TestGrantsFollowLoad: where calls wait for workers replies grant fewer credits, and more again when that is over.
func TestGrantsFollowLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, "loopback://127.0.0.1:0", rpc.WithWorkers(4), rpc.WithCredits(32))
		c, other := dial(t, f.url, rpc.WithCredits(32)), dial(t, f.url, rpc.WithCredits(32))
		echo := func() uint64 {
			if err := other.Call(t.Context(), procEcho, blob("x"), nil); err != nil {
				t.Fatal(err)
			}
			return other.Counters().Granted
		}
		if n := echo(); n != 32 {
			t.Errorf("%d granted at first", n)
		}
		if err := c.Call(t.Context(), procEcho, blob("x"), nil); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := c.Call(t.Context(), procWait, bulk(nil), nil); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(50 * time.Second)
		if n := echo(); n != 1 {
			t.Errorf("%d granted under load", n)
		}
		close(f.wait)
		wg.Wait()
		time.Sleep(time.Minute)
		if n := echo(); n != 32 {
			t.Errorf("%d granted when it is over", n)
		}
	})
}

// TestFewReceives: connections that come when receives are short work with fewer credits.
func TestFewReceives(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithCredits(1<<14))
	full := uint64(1 << 14) // seven such leave 16342 of 131072 receives
	for i, want := range []uint64{full, full, full, full, full, full, full, 1 << 13, 1 << 12} {
		c := dial(t, f.url, rpc.WithCredits(1<<14), rpc.WithEndpoints(rpc.NewEndpoints())) // seven use up an endpoint's receives
		if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
			t.Fatal(err)
		}
		if n := c.Counters().Granted; n != want {
			t.Errorf("connection %d has %d credits, want %d", i+1, n, want)
		}
	}
}
