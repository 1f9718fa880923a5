package rpc_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

const idPart = ext.ExperimentalFirst + 0x50

func newGate(name string) *fake {
	f := newFake(nil)
	f.decl = ext.Declaration{Name: name, Gate: true}
	return f
}

// asGate makes an extension with operations one that gates.
func asGate(f *fake) *fake {
	f.decl.Gate = true
	return f
}

func gateError(t *testing.T, err error, name string) {
	t.Helper()
	var gate *engine.GateError
	if !errors.As(err, &gate) || gate.Extension != name || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// TestGateAtTheClient: what a client calls waits until every gate is open; only NULL goes before (D-3).
func TestGateAtTheClient(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			var served, null atomic.Int64
			f := serve(t, url, rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
				if served.Add(1); r.Proc == 0 {
					null.Add(1)
				}
				return next(ctx, r)
			}))
			one, two := newGate("one"), newGate("two")
			c := dial(t, f.url, rpc.WithExtensions(setOf(t, one, two)))
			errs := make(chan error, 32)
			for range cap(errs) {
				go func() {
					in, out := blob(pattern(3000)), blob(nil) // too long for a first message
					errs <- c.Call(context.Background(), procEcho, &in, &out)
				}()
			}
			a, b := one.session(t), two.session(t)
			if !a.conn.Facts().Gated {
				t.Error("not gated")
			}
			a.conn.Open()
			a.conn.Open() // once is all that counts
			cctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if err := c.Call(cctx, procEcho, blob("x"), new(blob)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a call with a deadline that waits at the gate: %v", err)
			}
			if n := served.Load(); n != null.Load() || n > 1 {
				t.Errorf("%d calls have gone, %d of them NULL", n, null.Load())
			}
			if len(errs) > 0 {
				t.Errorf("a call has ended: %v", <-errs)
			}
			b.conn.Open()
			for range cap(errs) {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			if b.conn.Facts().Gated {
				t.Error("still gated")
			}
		})
	}
}

// TestGateOperations: what the gate needs to say goes while calls wait, at whatever number of credits.
func TestGateOperations(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			there := asGate(newFake(echoes))
			f := serve(t, url, rpc.WithCredits(1), rpc.WithExtensions(setOf(t, there)))
			here := asGate(newFake(echoes))
			c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)))
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if err := c.Call(ctx(t), procEcho, blob(pattern(60)), new(blob)); err != nil {
						t.Error(err)
					}
				})
			}
			s := here.session(t)
			for range 3 {
				if o := s.send(t, ext.Outgoing{Op: "ask", Info: []byte("who")}); o.Kind != ext.Answered {
					t.Errorf("%+v", o)
				}
			}
			there.session(t).conn.Open()
			s.conn.Open()
			wg.Wait()
		})
	}
}

// TestGateAtTheServer: NULL is answered, all else refused and not executed, nothing is read for it, and it goes on when
// the gate is open (D-3).
func TestGateAtTheServer(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			var served atomic.Int64
			gate := newGate("watchman")
			f := serve(t, url, rpc.WithExtensions(setOf(t, gate)), rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
				if r.Proc != 0 {
					served.Add(1)
				}
				return next(ctx, r)
			}))
			c := dial(t, f.url)
			null := &rpc.Proc{Program: program, Version: 1}
			if err := c.Call(ctx(t), null, nil, nil); err != nil {
				t.Errorf("NULL: %v", err)
			}
			into := make([]byte, 70_000)
			for name, call := range map[string]func() error{
				"short":              func() error { return c.Call(ctx(t), procEcho, blob("x"), new(blob)) },
				"Read chunk":         func() error { return c.Call(ctx(t), procWrite, bulk(pattern(70_000)), new(number)) },
				"Write chunk":        func() error { return c.Call(ctx(t), procRead, readArgs(70_000), new(bulk), rpc.Into(into)) },
				"Long Call":          func() error { return c.Call(ctx(t), procEcho, blob(pattern(70_000)), new(blob)) },
				"Reply chunk":        func() error { return c.Call(ctx(t), procRead, readArgs(70_000), new(blob)) },
				"program not served": func() error { return c.Call(ctx(t), &rpc.Proc{Program: 9, Version: 1, Number: 4}, nil, nil) },
				"NULL that is no NULL": func() error {
					return c.Call(ctx(t), &rpc.Proc{Program: program, Version: 1, Number: 1 << 24}, nil, nil)
				},
			} {
				var refused *rpcmsg.AuthError
				if err := call(); !errors.As(err, &refused) || refused.Stat != rpcmsg.AuthTooWeak {
					t.Errorf("%s: %v", name, err)
				}
			}
			s := gate.session(t)
			if n := served.Load(); n != 0 {
				t.Errorf("%d calls were executed", n)
			}
			s.conn.Open()
			if err := c.Call(ctx(t), procWrite, bulk(pattern(70_000)), new(number)); err != nil {
				t.Errorf("through the gate: %v", err)
			}
		})
	}
}

