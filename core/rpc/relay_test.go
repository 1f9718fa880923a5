package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// A program with a READ and a WRITE as NFSv3's are (RFC 1813 §3.3.6, §3.3.7): bulk behind other fields.
const filesProgram = 0x20000088

var (
	procGet = &rpc.Proc{Program: filesProgram, Version: 3, Number: 6, Name: "GET", Binding: binding.Binding{Results: true, MaxReply: 100}, Idempotent: true}
	procPut = &rpc.Proc{Program: filesProgram, Version: 3, Number: 7, Name: "PUT", Binding: binding.Binding{Args: true, MaxReply: 100}}
	procSay = &rpc.Proc{Program: filesProgram, Version: 3, Number: 8, Name: "SAY", Binding: binding.Binding{MaxReply: 100}}
)

type getArgs struct{ n uint32 }

func (a getArgs) MarshalXDR(w *xdr.Writer) {
	w.String("handle")
	w.Uint64(4096)
	w.Uint32(a.n)
}

func (a getArgs) MaxReply() (reduced, whole int) { return 100, 100 + int(a.n) }

type getRes struct {
	eof  bool
	data []byte
}

func (g *getRes) UnmarshalXDR(r *xdr.Reader) {
	r.Uint32()
	g.eof = r.Bool()
	g.data = r.Bulk(64 << 20)
}

type putArgs struct {
	data []byte
}

func (a putArgs) MarshalXDR(w *xdr.Writer) {
	w.String("handle")
	w.Uint64(8192)
	w.BulkOpaque(a.data)
	w.Uint32(7) // something behind it
}

type putRes struct{ sum, tail uint32 }

func (p *putRes) UnmarshalXDR(r *xdr.Reader) { p.sum, p.tail = r.Uint32(), r.Uint32() }

// nextBulk finds the items of the two, for a relay that knows the program.
func nextBulk(proc uint32, args bool) func(*xdr.Reader) bool {
	done := false
	once := func(skip func(*xdr.Reader)) func(*xdr.Reader) bool {
		return func(r *xdr.Reader) bool {
			if done {
				return false
			}
			done = true
			skip(r)
			return true
		}
	}
	switch {
	case args && proc == procPut.Number:
		return once(func(r *xdr.Reader) { r.String(64); r.Uint64() })
	case !args && proc == procGet.Number:
		return once(func(r *xdr.Reader) { r.Uint32(); r.Bool() })
	}
	return func(*xdr.Reader) bool { return false }
}

// farServer is the server at the far end.
type farServer struct {
	*fixture
	puts atomic.Int64
	gate chan struct{}
	in   chan struct{}

	mu   sync.Mutex
	said []said
}

type said struct {
	xid        uint32
	cred, verf rpcmsg.Auth
}

func serveFiles(t *testing.T, url string, opts ...any) *farServer {
	f := &farServer{in: make(chan struct{}, 100)}
	f.fixture = serve(t, url, append(opts, rpc.WithAuthFlavor(gssServer{rpcmsg.PlainServer(gssLike)}))...)
	f.srv.Register(filesProgram, 3,
		rpc.Method{Proc: procGet, Handler: func(_ context.Context, r *rpc.Request) error {
			r.Args.String(64)
			r.Args.Uint64()
			n := int(r.Args.Uint32())
			if err := r.Args.Done(); err != nil {
				return err
			}
			b, err := r.Buffer(max(n, 1))
			if err != nil {
				return err
			}
			fill(b.Bytes())
			r.Results.Uint32(0)
			r.Results.Bool(true)
			r.Results.BulkItem(b.Bulk(n))
			return nil
		}},
		rpc.Method{Proc: procPut, Handler: func(_ context.Context, r *rpc.Request) error {
			r.Args.String(64)
			r.Args.Uint64()
			b := r.Args.Bulk(64 << 20)
			tail := r.Args.Uint32()
			if err := r.Args.Done(); err != nil {
				return err
			}
			f.puts.Add(1)
			f.in <- struct{}{}
			if f.gate != nil {
				<-f.gate
			}
			r.Results.Uint32(sum(b))
			r.Results.Uint32(tail)
			return nil
		}},
		rpc.Method{Proc: procSay, Handler: func(_ context.Context, r *rpc.Request) error {
			f.mu.Lock()
			f.said = append(f.said, said{r.XID, clone(r.Cred), clone(r.Verf)})
			f.mu.Unlock()
			switch r.Args.Uint32() {
			case 1:
				return rpcmsg.ErrGarbageArgs
			case 2:
				return &rpcmsg.AuthError{Stat: rpcmsg.RPCSECGSSCtxProblem}
			case 3:
				return &rpcmsg.AcceptError{Stat: rpcmsg.SystemErr}
			}
			// A verifier that only its flavor understands.
			return r.ReplyRaw(&rpcmsg.ReplyHeader{Verf: rpcmsg.Auth{Flavor: gssLike, Body: []byte("verifier")}}, &rpc.RawBody{Stream: []byte{0, 0, 0, 9}})
		}})
	return f
}

