package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/test/faults"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// TestTheCallThatEndsConnections is given up, and those that were under way with it are not.
func TestTheCallThatEndsConnections(t *testing.T) {
	for _, limit := range []int{0, 3} { // 0: the default
		var poison atomic.Int64
		url := rawServe(t, func(r *raw, _ int, h *wire.Header, payload []byte) {
			if binary.BigEndian.Uint32(payload[20:]) == procFail.Number {
				poison.Add(1)
				r.Conn.Abort(errors.New("that call"))
				return
			}
			r.Send(enc(reply(h, 64)), result(h.XID, opaque([]byte("x"))...)) // it may have ended
		})
		opts, want := []rpc.ClientOption{rpc.WithVersions(1, 1), rpc.WithRetransmits(20)}, 5
		if limit > 0 {
			opts, want = append(opts, rpc.WithLossLimit(limit)), limit
		}
		c := dial(t, url, opts...)
		if err := ask(t, c); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := ask(t, c); err != nil {
						t.Errorf("a call that did nothing wrong: %v", err)
						return
					}
				}
			})
		}
		err := c.Call(ctx(t), procFail, number(3), nil)
		close(stop)
		wg.Wait()
		var gave *rpc.GaveUpError
		var lost *transport.LostError
		if !errors.As(err, &gave) || gave.Connections != want || gave.Proc != procFail || !errors.As(err, &lost) || !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v, want a GaveUpError after %d connections", err, want)
		}
		if n := poison.Load(); n != int64(want) {
			t.Errorf("the server got that call %d times, want %d", n, want)
		}
	}
}

// TestSuspectsDoNotWaitForLong: calls that lost their connections and take long all get to the server: one may
// be what another waits for.
func TestSuspectsDoNotWaitForLong(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const calls = 4
	var wg sync.WaitGroup
	wg.Go(func() { // loses two connections with all calls, and answers none before it has them all
		for conns := 0; ; conns++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			var xids []uint32
			for range calls {
				xids = append(xids, tcpCallXID(nc))
			}
			if conns == 2 {
				for _, xid := range xids {
					reply := result(xid, opaque(nil)...)
					nc.Write(append(rpcmsg.AppendMark(nil, len(reply), true), reply...))
				}
			}
			if conns < 2 {
				nc.Close()
			} else {
				defer nc.Close()
			}
		}
	})
	defer wg.Wait()
	defer l.Close()
	c := dial(t, "tcp://"+l.Addr().String())
	var callers sync.WaitGroup
	for range calls {
		callers.Go(func() {
			if err := c.Call(ctx(t), procWait, bulk(nil), new(bulk)); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
}

// TestInnocentCalls: calls that are slow, and under way whenever one ends their connection, are answered all the same.
func TestInnocentCalls(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer nc.Close()
				for {
					call := tcpCall(nc)
					if call == nil || binary.BigEndian.Uint32(call[20:]) == procFail.Number {
						return
					}
					reply := result(binary.BigEndian.Uint32(call), opaque(nil)...)
					time.AfterFunc(100*time.Millisecond, func() { nc.Write(append(rpcmsg.AppendMark(nil, len(reply), true), reply...)) })
				}
			})
		}
	})
	defer wg.Wait()
	defer l.Close()
	c := dial(t, "tcp://"+l.Addr().String(), rpc.WithRetransmits(20), rpc.WithLossLimit(3))
	defer c.Close()
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			if err := c.Call(ctx(t), procEcho, blob(nil), new(blob)); err != nil {
				t.Error(err)
			}
		})
	}
	var gave *rpc.GaveUpError
	if err := c.Call(ctx(t), procFail, number(3), nil); !errors.As(err, &gave) {
		t.Errorf("the call at fault: %v", err)
	}
	callers.Wait()
}

// tcpCall takes one call from a connection; nil: it has ended.
func tcpCall(nc net.Conn) []byte {
	var mark [4]byte
	if _, err := io.ReadFull(nc, mark[:]); err != nil {
		return nil
	}
	b := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
	if _, err := io.ReadFull(nc, b); err != nil {
		return nil
	}
	return b
}