// TestGateAndRawPeers: what no client of ours sends.
func TestGateAndRawPeers(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			f := serve(t, url, rpc.WithExtensions(setOf(t, newGate("watchman"))))
			old := rawDial(t, f.url)
			old.send(enc(head(1, 1, wire.Msg)), call(1, 1, opaque([]byte("x"))...))
			if h, _, _ := old.Parsed(); h.Proc != wire.ErrorMsg || h.Err.Code != wire.ErrVers || h.Err.Low != 2 || h.Err.High != 2 {
				t.Errorf("version 1 is answered by %+v", h)
			}
			r := rawDial(t, f.url)
			nowhere := head(1, 2, wire.NoMsg) // reading it would end the connection
			nowhere.Reads = []wire.ReadSegment{{Segment: wire.Segment{Handle: 0x1234, Length: 100, Offset: 1}}}
			r.send(enc(nowhere))
			var w xdr.Writer
			(&rpcmsg.ReplyHeader{XID: 1, Stat: rpcmsg.Denied, Reject: rpcmsg.RejectAuth, Auth: rpcmsg.AuthTooWeak}).Append(&w)
			if h, payload, _ := r.Parsed(); h.Proc != wire.Msg || h.XID != 1 || !bytes.Equal(payload, w.Bytes()) {
				t.Errorf("a Long Call is answered by %+v, %x", h, payload)
			}
			r.send(enc(head(2, 2, wire.Msg)), call(2, 0))
			if h, payload, _ := r.Parsed(); h.Proc != wire.Msg || h.XID != 2 || !bytes.Equal(payload, result(2)) {
				t.Errorf("NULL is answered by %+v, %x", h, payload)
			}
			r.send(enc(head(3, 2, wire.Msg)), call(4, 1)) // two XIDs
			if h, _, _ := r.Parsed(); h.Proc != wire.ErrorMsg || h.Err.Code != wire.ErrBadXDR {
				t.Errorf("two XIDs are answered by %+v", h)
			}
		})
	}
}

// cutter takes messages in pieces; it only counts them.
type cutter struct {
	conn   ext.Conn
	pieces atomic.Int64
	up     chan struct{}
}

func (p *cutter) Declare() ext.Declaration {
	return ext.Declaration{Name: "pieces", Class: ext.Payload, Gate: true, Ops: []ext.Op{
		{Name: "part", Type: idPart, Payload: ext.Part, Window: 4, Proves: true},
		{Name: "last", Type: idPart + 1, Payload: ext.Wraps},
	}}
}

func (p *cutter) Connect(c ext.Conn) ext.Session {
	p.conn = c
	close(p.up)
	return p
}

func (p *cutter) Message(ext.Message)     {}
func (p *cutter) Closed(error)            {}
func (p *cutter) Reach() (send, recv int) { return 0, 0 }

func (p *cutter) Wrap(into []ext.Piece, _ uint32, _, _, _ int) []ext.Piece { return into }

func (p *cutter) Unwrap(ext.Piece, uint32, bool, []byte) ([]byte, func(), ext.Verdict) {
	p.pieces.Add(1)
	return nil, nil, ext.Verdict{}
}