func clone(a rpcmsg.Auth) rpcmsg.Auth {
	return rpcmsg.Auth{Flavor: a.Flavor, Body: bytes.Clone(a.Body)}
}

// gssLike is a flavor that nobody here understands.
const gssLike rpcmsg.Flavor = 390_999

// gssServer is the far server's mechanism for it.
type gssServer struct{ rpcmsg.PlainServer }

func (gssServer) Verf(*rpcmsg.CallHeader, any) (rpcmsg.Auth, error) {
	return rpcmsg.Auth{Flavor: gssLike, Body: []byte("verifier")}, nil
}

// relay passes what it gets on to a server, knowing where bulk is if told.
type relay struct {
	*fixture
	to    *rpc.Client
	knows bool
	asks  atomic.Int64
	errs  chan error
}

func serveRelay(t *testing.T, url string, to *rpc.Client, knows bool, opts ...any) *relay {
	y := &relay{to: to, knows: knows, errs: make(chan error, 100)}
	passed := &rpc.Method{Proc: &rpc.Proc{Name: "passed on", Binding: binding.Binding{Args: true, Results: true}}, Handler: y.pass}
	again := &rpc.Method{Proc: &rpc.Proc{Name: "passed on", Binding: passed.Proc.Binding, Idempotent: true}, Handler: y.pass}
	y.fixture = serve(t, url, append(opts, rpc.WithFallback(func(r *rpc.Request) (*rpc.Method, error) {
		y.asks.Add(1)
		switch {
		case r.Program != filesProgram && r.Program != 99:
			return nil, nil
		case r.Proc == procGet.Number || r.Proc == 0:
			return again, nil
		}
		return passed, nil
	}))...)
	return y
}

func (y *relay) pass(ctx context.Context, r *rpc.Request) error {
	rc := &rpc.RawCall{XID: r.XID, PassXID: true, Program: r.Program, Version: r.Version, Proc: r.Proc,
		Cred: r.Cred, Verf: r.Verf, MoveArgs: true, MaxReply: 2 << 20}
	var next func(*xdr.Reader) bool
	if y.knows {
		next = nextBulk(r.Proc, true)
	}
	if err := r.RawArgs(&rc.Args, next); err != nil {
		return err
	}
	if y.knows && r.Proc == procGet.Number {
		s := rc.Args.Stream
		n := int(s[len(s)-2])<<8 | int(s[len(s)-1]) | int(s[len(s)-3])<<16
		buf, err := r.Buffer(max(n, 1))
		if err != nil {
			return err
		}
		rc.Into, rc.NextResult, rc.MaxReply = []rpc.Dest{{Buf: buf.Bytes()[:n]}}, nextBulk(r.Proc, false), 200
		if err := y.to.CallRaw(ctx, rc); err != nil {
			buf.Free()
			return y.failed(err)
		}
		defer rc.Release()
		if len(rc.Results.Items) == 0 {
			buf.Free()
		}
		for i := range rc.Results.Items {
			rc.Results.Items[i].Mem, rc.Results.Items[i].Release = buf, buf.Free
		}
		return r.ReplyRaw(&rc.Reply, &rc.Results)
	}
	err := y.to.CallRaw(ctx, rc)
	if err != nil {
		return y.failed(err)
	}
	defer rc.Release()
	return r.ReplyRaw(&rc.Reply, &rc.Results)
}

