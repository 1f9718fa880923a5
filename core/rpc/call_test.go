package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const program = 0x20000077

var (
	procEcho  = &rpc.Proc{Program: program, Version: 1, Number: 1, Name: "ECHO", Binding: binding.Binding{MaxReply: 1 << 20}, Idempotent: true}
	procRead  = &rpc.Proc{Program: program, Version: 1, Number: 2, Name: "READ", Binding: binding.Binding{Results: true, MaxReply: 8}, Idempotent: true}
	procWrite = &rpc.Proc{Program: program, Version: 1, Number: 3, Name: "WRITE", Binding: binding.Binding{Args: true, MaxReply: 16}, Idempotent: true}
	procFail  = &rpc.Proc{Program: program, Version: 1, Number: 4, Name: "FAIL", Idempotent: true}
	procWait  = &rpc.Proc{Program: program, Version: 1, Number: 5, Name: "WAIT", Binding: binding.Binding{Results: true, Args: true, MaxReply: 8}, Idempotent: true}
)

// blob is opaque<>, never moved.
type blob []byte

func (b blob) MarshalXDR(w *xdr.Writer)    { w.Opaque(b) }
func (b *blob) UnmarshalXDR(r *xdr.Reader) { *b = append((*b)[:0], r.OpaqueView(64<<20)...) }

// bulk is opaque<>, eligible.
type bulk []byte

func (b bulk) MarshalXDR(w *xdr.Writer)    { w.BulkOpaque(b) }
func (b *bulk) UnmarshalXDR(r *xdr.Reader) { *b = r.Bulk(64 << 20) }

type number uint32

func (n number) MarshalXDR(w *xdr.Writer)    { w.Uint32(uint32(n)) }
func (n *number) UnmarshalXDR(r *xdr.Reader) { *n = number(r.Uint32()) }

// readArgs asks for n bytes, and bounds the reply.
type readArgs uint32

func (n readArgs) MarshalXDR(w *xdr.Writer)       { w.Uint32(uint32(n)) }
func (n readArgs) MaxReply() (reduced, whole int) { return 8, 8 + int(n) + 3 }

func pattern(n int) []byte {
	b := make([]byte, n)
	fill(b)
	return b
}

func fill(b []byte) {
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
}

func sum(b []byte) uint32 {
	s := uint32(1)
	for _, c := range b {
		s = s*31 + uint32(c)
	}
	return s
}

type fixture struct {
	srv    *rpc.Server
	l      *rpc.Listener
	url    string
	wait   chan struct{}
	inside chan struct{}
}

// serve takes options of servers and of listeners.
func serve(t testing.TB, url string, opts ...any) *fixture {
	t.Helper()
	for _, opt := range opts {
		_, server := opt.(rpc.ServerOption)
		if _, listen := opt.(rpc.ListenOption); !server && !listen {
			t.Fatalf("%T is an option of neither server nor listener", opt)
		}
	}
	f := programs(only[rpc.ServerOption](opts)...)
	f.listen(t, url, only[rpc.ListenOption](opts)...)
	return f
}

// only are those of opts that are a T.
func only[T any](opts []any) (those []T) {
	for _, opt := range opts {
		if o, ok := opt.(T); ok {
			those = append(those, o)
		}
	}
	return those
}

// none is no option.
var none = rpc.ConnOptions()