// TestGateAndWrappedCalls: an operation that carries a call, or a piece of one, is no way round the gate.
func TestGateAndWrappedCalls(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			var served atomic.Int64
			there := &cutter{up: make(chan struct{})}
			f := serve(t, url, rpc.WithExtensions(setOf(t, there)), rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
				if r.Proc != 0 {
					served.Add(1)
				}
				return next(ctx, r)
			}))
			r := rawDial(t, f.url)
			r.send(enc(head(1, 2, wire.Msg)), call(1, 0))
			r.Parsed()
			<-there.up
			part := func(xid uint32) {
				h := head(xid, 2, wire.Optional)
				h.OptType = idPart
				r.send(enc(h), []byte("some bytes"))
			}
			whole := func(xid uint32) wire.Header {
				t.Helper()
				h := head(xid, 2, wire.Optional)
				h.OptType, h.OptInfo = idPart+1, (&wire.Header{Version: 2}).AppendChunkLists([]byte{0, 0, 0, 0})
				r.send(enc(h), call(xid, 1, opaque([]byte("x"))...))
				got, payload, _ := r.Parsed()
				if got.Proc == wire.Msg && !bytes.Equal(payload, result(xid, opaque([]byte("x"))...)) {
					got.Proc = wire.NoMsg // it was refused
				}
				return got
			}
			r.send(enc(head(2, 2, wire.Msg)), call(2, 0)) // the sessions have begun, or are about to
			r.Parsed()
			wait.For(t, "the session", func() bool { h := whole(3); return h.Proc == wire.NoMsg })
			part(4)
			if h, _, _ := r.Parsed(); h.Proc != wire.ErrorMsg || h.Err.Code != wire.ErrInvalidOption || h.XID != 4 {
				t.Errorf("a piece is answered by %+v", h)
			}
			if n := served.Load(); n != 0 {
				t.Errorf("%d calls were executed", n)
			}
			there.conn.Open()
			before := there.pieces.Load()
			part(5)
			if h := whole(6); h.Proc != wire.Msg {
				t.Errorf("a wrapped call is answered by %+v", h)
			}
			if n := there.pieces.Load() - before; n != 2 {
				t.Errorf("%d pieces", n)
			}
		})
	}
}

// TestGateTakesVersion2: a client that gates does not talk version 1, and says why.
func TestGateTakesVersion2(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			var served atomic.Int64
			url := strings.Replace(url, "127.0.0.1", "127.0.0.2", 1) // clients remember it (D-5), and a later server may have its port
			f := serve(t, url, rpc.WithVersions(1, 1), rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
				served.Add(1)
				return next(ctx, r)
			}))
			c := dial(t, f.url, rpc.WithExtensions(setOf(t, newGate("watchman"))))
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					err := c.Call(ctx(t), procEcho, blob("x"), new(blob))
					gateError(t, err, "watchman")
					if !errors.Is(err, engine.ErrVersion) || !strings.Contains(err.Error(), "version 2") {
						t.Errorf("%v", err)
					}
				})
			}
			wg.Wait()
			if n := served.Load(); n != 0 {
				t.Errorf("%d calls were served", n)
			}
		})
	}
	var bad *engine.ConfigError
	if _, err := rpc.NewClient("loopback://h:1", rpc.WithVersions(1, 1), rpc.WithExtensions(setOf(t, newGate("watchman")))); !errors.As(err, &bad) {
		t.Errorf("version 1 and a gate: %v", err)
	}
}

// TestGateAfterACancelledNull: a caller that finds out the version and gives up leaves that to the others, be its NULL call
// answered by an error.
func TestGateAfterACancelledNull(t *testing.T) {
	here := newGate("watchman")
	knocked := make(chan func(), 1) // answers the first NULL call
	c := dial(t, rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
		if n > 0 {
			r.answerTo(h, 8)
			return
		}
		head := wire.Header{XID: h.XID, Version: h.Version}
		knocked <- func() { r.send(errorTo(&head, *code(wire.ErrSystem))) }
	}), rpc.WithExtensions(setOf(t, here)))
	first, cancel := context.WithCancel(ctx(t))
	hasty, patient := make(chan error, 1), make(chan error, 1)
	go func() { hasty <- c.Call(first, procEcho, blob("x"), nil) }()
	answer := <-knocked
	go func() { patient <- ask(t, c) }()
	wait.For(t, "a call behind it", func() bool { return c.Counters().CreditWaits == 1 })
	cancel()
	if err := <-hasty; !errors.Is(err, context.Canceled) {
		t.Errorf("the call that was cancelled: %v", err)
	}
	answer()
	here.session(t).conn.Open()
	if err := <-patient; err != nil {
		t.Errorf("the call behind it: %v", err)
	}
}

