package continuation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/chunk"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/props"
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const program = 0x20000099

var (
	procEcho  = &rpc.Proc{Program: program, Version: 1, Number: 1, Name: "ECHO", Binding: binding.Binding{MaxReply: 1 << 20}, Idempotent: true}
	procRead  = &rpc.Proc{Program: program, Version: 1, Number: 2, Name: "READ", Binding: binding.Binding{Results: true, MaxReply: 8}, Idempotent: true}
	procWrite = &rpc.Proc{Program: program, Version: 1, Number: 3, Name: "WRITE", Binding: binding.Binding{Args: true, MaxReply: 16}, Idempotent: true}
	procOnce  = &rpc.Proc{Program: program, Version: 1, Number: 4, Name: "ONCE", Binding: binding.Binding{MaxReply: 1 << 20}}
	procBind  = &rpc.Proc{Program: program, Version: 1, Number: 5, Name: "BIND", Idempotent: true}
)

type blob []byte // never moved

func (b blob) MarshalXDR(w *xdr.Writer)    { w.Opaque(b) }
func (b *blob) UnmarshalXDR(r *xdr.Reader) { *b = append((*b)[:0], r.OpaqueView(64<<20)...) }

type bulk []byte // eligible

func (b bulk) MarshalXDR(w *xdr.Writer)    { w.BulkOpaque(b) }
func (b *bulk) UnmarshalXDR(r *xdr.Reader) { *b = r.Bulk(64 << 20) }

type number uint32

func (n number) MarshalXDR(w *xdr.Writer)    { w.Uint32(uint32(n)) }
func (n *number) UnmarshalXDR(r *xdr.Reader) { *n = number(r.Uint32()) }

// readArgs asks for n bytes, and bounds the reply.
type readArgs uint32

func (n readArgs) MarshalXDR(w *xdr.Writer)       { w.Uint32(uint32(n)) }
func (n readArgs) MaxReply() (reduced, whole int) { return 8, 8 + int(n) + 3 }

// pair is a client and a server.
type pair struct {
	srv   *rpc.Server
	c     *rpc.Client
	back  *rpc.Backchannel
	onces atomic.Int64
	hold  chan struct{} // ONCE's, if not nil
}

func programs(p *pair) *rpc.Server {
	srv := rpc.NewServer()
	echo := func(_ context.Context, r *rpc.Request) error {
		b := r.Args.OpaqueView(64 << 20)
		if err := r.Args.Done(); err != nil {
			return err
		}
		r.Results.Opaque(b)
		return nil
	}
	srv.Register(program, 1,
		rpc.Method{Proc: procEcho, Inline: true, Handler: echo},
		rpc.Method{Proc: procRead, Handler: func(_ context.Context, r *rpc.Request) error {
			r.Results.BulkOpaque(pattern(int(r.Args.Uint32())))
			return r.Args.Done()
		}},
		rpc.Method{Proc: procWrite, Handler: func(_ context.Context, r *rpc.Request) error {
			b := r.Args.Bulk(64 << 20)
			if err := r.Args.Done(); err != nil {
				return err
			}
			if !bytes.Equal(b, pattern(len(b))) {
				return rpc.ErrGarbageArgs
			}
			r.Results.Uint32(uint32(len(b)))
			return nil
		}},
		rpc.Method{Proc: procOnce, Handler: func(ctx context.Context, r *rpc.Request) error {
			p.onces.Add(1)
			if p.hold != nil {
				<-p.hold
			}
			return echo(ctx, r)
		}},
		rpc.Method{Proc: procBind, Handler: func(_ context.Context, r *rpc.Request) error { return p.back.Bind(r.Peer()) }},
	)
	return srv
}

func set(t testing.TB, exts ...ext.Extension) rpc.ConnOption {
	t.Helper()
	s, err := ext.NewSet(exts...)
	if err != nil {
		t.Fatal(err)
	}
	return rpc.WithExtensions(s)
}