// programs is a server that does not listen.
func programs(opts ...rpc.ServerOption) *fixture {
	f := &fixture{wait: make(chan struct{}), inside: make(chan struct{}, 1024)}
	f.srv = rpc.NewServer(opts...)
	f.srv.Register(program, 1,
		rpc.Method{Proc: procEcho, Inline: true, Handler: func(_ context.Context, r *rpc.Request) error {
			b := r.Args.OpaqueView(64 << 20)
			if err := r.Args.Done(); err != nil {
				return err
			}
			r.Results.Opaque(b)
			return nil
		}},
		rpc.Method{Proc: procRead, Handler: func(_ context.Context, r *rpc.Request) error {
			n := int(r.Args.Uint32())
			if err := r.Args.Done(); err != nil {
				return err
			}
			b, err := r.Buffer(max(n, 1))
			if err != nil {
				return err
			}
			fill(b.Bytes())
			r.Results.BulkItem(b.Bulk(n))
			return nil
		}},
		rpc.Method{Proc: procWrite, Handler: func(_ context.Context, r *rpc.Request) error {
			b := r.Args.Bulk(64 << 20)
			if err := r.Args.Done(); err != nil {
				return err
			}
			r.Results.Uint32(sum(b))
			return nil
		}},
		rpc.Method{Proc: procFail, Handler: func(_ context.Context, r *rpc.Request) error {
			switch r.Args.Uint32() {
			case 0:
				return rpcmsg.ErrGarbageArgs
			case 1:
				return errors.New("disk on fire")
			case 2:
				return &rpcmsg.AuthError{Stat: rpcmsg.AuthTooWeak}
			case 3:
				panic("told to")
			}
			r.Args.Uint64()
			return r.Args.Done()
		}},
		rpc.Method{Proc: procWait, Handler: func(ctx context.Context, r *rpc.Request) error {
			b := r.Args.Bulk(64 << 20)
			f.inside <- struct{}{}
			select {
			case <-f.wait:
			case <-ctx.Done():
			}
			r.Results.BulkOpaque(append([]byte(nil), b...))
			return nil
		}},
	)
	return f
}

func (f *fixture) listen(t testing.TB, url string, opts ...rpc.ListenOption) {
	t.Helper()
	l, err := rpc.Listen(context.Background(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	f.l, f.url = l, l.URL()
	done := make(chan error, 1)
	go func() { done <- f.srv.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		f.srv.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func dial(t testing.TB, url string, opts ...rpc.ClientOption) *rpc.Client {
	t.Helper()
	c, err := rpc.NewClient(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return c
}

var sizes = []int{0, 1, 3, 4, 60, 900, 1000, 1021, 1024, 3000, 4000, 4096, 5000, 65536, 65539, 1 << 20}

var transports = []struct {
	name, url string
	opts      rpc.ConnOption
	version   uint32
}{
	{"v2", "loopback://127.0.0.1:0", none, 2},
	{"v1", "loopback://127.0.0.1:0", rpc.WithVersions(1, 1), 1},
	{"v2 segments", "loopback://127.0.0.1:0", rpc.WithSegmentLength(8192), 2},
	{"v1 move all", "loopback://127.0.0.1:0", rpc.ConnOptions(rpc.WithVersions(1, 1), rpc.WithMoveAbove(1)), 1},
	{"iwarp v2", "iwarp://127.0.0.1:0", none, 2},
	{"iwarp v1", "iwarp://127.0.0.1:0", rpc.WithVersions(1, 1), 1},
	{"own receives", "bare-r://127.0.0.1:0", none, 2},
	{"no driver", "bare-d://127.0.0.1:0", none, 2},
	{"no detach", "bare-t://127.0.0.1:0", rpc.WithCancelWait(10 * time.Millisecond), 2},
	{"no driver, no detach", "bare-dt://127.0.0.1:0", rpc.WithCancelWait(10 * time.Millisecond), 2},
	{"queue of 3", "bare-q://127.0.0.1:0", rpc.WithSegmentLength(4096), 2},
	{"nothing at all", "bare-rdtqi://127.0.0.1:0", rpc.ConnOptions(rpc.WithVersions(1, 1), rpc.WithSegmentLength(8192), rpc.WithCancelWait(10*time.Millisecond)), 1},
	{"tcp", "tcp://127.0.0.1:0", none, 0},
}

func TestCalls(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts)
			c := dial(t, f.url, tr.opts)
			for _, n := range sizes {
				t.Run(fmt.Sprint(n), func(t *testing.T) { checkCalls(t, c, n) })
			}
			if conns := c.Conns(); tr.version != 0 && (len(conns) != 1 || conns[0].Version() != tr.version) {
				t.Errorf("version %d was settled, want %d", conns[0].Version(), tr.version)
			}
			t.Logf("%+v", c.Counters())
		})
	}
}

func checkCalls(t *testing.T, c *rpc.Client, n int) {
	want := pattern(n)
	var got blob
	if err := c.Call(ctx(t), procEcho, blob(want), &got, rpc.MaxReply(n+8)); err != nil {
		t.Fatalf("echo: %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("echo of %d bytes came back as %d others", n, len(got))
	}
	guarded := bytes.Repeat([]byte{0xee}, n+64)
	var res bulk
	if err := c.Call(ctx(t), procRead, readArgs(n), &res, rpc.Into(guarded[32:32+n:32+n])); err != nil {
		t.Fatalf("read: %v", err)
	}
	if !bytes.Equal(res, want) || !bytes.Equal(guarded[32:32+n], want) {
		t.Fatalf("read of %d bytes: %d wrong ones", n, len(res))
	}
	if n > 0 && &res[0] != &guarded[32] {
		t.Error("the result does not lie where it was wanted")
	}
	for i := range 32 {
		if guarded[i] != 0xee || guarded[32+n+i] != 0xee {
			t.Fatal("written outside the destination")
		}
	}
	var whole blob
	if err := c.Call(ctx(t), procRead, readArgs(n), &whole); err != nil { // no destination: inline or the Reply chunk
		t.Fatalf("read without a destination: %v", err)
	}
	if !bytes.Equal(whole, want) {
		t.Fatalf("read without a destination: %d wrong bytes", len(whole))
	}
	var s number
	if err := c.Call(ctx(t), procWrite, bulk(want), &s); err != nil {
		t.Fatalf("write: %v", err)
	}
	if uint32(s) != sum(want) {
		t.Fatalf("write of %d bytes arrived as others", n)
	}
}

func TestRefusals(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts)
			c := dial(t, f.url, tr.opts)
			for arg, want := range map[number]error{
				0: rpcmsg.ErrGarbageArgs, 1: rpcmsg.ErrSystem, 2: rpcmsg.ErrAuth, 3: rpcmsg.ErrSystem, 9: rpcmsg.ErrGarbageArgs,
			} {
				if err := c.Call(ctx(t), procFail, arg, nil); !errors.Is(err, want) {
					t.Errorf("FAIL(%d): %v, want %v", arg, err, want)
				}
			}
			for _, tc := range []struct {
				p    rpc.Proc
				want error
			}{
				{rpc.Proc{Program: program, Version: 1, Number: 0}, nil},
				{rpc.Proc{Program: program, Version: 1, Number: 77}, rpcmsg.ErrProcUnavail},
				{rpc.Proc{Program: program, Version: 9}, rpcmsg.ErrProgMismatch},
				{rpc.Proc{Program: program + 1, Version: 1}, rpcmsg.ErrProgUnavail},
			} {
				if err := c.Call(ctx(t), &tc.p, nil, nil); !errors.Is(err, tc.want) {
					t.Errorf("%v: %v, want %v", &tc.p, err, tc.want)
				}
			}
		})
	}
}

