package cli

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newWaiting(&out, rpc.Target{Scheme: "iwarp", Address: "192.0.2.1:20049"}, waitPatience)
		call := func(d time.Duration) {
			_ = p.call(context.Background(), nil, func(context.Context) error { time.Sleep(d); return nil })
		}
		want := func(lines int) {
			t.Helper()
			synctest.Wait()
			if n := bytes.Count(out.Bytes(), []byte("\n")); n != lines {
				t.Errorf("%d lines, want %d: %s", n, lines, out.Bytes())
			}
		}
		for range 10 {
			call(4 * time.Second)
		}
		time.Sleep(time.Minute) // nothing is waited for
		want(0)
		go call(12 * time.Second) // one that is slow, while others are answered
		for range 4 {
			call(3 * time.Second)
		}
		time.Sleep(time.Second)
		want(0)
		end := p.begin()
		time.Sleep(30 * time.Second)
		want(1) // once
		end()
		call(6 * time.Second)
		want(2)
		if s := "rpcrdma: iwarp://192.0.2.1:20049 has not answered for 5s; waiting for it\n"; out.String() != s+s {
			t.Errorf("%s", out.Bytes())
		}
	})
}
