package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/test/octets"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// script is what a raw server does with the n-th message of a connection.
type script func(r *raw, n int, h *wire.Header, payload []byte)

// rawServe listens as a server that follows script, and returns its target.
func rawServe(t testing.TB, s script) string {
	t.Helper()
	at, stop, err := octets.Listen(t, octets.Open(t, "loopback"), "127.0.0.1:0", rawConfig, func(p *octets.Peer) { (&raw{p}).follow(s) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return "loopback://" + at
}

func (r *raw) follow(s script) {
	for n := 0; ; n++ {
		select {
		case m := <-r.In:
			var h wire.Header
			k, err := h.Parse(m.Bytes, wire.ProfileCel04)
			if err != nil {
				r.TB.Errorf("our client sent %x: %v", m.Bytes, err)
				return
			}
			s(r, n, &h, m.Bytes[k:])
		case <-r.Gone:
			return
		}
	}
}

// answerTo sends the reply that ECHO of "x" wants.
func (r *raw) answerTo(h *wire.Header, credit uint32) {
	r.send(enc(reply(h, credit)), result(h.XID, opaque([]byte("x"))...))
}

// ask calls ECHO of "x".
func ask(t testing.TB, c *rpc.Client, opts ...rpc.CallOption) error {
	t.Helper()
	var got blob
	err := c.Call(ctx(t), procEcho, blob("x"), &got, append(opts, rpc.MaxReply(16))...)
	if err == nil && string(got) != "x" {
		t.Errorf("the result is %q", got)
	}
	return err
}

func errorTo(h *wire.Header, b wire.ErrorBody) []byte {
	return enc(&wire.Header{XID: h.XID, Version: h.Version, Credit: 9, Proc: wire.ErrorMsg, Err: b})
}

func TestGrants(t *testing.T) { // RFC 8166 §3.3.1, D-11
	for _, tc := range []struct{ grant, want, zeros uint64 }{
		{0, 1, 3}, {1, 1, 0}, {5, 5, 0}, {64, 64, 0}, {65, 64, 0}, {1<<32 - 1, 64, 0},
	} {
		c := dial(t, rawServe(t, func(r *raw, _ int, h *wire.Header, _ []byte) { r.answerTo(h, uint32(tc.grant)) }))
		for range 3 {
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
		}
		if n := c.Counters(); n.Granted != tc.want || n.ZeroCredit != tc.zeros || n.Outstanding != 0 {
			t.Errorf("granted %d: %+v", tc.grant, n)
		}
	}
}

// TestFirstMessage: one call of at most 1024 bytes until the server has said a word (v2 draft §7, D-3).
func TestFirstMessage(t *testing.T) {
	var mu sync.Mutex
	var seen []int
	hold := make(chan struct{})
	url := rawServe(t, func(r *raw, n int, h *wire.Header, payload []byte) {
		mu.Lock()
		seen = append(seen, len(enc(h))+len(payload))
		mu.Unlock()
		if n == 0 {
			<-hold
			r.send(enc(reply(h, 32)), result(h.XID)) // to the NULL
			return
		}
		r.answerTo(h, 32)
	})
	c := dial(t, url)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			args := blob(pattern(3000))
			if err := c.Call(ctx(t), procEcho, args, nil, rpc.MaxReply(16)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.For(t, "the first message", func() bool { mu.Lock(); defer mu.Unlock(); return len(seen) > 0 })
	time.Sleep(30 * time.Millisecond)
	mu.Lock()
	if len(seen) != 1 || seen[0] > 1024 {
		t.Errorf("before the first answer messages of %d bytes were sent", seen)
	}
	mu.Unlock()
	close(hold)
	wg.Wait()
}

// TestOddReplies: what is not the reply to a call is dropped or ends that call, and the next
// call is served on the same connection.
func TestOddReplies(t *testing.T) {
	good := func(r *raw, h *wire.Header) { r.answerTo(h, 8) }
	edit := func(f func(a *wire.Header)) func(r *raw, h *wire.Header) {
		return func(r *raw, h *wire.Header) {
			a := reply(h, 8)
			f(a)
			r.send(enc(a), result(h.XID, opaque([]byte("x"))...))
		}
	}
	for _, tc := range []struct {
		name    string
		odd     func(r *raw, h *wire.Header)
		want    error // of the call; nil: it gets its reply all the same
		dropped uint64
	}{
		{"unknown XID first", func(r *raw, h *wire.Header) { u := *h; u.XID ^= 1 << 31; good(r, &u); good(r, h) }, nil, 1},
		{"another version first", func(r *raw, h *wire.Header) { u := *h; u.Version = 3 - h.Version; good(r, &u); good(r, h) }, nil, 1},
		{"twice", func(r *raw, h *wire.Header) { good(r, h); good(r, h) }, nil, 1},
		{"garbage first", func(r *raw, h *wire.Header) { r.send([]byte("garbage")); good(r, h) }, nil, 1},
		{"an error that nobody knows first", func(r *raw, h *wire.Header) { r.send(rawWords(h.Version, 8, 4, 99)(r, h.XID)); good(r, h) }, nil, 1},
		{"an error cut short first", func(r *raw, h *wire.Header) { r.send(rawWords(h.Version, 8, 4)(r, h.XID)); good(r, h) }, nil, 1},
		{"DONE first", func(r *raw, h *wire.Header) { r.send(rawWords(h.Version, 8, 3)(r, h.XID)); good(r, h) }, nil, 1},
		{"MSGP first", func(r *raw, h *wire.Header) { r.send(rawWords(1, 8, 2, 0, 0, 0, 0, 0)(r, h.XID)); good(r, h) }, nil, 1},
		{"a call first", func(r *raw, h *wire.Header) {
			r.send(enc(head(h.XID, h.Version, wire.Msg)), echo(h.XID))
			good(r, h)
		}, nil, 1},
		{"a Read list", edit(func(a *wire.Header) { a.Reads = []wire.ReadSegment{seg(0, 4)} }), engine.ErrBadReply, 1},
		{"a Write chunk nobody offered", edit(func(a *wire.Header) { a.Writes = []wire.Chunk{{{Handle: 1, Length: 1}}} }), engine.ErrBadReply, 1},
		{"a Reply chunk nobody offered", edit(func(a *wire.Header) { a.HasReply, a.Reply = true, wire.Chunk{{Handle: 1}} }), engine.ErrBadReply, 1},
		{"another XID in the RPC message", func(r *raw, h *wire.Header) {
			r.send(enc(reply(h, 8)), result(h.XID+1, opaque([]byte("x"))...))
		}, engine.ErrBadReply, 1},
		{"no RPC message", func(r *raw, h *wire.Header) { r.send(enc(reply(h, 8)), word(h.XID)) }, engine.ErrBadReply, 1},
	} {
		for v := uint32(1); v <= 2; v++ {
			if v == 1 && tc.name == "no RPC message" {
				continue // nothing says that it is a reply
			}
			t.Run(fmt.Sprintf("%s, version %d", tc.name, v), func(t *testing.T) {
				rec := recorder(make(chan obs.Event, 100))
				c := dial(t, rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
					if n == 1 {
						tc.odd(r, h)
					} else {
						good(r, h)
					}
				}), rpc.WithVersions(1, v), rpc.WithRecorder(rec))
				for n := range 3 {
					err := ask(t, c)
					if n != 1 && err != nil || n == 1 && !errors.Is(err, tc.want) {
						t.Errorf("call %d: %v", n, err)
					}
				}
				if n := c.Counters(); n.Dropped != tc.dropped || n.Outstanding != 0 || n.ErrorsSent != 0 {
					t.Errorf("%+v", n)
				}
				if n := rec.count(obs.ConnUp); n != 1 {
					t.Errorf("%d connections, want one", n)
				}
			})
		}
	}
}

type recorder chan obs.Event

func (r recorder) Record(e obs.Event) {
	select {
	case r <- e:
	default:
	}
}

func (r recorder) count(k obs.Kind) (n int) {
	for {
		select {
		case e := <-r:
			if e.Kind == k {
				n++
			}
		default:
			return n
		}
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	bodies := map[uint32][]wire.ErrorBody{1: {{Code: wire.ErrChunk}}, 2: {
		{Code: wire.ErrBadXDR}, {Code: wire.ErrInvalidProc}, {Code: wire.ErrReadChunks, Max: 3},
		{Code: wire.ErrWriteChunks}, {Code: wire.ErrSegments, Max: 1}, {Code: wire.ErrWriteResource, Index: 1, Needed: 900},
		{Code: wire.ErrReplyResource, Needed: 800}, {Code: wire.ErrInvalidOption}, {Code: wire.ErrSystem},
	}}
	for v, list := range bodies {
		for _, body := range list {
			for _, at := range []int{0, 1} { // while probing, and after
				c := dial(t, rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
					if n == at {
						r.send(errorTo(h, body))
					} else {
						r.answerTo(h, 8)
					}
				}), rpc.WithVersions(1, v))
				for n := range 3 {
					err := ask(t, c)
					if n != at {
						if err != nil {
							t.Errorf("%+v at %d, call %d: %v", body, at, n, err)
						}
						continue
					}
					var te *engine.TransportError
					if !errors.As(err, &te) || te.Body != body || te.Version != v || !errors.Is(err, transport.ErrRefused) {
						t.Errorf("%+v: %v", body, err)
					}
					if granted := c.Counters().Granted; at == 0 && granted != 1 {
						t.Errorf("%d credits before a valid reply", granted) // RFC 8166 §3.3.3
					}
				}
			}
		}
	}
}

