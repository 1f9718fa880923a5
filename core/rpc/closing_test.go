package rpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/loopback"
)

// A client's Close ends what keeps its calls waiting for a connection, and they report that it was closed.

// slow is the loopback provider, whose Open takes until it is let.
type slow struct {
	verbs.Provider
	entered, let chan struct{}
}

func (p *slow) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	p.entered <- struct{}{}
	select {
	case <-p.let:
		return p.Provider.Open(ctx, local, options)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// closes fails the test if c.Close waits.
func closes(t *testing.T, c *rpc.Client) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Close: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Close still waits after 10 s")
	}
}

// ended fails the test if a call goes on, or ends without ErrClosed.
func ended(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if !errors.Is(err, rpc.ErrClosed) || errors.Is(err, context.Canceled) { // nobody canceled the caller's context
			t.Errorf("the call ended with %v, want ErrClosed alone", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the call goes on 10 s after Close")
	}
}

func inBackground(t *testing.T, c *rpc.Client) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.Connect(ctx(t)) }()
	return done
}

// TestCloseWhileAnotherOpens: a client that waits for the domain that another opens can be closed meanwhile, and so can the
// one that opens it.
func TestCloseWhileAnotherOpens(t *testing.T) {
	p := &slow{loopback.Provider{}, make(chan struct{}, 8), make(chan struct{})}
	r := rpc.WithResolver(&chosen{dial: []rpc.Route{through(p, "slow", "127.0.0.1:1")}})
	a, b := dial(t, anywhere, r), dial(t, anywhere, r)
	opening := inBackground(t, a)
	<-p.entered
	waiting := inBackground(t, b)
	time.Sleep(20 * time.Millisecond) // until it waits for its turn, or else connects too late, with the same result
	closes(t, b)
	ended(t, waiting)
	closes(t, a)
	ended(t, opening)
	close(p.let)
}

// stuck is a resolver that answers when its context ends.
type stuck struct {
	chosen
	entered chan struct{}
}

func (r *stuck) DialRoutes(ctx context.Context, _ rpc.Target) ([]rpc.Route, error) {
	r.entered <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestCloseWhileResolving(t *testing.T) {
	r := &stuck{entered: make(chan struct{}, 8)}
	c := dial(t, anywhere, rpc.WithResolver(r))
	done := inBackground(t, c)
	<-r.entered
	closes(t, c)
	ended(t, done)
	if err := ask(t, c); !errors.Is(err, rpc.ErrClosed) || len(r.entered) > 0 {
		t.Errorf("a call of a closed client: %v, and the resolver was called %d times", err, len(r.entered))
	}
}

// TestCloseWhileDialling: by a provider that reports its own error when it is interrupted, as most do.
func TestCloseWhileDialling(t *testing.T) {
	p, dialling := newPatchy(), make(chan struct{}, 8)
	p.dial = context.Canceled // as of a fabric that returns its context's error
	p.during = func(ctx context.Context) {
		dialling <- struct{}{}
		<-ctx.Done()
	}
	next := newPatchy()
	c := dial(t, anywhere, rpc.WithResolver(&chosen{dial: []rpc.Route{through(p, "patchy", "127.0.0.1:1"), through(next, "next", "127.0.0.1:1")}}))
	done := inBackground(t, c)
	<-dialling
	closes(t, c)
	ended(t, done)
	if next.opened.Load() > 0 {
		t.Error("the next route was tried after Close")
	}
}
