package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

var procMirror = &rpc.Proc{Program: program + 2, Version: 1, Number: 1, Name: "MIRROR",
	Binding: binding.Binding{Args: true, Results: true, MaxReply: 8}}

// TestResultsWithinArguments: a handler may return what it was given, where it lies.
func TestResultsWithinArguments(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts)
			f.srv.Register(program+2, 1, rpc.Method{Proc: procMirror, Inline: true, Handler: func(_ context.Context, r *rpc.Request) error {
				r.Results.BulkOpaque(r.Args.Bulk(1 << 20))
				return r.Args.Done()
			}})
			c := dial(t, f.url, tr.opts)
			done := make(chan error)
			for g := range 16 {
				go func() {
					buf := make([]byte, 60_000) // larger than any reply: a Write chunk is offered
					for n := range 200 {
						want := bytes.Repeat([]byte{byte(g*16 + n)}, 1+(g*211+n*37)%2000)
						var res bulk
						if err := c.Call(ctx(t), procMirror, bulk(want), &res, rpc.Into(buf)); err != nil || !bytes.Equal(res, want) {
							done <- fmt.Errorf("%d bytes: %v; %d came back", len(want), err, len(res))
							return
						}
					}
					done <- nil
				}()
			}
			for range 16 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// several are bulk items.
type several [][]byte

func (s several) MarshalXDR(w *xdr.Writer) {
	for _, b := range s {
		w.BulkOpaque(b)
	}
}

func (s several) UnmarshalXDR(r *xdr.Reader) {
	for i := range s {
		s[i] = r.Bulk(1 << 20)
	}
}

var procSeveral = &rpc.Proc{Program: program + 3, Version: 1, Number: 1, Name: "SEVERAL",
	Binding: binding.Binding{Args: true, Results: true, MaxReply: 64}}

// TestSeveralItems: several arguments and results, of every size, each where it belongs.
func TestSeveralItems(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			for _, sizes := range [][3]int{{0, 0, 0}, {5000, 0, 5000}, {0, 5000, 0}, {1, 70_000, 3}, {30_000, 30_001, 30_002}} {
				f := serve(t, tr.url, tr.opts)
				f.srv.Register(program+3, 1, rpc.Method{Proc: procSeveral, Handler: func(_ context.Context, r *rpc.Request) error {
					s := make(several, 3)
					s.UnmarshalXDR(r.Args)
					for i := range s {
						s[i] = bytes.Clone(s[i])
					}
					s.MarshalXDR(r.Results)
					return r.Args.Done()
				}})
				c := dial(t, f.url, tr.opts) // the first call probes with all its chunks, if they fit
				for range 2 {
					var args several
					var into []rpc.CallOption
					for i, n := range sizes {
						args = append(args, bytes.Repeat([]byte{byte(i + 1)}, n))
						into = append(into, rpc.Into(make([]byte, n)))
					}
					res := make(several, 3)
					if err := c.Call(ctx(t), procSeveral, args, res, into...); err != nil {
						t.Fatalf("%v: %v", sizes, err)
					}
					for i := range res {
						if !bytes.Equal(res[i], args[i]) {
							t.Errorf("%v: item %d has %d bytes", sizes, i, len(res[i]))
						}
					}
				}
			}
		})
	}
}

// released is a bulk argument that says when nobody needs it any more.
type released struct {
	b []byte
	n *atomic.Int32
}

func (r released) MarshalXDR(w *xdr.Writer) { w.BulkItem(rpc.Bulk(r.b, func() { r.n.Add(1) })) }

func TestArgumentsAreReleased(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts)
			c := dial(t, f.url, tr.opts)
			defer close(f.wait)
			var n atomic.Int32
			if err := c.Call(ctx(t), procWrite, released{pattern(9000), &n}, nil); err != nil || n.Load() != 1 {
				t.Errorf("%v, released %d times", err, n.Load())
			}
			n.Store(0)
			cctx, cancel := context.WithCancel(ctx(t))
			done := make(chan error)
			go func() { done <- c.Call(cctx, procWait, released{pattern(9000), &n}, nil) }()
			<-f.inside
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) || n.Load() != 1 {
				t.Errorf("cancelled: %v, released %d times", err, n.Load())
			}
		})
	}
}

// TestTCPPeerThatDoesNotRead: nobody waits for ever for a peer that takes no bytes, or gives none.
func TestTCPPeerThatDoesNotRead(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := dial(t, "tcp://"+l.Addr().String(), rpc.WithCallTimeout(50*time.Millisecond), rpc.WithRetransmits(-1), rpc.WithTCPRecord(64<<20))
	if err := c.Call(context.Background(), procEcho, blob("x"), nil); !errors.Is(err, transport.ErrTimeout) {
		t.Errorf("no reply: %v, want ErrTimeout", err)
	}
	if n := c.Counters().Outstanding; n != 0 {
		t.Errorf("%d calls outstanding", n)
	}
	// More than the sockets' buffers take.
	if err := c.Call(context.Background(), procWrite, bulk(make([]byte, 48<<20)), nil); !errors.Is(err, transport.ErrTimeout) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("a call that cannot be written: %v", err)
	}
	short, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if err := c.Call(short, procWrite, bulk(make([]byte, 48<<20)), nil); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("the same with a deadline: %v", err)
	}
}