// loaded is the extension and the carrier that it needs.
func loaded(t testing.TB, most int) rpc.ConnOption {
	t.Helper()
	x, err := New(Options{Max: most})
	if err != nil {
		t.Fatal(err)
	}
	return set(t, props.New(props.Options{}), x)
}

func connect(t testing.TB, url string, here []rpc.ClientOption, there []rpc.ListenOption) *pair {
	t.Helper()
	p := new(pair)
	var err error
	if p.back, err = rpc.NewBackchannel(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.back.Close() })
	p.srv = programs(p)
	l, err := rpc.Listen(context.Background(), url, there...)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.srv.Serve(context.Background(), l) }()
	local := programs(p)
	t.Cleanup(func() {
		local.Close()
		p.srv.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	p.c, err = rpc.NewClient(l.URL(), append([]rpc.ClientOption{rpc.WithPrograms(local)}, here...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.c.Close() })
	return p
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return c
}

// greet calls until messages go in pieces.
func (p *pair) greet(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		n := p.c.Counters().Parts
		if err := p.echo(ctx(t), 5000); err != nil {
			t.Fatal(err)
		}
		if c := p.c.Counters(); c.Parts >= n+2 { // the call's and the reply's
			return
		}
	}
	t.Fatalf("nothing goes in pieces: %+v, %+v", p.c.Counters(), p.srv.Counters())
}

func (p *pair) echo(ctx context.Context, n int) error {
	return echoOver(ctx, p.c, procEcho, n)
}

type caller interface {
	Call(ctx context.Context, proc *rpc.Proc, args xdr.Marshaler, results xdr.Unmarshaler, opts ...rpc.CallOption) error
}

func echoOver(ctx context.Context, c caller, proc *rpc.Proc, n int) error {
	var got blob
	want := pattern(n)
	if err := c.Call(ctx, proc, blob(want), &got, rpc.MaxReply(n+8)); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%d bytes came back as %d others", n, len(got))
	}
	return nil
}

// calls makes one of each kind, of n bytes.
func (p *pair) calls(t testing.TB, n int) {
	t.Helper()
	if err := p.echo(ctx(t), n); err != nil {
		t.Fatalf("echo of %d bytes: %v", n, err)
	}
	buf := make([]byte, n)
	var res bulk
	if err := p.c.Call(ctx(t), procRead, readArgs(n), &res, rpc.Into(buf)); err != nil || !bytes.Equal(buf, pattern(n)) || &res[0] != &buf[0] {
		t.Fatalf("read of %d bytes: %v", n, err)
	}
	var got number
	if err := p.c.Call(ctx(t), procWrite, bulk(pattern(n)), &got); err != nil || int(got) != n {
		t.Fatalf("write of %d bytes: %d, %v", n, got, err)
	}
}

// moved is what went by RDMA.
func moved(n obs.Counters) uint64 {
	return n.ReadBytes + n.WriteBytes + n.ReadChunks + n.WriteChunks + n.ReplyChunks + n.Exposed
}

var urls = []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0"}

// overhead is what an RPC message of these tests has beside its bulk item, at most, as its caller counts: a reply's with the longest
// verifier.
const overhead = 24 + 400 + 8 + 4

