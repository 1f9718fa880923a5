package hostile

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fabrics are where everything is tried.
var fabrics = []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0"}

func each(t *testing.T, f func(t *testing.T, url string)) {
	for _, url := range fabrics {
		scheme, _, _ := strings.Cut(url, ":")
		t.Run(scheme, func(t *testing.T) { f(t, url) })
	}
}

var (
	echoProc  = &rpc.Proc{Program: program, Version: 1, Number: procEcho, Name: "ECHO", Binding: binding.Binding{MaxReply: 16 << 10}}
	readProc  = &rpc.Proc{Program: program, Version: 1, Number: procRead, Name: "READ", Binding: binding.Binding{Results: true, MaxReply: 8}}
	writeProc = &rpc.Proc{Program: program, Version: 1, Number: procWrite, Name: "WRITE", Binding: binding.Binding{Args: true, MaxReply: 16}}
	sleepProc = &rpc.Proc{Program: program, Version: 1, Number: procSleep, Name: "SLEEP"}
)

type blob []byte

func (b blob) MarshalXDR(w *xdr.Writer)    { w.Opaque(b) }
func (b *blob) UnmarshalXDR(r *xdr.Reader) { *b = append((*b)[:0], r.OpaqueView(1<<20)...) }

type bulk []byte

func (b bulk) MarshalXDR(w *xdr.Writer)    { w.BulkOpaque(b) }
func (b *bulk) UnmarshalXDR(r *xdr.Reader) { *b = r.Bulk(1 << 20) }

type number uint32

func (n number) MarshalXDR(w *xdr.Writer)    { w.Uint32(uint32(n)) }
func (n *number) UnmarshalXDR(r *xdr.Reader) { *n = number(r.Uint32()) }

type howMuch uint32

func (n howMuch) MarshalXDR(w *xdr.Writer)       { w.Uint32(uint32(n)) }
func (n howMuch) MaxReply() (reduced, whole int) { return 8, 8 + int(n) + 3 }

// host is a server of ours, with somebody who uses it all the while.
type host struct {
	t     *testing.T
	srv   *rpc.Server
	url   string
	wake  chan struct{} // lets SLEEP go on
	stand *bystander
}

func serve(t *testing.T, url string, opts ...rpc.ListenOption) *host {
	t.Helper()
	return serveBy(t, rpc.NewServer(), url, opts...)
}

