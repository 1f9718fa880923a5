package rpc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/transport"
)

// TestSimulatedTime: minutes of a connection's life, timed exactly.
func TestSimulatedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, "loopback://127.0.0.1:0")
		c := dial(t, f.url)
		defer close(f.wait)
		bg := context.Background()
		if err := c.Call(bg, procEcho, blob("x"), nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := c.Call(bg, procWait, bulk(nil), nil); !errors.Is(err, transport.ErrTimeout) {
			t.Errorf("%v, want ErrTimeout", err)
		}
		if d := time.Since(start); d < time.Minute || d > 75*time.Second {
			t.Errorf("a call without a deadline ended after %v", d)
		}
		time.Sleep(time.Hour) // nothing ends an idle connection
		start = time.Now()
		short, cancel := context.WithTimeout(bg, 5*time.Second)
		defer cancel()
		if err := c.Call(short, procWait, bulk(pattern(9000)), new(bulk), rpc.Into(make([]byte, 9000))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want DeadlineExceeded", err)
		}
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("a deadline of 5 s ended the call after %v", d)
		}
		if n := f.srv.Connections(); n != 1 {
			t.Errorf("%d connections, want the one", n)
		}
	})
}

// TestCancelWait: where memory cannot be detached a cancelled call waits for its reply, and not longer than that.
func TestCancelWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, "bare-t://127.0.0.1:0")
		c := dial(t, f.url)
		for _, tc := range []struct{ reply, want time.Duration }{
			{1500 * time.Millisecond, 1500 * time.Millisecond}, // the reply comes while it waits
			{time.Hour, time.Second + 2*time.Second},
		} {
			f.wait = make(chan struct{})
			done := f.wait
			time.AfterFunc(tc.reply, func() { close(done) })
			short, cancel := context.WithTimeout(context.Background(), time.Second)
			start := time.Now()
			err := c.Call(short, procWait, bulk(pattern(9000)), new(bulk), rpc.Into(make([]byte, 9000)))
			cancel()
			if d := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || d != tc.want {
				t.Errorf("a reply after %v: the call ended after %v, want %v: %v", tc.reply, d, tc.want, err)
			}
		}
	})
}

// TestShutdownAnswersKeepAlive: a call that takes longer than the keep-alive is answered by a server that is being
// shut down: its client hears that the server is there.
func TestShutdownAnswersKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, "loopback://127.0.0.1:0")
		c := dial(t, f.url)
		long, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := c.Call(long, procEcho, blob("x"), nil); err != nil {
			t.Fatal(err)
		}
		called, ended := make(chan error, 1), make(chan error, 1)
		go func() { called <- c.Call(long, procWait, bulk(nil), nil) }()
		<-f.inside
		go func() { ended <- f.srv.Shutdown(long) }()
		time.Sleep(10 * time.Minute)
		close(f.wait)
		if err := <-called; err != nil {
			t.Errorf("a call that was being served at Shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}