// TestNothingIsMoved: within the size that is announced nothing is registered, read or written; beyond, it is.
func TestNothingIsMoved(t *testing.T) {
	for _, url := range urls {
		for _, most := range []int{8192, 0, MaxMax} {
			t.Run(fmt.Sprint(url[:5], most), func(t *testing.T) {
				p := connect(t, url, []rpc.ClientOption{loaded(t, most)}, []rpc.ListenOption{loaded(t, most)})
				p.greet(t)
				if most == 0 {
					most = DefaultMax
				}
				var after obs.Counters
				for range 10 {
					before, there := p.c.Counters(), p.srv.Counters()
					count := 0
					for _, n := range []int{5000, 5001, 6000, 8192 - overhead, 10000, 16384, 30000, 65536 - overhead, 65536, 100000, MaxMax - overhead} {
						if n > most-overhead {
							break
						}
						p.calls(t, n)
						count += 3
					}
					after = p.c.Counters()
					if after.Unplaced+p.srv.Counters().Unplaced+after.ErrorsRecv > before.Unplaced+there.Unplaced+before.ErrorsRecv {
						continue // the acknowledgements are late: not this time
					}
					if n := moved(after) - moved(before); n > 0 {
						t.Errorf("something was moved: %+v", after)
					}
					if n := moved(p.srv.Counters()) - moved(there); n > 0 {
						t.Errorf("something was moved: %+v", p.srv.Counters())
					}
					if n := after.Wrapped - before.Wrapped; n != uint64(count/3*4) { // an echo's call and reply
						t.Errorf("%d messages of %d calls in pieces", n, count)
					}
					break
				}
				p.calls(t, most+1)
				beyond := p.c.Counters()
				if beyond.Wrapped != after.Wrapped || beyond.ReadBytes == after.ReadBytes || beyond.WriteBytes == after.WriteBytes {
					t.Errorf("longer ones: %+v", beyond)
				}
				// A reply that the server cannot send in pieces just then is refused, and asked for again with a chunk.
				if n, there := beyond, p.srv.Counters(); n.ErrorsRecv != there.ErrorsSent || n.ErrorsSent+n.Dropped+n.ExtIgnored+n.ControlLate+n.ControlTimedOut > 0 {
					t.Errorf("client %+v, server %+v", n, there)
				}
			})
		}
	}
}

// TestSidesDiffer: each side assembles what it has announced itself.
func TestSidesDiffer(t *testing.T) {
	p := connect(t, urls[0], []rpc.ClientOption{loaded(t, 8192)}, []rpc.ListenOption{loaded(t, 65536)})
	p.greet(t)
	before := p.c.Counters()
	var got number
	if err := p.c.Call(ctx(t), procWrite, bulk(pattern(60000)), &got); err != nil {
		t.Fatal(err)
	}
	if n := p.c.Counters(); n.Wrapped != before.Wrapped+1 || n.ReadBytes != before.ReadBytes {
		t.Errorf("a call of 60000 bytes: %+v", n)
	}
	if err := p.echo(ctx(t), 60000); err != nil {
		t.Fatal(err)
	}
	if n := p.c.Counters(); n.Wrapped != before.Wrapped+2 || n.ReplyChunks != before.ReplyChunks+1 {
		t.Errorf("a reply of 60000 bytes: %+v", n)
	}
}