// TestErrVers: what is left after a refusal of version 2 (v2 draft §7.2, D-5).
func TestErrVers(t *testing.T) {
	for _, tc := range []struct {
		low, high uint32
		ok        bool
	}{{1, 1, true}, {0, 1, true}, {1, 9, true}, {0, 0, false}, {5, 7, false}, {2, 2, false}, {3, 1, false}, {2, 1, false}} {
		t.Run(fmt.Sprintf("%d..%d", tc.low, tc.high), func(t *testing.T) {
			c := dial(t, rawServe(t, func(r *raw, _ int, h *wire.Header, _ []byte) {
				if h.Version == 2 {
					r.send(errorTo(h, *errVers(tc.low, tc.high)))
				} else {
					r.answerTo(h, 8)
				}
			}))
			for range 3 {
				err := ask(t, c)
				if tc.ok && err != nil || !tc.ok && !errors.Is(err, engine.ErrVersion) {
					t.Errorf("%v", err)
				}
			}
			if tc.ok && c.Conns()[0].Version() != 1 {
				t.Error("not version 1")
			}
		})
	}
}

// TestErrVersWithChunks: the call that probes goes again, with chunks of its own.
func TestErrVersWithChunks(t *testing.T) {
	c := dial(t, rawServe(t, func(r *raw, _ int, h *wire.Header, _ []byte) {
		if h.Version == 2 {
			r.send(errorTo(h, *errVers(1, 1)))
			return
		}
		a := reply(h, 8)
		r.Write(pattern(5000), h.Writes[0][0])
		a.Writes[0][0].Length = 5000
		r.send(enc(a), result(h.XID, word(5000)...))
	}))
	buf := make([]byte, 6000)
	var res bulk
	if err := c.Call(ctx(t), procRead, readArgs(5000), &res, rpc.Into(buf)); err != nil || sum(res) != sum(pattern(5000)) {
		t.Errorf("%v, %d bytes", err, len(res))
	}
}