func (y *relay) failed(err error) error {
	y.errs <- err
	return fmt.Errorf("%w: %w", rpcmsg.ErrDiscard, err)
}

var relayLegs = []struct {
	name, url string
	opts      rpc.ConnOption
}{
	{"v1", "loopback://127.0.0.1:0", rpc.WithVersions(1, 1)},
	{"v2", "loopback://127.0.0.1:0", none},
	{"iwarp", "iwarp://127.0.0.1:0", none},
	{"tcp", "tcp://127.0.0.1:0", none},
}

// forRelays runs f over each pair of transports, with a relay that knows where bulk is and with one that does not.
func forRelays(t *testing.T, f func(t *testing.T, in, out int, knows bool)) {
	for in, a := range relayLegs {
		for out, b := range relayLegs {
			for _, knows := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s to %s, knows %v", a.name, b.name, knows), func(t *testing.T) { f(t, in, out, knows) })
			}
		}
	}
}

// TestRelay: reads and writes of all sizes through a relay, which passes bulk on without a copy of its own where both
// sides have chunks and it knows where bulk is.
func TestRelay(t *testing.T) {
	forRelays(t, func(t *testing.T, in, out int, knows bool) {
		far := serveFiles(t, relayLegs[out].url, relayLegs[out].opts)
		to := dial(t, far.url, relayLegs[out].opts)
		y := serveRelay(t, relayLegs[in].url, to, knows, relayLegs[in].opts)
		c := dial(t, y.url, relayLegs[in].opts)
		for _, n := range []int{0, 1, 3, 4, 1000, 5000, 65537, 1 << 20} {
			var res getRes
			dst := make([]byte, n)
			proc := procGet
			if !knows { // what comes through it by RDMA comes as a whole
				proc = &rpc.Proc{Program: filesProgram, Version: 3, Number: procGet.Number, Binding: binding.Binding{MaxReply: n + 100}}
			}
			if err := c.Call(ctx(t), proc, getArgs{uint32(n)}, &res, rpc.Into(dst)); err != nil || !res.eof || !bytes.Equal(dst, pattern(n)) || len(res.data) != n {
				t.Fatalf("a read of %d bytes: %v, %v, %d bytes", n, err, res.eof, len(res.data))
			}
			var put putRes
			if err := c.Call(ctx(t), procPut, putArgs{pattern(n)}, &put); err != nil || put.sum != sum(pattern(n)) || put.tail != 7 {
				t.Fatalf("a write of %d bytes: %v, %+v", n, err, put)
			}
		}
		n := to.Counters()
		moves := relayLegs[out].name != "tcp"
		if got := n.WriteChunks > 0; got != (moves && knows) {
			t.Errorf("Write chunks to the server: %d", n.WriteChunks)
		}
		// The client moves its arguments to the relay: their positions are known then.
		if got := n.ReadChunks > 0; got != moves {
			t.Errorf("Read chunks to the server: %d", n.ReadChunks)
		}
		if moves && knows && (n.LongMore > 0 || n.Long > 0 || n.InlineBytes > 32<<10) {
			t.Errorf("bulk did not go in chunks of its own: %+v", n)
		}
	})
}

