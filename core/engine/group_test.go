package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// grouped is a server that keeps calls until it is released, and two groups of one endpoint, each with a connection to it.
type grouped struct {
	ep       *Endpoint
	a, b     *Group
	ca, cb   *Conn
	requests chan *transport.Request
	server   string
}

func newGrouped(t *testing.T) *grouped {
	g := &grouped{ep: endpoint(t, EndpointConfig{}), requests: make(chan *transport.Request, 16)}
	s := endpoint(t, EndpointConfig{})
	l, err := s.Listen(context.Background(), "127.0.0.1:0", verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			req, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			if _, err := s.Accept(context.Background(), req, Config{Serve: func(r *transport.Request) { g.requests <- r }}); err != nil {
				t.Error(err)
			}
		}
	}()
	g.server = l.Addr().String()
	g.a, g.b = g.ep.Group(), g.ep.Group()
	if g.ca, err = g.a.Dial(context.Background(), g.server, Config{}); err != nil {
		t.Fatal(err)
	}
	if g.cb, err = g.b.Dial(context.Background(), g.server, Config{}); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *grouped) call(c *Conn, xid uint32) (*transport.Call, chan error) {
	call, done := newTestCall(xid, 10, make([]byte, 200)), make(chan error, 1)
	go func() { done <- c.Do(context.Background(), call) }()
	return call, done
}

// TestGroupEndsAlone: a group's Close ends its connections, and neither ends nor waits for another's.
func TestGroupEndsAlone(t *testing.T) {
	g := newGrouped(t)
	callA, doneA := g.call(g.ca, 1)
	requestA := <-g.requests
	callB, doneB := g.call(g.cb, 2)
	requestB := <-g.requests
	closed := make(chan struct{})
	go func() {
		g.a.Close()
		close(closed)
	}()
	var lost *transport.LostError
	if err := <-doneA; !errors.As(err, &lost) {
		t.Errorf("a call of the group that ends: %v, want a LostError", err)
	}
	callA.Free()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("Close waits for another group's call")
	}
	select {
	case <-g.cb.Done():
		t.Fatal("another group's connection has ended")
	default:
	}
	requestA.Reply(false, true)
	h := rpcmsg.ReplyHeader{XID: binary.BigEndian.Uint32(requestB.Stream)}
	h.Append(&requestB.Results)
	requestB.Reply(true, true)
	if err := <-doneB; err != nil {
		t.Errorf("the other group's call: %v", err)
	}
	callB.Free()
	if _, err := g.a.Dial(context.Background(), g.server, Config{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Dial of a group that was closed: %v", err)
	}
	g.a.Close() // again
}

// TestGroupWaitsForItsCallers: until they have given their calls back.
func TestGroupWaitsForItsCallers(t *testing.T) {
	g := newGrouped(t)
	call, done := g.call(g.ca, 1)
	request := <-g.requests
	closed := make(chan struct{})
	go func() {
		g.a.Close()
		close(closed)
	}()
	<-done
	select {
	case <-closed:
		t.Error("Close has returned while a call of the group holds memory")
	case <-time.After(20 * time.Millisecond):
	}
	call.Free()
	<-closed
	request.Reply(false, true)
}

// TestBeside: endpoints with one bound share it, and what lies idle in one makes room in another.
func TestBeside(t *testing.T) {
	first := endpoint(t, EndpointConfig{Memory: 1 << 20})
	second := endpoint(t, EndpointConfig{Memory: 1 << 30, Beside: first})
	m, err := first.getMemory(1 << 19)
	if err != nil {
		t.Fatal(err)
	}
	n, err := second.getMemory(1 << 19)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.getMemory(4096); !errors.Is(err, transport.ErrNoMemory) {
		t.Errorf("beyond the common bound: %v", err)
	}
	if a, b := first.MemoryInUse(), second.MemoryInUse(); a != 1<<19 || b != 1<<19 {
		t.Errorf("%d and %d bytes in use", a, b)
	}
	m.Free() // idle in the first
	o, err := second.getMemory(1 << 18)
	if err != nil {
		t.Fatalf("with memory idle in the other pool: %v", err)
	}
	o.Free()
	n.Free()
	a, b := first.pool.shareOf(netip.MustParseAddr("192.0.2.1")), second.pool.shareOf(netip.MustParseAddr("192.0.2.1"))
	if a != b {
		t.Error("an address has a share of each endpoint's")
	}
	first.pool.dropShare(a)
	first.pool.dropShare(b)
}

// TestReceivesRunOut: a connection that finds too few receives fails with numbers, and the others go on.
func TestReceivesRunOut(t *testing.T) {
	s := newEchoServer(t, 0)
	e := endpoint(t, EndpointConfig{Receives: 100})
	first, err := e.Group().Dial(context.Background(), s.addr, Config{Credits: 80})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Group().Dial(context.Background(), s.addr, Config{Credits: 20})
	var no *ReceivesError
	if !errors.As(err, &no) || *no != (ReceivesError{Want: 26, Reserved: 86, Limit: 100}) || !errors.Is(err, verbs.ErrNoReceives) {
		t.Errorf("Dial: %v, want a ReceivesError with what there is", err)
	}
	call := newTestCall(1, 10, make([]byte, 200))
	if err := first.Do(context.Background(), call); err != nil {
		t.Error(err)
	}
	call.Free()
}
