package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
)

// ownDomain shares no receives; fixedDomain shares some that cannot be replaced.
type (
	ownDomain   struct{ verbs.Domain }
	fixedDomain struct{ verbs.Domain }
	fixedPool   struct{ verbs.RecvPool }
)

func (ownDomain) NewRecvPool(int, int) (verbs.RecvPool, error) {
	return nil, fmt.Errorf("own receives: %w", errors.ErrUnsupported)
}

func (d fixedDomain) NewRecvPool(n, size int) (verbs.RecvPool, error) {
	p, err := d.Domain.NewRecvPool(n, size)
	return fixedPool{p}, err
}

func (fixedPool) Resize(int) error { return errors.ErrUnsupported }

var transports = []string{"loopback", "iwarp", "own"}

func endpointOn(t testing.TB, transport string, cfg EndpointConfig) *Endpoint {
	t.Helper()
	scheme, private, _ := strings.Cut(transport, " private=")
	var options map[string]string
	if private != "" {
		options = map[string]string{"private": private}
	}
	if transport == "own" || transport == "fixed" || transport == "watched" {
		scheme = "loopback"
	}
	p, _ := verbs.Lookup(scheme)
	dom, err := p.Open(context.Background(), "", options)
	if err != nil {
		t.Fatal(err)
	}
	switch transport {
	case "own":
		dom = ownDomain{dom}
	case "fixed":
		dom = fixedDomain{dom}
	case "watched":
		dom = &watchedDomain{Domain: dom}
	}
	e, err := NewEndpoint(dom, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// two is a client and its server's side of the connection.
type two struct {
	client, server *Conn
	clientEP       *Endpoint
	serverEP       *Endpoint
	xids           func() uint32
}

// couple connects two endpoints, on which version 2 stands, and whose server echoes at once.
func couple(t *testing.T, scheme string, clientCfg, serverCfg Config) *two {
	t.Helper()
	p := &two{xids: transport.NewXIDs()}
	p.serverEP = endpointOn(t, scheme, EndpointConfig{})
	p.clientEP = endpointOn(t, scheme, EndpointConfig{})
	l, err := p.serverEP.Listen(context.Background(), "127.0.0.1:0", verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *Conn, 1)
	go func() {
		defer close(accepted)
		req, err := l.Accept(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		serverCfg.Serve = echo
		c, err := p.serverEP.Accept(context.Background(), req, serverCfg)
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- c
	}()
	if p.client, err = p.clientEP.Dial(context.Background(), l.Addr().String(), clientCfg); err != nil {
		t.Fatal(err)
	}
	if p.server = <-accepted; p.server == nil {
		t.FailNow()
	}
	p.call(t, 10)
	return p
}

func echo(r *transport.Request) {
	if isNull(r.Stream) {
		h := rpcmsg.ReplyHeader{XID: binary.BigEndian.Uint32(r.Stream)}
		h.Append(&r.Results)
		r.Reply(true, false)
		return
	}
	h := rpcmsg.ReplyHeader{XID: binary.BigEndian.Uint32(r.Stream)}
	h.Append(&r.Results)
	r.Results.BulkOpaque(append([]byte(nil), r.Stream...))
	r.Reply(true, false)
}

// call echoes n bytes, whole and inline where that may be.
func (p *two) call(t testing.TB, n int) {
	t.Helper()
	if err := p.do(n); err != nil {
		t.Fatalf("echo of %d bytes: %v", n, err)
	}
}

func (p *two) do(n int) error {
	call := testCalls.Get()
	call.XID = p.xids()
	h := rpcmsg.CallHeader{XID: call.XID, Program: 0x20000001, Version: 1, Proc: 1}
	h.Append(&call.Msg)
	call.Msg.Opaque(make([]byte, n))
	call.MaxReply = n + 200
	err := p.client.Do(context.Background(), call)
	if err == nil && len(call.Stream) < n {
		err = fmt.Errorf("a reply of %d bytes", len(call.Stream))
	}
	call.Free()
	return err
}

// change is Conn.request, with a channel for its end.
func change(c *Conn, of int, r ext.Request) <-chan error {
	done := make(chan error, 2)
	c.request(of, r, func(err error) { done <- err })
	return done
}

func changed(t testing.TB, c *Conn, r ext.Request) {
	t.Helper()
	select {
	case err := <-change(c, 0, r):
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%v: no answer", r)
	}
}

func TestRequestsRefused(t *testing.T) {
	p := couple(t, "loopback", Config{}, Config{})
	fixed := couple(t, "loopback", Config{}, Config{})
	if fixed.serverEP.shared.fixed || !endpointOn(t, "fixed", EndpointConfig{}).shared.fixed {
		t.Error("what can replace its receives is not told from what cannot")
	}
	fixed.serverEP.shared.fixed = true
	small := couple(t, "loopback", Config{}, Config{})
	small.serverEP.shared.most = 8192
	for _, tc := range []struct {
		c    *Conn
		r    ext.Request
		want string
	}{
		{p.client, ext.SendLimit(1023), "want 1024 to 262144"},
		{p.client, ext.SendLimit(262145), "want 1024 to 262144"},
		{p.client, ext.SendLimit(1024), ""},
		{p.client, ext.SendLimit(262144), ""},
		{p.client, ext.ReceiveSize(4095), "want 4096 at least"},
		{p.client, ext.ReceiveSize(262145), "want 262144 at most (EndpointConfig.MaxInline"},
		{small.server, ext.ReceiveSize(8193), "want 8192 at most"},
		{small.server, ext.ReceiveSize(8192), ""},
		{fixed.server, ext.ReceiveSize(8192), "cannot be replaced"},
		{fixed.server, ext.ReceiveSize(4096), ""},
		{p.server, ext.BackwardLevel(3), "want 0, none"},
		{p.server, ext.BackwardNone, ""},
		{p.client, ext.BackwardGeneral, "no receives for backward calls"},
		{p.client, ext.Invalidation(true), ""},
		{p.client, ext.CreditAlgorithm(2), "want 0, plain"},
		{p.client, ext.ExtraReceives(-1), "want 0 to 1024"},
		{p.client, ext.ExtraReceives(1025), "want 0 to 1024"},
		{p.client, ext.ExtraReceives(1024), ""},
	} {
		err := <-change(tc.c, 0, tc.r)
		var refused *ext.RequestError
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%v: %v", tc.r, err)
		case tc.want == "":
		case !errors.As(err, &refused) || refused.Request != tc.r || !strings.Contains(err.Error(), tc.want):
			t.Errorf("%v: %v, want %q", tc.r, err, tc.want)
		}
	}
	if got := p.server.Backward(); got != transport.BackwardNone {
		t.Errorf("backward level %v", got)
	}
	p.client.Close()
	<-p.client.Done()
	if err := <-change(p.client, 0, ext.SendLimit(4096)); !strings.Contains(fmt.Sprint(err), "has ended") {
		t.Errorf("after the end: %v", err)
	}
	one := endpoint(t, EndpointConfig{})
	idle, err := one.Dial(context.Background(), newEchoServer(t, 0).addr, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-change(idle, 0, ext.SendLimit(4096)); !strings.Contains(fmt.Sprint(err), "version 2 does not stand") {
		t.Errorf("before the first reply: %v", err)
	}
}

// TestLongSends: calls and replies go inline up to what the other side takes, and no further (D-6, D-22).
func TestLongSends(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			p := couple(t, transport, Config{}, Config{})
			longest := func() (call, reply uint64) { // bytes that go inline, call and reply
				before := [2]uint64{p.client.Counters().InlineBytes, p.server.Counters().InlineBytes}
				p.call(t, 20_000)
				return p.client.Counters().InlineBytes - before[0], p.server.Counters().InlineBytes - before[1]
			}
			if c, s := longest(); c > 8192 || s > 8192 {
				t.Fatalf("%d and %d bytes inline before any request", c, s)
			}
			raised := change(p.server, 0, ext.ReceiveSize(65536))
			back := change(p.client, 0, ext.ReceiveSize(65536))
			for n := 0; ; n++ {
				p.call(t, 100)
				if len(raised) == 1 && len(back) == 1 {
					break
				}
				if transport != "own" || n > 200 {
					t.Fatal("no shorter receive is left, and the request is not done")
				}
			}
			if err := errors.Join(<-raised, <-back); err != nil {
				t.Fatal(err)
			}
			changed(t, p.client, ext.SendLimit(65536))
			changed(t, p.server, ext.SendLimit(65536))
			if c, s := longest(); c < 40_000 || s < 40_000 {
				t.Errorf("%d and %d bytes inline at 65536", c, s)
			}
			if _, recv := p.client.thresholds(2); recv < 20_000 {
				t.Errorf("%d bytes are known to come inline", recv)
			}
			chunks := p.client.Counters().ReplyChunks
			p.call(t, 19_000)
			if n := p.client.Counters().ReplyChunks - chunks; n != 0 {
				t.Errorf("%d Reply chunks for a reply that fits", n)
			}
			changed(t, p.client, ext.SendLimit(4096))
			changed(t, p.client, ext.ReceiveSize(4096))
			changed(t, p.server, ext.SendLimit(4096))
			if c, s := longest(); c > 8192 || s > 8192 {
				t.Errorf("%d and %d bytes inline after lowering", c, s)
			}
		})
	}
}