// TestRelayPassesReplies: what the server answers besides Success comes through as it is, and so do credentials
// and verifiers that nobody on the way understands.
func TestRelayPassesReplies(t *testing.T) {
	sys, err := (&rpcmsg.Sys{Stamp: 3, Machine: "there", UID: 12, GID: 34, GIDs: []uint32{5, 6}}).Auth()
	if err != nil {
		t.Fatal(err)
	}
	gss := rpcmsg.Auth{Flavor: gssLike, Body: []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 1, 0, 0, 0, 4, 9, 9, 9, 9}}
	forRelays(t, func(t *testing.T, in, out int, knows bool) {
		far := serveFiles(t, relayLegs[out].url, relayLegs[out].opts)
		y := serveRelay(t, relayLegs[in].url, dial(t, far.url, relayLegs[out].opts), knows, relayLegs[in].opts)
		direct, through := dial(t, far.url, relayLegs[out].opts), dial(t, y.url, relayLegs[in].opts)
		for i, c := range []rpc.RawCall{
			{Program: filesProgram, Version: 3, Proc: 8, Cred: sys, Args: rpc.RawBody{Stream: word(0)}},
			{Program: filesProgram, Version: 3, Proc: 8, Cred: gss, Verf: rpcmsg.Auth{Flavor: gssLike, Body: []byte("mic!")}, Args: rpc.RawBody{Stream: word(0)}},
			{Program: filesProgram, Version: 3, Proc: 8, Args: rpc.RawBody{Stream: word(1)}},
			{Program: filesProgram, Version: 3, Proc: 8, Args: rpc.RawBody{Stream: word(2)}},
			{Program: filesProgram, Version: 3, Proc: 8, Args: rpc.RawBody{Stream: word(3)}},
			{Program: filesProgram, Version: 3, Proc: 0},
			{Program: filesProgram, Version: 3, Proc: 55},
			{Program: filesProgram, Version: 2, Proc: 0},
			{Program: 99, Version: 1, Proc: 1},
			{Program: filesProgram, Version: 3, Proc: 8, Cred: rpcmsg.Auth{Flavor: 77777, Body: []byte("unknown there")}},
		} {
			a, b := c, c
			if err := direct.CallRaw(ctx(t), &a); err != nil {
				t.Fatal(err)
			}
			if err := through.CallRaw(ctx(t), &b); err != nil {
				t.Fatal(err)
			}
			h := b.Reply
			h.XID = a.Reply.XID
			if !reflect.DeepEqual(h, a.Reply) || !bytes.Equal(a.Results.Stream, b.Results.Stream) {
				t.Errorf("call %d: %+v %x through the relay, %+v %x without it", i, b.Reply, b.Results.Stream, a.Reply, a.Results.Stream)
			}
			if i < 2 {
				far.mu.Lock()
				s := far.said
				first, second := s[len(s)-2], s[len(s)-1]
				far.mu.Unlock()
				if second.xid != b.XID || !reflect.DeepEqual(first.cred, c.Cred) || !reflect.DeepEqual(second.cred, first.cred) || !reflect.DeepEqual(second.verf, first.verf) || len(second.verf.Body) != len(c.Verf.Body) {
					t.Errorf("call %d: the server saw %+v through the relay, %+v without it", i, second, first)
				}
				if a.Reply.Verf.Flavor != gssLike || string(a.Reply.Verf.Body) != "verifier" {
					t.Errorf("call %d: verifier %+v", i, a.Reply.Verf)
				}
			}
			a.Release()
			b.Release()
		}
		// A program that the relay does not pass on either.
		if err := through.Call(ctx(t), &rpc.Proc{Program: 100, Version: 1}, nil, nil); !errors.Is(err, rpcmsg.ErrProgUnavail) {
			t.Errorf("a program of nobody's: %v", err)
		}
	})
}

// TestRelayRepeats: a call that comes again, with the same XID, while it is passed on or after, is executed once.
func TestRelayRepeats(t *testing.T) {
	for in, leg := range relayLegs {
		t.Run(leg.name, func(t *testing.T) {
			far := serveFiles(t, "loopback://127.0.0.1:0")
			far.gate = make(chan struct{})
			y := serveRelay(t, leg.url, dial(t, far.url), true, leg.opts)
			c := dial(t, y.url, relayLegs[in].opts)
			var put putRes
			done := make(chan error, 1)
			go func() { done <- c.Call(ctx(t), procPut, putArgs{pattern(9000)}, &put) }()
			<-far.in
			for _, conn := range c.Conns() {
				conn.Abort(errors.New("cut by the test"))
			}
			wait.For(t, "the repetition", func() bool { return y.asks.Load() == 2 })
			close(far.gate)
			if err := <-done; err != nil || put.sum != sum(pattern(9000)) {
				t.Errorf("%v, %+v", err, put)
			}
			if n := far.puts.Load(); n != 1 {
				t.Errorf("executed %d times", n)
			}
		})
	}
}