func TestReplyTooLong(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	c := dial(t, f.url)
	var got blob
	err := c.Call(ctx(t), procEcho, blob(pattern(9000)), &got, rpc.MaxReply(16))
	var te *engine.TransportError
	if !errors.As(err, &te) || te.Body.Needed < 9000 {
		t.Errorf("a reply without room for it: %v", err)
	}
	if err := c.Call(ctx(t), procEcho, blob("alive"), &got); err != nil || string(got) != "alive" {
		t.Errorf("the connection did not survive: %v", err)
	}
	small := make([]byte, 100)
	if err := c.Call(ctx(t), procRead, readArgs(200), new(bulk), rpc.Into(small)); err == nil {
		t.Error("200 bytes went into 100")
	}
}

func TestManyCallers(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			f := serve(t, tr.url, tr.opts)
			c := dial(t, f.url, tr.opts)
			var wg sync.WaitGroup
			for g := range 100 {
				wg.Go(func() {
					buf := make([]byte, 70000)
					for i := range 8 {
						n := (g*7919 + i*104729) % 70000
						want := pattern(n)
						var res bulk
						var s number
						if err := c.Call(ctx(t), procRead, readArgs(n), &res, rpc.Into(buf[:n])); err != nil || !bytes.Equal(res, want) {
							t.Errorf("read %d: %v", n, err)
							return
						}
						if err := c.Call(ctx(t), procWrite, bulk(want), &s); err != nil || uint32(s) != sum(want) {
							t.Errorf("write %d: %v", n, err)
							return
						}
					}
				})
			}
			wg.Wait()
			if n := c.Counters().Outstanding; n != 0 {
				t.Errorf("%d calls outstanding at the end", n)
			}
		})
	}
}