// TestGateStaysShut: calls end with a *GateError, at once and for good, and with it the connection.
func TestGateStaysShut(t *testing.T) {
	cause := errors.New("wrong key")
	for _, url := range extendedURLs {
		for name, tc := range map[string]struct {
			absent  bool
			timeout time.Duration
			act     func(*fakeSession)
			is      error
			says    string
		}{
			"refused":  {act: func(s *fakeSession) { s.conn.Fail(cause) }, is: cause, says: "wrong key"},
			"absent":   {absent: true, says: "not there"},
			"too late": {timeout: 50 * time.Millisecond, says: "50ms have passed"},
			"panicked": {act: func(s *fakeSession) { s.conn.Request(ext.SendLimit(0), func(error) { panic("told to") }) }, says: "panicked"},
		} {
			t.Run(url[:5]+" "+name, func(t *testing.T) {
				f := serve(t, url)
				gate := newGate("watchman")
				gate.refuses = tc.absent
				c := dial(t, f.url, rpc.WithExtensions(setOf(t, gate)), rpc.WithGateTimeout(cmp.Or(tc.timeout, 10*time.Second)))
				errs := make(chan error, 8)
				for range cap(errs) {
					go func() { errs <- c.Call(context.Background(), procEcho, blob("x"), new(blob)) }()
				}
				if tc.act != nil {
					s := gate.session(t)
					wait.For(t, "callers at the gate", func() bool { return c.Counters().CreditWaits == uint64(cap(errs)) })
					tc.act(s)
				}
				for range cap(errs) {
					select {
					case err := <-errs:
						if gateError(t, err, "watchman"); tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
							t.Errorf("%v", err)
						}
					case <-time.After(2 * time.Minute):
						t.Fatal("a call goes on")
					}
				}
				gate.mu.Lock()
				defer gate.mu.Unlock()
				if n := len(gate.sessions); tc.act != nil && n != 1 {
					t.Errorf("%d connections", n)
				}
			})
		}
		t.Run(url[:5]+" server", func(t *testing.T) {
			gate := newGate("watchman")
			f := serve(t, url, rpc.WithExtensions(setOf(t, gate)), rpc.WithGateTimeout(50*time.Millisecond))
			r := rawDial(t, f.url)
			r.send(enc(head(1, 2, wire.Msg)), call(1, 0)) // on a slow machine its answer comes too late
			s := gate.session(t)
			<-r.Gone
			<-s.done
			gateError(t, s.err, "watchman")
			idle := rawDial(t, f.url) // no version stands: it is only idle
			select {
			case <-idle.Gone:
				t.Errorf("ended: %v", idle.Cut)
			case <-time.After(150 * time.Millisecond):
			}
		})
	}
}

// TestFailOfAnOpenConnection: calls that an extension's Fail ends go on elsewhere, as they do when a connection is lost.
func TestFailOfAnOpenConnection(t *testing.T) {
	for name, here := range map[string]*fake{"no gate": newFake(echoes), "opened": asGate(newFake(echoes))} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, "loopback://127.0.0.1:0")
			close(f.wait)
			c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)))
			up := make(chan *fakeSession, 64)
			quit := make(chan struct{})
			t.Cleanup(func() { close(quit) })
			go func() {
				for {
					select {
					case s := <-here.up:
						s.conn.Open()
						up <- s
					case <-quit:
						return
					}
				}
			}()
			for range 20 {
				if err := c.Call(ctx(t), procWait, bulk("x"), new(bulk)); err != nil {
					t.Fatal(err)
				}
				conn := c.Conns()[0]
				s := <-up
				cause := errors.New("peer is silent")
				s.conn.Fail(cause)
				if err := c.Call(ctx(t), procWait, bulk("x"), new(bulk)); err != nil {
					t.Fatal(err)
				}
				<-conn.Done()
				var failed *engine.FailedError
				if err := conn.Err(); !errors.As(err, &failed) || failed.Extension != "fake" || !errors.Is(err, cause) {
					t.Errorf("the connection ended: %v", err)
				}
			}
		})
	}
}