// TestRelayedVerifierIsKept: the reply cache of a relay keeps the server's verifier with the reply.
func TestRelayedVerifierIsKept(t *testing.T) {
	far := serveFiles(t, "tcp://127.0.0.1:0")
	y := serveRelay(t, "tcp://127.0.0.1:0", dial(t, far.url), false)
	rc := rpc.RawCall{XID: 4711, PassXID: true, Program: filesProgram, Version: 3, Proc: 8, Args: rpc.RawBody{Stream: word(0)}}
	for range 3 {
		c := dial(t, y.url)
		if err := c.CallRaw(ctx(t), &rc); err != nil {
			t.Fatal(err)
		}
		if rc.Reply.Verf.Flavor != gssLike || string(rc.Reply.Verf.Body) != "verifier" || !bytes.Equal(rc.Results.Stream, word(9)) {
			t.Errorf("%+v, %x", rc.Reply, rc.Results.Stream)
		}
		rc.Release()
	}
	far.mu.Lock()
	defer far.mu.Unlock()
	if n := len(far.said); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// TestPassedXIDs: no two pending calls of a client have the same XID, whoever chose it.
func TestPassedXIDs(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts)
			c := dial(t, f.url, tr.opts)
			var own atomic.Uint32
			first := rpc.RawCall{Program: program, Version: 1, Proc: procEcho.Number, Args: rpc.RawBody{Stream: opaque([]byte("a"))}, MaxReply: 100}
			if err := c.CallRaw(ctx(t), &first); err != nil {
				t.Fatal(err)
			}
			own.Store(first.XID) // the client's next is one more
			first.Release()

			// The next three of the client's are taken.
			const taken = 3
			var calls sync.WaitGroup
			for i := range uint32(taken) {
				calls.Go(func() {
					rc := rpc.RawCall{XID: own.Load() + 1 + i, PassXID: true, Program: program, Version: 1, Proc: procWait.Number, Args: rpc.RawBody{Stream: opaque([]byte("b"))}, MaxReply: 100}
					if err := c.CallRaw(ctx(t), &rc); err != nil {
						t.Error(err)
						return
					}
					if rc.XID != own.Load()+1+i || rc.Reply.XID != rc.XID {
						t.Errorf("XID %d, reply to %d", rc.XID, rc.Reply.XID)
					}
					rc.Release()
				})
				<-f.inside
			}
			same := rpc.RawCall{XID: own.Load() + 2, PassXID: true, Program: program, Version: 1, Proc: procEcho.Number, Args: rpc.RawBody{Stream: opaque([]byte("c"))}}
			var used *rpc.XIDInUseError
			if err := c.CallRaw(ctx(t), &same); !errors.As(err, &used) || used.XID != same.XID {
				t.Errorf("a second call with the same XID: %v", err)
			}
			same.PassXID, same.MaxReply = false, 100
			if err := c.CallRaw(ctx(t), &same); err != nil || same.XID != own.Load()+taken+1 {
				t.Errorf("one that the client chooses: %d, %v; want %d", same.XID, err, own.Load()+taken+1)
			}
			same.Release()
			if err := c.Call(ctx(t), procEcho, blob("d"), new(blob)); err != nil {
				t.Error(err)
			}
			close(f.wait)
			calls.Wait()
			rc := rpc.RawCall{XID: own.Load() + 2, PassXID: true, Program: program, Version: 1, Proc: procEcho.Number, Args: rpc.RawBody{Stream: opaque([]byte("e"))}, MaxReply: 100}
			if err := c.CallRaw(ctx(t), &rc); err != nil || !bytes.Equal(rc.Results.Stream, opaque([]byte("e"))) {
				t.Errorf("the XID of a call that is over: %v, %x", err, rc.Results.Stream)
			}
			rc.Release()
		})
	}
}