func serveBy(t *testing.T, srv *rpc.Server, url string, opts ...rpc.ListenOption) *host {
	t.Helper()
	h := &host{t: t, srv: srv, wake: make(chan struct{})}
	h.srv.Register(program, 1,
		rpc.Method{Proc: echoProc, Inline: true, Handler: func(_ context.Context, r *rpc.Request) error {
			b := r.Args.OpaqueView(1 << 20)
			if err := r.Args.Done(); err != nil {
				return err
			}
			r.Results.Opaque(b)
			return nil
		}},
		rpc.Method{Proc: readProc, Handler: func(_ context.Context, r *rpc.Request) error {
			n := int(r.Args.Uint32())
			if err := r.Args.Done(); err != nil {
				return err
			}
			if n > 1<<20 {
				return rpc.ErrGarbageArgs
			}
			b, err := r.Buffer(max(n, 1))
			if err != nil {
				return err
			}
			copy(b.Bytes(), pattern(n))
			r.Results.BulkItem(b.Bulk(n))
			return nil
		}},
		rpc.Method{Proc: writeProc, Handler: func(_ context.Context, r *rpc.Request) error {
			b := r.Args.Bulk(1 << 20)
			if err := r.Args.Done(); err != nil {
				return err
			}
			if !bytes.Equal(b, pattern(len(b))) {
				return rpc.ErrSystem
			}
			r.Results.Uint32(uint32(len(b)))
			return nil
		}},
		rpc.Method{Proc: sleepProc, Handler: func(ctx context.Context, r *rpc.Request) error {
			select {
			case <-h.wake:
			case <-ctx.Done():
			}
			return nil
		}},
	)
	l, err := rpc.Listen(context.Background(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	h.url = l.URL()
	done := make(chan error, 1)
	go func() { done <- h.srv.Serve(context.Background(), l) }()
	h.stand = standBy(t, h.url)
	t.Cleanup(func() {
		h.stand.leave()
		h.idle()
		if err := h.srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return h
}

// idle waits until the attackers' connections are gone.
func (h *host) idle() {
	h.t.Helper()
	for end := time.Now().Add(patience); h.srv.Connections() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Errorf("%d connections are left", h.srv.Connections())
			return
		}
	}
}

// bystander makes good calls until it leaves; each must succeed.
type bystander struct {
	t      *testing.T
	client *rpc.Client
	calls  atomic.Int64
	stop   chan struct{}
	wg     sync.WaitGroup
	once   sync.Once
}

func standBy(t *testing.T, url string) *bystander {
	t.Helper()
	c, err := rpc.NewClient(url, rpc.WithRetransmits(-1))
	if err != nil {
		t.Fatal(err)
	}
	b := &bystander{t: t, client: c, stop: make(chan struct{})}
	for range 2 {
		b.wg.Go(b.run)
	}
	return b
}

func (b *bystander) run() {
	dst, src := make([]byte, chunkSize), pattern(chunkSize)
	for n := 0; ; n++ {
		select {
		case <-b.stop:
			return
		case <-time.After(time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		var err error
		switch n % 3 {
		case 0:
			var got blob
			if err = b.client.Call(ctx, echoProc, blob("by"), &got); err == nil && string(got) != "by" {
				err = fmt.Errorf("ECHO of %q", got)
			}
		case 1:
			var got bulk
			clear(dst)
			if err = b.client.Call(ctx, readProc, howMuch(chunkSize), &got, rpc.Into(dst)); err == nil && !bytes.Equal(dst, src) {
				err = fmt.Errorf("READ has wrong bytes")
			}
		case 2:
			var n number
			if err = b.client.Call(ctx, writeProc, bulk(src), &n); err == nil && n != chunkSize {
				err = fmt.Errorf("WRITE of %d", n)
			}
		}
		cancel()
		if err != nil {
			b.t.Errorf("a bystander's call: %v", err)
			return
		}
		b.calls.Add(1)
	}
}

// served fails the test unless the bystander has been served since the last time.
func (b *bystander) served() {
	b.t.Helper()
	before := b.calls.Load()
	for end := time.Now().Add(patience); b.calls.Load() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Error("bystanders are not served any more")
			return
		}
	}
}

func (b *bystander) leave() {
	b.once.Do(func() {
		b.served()
		close(b.stop)
		b.wg.Wait()
		b.client.Close()
	})
}

// probe sends b as call xid of version and tells what follows. A good call behind it shows silence: that one is
// answered after whatever b is answered with, but for what workers do; so an answer that comes later still counts.
func (r *raw) probe(b []byte, xid, version, speak uint32, want outcomeKind) outcome {
	r.TB.Helper()
	after := 1<<30 + xids.Add(1)
	r.Send(b)
	if want == ended {
		if !r.Ended() {
			return outcome{kind: silent}
		}
		return outcome{kind: ended}
	}
	r.Send(enc(head(after, speak, wire.Msg)), echo(after))
	out := outcome{kind: silent}
	for done, all := 0, 1+btoi(want != silent); done < all; done++ {
		m, err := r.Next()
		if err != nil {
			if r.Ended() {
				return outcome{kind: ended}
			}
			r.TB.Errorf("%v", err)
			return out
		}
		if o, err := classify(m.Bytes, after, speak); err == nil {
			if o != (outcome{kind: answered}) {
				r.TB.Errorf("the good call behind it got %v", o)
			}
			if want == silent {
				break
			}
			continue
		}
		o, err := classify(m.Bytes, xid, version)
		if err != nil {
			r.TB.Error(err)
		}
		if want == silent {
			done-- // the good call's answer is still to come
		}
		out = o
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

var _ verbs.Handler = (*raw)(nil)