// watched looks at what is posted, and at the limit in force then.
type watched struct {
	verbs.Conn
	c    *Conn
	over *atomic.Int64
}

func (w *watched) Post(ws []verbs.Work) (int, error) {
	for _, k := range ws {
		if send, _ := w.c.thresholds(2); (k.Op == verbs.OpSend || k.Op == verbs.OpSendInvalidate) && k.Segs[0].N > send && w.c.stands() == 2 {
			w.over.Add(1)
		}
	}
	return w.Conn.Post(ws)
}

// watchedDomain has watched connections. Calls and replies both go by Post.
type watchedDomain struct {
	verbs.Domain
	over atomic.Int64
}

func (d *watchedDomain) watch(o verbs.Options) verbs.Options {
	ready := o.Ready
	o.Ready = func(vc verbs.Conn) error { return ready(&watched{vc, o.Handler.(*Conn), &d.over}) }
	return o
}

func (d *watchedDomain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	return d.Domain.Dial(ctx, addr, d.watch(o))
}

func (d *watchedDomain) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	l, err := d.Domain.Listen(ctx, addr, o)
	return watchedListener{l, d}, err
}

type watchedListener struct {
	verbs.Listener
	d *watchedDomain
}

func (l watchedListener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.Listener.Accept(ctx)
	return watchedRequest{r, l.d}, err
}

