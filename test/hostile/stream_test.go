package hostile

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/test/memory"
)

// request is an MPA Request frame without private data (RFC 5044 §7.1.1).
var request = append([]byte("MPA ID Req Frame"), 0x40, 1, 0, 0)

// TestStreams: what a TCP connection brings that does not speak MPA, or stops in the middle, costs its own set-up only.
func TestStreams(t *testing.T) {
	h := serve(t, "iwarp://127.0.0.1:0")
	u, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		bytes []byte
		holds bool // the server still waits for the rest
	}{
		{"nothing", nil, true},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), false},
		{"ONC RPC over TCP", append(word(1<<31|40), echo(7)...), false},
		{"zeros", make([]byte, 4096), false},
		{"noise", pattern(4096), false},
		{"half a request", request[:11], true},
		{"a request of another revision", append(append([]byte{}, request[:17]...), 9, 0, 0), false},
		{"a request that asks for markers", append(append([]byte{}, request[:16]...), 0xc0, 1, 0, 0), false},
		{"a request with private data that does not come", append(append([]byte{}, request[:18]...), 2, 0), true},
		{"a request with more private data than there is", append(append([]byte{}, request[:18]...), 0xff, 0xff), false},
		{"a reply", append([]byte("MPA ID Rep Frame"), 0x40, 1, 0, 0), false},
		{"a request, then noise", append(append([]byte{}, request...), pattern(4096)...), false},
		{"a request, then an FPDU of no bytes", append(append([]byte{}, request...), make([]byte, 8)...), false},
		{"a request, then half an FPDU", append(append([]byte{}, request...), 0, 40, 0x41, 0x43), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 3 {
				c, err := net.Dial("tcp", u.Host)
				if err != nil {
					t.Fatal(err)
				}
				c.Write(tc.bytes)
				if !tc.holds {
					c.SetReadDeadline(time.Now().Add(patience))
					if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
						t.Error("the server keeps it")
					}
				}
				h.stand.served()
				c.Close()
			}
		})
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// slow is the network that a byte a second comes by.
var slow memory.Network

func init() { verbs.Register("hostile-slow", iwarp.New(&slow)) }

// TestHalfAFrame: a frame that begins and does not end, as where bits of its length have changed under way, ends its connection
// after a while, although what waits for an answer there keeps it from being idle.
func TestHalfAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := serve(t, "hostile-slow://127.0.0.1:0")
		u, err := url.Parse(h.url)
		if err != nil {
			t.Fatal(err)
		}
		s, err := slow.Dial(context.Background(), "", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Writev([][]byte{request}); err != nil {
			t.Fatal(err)
		}
		s.Read(func() bool { // MPA's reply
			n, err := s.Readv([][]byte{make([]byte, 512)})
			return n > 0 || err != stream.ErrAgain
		})
		if _, err := s.Writev([][]byte{{0x10, 102, 0x41, 0x43}}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for { // it goes on, so slowly that nobody waits for it
			time.Sleep(time.Second)
			if _, err := s.Writev([][]byte{{0}}); err != nil {
				break
			}
			if time.Since(start) > time.Hour {
				t.Fatal("after an hour it is up")
			}
		}
		if d := time.Since(start); d < 50*time.Second || d > 2*time.Minute {
			t.Errorf("it ended after %v", d)
		}
	})
}

// TestBytePerSecond: a set-up that crawls is ended by its time-out, however regularly something comes.
func TestBytePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dom, addr := open(t, "hostile-slow://127.0.0.1:7")
		defer dom.Close()
		l, err := dom.Listen(context.Background(), addr, verbs.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s, err := slow.Dial(context.Background(), "", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		start := time.Now()
		for n := 0; ; n++ {
			if _, err := s.Writev([][]byte{request[n : n+1]}); err != nil {
				break
			}
			time.Sleep(time.Second)
			if n == len(request)-2 {
				t.Fatalf("after %v the server still waits", time.Since(start))
			}
		}
		t.Logf("ended after %v", time.Since(start))
	})
}