func tcpCallXID(nc net.Conn) (xid uint32) {
	if b := tcpCall(nc); b != nil {
		xid = binary.BigEndian.Uint32(b)
	}
	return xid
}

// TestLongCalls: a connection that carried a call for long has not ended because of it.
func TestLongCalls(t *testing.T) {
	for _, tc := range []struct {
		every time.Duration
		want  int // connections; 0: it is answered
	}{{10 * time.Second, 5}, {61 * time.Second, 0}} {
		synctest.Test(t, func(t *testing.T) {
			url, p := faulty(t, faults.Plan{})
			f := serve(t, url)
			c := dial(t, f.url, rpc.WithRetransmits(50))
			done := make(chan error, 1)
			go func() {
				long, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				done <- c.Call(long, procWait, bulk(nil), nil)
			}()
			for range 8 {
				select {
				case <-f.inside:
					time.Sleep(tc.every)
					p.CutAll()
				case <-time.After(time.Minute):
				}
			}
			close(f.wait)
			err := <-done
			var gave *rpc.GaveUpError
			if tc.want == 0 && err != nil || tc.want > 0 && (!errors.As(err, &gave) || gave.Connections != tc.want) {
				t.Errorf("cut every %v: %v", tc.every, err)
			}
		})
	}
}

// TestOneDialForAll: a server that is away is not dialled by each caller of its own.
func TestOneDialForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		url, p := faulty(t, faults.Plan{RefuseEvery: 1, SlowDial: time.Second})
		c := dial(t, url)
		var wg sync.WaitGroup
		var failed atomic.Int64
		for range 200 {
			wg.Go(func() {
				if err := c.Call(context.Background(), procEcho, blob("x"), nil); err != nil {
					failed.Add(1)
				}
			})
		}
		wg.Wait()
		if n := p.Done().Refused; n > 40 || failed.Load() != 200 {
			t.Errorf("%d calls failed by %d attempts to connect", failed.Load(), n)
		}
	})
}

// TestBackoff: a call under way when its server goes waits longer each time, within bounds, and no longer than
// its context.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, "loopback://127.0.0.1:0")
		start := func(c *rpc.Client, within time.Duration) chan error {
			done := make(chan error, 1)
			go func() {
				cctx, cancel := context.WithTimeout(context.Background(), within)
				defer cancel()
				done <- c.Call(cctx, procWait, bulk(nil), nil)
			}()
			<-f.inside
			return done
		}
		patient, hasty := dial(t, f.url, rpc.WithRetransmits(30)), dial(t, f.url, rpc.WithRetransmits(30))
		long, short := start(patient, time.Hour), start(hasty, time.Minute/6)
		from := time.Now()
		f.srv.Close()
		if err := <-short; !errors.Is(err, context.DeadlineExceeded) || time.Since(from) != 10*time.Second {
			t.Errorf("%v after %v, want the deadline", err, time.Since(from))
		}
		// 20 ms … 1.28 s, then 2 s each, of which a half is by chance.
		if err := <-long; err == nil || time.Since(from) < 24*time.Second || time.Since(from) > 49*time.Second {
			t.Errorf("%v after %v", err, time.Since(from))
		}
	})
}

// TestGrowThenCut: a call that has grown is sent on another connection like any other.
func TestGrowThenCut(t *testing.T) {
	f := count(t, "loopback://127.0.0.1:0")
	c := dial(t, f.url)
	f.gate = make(chan struct{})
	var res onceResult
	done := make(chan error, 1)
	go func() {
		done <- c.Call(ctx(t), procOnce, blobArgs{1, pattern(9000)}, &res, rpc.Into(make([]byte, 5000)), rpc.MayGrow(10_000))
	}()
	<-f.inside
	c.Conns()[0].Abort(errors.New("cut by the test"))
	wait.For(t, "the repetition", func() bool { return f.srv.Counters().CallsRecv == 2 })
	close(f.gate)
	if err := <-done; err != nil || !bytes.Equal(res.data, pattern(9000)) || f.executions() != 1 {
		t.Errorf("%v, %d bytes, executed %d times", err, len(res.data), f.executions())
	}
}