type watchedRequest struct {
	verbs.Request
	d *watchedDomain
}

func (r watchedRequest) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	return r.Request.Accept(ctx, r.d.watch(o))
}

// TestShrunkUnderLoad: no Send is longer than the limit that is in force when it is posted.
func TestShrunkUnderLoad(t *testing.T) {
	p := couple(t, "watched", Config{}, Config{})
	for _, c := range []*Conn{p.client, p.server} {
		changed(t, c, ext.ReceiveSize(65536))
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for n := 0; !stop.Load(); n = (n + 1777) % 30_000 {
				if err := p.do(n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 300 {
		n := ext.SendLimit(4096 + i%2*40_000)
		changed(t, p.client, n)
		changed(t, p.server, n)
		time.Sleep(100 * time.Microsecond)
	}
	stop.Store(true)
	wg.Wait()
	for _, e := range []*Endpoint{p.clientEP, p.serverEP} {
		if n := e.dom.(*watchedDomain).over.Load(); n != 0 {
			t.Errorf("%d Sends longer than the limit", n)
		}
	}
}

// TestNoRoom: a call for whose long Send there is no memory goes by a chunk.
func TestNoRoom(t *testing.T) {
	p := couple(t, "loopback", Config{}, Config{})
	changed(t, p.server, ext.ReceiveSize(65536))
	changed(t, p.client, ext.SendLimit(65536))
	reads := func() uint64 {
		before := p.client.Counters().ReadChunks
		p.call(t, 20_000)
		return p.client.Counters().ReadChunks - before
	}
	if n := reads(); n != 0 {
		t.Errorf("%d Read chunks for what fits", n)
	}
	hold := func(n int) {
		p.clientEP.pool.mu.Lock()
		defer p.clientEP.pool.mu.Unlock()
		p.client.share.held += n
	}
	hold(1 << 30)
	if n := reads(); n != 1 {
		t.Errorf("%d Read chunks without memory", n)
	}
	hold(-1 << 30)
	if n := reads(); n != 0 {
		t.Errorf("%d Read chunks with memory again", n)
	}
}

// TestUnheardRaise: a peer that has not heard of our longer receives, or keeps to shorter Sends, finds a Reply chunk for what it
// cannot send otherwise.
func TestUnheardRaise(t *testing.T) {
	p := couple(t, "loopback", Config{}, Config{})
	changed(t, p.client, ext.ReceiveSize(65536))
	p.call(t, 15_000)
	if n := p.client.Counters(); n.ErrorsRecv != 0 || n.ReplyChunks != 1 {
		t.Errorf("%d errors, %d Reply chunks", n.ErrorsRecv, n.ReplyChunks)
	}
}

// TestShrunkReplies: a reply that was to come inline, and may no longer, comes in a Reply chunk, whatever the caller allows
// otherwise.
func TestShrunkReplies(t *testing.T) {
	p := couple(t, "loopback", Config{}, Config{})
	changed(t, p.client, ext.ReceiveSize(65536))
	changed(t, p.server, ext.SendLimit(65536))
	p.call(t, 20_000)
	changed(t, p.server, ext.SendLimit(4096)) // it has asked us for less, and we have not heard of it
	before := p.client.Counters()
	p.call(t, 15_000)
	if after := p.client.Counters(); after.ReplyChunks != before.ReplyChunks+1 || after.ErrorsRecv != before.ErrorsRecv+1 {
		t.Errorf("%+v", after)
	}
}

// TestLongSendsAllocate: nothing, once they have been sent before.
func TestLongSendsAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	p := couple(t, "loopback", Config{}, Config{})
	changed(t, p.server, ext.ReceiveSize(65536))
	changed(t, p.client, ext.SendLimit(65536))
	args := make([]byte, 20_000)
	call := testCalls.Get()
	send := func() {
		call.XID = p.xids()
		h := rpcmsg.CallHeader{XID: call.XID, Program: 0x20000001, Version: 1}
		h.Append(&call.Msg)
		call.Msg.Opaque(args)
		call.MaxReply = 100
		if err := p.client.Do(context.Background(), call); err != nil {
			t.Fatal(err)
		}
		call.Free()
		call = testCalls.Get()
	}
	for range 100 {
		send()
	}
	if n := testing.AllocsPerRun(500, send); n > 0 {
		t.Errorf("%v allocations", n)
	}
	call.Free()
	if n := p.client.Counters().ReadChunks; n != 0 {
		t.Errorf("%d Read chunks", n)
	}
}