// TestPassedXIDOfAnOwnCall: a call that began before the first XID was passed keeps its own.
func TestPassedXIDOfAnOwnCall(t *testing.T) {
	for _, url := range []string{"loopback://127.0.0.1:0", "tcp://127.0.0.1:0"} {
		f := serve(t, url)
		events := new(journal)
		c := dial(t, f.url, rpc.WithRecorder(events))
		if err := c.Call(ctx(t), procEcho, blob("first"), new(blob)); err != nil { // with credits for more than one
			t.Fatal(err)
		}
		done := make(chan error, 1)
		var got blob
		go func() { done <- c.Call(ctx(t), procWait, bulk("mine"), &got) }()
		<-f.inside
		rc := rpc.RawCall{XID: events.of(nil, obs.CallSent)[1].XID, PassXID: true, Program: program, Version: 1, Proc: procEcho.Number, Args: rpc.RawBody{Stream: opaque([]byte("x"))}, MaxReply: 100}
		var used *rpc.XIDInUseError
		if err := c.CallRaw(ctx(t), &rc); !errors.As(err, &used) {
			t.Errorf("%s: %v", url, err)
		}
		close(f.wait)
		if err := <-done; err != nil || string(got) != "mine" {
			t.Errorf("%s: %v, %q", url, err, got)
		}
	}
}

// TestRawCallCancelled: who gives a raw call up has its memory back, and arguments and call are released once.
func TestRawCallCancelled(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts)
			c := dial(t, f.url, tr.opts)
			var released atomic.Int64
			item := func(b []byte) rpc.RawBody {
				return rpc.RawBody{Stream: word(uint32(len(b))), Items: []xdr.Item{{Off: 4, Data: b, Release: func() { released.Add(1) }}}}
			}
			short, cancel := context.WithCancel(ctx(t))
			go func() { <-f.inside; cancel() }()
			dst := make([]byte, 9000)
			rc := rpc.RawCall{Program: program, Version: 1, Proc: procWait.Number, Args: item(pattern(9000)), MoveArgs: true, MaxReply: 100,
				Into: []rpc.Dest{{Buf: dst}}, NextResult: func(r *xdr.Reader) bool { return r.Remaining() > 0 }}
			if err := c.CallRaw(short, &rc); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			wait.For(t, "the arguments to be released", func() bool { return released.Load() == 1 })
			clear(dst)
			close(f.wait)
			wait.For(t, "the reply", func() bool { return c.Counters().Outstanding == 0 })
			if slices.Max(dst) != 0 {
				t.Error("the reply was placed in memory of the caller's")
			}
			rc.Release() // there is nothing

			rc.Args = item(pattern(5))
			rc.Args.Items[0].Off = 3
			if err := c.CallRaw(ctx(t), &rc); !errors.Is(err, xdr.ErrChunk) || released.Load() != 2 {
				t.Errorf("an item that does not fit: %v, %d released", err, released.Load())
			}
			rc.Args, rc.NextResult = item(pattern(5)), nil
			if err := c.CallRaw(ctx(t), &rc); err == nil || released.Load() != 3 {
				t.Errorf("destinations that nothing finds results for: %v, %d released", err, released.Load())
			}
		})
	}
}

