package rpc_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// mute is a stranger that connects and says nothing.
type mute struct{ gone chan struct{} }

func (m *mute) Complete([]verbs.Completion) {}
func (m *mute) Disconnected(error)          { close(m.gone) }

// strangers connect n times from local to target, and hold on to what they got until the test ends. Over TCP they learn
// by a NULL call whether they got in.
func strangers(t testing.TB, target, local string, n int) (up []*mute, refused int) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme == "tcp" {
		for range n {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
			c, err := d.Dial("tcp", u.Host)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			null := call(1, 0)
			c.Write(append(rpcmsg.AppendMark(nil, len(null), true), null...)) // who is refused may have been closed already
			c.SetReadDeadline(time.Now().Add(time.Minute))
			switch _, err := c.Read(make([]byte, 1)); {
			case err == nil:
				up = append(up, nil)
			case isTimeout(err):
				t.Fatal("neither served nor refused")
			default:
				refused++
			}
		}
		return up, refused
	}
	p, _ := verbs.Lookup(u.Scheme)
	dom, err := p.Open(context.Background(), local, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dom.Close() })
	pool, err := dom.NewRecvPool(8, 4096)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	for range n {
		m := &mute{make(chan struct{})}
		_, err := dom.Dial(context.Background(), u.Host, verbs.Options{Handler: m, Recv: pool})
		var no *verbs.RejectedError
		switch {
		case err == nil:
			up = append(up, m)
		case errors.As(err, &no):
			refused++
		default:
			t.Fatal(err)
		}
	}
	return up, refused
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

func TestConnectionLimits(t *testing.T) {
	for _, scheme := range []string{"loopback", "iwarp", "tcp"} {
		for _, tc := range []struct {
			name        string
			opts        []any
			first, then int // how many of 8 two addresses get, one after the other
		}{
			{"shares", []any{rpc.WithConnectionLimit(6)}, 3, 1},
			{"per address", []any{rpc.WithConnectionLimit(7), rpc.WithConnectionsPerAddress(2)}, 2, 2},
			{"in all", []any{rpc.WithConnectionLimit(7), rpc.WithConnectionsPerAddress(6)}, 6, 1},
		} {
			t.Run(scheme+"/"+tc.name, func(t *testing.T) {
				f := serve(t, scheme+"://127.0.0.1:0", tc.opts...)
				for i, want := range []int{tc.first, tc.then} {
					up, refused := strangers(t, f.url, []string{"127.0.0.2", "127.0.0.3"}[i], 8)
					if len(up) != want || refused != 8-want {
						t.Errorf("address %d has %d connections, %d were refused; want %d of 8", i+1, len(up), refused, want)
					}
				}
			})
		}
	}
}

// TestRefusedMayComeBack: what a connection took is given back with it.
func TestRefusedMayComeBack(t *testing.T) {
	for _, scheme := range []string{"loopback", "iwarp", "tcp"} {
		t.Run(scheme, func(t *testing.T) {
			f := serve(t, scheme+"://127.0.0.1:0", rpc.WithConnectionLimit(1))
			for range 4 {
				c := dial(t, f.url)
				wait.For(t, "the one connection", func() bool { return c.Call(ctx(t), procEcho, blob("x"), nil) == nil })
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestCrowdFromOneAddress: two thousand connections from one address, and a bystander from another, whose calls all
// succeed.
func TestCrowdFromOneAddress(t *testing.T) {
	crowd := 2000
	if testing.Short() {
		crowd = 700
	}
	for _, scheme := range []string{"loopback", "iwarp"} {
		t.Run(scheme, func(t *testing.T) {
			f := serve(t, scheme+"://127.0.0.1:0", rpc.WithCredits(64))
			stop := make(chan struct{})
			var by sync.WaitGroup
			calls := 0
			by.Go(func() {
				for {
					// Each call on a connection of its own: it has to get in, too.
					c := dial(t, f.url+"?local=127.0.0.9", rpc.WithRetransmits(-1))
					out := make(bulk, 0)
					if err := c.Call(ctx(t), procRead, readArgs(64<<10), &out, rpc.Into(make([]byte, 64<<10))); err != nil {
						t.Errorf("call %d of the bystander: %v", calls, err)
					}
					c.Close()
					calls++
					select {
					case <-stop:
						return
					default:
					}
				}
			})
			up, refused := strangers(t, f.url, "127.0.0.2", crowd)
			close(stop)
			by.Wait()
			if most := rpc.DefaultConnectionLimit / 2; len(up) > most || refused < crowd-most {
				t.Errorf("%d connections from one address, %d refused", len(up), refused)
			}
			if calls == 0 {
				t.Error("no call of the bystander")
			}
			t.Logf("%d up, %d refused, %d calls of the bystander", len(up), refused, calls)
		})
	}
}

// TestLogIsNotFlooded: whoever connects and resets a thousand times writes a few lines of the log, not a
// thousand.
func TestLogIsNotFlooded(t *testing.T) {
	var b wait.Log
	f := serve(t, "iwarp://127.0.0.1:0", rpc.WithLog(b.Logger()))
	u, _ := url.Parse(f.url)
	p, _ := verbs.Lookup("iwarp")
	dom, err := p.Open(context.Background(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dom.Close()
	pool, err := dom.NewRecvPool(8, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for range 300 {
		m := &mute{make(chan struct{})}
		c, err := dom.Dial(context.Background(), u.Host, verbs.Options{Handler: m, Recv: pool})
		if err != nil {
			t.Fatal(err)
		}
		c.Abort(nil)
		<-m.gone
	}
	wait.For(t, "the connections' end", func() bool { return f.srv.Connections() == 0 })
	n := 0
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "connection") {
			n++
		}
	}
	if n == 0 || n > 30 {
		t.Errorf("%d lines", n)
	}
}