// TestGateUnderCallTimeout: a call that waits at the gate has no longer than any other.
func TestGateUnderCallTimeout(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	c := dial(t, f.url, rpc.WithExtensions(setOf(t, newGate("watchman"))), rpc.WithCallTimeout(50*time.Millisecond))
	if err := c.Call(context.Background(), procEcho, blob("x"), new(blob)); !errors.Is(err, transport.ErrTimeout) {
		t.Errorf("%v", err)
	}
}

// TestGateAndBackwardCalls: they wait at the server, and are refused by a client that has not opened.
func TestGateAndBackwardCalls(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			there := newGate("watchman")
			b, err := rpc.NewBackchannel()
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			bound := make(chan error, 1)
			f := programs()
			f.srv.Register(program+1, 1, rpc.Method{Proc: &rpc.Proc{Program: program + 1, Version: 1, Number: 0}, Handler: func(_ context.Context, r *rpc.Request) error {
				bound <- b.Bind(r.Peer())
				return nil
			}})
			f.listen(t, url, rpc.WithExtensions(setOf(t, there)))
			here := newGate("other")
			back := programs()
			t.Cleanup(func() { back.srv.Close() })
			c := dial(t, f.url, rpc.WithPrograms(back.srv), rpc.WithExtensions(setOf(t, here)))
			go c.Call(context.Background(), &rpc.Proc{Program: program + 1, Version: 1, Number: 0}, nil, nil) // its probe binds
			if err := <-bound; err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- b.Call(context.Background(), procEcho, blob("x"), new(blob)) }()
			s, s2 := there.session(t), here.session(t)
			select {
			case err := <-done:
				t.Fatalf("before the server has opened: %v", err)
			case <-time.After(30 * time.Millisecond):
			}
			s.conn.Open()
			if err := <-done; !errors.Is(err, &rpcmsg.AuthError{Stat: rpcmsg.AuthTooWeak}) {
				t.Errorf("before the client has opened: %v", err)
			}
			s2.conn.Open()
			if err := b.Call(ctx(t), procEcho, blob("x"), new(blob)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGateUnderLoad: connections end at any moment of the gate's, and no call is lost or hangs.
func TestGateUnderLoad(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			there, here := newGate("watchman"), newGate("watchman")
			f := serve(t, url, rpc.WithExtensions(setOf(t, there)))
			c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)), rpc.WithRetransmits(1000), rpc.WithLossLimit(1000))
			var stop sync.WaitGroup
			quit := make(chan struct{})
			stop.Go(func() {
				for {
					select {
					case s := <-there.up:
						s.conn.Open()
						select {
						case p := <-here.up: // the client's of the same connection, or of an earlier one
							time.Sleep(rand.N(time.Millisecond))
							p.conn.Open()
						case <-time.After(5 * time.Millisecond):
						}
					case p := <-here.up:
						p.conn.Open()
					case <-quit:
						return
					}
				}
			})
			var ends atomic.Int64
			stop.Go(func() {
				for ends.Load() < 20 {
					time.Sleep(rand.N(3 * time.Millisecond))
					for _, conn := range c.Conns() {
						conn.Abort(fmt.Errorf("told to"))
						ends.Add(1)
					}
				}
			})
			var wg sync.WaitGroup
			for range 32 {
				wg.Go(func() {
					for range 40 {
						err := c.Call(context.Background(), procEcho, blob(pattern(100)), new(blob))
						if err != nil && !errors.Is(err, &rpcmsg.AuthError{Stat: rpcmsg.AuthTooWeak}) {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			ends.Store(20)
			close(quit)
			stop.Wait()
		})
	}
}