// TestFallbackIsServed: interceptors see calls that fall back, a function that fails answers, and what a handler does not
// answer is dropped, and executed when it comes again.
func TestFallbackIsServed(t *testing.T) {
	var seen, fails atomic.Int64
	inter := func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
		if r.Method.Proc.Name == "FALLEN" {
			seen.Add(1)
		}
		return next(ctx, r)
	}
	var executed atomic.Int64
	m := &rpc.Method{Proc: &rpc.Proc{Name: "FALLEN"}, Handler: func(_ context.Context, r *rpc.Request) error {
		if executed.Add(1) == 1 {
			return fmt.Errorf("nobody there: %w", rpcmsg.ErrDiscard)
		}
		r.Results.Uint32(r.Program)
		return nil
	}}
	events := new(journal)
	f := serve(t, "tcp://127.0.0.1:0", rpc.WithServerInterceptor(inter), rpc.WithRecorder(events), rpc.WithFallback(func(r *rpc.Request) (*rpc.Method, error) {
		switch r.Proc {
		case 1:
			return nil, &rpcmsg.AuthError{Stat: rpcmsg.AuthTooWeak}
		case 2:
			fails.Add(1)
			panic("by the test")
		case 3:
			return new(rpc.Method), nil
		case 4:
			return nil, rpcmsg.ErrDiscard
		}
		return m, nil
	}))
	c := dial(t, f.url, rpc.WithRetransmits(-1))
	call := func(program, proc uint32) error {
		return c.Call(ctx(t), &rpc.Proc{Program: program, Version: 9, Number: proc}, nil, nil)
	}
	var auth *rpcmsg.AuthError
	if err := call(5, 1); !errors.As(err, &auth) || auth.Stat != rpcmsg.AuthTooWeak {
		t.Errorf("an error: %v", err)
	}
	if err := call(5, 2); !errors.Is(err, rpcmsg.ErrSystem) || fails.Load() != 1 {
		t.Errorf("a panic: %v", err)
	}
	if err := call(5, 3); !errors.Is(err, rpcmsg.ErrSystem) {
		t.Errorf("a method without Proc: %v", err)
	}
	short, cancel := context.WithTimeout(ctx(t), 30*time.Millisecond)
	defer cancel()
	if err := c.Call(short, &rpc.Proc{Program: 5, Number: 4}, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that is dropped: %v", err)
	}
	var accept *rpcmsg.AcceptError
	if err := call(program, 1); !errors.As(err, &accept) || accept.Stat != rpcmsg.ProgMismatch {
		t.Errorf("another version of a program that is registered: %v", err)
	}
	rc := rpc.RawCall{XID: 5, PassXID: true, Program: 7, Version: 1, Proc: 9}
	short, cancel = context.WithTimeout(ctx(t), 30*time.Millisecond)
	defer cancel()
	if err := c.CallRaw(short, &rc); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that its handler drops: %v", err)
	}
	for range 2 {
		if err := c.CallRaw(ctx(t), &rc); err != nil || !bytes.Equal(rc.Results.Stream, word(7)) {
			t.Errorf("the same again: %v, %x", err, rc.Results.Stream)
		}
		rc.Release()
	}
	if executed.Load() != 2 || seen.Load() != 2 {
		t.Errorf("%d executions, %d seen by the interceptor", executed.Load(), seen.Load())
	}
	if n := len(events.of(func(e obs.Event) bool { return e.Arg == -2 }, obs.HandlerDone)); n != 1 {
		t.Errorf("%d handlers done without an answer", n)
	}
}

// TestBackwardRelay: a client's programs fall back, and its server's raw calls go backward.
func TestBackwardRelay(t *testing.T) {
	for _, tr := range transports {
		if !rdma(tr.name) {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			far := serveFiles(t, "tcp://127.0.0.1:0")
			y := &relay{to: dial(t, far.url), errs: make(chan error, 10)}
			m := &rpc.Method{Proc: &rpc.Proc{Name: "passed on"}, Handler: y.pass}
			d := newDuplex(t, tr.url, tr.opts, rpc.WithFallback(func(*rpc.Request) (*rpc.Method, error) { return m, nil }))
			d.subscribe(t)
			rc := rpc.RawCall{XID: 99, PassXID: true, Program: filesProgram, Version: 3, Proc: 8, Args: rpc.RawBody{Stream: word(0)}, MaxReply: 500,
				Cred: rpcmsg.Auth{Flavor: gssLike, Body: []byte("c")}}
			if err := d.back.CallRaw(ctx(t), &rc); err != nil {
				t.Fatal(err)
			}
			if rc.Reply.XID != 99 || string(rc.Reply.Verf.Body) != "verifier" || !bytes.Equal(rc.Results.Stream, word(9)) {
				t.Errorf("%+v %x", rc.Reply, rc.Results.Stream)
			}
			rc.Release()
			far.mu.Lock()
			defer far.mu.Unlock()
			if s := far.said[0]; s.xid != 99 || string(s.cred.Body) != "c" {
				t.Errorf("the far server saw %+v", s)
			}
			d.back.Close()
			if err := d.back.CallRaw(ctx(t), &rc); !errors.Is(err, rpc.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}