// TestTCPClientThatDoesNotRead: it keeps no worker from the others, and Shutdown is not held up for
// longer than asked.
func TestTCPClientThatDoesNotRead(t *testing.T) {
	f := serve(t, "tcp://127.0.0.1:0", rpc.WithWorkers(2))
	nc, err := net.Dial("tcp", strings.TrimPrefix(f.url, "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.(*net.TCPConn).SetReadBuffer(4096)
	for xid := range uint32(12) { // more than the sockets' buffers take
		m := call(xid, procRead.Number, word(4<<20)...)
		if _, err := nc.Write(append(rpcmsg.AppendMark(nil, len(m), true), m...)); err != nil {
			t.Fatal(err)
		}
	}
	c := dial(t, f.url)
	for range 3 {
		var b blob
		if err := c.Call(context.Background(), procRead, number(1<<10), &b, rpc.MaxReply(2<<10)); err != nil {
			t.Fatal(err)
		}
	}
	wait.For(t, "replies that nobody reads", func() bool { return f.srv.Counters().RepliesSent == 12+3 })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := f.srv.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
}

// TestCloseInBackoff: a client that waits to connect again closes at once.
func TestCloseInBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, "loopback://127.0.0.1:0")
		c := dial(t, f.url, rpc.WithRetransmits(1000), rpc.WithLossLimit(1000))
		done := make(chan error, 1)
		go func() { done <- c.Call(ctx(t), procWait, bulk(nil), nil) }()
		<-f.inside
		f.srv.Close()
		time.Sleep(5 * time.Second) // the pauses grow
		start := time.Now()
		c.Close()
		if d := time.Since(start); d > 0 {
			t.Errorf("Close took %v", d)
		}
		if err := <-done; !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("the call: %v, want ErrClosed", err)
		}
	})
}

// TestShutdownCutShort: Shutdown whose context ends cuts calls off and says so.
func TestShutdownCutShort(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts)
			c := dial(t, f.url, tr.opts, rpc.WithRetransmits(-1))
			done := make(chan error, 1)
			go func() { done <- c.Call(ctx(t), procWait, bulk(pattern(900)), nil) }()
			<-f.inside
			short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if err := f.srv.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Shutdown: %v", err)
			}
			if err := <-done; !errors.Is(err, net.ErrClosed) {
				t.Errorf("the call: %v, want net.ErrClosed", err)
			}
		})
	}
}

func TestRegisterPanics(t *testing.T) {
	h := func(context.Context, *rpc.Request) error { return nil }
	for name, methods := range map[string][]rpc.Method{
		"a number twice":    {{Proc: procEcho, Handler: h}, {Proc: procEcho, Handler: h}},
		"a number too high": {{Proc: &rpc.Proc{Number: 1024}, Handler: h}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", name)
				}
			}()
			rpc.NewServer().Register(program, 1, methods...)
		}()
	}
}

// TestWorkersAreBounded: as many handlers run at once as workers are allowed, and no more; all calls are served.
func TestWorkersAreBounded(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithWorkers(12)) // a quarter for one connection
	var running atomic.Int32
	three := make(chan struct{})
	open := sync.OnceFunc(func() { close(three) })
	slow := &rpc.Proc{Program: program + 4, Version: 1, Number: 1, Name: "SLOW"}
	f.srv.Register(program+4, 1, rpc.Method{Proc: slow, Handler: func(context.Context, *rpc.Request) error {
		switch n := running.Add(1); {
		case n == 3:
			open()
		case n > 3:
			t.Errorf("%d handlers run at once, want 3", n)
		}
		<-three // the first ones wait for one another
		runtime.Gosched()
		running.Add(-1)
		return nil
	}})
	c := dial(t, f.url)
	if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil { // for the credits
		t.Fatal(err)
	}
	done := make(chan error)
	for range 40 {
		go func() { done <- c.Call(ctx(t), slow, nil, nil) }()
	}
	for range 40 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestShutdownUnderLoad: calls that keep coming do not keep the server; each is answered, or lost with its connection.
func TestShutdownUnderLoad(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts)
			c := dial(t, f.url, tr.opts, rpc.WithRetransmits(-1))
			done := make(chan error)
			for range 16 {
				go func() {
					for {
						var s number
						if err := c.Call(ctx(t), procWrite, bulk(pattern(5000)), &s); err != nil {
							done <- err
							return
						}
					}
				}()
			}
			wait.For(t, "the load", func() bool { return f.srv.Counters().RepliesSent > 100 })
			if err := f.srv.Shutdown(ctx(t)); err != nil {
				t.Errorf("Shutdown: %v", err)
			}
			for range 16 {
				if err := <-done; errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a call: %v", err)
				}
			}
		})
	}
}

// TestHandlerEndsItsGoroutine: the call is answered SYSTEM_ERR, and neither its worker nor its share of them is lost.
func TestHandlerEndsItsGoroutine(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts, rpc.WithWorkers(4)) // one for a connection
			ends := &rpc.Proc{Program: program + 4, Version: 1, Number: 1, Name: "ENDS"}
			f.srv.Register(program+4, 1, rpc.Method{Proc: ends, Handler: func(context.Context, *rpc.Request) error {
				runtime.Goexit()
				return nil
			}})
			c := dial(t, f.url, tr.opts)
			if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil { // for the credits
				t.Fatal(err)
			}
			done := make(chan error)
			for range 20 {
				go func() { done <- c.Call(ctx(t), ends, nil, nil) }()
			}
			for range 20 {
				if err := <-done; !errors.Is(err, rpcmsg.ErrSystem) {
					t.Errorf("%v, want SYSTEM_ERR", err)
				}
			}
			if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}
