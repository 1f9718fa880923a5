package rpc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// within tells whether d is a limit, give or take the tick of a connection.
func within(d, limit time.Duration) bool { return d >= limit && d <= limit+limit/2 }

// TestKeepAlive: a server that falls silent while a call waits is asked by a NULL call, and given up when that is not
// answered either; one that answers it may take its time.
func TestKeepAlive(t *testing.T) {
	for _, tc := range []struct {
		name     string
		limit    time.Duration
		answered bool // NULL is
		want     error
		after    time.Duration
		asked    bool
	}{
		{"mute", 3 * time.Second, false, transport.ErrMute, 6 * time.Second, true},
		{"slow", 3 * time.Second, true, nil, time.Hour, true},
		{"never asked", -1, false, nil, time.Hour, false},
		{"default", 0, false, transport.ErrMute, 40 * time.Second, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var nulls atomic.Int32
				url := rawServe(t, func(r *raw, n int, h *wire.Header, payload []byte) {
					switch null := binary.BigEndian.Uint32(payload[20:]) == 0; {
					case n == 0:
						r.answerTo(h, 8)
					case null:
						nulls.Add(1)
						if tc.answered {
							r.send(enc(reply(h, 8)), result(h.XID))
						}
					default:
						time.AfterFunc(time.Hour, func() {
							if tc.want == nil {
								r.answerTo(h, 8)
							}
						})
					}
				})
				opts := []rpc.ClientOption{rpc.WithRetransmits(-1)}
				if tc.limit != 0 {
					opts = append(opts, rpc.WithKeepAlive(tc.limit))
				}
				c := dial(t, url, opts...)
				if err := ask(t, c); err != nil {
					t.Fatal(err)
				}
				long, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
				defer cancel()
				start := time.Now()
				var got blob
				err := c.Call(long, procEcho, blob("x"), &got, rpc.MaxReply(16))
				if d := time.Since(start); !errors.Is(err, tc.want) || !within(d, tc.after) {
					t.Errorf("after %v: %v, want %v after %v", d, err, tc.want, tc.after)
				}
				if asked := nulls.Load() > 0; asked != tc.asked {
					t.Errorf("%d NULL calls", nulls.Load())
				}
			})
		})
	}
}

// TestStall: a connection on which nothing leaves any more is ended, by whoever finds it out.
func TestStall(t *testing.T) {
	for _, tc := range []struct {
		opts  rpc.ConnOption
		after time.Duration
	}{
		{rpc.WithStallTimeout(4 * time.Second), 4 * time.Second},
		{none, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := serve(t, "bare-stuck://127.0.0.1:0", tc.opts)
			r := rawDial(t, f.url)
			start := time.Now()
			r.send(enc(head(1, 2, wire.Msg)), echo(1))
			select {
			case <-r.Gone:
			case <-time.After(time.Hour):
				t.Fatal("the connection lives")
			}
			if d := time.Since(start); !within(d, tc.after) {
				t.Errorf("it ended after %v, want %v", d, tc.after)
			}
			synctest.Wait()
			if n := f.srv.Connections(); n != 0 {
				t.Errorf("%d connections", n)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, "bare-stuck://127.0.0.1:0", rpc.WithStallTimeout(-1), rpc.WithIdleTimeout(-1))
		r := rawDial(t, f.url)
		r.send(enc(head(1, 2, wire.Msg)), echo(1))
		select {
		case <-r.Gone:
			t.Errorf("stalls are not to be looked for: %v", r.Cut)
		case <-time.After(24 * time.Hour):
		}
		r.Conn.Abort(nil)
		<-r.Gone
	})
}

// TestIdle: a connection without calls is closed by the client, or later by the server, and the next call makes another.
func TestIdle(t *testing.T) {
	for _, tc := range []struct {
		name           string
		client, server rpc.ConnOption
		after          time.Duration
	}{
		{"default", none, none, 5 * time.Minute},
		{"client", rpc.WithIdleTimeout(20 * time.Second), none, 20 * time.Second},
		{"server", none, rpc.WithIdleTimeout(40 * time.Second), 40 * time.Second},
		{"server's default", rpc.WithIdleTimeout(-1), none, 6 * time.Minute},
		{"never", rpc.WithIdleTimeout(-1), rpc.WithIdleTimeout(-1), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := serve(t, "loopback://127.0.0.1:0", tc.server)
				c := dial(t, f.url, tc.client, rpc.WithRetransmits(-1))
				if err := ask(t, c); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				start := time.Now()
				for f.srv.Connections() > 0 && time.Since(start) < time.Hour {
					time.Sleep(time.Second)
				}
				synctest.Wait()
				switch d := time.Since(start); {
				case tc.after == 0 && d < time.Hour, tc.after > 0 && !within(d, tc.after):
					t.Errorf("it ended after %v, want %v (0: never)", d, tc.after)
				}
				if err := ask(t, c); err != nil {
					t.Errorf("the next call: %v", err)
				}
			})
		})
	}
}

// TestBacklog: of strangers at one address that say nothing the oldest give way, so that half of the places stay free.
func TestBacklog(t *testing.T) {
	f := serve(t, "iwarp://127.0.0.1:0", rpc.WithBacklog(4))
	var all []net.Conn
	for range 5 {
		c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "iwarp://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
	}
	for i, c := range all[:3] {
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("stranger %d of 5 is still there: %v", i+1, err)
		}
	}
	for i, c := range all[3:] {
		if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("stranger %d of 5 had to go: %v", i+4, err)
		}
	}
	// Somebody else has room.
	if err := ask(t, dial(t, f.url+"?local=127.0.0.9")); err != nil {
		t.Error(err)
	}
}