func TestNoReply(t *testing.T) {
	for _, first := range []bool{true, false} {
		c := dial(t, rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
			if n == 0 && !first {
				r.answerTo(h, 8)
			}
		}), rpc.WithCallTimeout(50*time.Millisecond))
		if !first {
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			if err := c.Call(context.Background(), procEcho, blob("x"), nil); !errors.Is(err, transport.ErrTimeout) {
				t.Errorf("%v, want ErrTimeout", err)
			}
		}
		// Too long for a probe: the NULL that goes ahead has no answer either.
		if err := c.Call(context.Background(), procEcho, blob(pattern(3000)), nil); !errors.Is(err, transport.ErrTimeout) {
			t.Errorf("%v, want ErrTimeout", err)
		}
	}
}

// TestLostProbes: two connections in a row that end with the probe unanswered: version 1 from then on (D-5).
func TestLostProbes(t *testing.T) {
	var mu sync.Mutex
	var versions []uint32
	url := rawServe(t, func(r *raw, _ int, h *wire.Header, _ []byte) {
		mu.Lock()
		versions = append(versions, h.Version)
		mu.Unlock()
		if h.Version == 2 {
			r.Conn.Abort(errors.New("what is that?"))
		} else {
			r.answerTo(h, 8)
		}
	})
	c := dial(t, url)
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	only := dial(t, url, rpc.WithVersions(2, 2), rpc.WithRetransmits(1))
	if err := ask(t, only); !errors.Is(err, net.ErrClosed) {
		t.Errorf("version 2 only: %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(versions) != "[2 2 1 2 2]" {
		t.Errorf("versions seen %v", versions)
	}
}

// TestProbesWeAbandon: that the client hangs up says nothing about the server.
func TestProbesWeAbandon(t *testing.T) {
	var mu sync.Mutex
	var versions []uint32
	arrived := make(chan struct{}, 8)
	url := rawServe(t, func(r *raw, _ int, h *wire.Header, _ []byte) {
		mu.Lock()
		defer mu.Unlock()
		versions = append(versions, h.Version)
		if len(versions) > 3 {
			r.answerTo(h, 8)
		}
		arrived <- struct{}{}
	})
	for range 3 {
		c := dial(t, url)
		patient, cancel := context.WithCancel(ctx(t))
		go func() {
			<-arrived
			cancel()
		}()
		if err := c.Call(patient, procEcho, blob("x"), nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		c.Close()
	}
	if err := ask(t, dial(t, url)); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(versions) != "[2 2 2 2]" {
		t.Errorf("versions seen %v", versions)
	}
}

// TestReplyTooLong for the receive that was posted ends the connection.
func TestReplyAboveTheReceive(t *testing.T) {
	c := dial(t, rawServe(t, func(r *raw, _ int, h *wire.Header, _ []byte) {
		r.send(enc(reply(h, 8)), result(h.XID, opaque(pattern(5000))...))
	}), rpc.WithRetransmits(-1))
	if err := ask(t, c); !errors.Is(err, verbs.ErrTooLong) {
		t.Errorf("%v, want ErrTooLong", err)
	}
}

// TestInvalidation: a key that the reply invalidates is believed to be gone if it is the call's (D-25).
func TestInvalidation(t *testing.T) {
	hold := make(chan struct{}, 2)
	var mu sync.Mutex
	var held []*wire.Header
	c := dial(t, rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
		if n == 0 {
			r.answerTo(h, 8)
			return
		}
		if h.InvHandle != h.Writes[0][0].Handle {
			t.Errorf("rdma_inv_handle %#x names no handle of %+v", h.InvHandle, h.Lists)
		}
		answer := func(h *wire.Header, key uint32) {
			b := append(enc(reply(h, 8)), result(h.XID, opaque([]byte("x"))...)...)
			if err := r.Post(verbs.Work{Op: verbs.OpSendInvalidate, Key: key}, b); err != nil {
				t.Errorf("post: %v", err)
			}
		}
		if n == 1 {
			answer(h, h.InvHandle)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if held = append(held, &wire.Header{XID: h.XID, Version: 2, Lists: wire.Lists{Writes: []wire.Chunk{{h.Writes[0][0]}}}}); len(held) == 2 {
			answer(held[0], held[1].Writes[0][0].Handle)
			<-hold
			r.answerToBulk(held[1])
		}
	}))
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	read := func() error { return c.Call(ctx(t), procRead, readArgs(9000), new(bulk), rpc.Into(make([]byte, 9000))) }
	if err := read(); err != nil {
		t.Fatal(err)
	}
	if n := c.Counters(); n.RemoteInv != 1 || n.BadInvalidate != 0 {
		t.Errorf("after its own key: %+v", n)
	}
	done := make(chan error, 2)
	go func() { done <- read() }()
	go func() { done <- read() }()
	if err := <-done; err != nil {
		t.Error(err)
	}
	hold <- struct{}{}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := c.Counters(); n.BadInvalidate != 1 || n.Outstanding != 0 {
		t.Errorf("after a foreign key: %+v", n)
	}
}

func (r *raw) answerToBulk(h *wire.Header) {
	r.send(enc(reply(h, 8)), result(h.XID, opaque([]byte("x"))...))
}

// TestOperationsOfTheServer: what nobody negotiated is refused by the client too (D-12); calls of the server are not taken.
func TestOperationsOfTheServer(t *testing.T) {
	got := make(chan wire.Header, 8)
	c := dial(t, rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
		if h.Proc == wire.ErrorMsg {
			got <- *h
			return
		}
		r.send(enc(head(h.XID^1<<31, 2, wire.ConnProp)))
		r.send(enc(head(h.XID^1<<31, 2, wire.Msg)), echo(h.XID^1<<31))
		r.answerTo(h, 8)
	}))
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	select {
	case h := <-got:
		if h.Err.Code != wire.ErrInvalidProc {
			t.Errorf("%+v", h)
		}
	case <-time.After(time.Minute):
		t.Error("CONNPROP was not answered")
	}
	if n := c.Counters(); n.Dropped != 1 {
		t.Errorf("%+v", n)
	}
}
