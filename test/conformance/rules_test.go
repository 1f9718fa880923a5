package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/test/octets"
)

// TestPrivateData: what client and server say of themselves (RFC 8797 §4).
func TestPrivateData(t *testing.T) {
	const want = "f6ab0e1801010303"
	for _, scheme := range schemes {
		dom := octets.Open(t, scheme)
		p := dialPeer(t, dom, newHouse(t, scheme).url, nil)
		if got := hex.EncodeToString(p.Conn.PeerPrivateData()); got != want {
			t.Errorf("%s: the server says %s, want %s", scheme, got, want)
		}
		l := listenPeer(t, scheme, dom, nil)
		c, err := rpc.NewClient(l.url)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Connect(context.Background()); err != nil {
			t.Fatal(err)
		}
		p = <-l.peers
		if got := hex.EncodeToString(p.Conn.PeerPrivateData()); got != want {
			t.Errorf("%s: the client says %s, want %s", scheme, got, want)
		}
		c.Close()
	}
}

// lines counts log records.
type lines struct{ n atomic.Int64 }

func (*lines) Enabled(context.Context, slog.Level) bool    { return true }
func (l *lines) Handle(context.Context, slog.Record) error { l.n.Add(1); return nil }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler        { return l }
func (l *lines) WithGroup(string) slog.Handler             { return l }

// TestBadMessagesAreNotLogged: what a peer can send without end makes counts, not lines (T-31).
func TestBadMessagesAreNotLogged(t *testing.T) {
	var l lines
	h := newPrograms(t, rpc.WithLog(slog.New(&l))).listen(t, "loopback", rpc.WithLog(slog.New(&l)))
	p := dialPeer(t, octets.Open(t, "loopback"), h.url, nil)
	done := []byte{0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 3} // RDMA_DONE
	for n := uint64(1); n <= 1000; n++ {
		if err := p.Send(done); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); h.srv.Counters().Dropped < n; time.Sleep(10 * time.Microsecond) {
			if time.Now().After(end) {
				t.Fatalf("%d of %d are counted", h.srv.Counters().Dropped, n)
			}
		}
	}
	if n := l.n.Load(); n > 0 {
		t.Errorf("%d lines for messages that were dropped", n)
	}
}

// frames notes the RDMAP opcodes of the frames that its side sent and got, in order.
type frames struct {
	mu  sync.Mutex
	ops []string
}

func (f *frames) Frame(fr verbs.Frame) {
	b := bytes.Join(fr.Parts, nil)
	if len(b) < 4 || bytes.HasPrefix(b, []byte("MPA ID")) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch op := b[3] & 0xf; { // RFC 5040 §4.1
	case fr.Sent && op == 1:
		f.ops = append(f.ops, "request")
	case !fr.Sent && op == 2:
		f.ops = append(f.ops, "response")
	}
}

// TestReadsInFlight: a chunk of four segments is pulled by four RDMA Reads at once (T-26).
func TestReadsInFlight(t *testing.T) {
	var f frames
	h := newHouse(t, "iwarp", rpc.WithTap(&f))
	c, err := rpc.NewClient(h.url, rpc.WithMoveAbove(100), rpc.WithSegmentLength(50))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	res := results{proc: procedures["WRITE"]}
	if err := c.Call(context.Background(), procedures["WRITE"], arguments{items: []any{pattern(200)}, bulk: true}, &res, rpc.MaxReply(300)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(res.all, pattern(200)) {
		t.Errorf("% x", res.all)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	want := []string{"request", "request", "request", "request", "response", "response", "response", "response"}
	if !slices.Equal(f.ops, want) {
		t.Errorf("the order was %v", f.ops)
	}
}

// TestPort: NFS over RDMA is at 20049 where nothing else is said (RFC 8267 §6.3).
func TestPort(t *testing.T) {
	for in, want := range map[string]string{
		"iwarp://192.0.2.1": "192.0.2.1:20049", "iwarp://192.0.2.1:2049": "192.0.2.1:2049", "tcp://192.0.2.1": "192.0.2.1:2049",
	} {
		if got, err := rpc.ParseTarget(in); err != nil || got.Address != want {
			t.Errorf("%s is dialled at %s, want %s (%v)", in, got.Address, want, err)
		}
	}
}