// TestPeerWithout: with a peer that does not know the extension everything is as without.
func TestPeerWithout(t *testing.T) {
	for name, there := range map[string][]rpc.ListenOption{
		"nothing": nil, "properties": {set(t, props.New(props.Options{}))}, "version 1": {rpc.WithVersions(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			url := urls[1]
			if name == "version 1" { // clients remember such a server (D-5), and a later one may have its port
				url = strings.Replace(url, "127.0.0.1", "127.0.0.2", 1)
			}
			p := connect(t, url, []rpc.ClientOption{loaded(t, 0)}, there)
			for range 5 {
				p.calls(t, 20000)
				time.Sleep(time.Millisecond)
			}
			n := p.c.Counters()
			if n.Parts+n.Wrapped > 0 || n.ReadChunks == 0 || n.WriteChunks == 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestManyBothWays: many callers of either side at once, messages of all sizes, with few credits and many.
func TestManyBothWays(t *testing.T) {
	for _, url := range urls {
		for _, credits := range []int{4, 64} {
			t.Run(fmt.Sprint(url[:5], credits), func(t *testing.T) {
				opts := rpc.ConnOptions(loaded(t, 0), rpc.WithCredits(credits), rpc.WithBackwardCredits(8))
				p := connect(t, url, []rpc.ClientOption{opts}, []rpc.ListenOption{opts})
				p.greet(t)
				if err := p.c.Call(ctx(t), procBind, nil, nil); err != nil {
					t.Fatal(err)
				}
				c := ctx(t)
				var wg sync.WaitGroup
				for i := range 64 {
					wg.Go(func() {
						rnd := rand.New(rand.NewPCG(uint64(i), 1))
						for range 20 {
							var err error
							switch n := rnd.IntN(70000); rnd.IntN(3) {
							case 0:
								err = p.echo(c, n)
							case 1:
								buf := make([]byte, n)
								err = p.c.Call(c, procRead, readArgs(n), new(bulk), rpc.Into(buf))
								if err == nil && !bytes.Equal(buf, pattern(n)) {
									err = errors.New("other bytes")
								}
							default:
								err = p.c.Call(c, procWrite, bulk(pattern(n)), new(number))
							}
							if err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				for i := range 16 {
					wg.Go(func() {
						rnd := rand.New(rand.NewPCG(uint64(i), 2))
						for range 20 {
							if err := echoOver(c, p.back, procEcho, rnd.IntN(60000)); err != nil {
								t.Errorf("backward: %v", err)
								return
							}
						}
					})
				}
				wg.Wait()
				n, there := p.c.Counters(), p.srv.Counters()
				if n.Parts == 0 || n.Dropped+n.ExtIgnored+there.Dropped+there.ExtIgnored > 0 {
					t.Errorf("client %+v, server %+v", n, there)
				}
				// A reply that cannot go in pieces just then is refused, and asked for again with a chunk; no call has failed.
				if n.ErrorsRecv != there.ErrorsSent || there.ErrorsRecv != n.ErrorsSent {
					t.Errorf("client %+v, server %+v", n, there)
				}
			})
		}
	}
}

// TestBackwardBeyondInline: backward calls without chunks are as long as the pieces allow, and no longer.
func TestBackwardBeyondInline(t *testing.T) {
	p := connect(t, urls[0], []rpc.ClientOption{loaded(t, 0)}, []rpc.ListenOption{loaded(t, 0)})
	p.greet(t)
	if err := p.c.Call(ctx(t), procBind, nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{100, 5000, 60000} {
		if err := echoOver(ctx(t), p.back, procEcho, n); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if err := echoOver(ctx(t), p.back, procEcho, 70000); !errors.Is(err, chunk.ErrInline) {
		t.Errorf("70000 bytes: %v", err)
	}
}

// TestLostHalfway: connections end at any moment; calls go again on others, those that were executed are answered from the
// cache, in pieces too.
func TestLostHalfway(t *testing.T) {
	for _, url := range urls {
		t.Run(url[:5], func(t *testing.T) {
			p := connect(t, url, []rpc.ClientOption{loaded(t, 0), rpc.WithRetransmits(1000), rpc.WithLossLimit(1000)}, []rpc.ListenOption{loaded(t, 0)})
			p.greet(t)
			c := ctx(t)
			stop := make(chan struct{})
			var wg, cutter sync.WaitGroup
			cutter.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(1+rand.IntN(6)) * time.Millisecond):
						for _, conn := range p.c.Conns() {
							conn.Abort(errors.New("told to"))
						}
					}
				}
			})
			const callers, each = 16, 8
			for range callers {
				wg.Go(func() {
					for i := range each {
						if err := echoOver(c, p.c, procOnce, 3000+i*7000); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			close(stop)
			cutter.Wait()
			if n := p.onces.Load(); n != callers*each {
				t.Errorf("%d calls, executed %d times", callers*each, n)
			}
			p.greet(t)
		})
	}
}

// TestCancelled: calls that are given up at any moment leave nothing behind that keeps others waiting.
func TestCancelled(t *testing.T) {
	for _, url := range urls {
		t.Run(url[:5], func(t *testing.T) {
			p := connect(t, url, []rpc.ClientOption{loaded(t, 0)}, []rpc.ListenOption{loaded(t, 0)})
			p.greet(t)
			var wg sync.WaitGroup
			for i := range 32 {
				wg.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(i), 3))
					for range 30 {
						c, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.IntN(2000))*time.Microsecond)
						err := echoOver(c, p.c, procEcho, 5000+rnd.IntN(55000))
						cancel()
						if err != nil && !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			for range 100 {
				if err := p.echo(ctx(t), 60000); err != nil {
					t.Fatal(err)
				}
			}
			p.greet(t)
		})
	}
}
