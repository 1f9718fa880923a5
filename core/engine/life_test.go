package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// echoServer accepts on its own endpoint and answers each call with its own bytes behind the XID,
// at once or from another goroutine.
type echoServer struct {
	ep       *Endpoint
	addr     string
	handlers sync.WaitGroup
	accepts  sync.WaitGroup
	ups      atomic.Int64 // connections that came up and have not ended
	slow     time.Duration
}

func newEchoServer(t testing.TB, slow time.Duration) *echoServer {
	t.Helper()
	s := &echoServer{ep: endpoint(t, EndpointConfig{}), slow: slow}
	l, err := s.ep.Listen(context.Background(), "127.0.0.1:0", verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	s.accepts.Go(func() {
		for {
			req, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			s.accepts.Go(func() {
				s.ups.Add(1)
				cfg := Config{Serve: s.serve, Closed: func(*Conn, error) { s.ups.Add(-1) }}
				if _, err := s.ep.Accept(context.Background(), req, cfg); err != nil {
					s.ups.Add(-1) // Closed is not called for it
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		s.ep.Close()
		s.accepts.Wait()
		s.handlers.Wait()
		if n := s.ups.Load(); n != 0 {
			t.Errorf("Closed was missed or called too often: %d", n)
		}
	})
	return s
}

func (s *echoServer) serve(r *transport.Request) {
	answer := func(flush bool) {
		h := rpcmsg.ReplyHeader{XID: binary.BigEndian.Uint32(r.Stream)}
		h.Append(&r.Results)
		r.Results.BulkOpaque(append([]byte(nil), r.Stream...))
		r.Reply(true, flush)
	}
	if s.slow == 0 {
		answer(false)
		return
	}
	s.handlers.Go(func() {
		time.Sleep(rand.N(s.slow))
		answer(true)
	})
}

var testCalls transport.CallPool

func newTestCall(xid uint32, size int, into []byte) *transport.Call {
	call := testCalls.Get()
	call.XID = xid
	h := rpcmsg.CallHeader{XID: xid, Program: 0x20000001, Version: 1, Proc: 1}
	h.Append(&call.Msg)
	call.Msg.BulkOpaque(make([]byte, size))
	call.Move, call.MoveResults = true, true
	call.MaxReply = 64
	call.Into = append(call.Into, transport.Dest{Buf: into})
	return call
}

// TestEndAtAnyMoment: connections, and endpoints of either side, end while calls are in every
// state. Each call returns, each Close returns, and nothing is left.
func TestEndAtAnyMoment(t *testing.T) {
	ends := map[string]func(client *Endpoint, conn *Conn, s *echoServer){
		"client endpoint": func(e *Endpoint, _ *Conn, _ *echoServer) { e.Close() },
		"server endpoint": func(_ *Endpoint, _ *Conn, s *echoServer) { s.ep.Close() },
		"both":            func(e *Endpoint, _ *Conn, s *echoServer) { go s.ep.Close(); e.Close() },
		"Close":           func(_ *Endpoint, c *Conn, _ *echoServer) { c.Close() },
		"Abort":           func(_ *Endpoint, c *Conn, _ *echoServer) { c.Abort(errors.New("told to")) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			for round := range 30 {
				endSometime(t, round, end)
			}
		})
	}
}

func endSometime(t *testing.T, round int, end func(*Endpoint, *Conn, *echoServer)) {
	s := newEchoServer(t, time.Duration(round%3)*300*time.Microsecond)
	e := endpoint(t, EndpointConfig{})
	c, err := e.Dial(context.Background(), s.addr, Config{Credits: 8})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	xids := transport.NewXIDs()
	for g := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(round), uint64(g)))
			for {
				ctx, cancel := context.WithCancel(context.Background())
				if rng.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rng.IntN(500))*time.Microsecond, cancel)
				}
				n := rng.IntN(9000)
				call := newTestCall(xids(), n, make([]byte, n+100))
				err := c.Do(ctx, call)
				cancel()
				var orphan *transport.OrphanError
				if !errors.As(err, &orphan) {
					call.Free()
				}
				switch {
				case errors.Is(err, net.ErrClosed):
					return
				case err != nil && !errors.Is(err, context.Canceled):
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond)
	end(e, c, s)
	wg.Wait()
	<-c.Done()
	if n := c.Counters().Outstanding; n != 0 {
		t.Errorf("%d credits are out at the end", n)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	s.ep.Close()
	for _, e := range []*Endpoint{e, s.ep} {
		if n := e.MemoryInUse(); n != 0 {
			t.Errorf("%d bytes in use at the end", n)
		}
	}
}

// TestDialWhileClosing: set-ups end with their endpoint.
func TestDialWhileClosing(t *testing.T) {
	for range 50 {
		s := newEchoServer(t, 0)
		e := endpoint(t, EndpointConfig{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					c, err := e.Dial(context.Background(), s.addr, Config{})
					if err != nil {
						return
					}
					call := newTestCall(1, 10, make([]byte, 200))
					c.Do(context.Background(), call)
					call.Free()
					c.Close()
				}
			})
		}
		time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
		if rand.IntN(2) == 0 {
			s.ep.Close()
		}
		e.Close()
		wg.Wait()
	}
}

// TestDialIsCutShort: an endpoint that closes does not wait for a server that never answers.
func TestDialIsCutShort(t *testing.T) {
	s := endpoint(t, EndpointConfig{})
	l, err := s.Listen(context.Background(), "127.0.0.1:0", verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e := endpoint(t, EndpointConfig{})
	done := make(chan error)
	go func() {
		_, err := e.Dial(context.Background(), l.Addr().String(), Config{})
		done <- err
	}()
	time.Sleep(5 * time.Millisecond)
	e.Close()
	if err := <-done; err == nil {
		t.Error("connected to a server that has not accepted")
	}
	if _, err := e.Dial(context.Background(), l.Addr().String(), Config{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial of a closed endpoint: %v", err)
	}
}

// TestLostCallsGoAgain: a call that was lost is sent again as it is, and leaves nothing behind.
func TestLostCallsGoAgain(t *testing.T) {
	s := newEchoServer(t, 0)
	e := endpoint(t, EndpointConfig{})
	call := newTestCall(7, 9000, make([]byte, 10_000))
	for range 5 {
		c, err := e.Dial(context.Background(), s.addr, Config{})
		if err != nil {
			t.Fatal(err)
		}
		c.Abort(errors.New("told to"))
		if err := c.Do(context.Background(), call); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
		<-c.Done() // until then it holds memory
	}
	c, err := e.Dial(context.Background(), s.addr, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Do(context.Background(), call); err != nil {
		t.Error(err)
	}
	if n := len(callOf(call).results); n != 1 || len(call.Moved) != 1 {
		t.Errorf("%d chunks, %d items", n, len(call.Moved))
	}
	call.Free()
	c.Close()
	<-c.Done()
	if n := e.MemoryInUse(); n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}
