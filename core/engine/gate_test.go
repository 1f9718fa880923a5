package engine

import (
	"context"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// openGate is an extension that gates connections, and opens each at once.
type openGate struct{ waiter }

func (openGate) Declare() ext.Declaration { return ext.Declaration{Name: "open", Gate: true} }

func (g openGate) Connect(c ext.Conn) ext.Session {
	c.Open()
	return g
}

// TestKnockIsPassedOn: whoever is woken to find out the version of a gated connection, and wants no more of its call, wakes
// who waits behind it.
func TestKnockIsPassedOn(t *testing.T) {
	s := newEchoServer(t, 0)
	e := endpoint(t, EndpointConfig{})
	c, err := e.Dial(context.Background(), s.addr, *extended(t, &Config{Credits: 8}, openGate{}))
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.knocking = true // as if another were at it
	c.mu.Unlock()
	first, cancel := context.WithCancel(context.Background())
	second, end := context.WithTimeout(context.Background(), time.Minute)
	defer end()
	done := []chan error{make(chan error, 1), make(chan error, 1)}
	for i, ctx := range []context.Context{first, second} {
		go func() {
			call := newTestCall(uint32(i+1), 10, make([]byte, 200))
			done[i] <- c.Do(ctx, call)
			call.Free()
		}()
		wait.For(t, "the call to wait", func() bool { return c.Counters().CreditWaits == uint64(i)+1 })
	}
	c.mu.Lock()
	c.knocking = false
	c.knockNext()
	cancel()
	c.mu.Unlock()
	if err := <-done[0]; err != context.Canceled {
		t.Errorf("the call that was cancelled: %v", err)
	}
	if err := <-done[1]; err != nil {
		t.Errorf("the call behind it: %v", err)
	}
}
