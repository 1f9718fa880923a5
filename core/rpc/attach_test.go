package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

const idTag = ext.ExperimentalFirst + 0x30

// tagger is an extension that attaches bytes to calls, and notes what it is told of.
type tagger struct {
	name   string
	id     uint32
	absent bool // Connect gives no session
	up     chan *tagSession
	held   chan struct{} // Attached waits for it
	begin  []byte        // attached in Connect
}

type tagSession struct {
	conn  ext.Conn
	held  chan struct{}
	noted chan struct{}

	mu   sync.Mutex
	seen map[string]int
}

func newTagger() *tagger { return &tagger{name: "tagger", id: idTag, up: make(chan *tagSession, 64)} }

func (g *tagger) Declare() ext.Declaration {
	d := ext.Declaration{
		Name: g.name, Version: "1",
		Ops: []ext.Op{{Name: "tag", Type: g.id, Payload: ext.Wraps, Info: 3000}, {Name: "note", Type: g.id + 1}},
	}
	if g.held != nil {
		d.Limits.Queue = 2
	}
	return d
}

func (g *tagger) Connect(c ext.Conn) ext.Session {
	if g.absent {
		return nil
	}
	s := &tagSession{conn: c, held: g.held, noted: make(chan struct{}, 8), seen: make(map[string]int)}
	if g.begin != nil {
		c.Attach("tag", []byte("not this one"))
		c.Attach("note", []byte("note wraps nothing"))
		c.Attach("tag", g.begin)
	}
	g.up <- s
	return s
}

func (s *tagSession) Message(m ext.Message) {
	s.conn.Answer(m.Token, ext.Verdict{Kind: ext.Accept})
	s.noted <- struct{}{}
}

func (s *tagSession) Closed(error) {}

func (s *tagSession) Attached(xid uint32, op string, info []byte) {
	if s.held != nil {
		<-s.held
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[op+" "+string(info)]++
}

func (s *tagSession) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[key]
}

// attached collects what a server's interceptor sees.
type attached struct {
	mu   sync.Mutex
	seen []string
}

func (a *attached) option() rpc.ServerOption {
	return rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
		if op, info := r.Attached(); op != 0 {
			a.mu.Lock()
			a.seen = append(a.seen, fmt.Sprintf("%d %s", op-idTag, info))
			a.mu.Unlock()
		}
		return next(ctx, r)
	})
}

func (a *attached) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.seen
	a.seen = nil
	return s
}

// begun makes a call, so that the sessions begin, and returns them: first those of here.
func begun(t testing.TB, c *rpc.Client, here, there []*tagger) (ss []*tagSession) {
	t.Helper()
	if err := c.Call(ctx(t), procEcho, blob("first"), nil, rpc.MaxReply(64)); err != nil {
		t.Fatal(err)
	}
	for _, g := range append(slices.Clone(here), there...) {
		ss = append(ss, <-g.up)
	}
	for i := range there { // what it hears it hears when it is up
		ss[i].conn.Send(ext.Outgoing{Op: "note"}, nil)
		<-ss[len(here)+i].noted
	}
	return ss
}

// TestAttachments: in whatever form a call goes, its attachment goes with it; call and reply are the same.
func TestAttachments(t *testing.T) {
	for _, tr := range transports {
		if tr.version != 2 {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			here, there := newTagger(), newTagger()
			var at attached
			f := serve(t, tr.url, tr.opts, rpc.WithExtensions(setOf(t, there)), at.option())
			c := dial(t, f.url, tr.opts, rpc.WithExtensions(setOf(t, here)))
			ss := begun(t, c, []*tagger{here}, []*tagger{there})
			ss[0].conn.Attach("tag", []byte("abcde"))
			want := c.Counters().CallsSent
			for _, n := range sizes {
				checkCalls(t, c, n)
			}
			n := c.Counters()
			want = n.CallsSent - want
			seen := at.take()
			if len(seen) != int(want) || slices.ContainsFunc(seen, func(s string) bool { return s != "0 abcde" }) {
				t.Errorf("%d of %d calls had the attachment: %.60q", len(seen), want, seen)
			}
			if n.Wrapped != want {
				t.Errorf("%d of %d calls were wrapped", n.Wrapped, want)
			}
			if n.ReadChunks == 0 || n.WriteChunks == 0 || n.Long == 0 {
				t.Errorf("%+v", n)
			}
			wait.For(t, "the extension to be told", func() bool { return ss[1].count("tag abcde")+int(f.srv.Counters().AttachLost) == int(want) })
			ss[0].conn.Attach("tag", nil)
			checkCalls(t, c, 100)
			if seen := at.take(); len(seen) > 0 {
				t.Errorf("ended, and still %q", seen)
			}
			if n := c.Counters(); n.ErrorsRecv+n.ErrorsSent+n.ExtIgnored > 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestWrappedIsCounted: a call that an operation carries is counted before its procedure runs, so before it is answered.
func TestWrappedIsCounted(t *testing.T) {
	here, there := newTagger(), newTagger()
	var seen, late atomic.Int64
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)), rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
		if op, _ := r.Attached(); op != 0 && r.Peer().Conn().Counters().Wrapped < uint64(seen.Add(1)) {
			late.Add(1)
		}
		return next(ctx, r)
	}))
	c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)))
	ss := begun(t, c, []*tagger{here}, []*tagger{there})
	ss[0].conn.Attach("tag", []byte("abcde"))
	for range 10 {
		checkCalls(t, c, 100)
	}
	if seen.Load() != 40 || late.Load() > 0 {
		t.Errorf("%d of %d wrapped calls were not counted when their procedures ran", late.Load(), seen.Load())
	}
}

// TestAttachmentRefused: a server that does not know the operation executes the call once, without; so it does the calls that
// follow, and those that were on their way.
func TestAttachmentRefused(t *testing.T) {
	for name, there := range map[string][]ext.Extension{
		"no extension": nil, "no session": {&tagger{name: "tagger", id: idTag, absent: true}}, "another": {&tagger{name: "other", id: idTag + 8, up: make(chan *tagSession, 9)}},
	} {
		t.Run(name, func(t *testing.T) {
			here := newTagger()
			f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there...)))
			c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)))
			s := begun(t, c, []*tagger{here}, nil)[0]
			s.conn.Attach("tag", []byte("nobody reads this"))
			var wg sync.WaitGroup
			for i := range 64 {
				wg.Go(func() { checkCalls(t, c, i*200) })
			}
			wg.Wait()
			n := c.Counters()
			if n.Wrapped == 0 || n.ErrorsRecv != n.Wrapped {
				t.Errorf("%d wrapped, %d errors", n.Wrapped, n.ErrorsRecv)
			}
			wait.For(t, "the server to count the connection", func() bool { return f.srv.Connections() == 1 })
			if got := f.srv.Counters().CallsRecv; got != n.CallsSent-n.Wrapped || got != 64*4+1 {
				t.Errorf("%d calls received, %d sent, %d of them wrapped", got, n.CallsSent, n.Wrapped)
			}
			before := n.Wrapped
			s.conn.Attach("tag", []byte("once more"))
			checkCalls(t, c, 100)
			if n := c.Counters(); n.Wrapped != before || n.ExtIgnored != 1 {
				t.Errorf("attached again: %+v", n)
			}
		})
	}
}

// TestAttachmentOfOneCall: what an interceptor attaches goes where the extension has allowed it, and before what the connection has.
func TestAttachmentOfOneCall(t *testing.T) {
	here, there := newTagger(), newTagger()
	var at attached
	f := serve(t, "iwarp://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)), at.option())
	own := transport.Attachment{}
	c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)), rpc.WithInterceptor(func(ctx context.Context, call *rpc.CallInfo, next func(context.Context) error) error {
		call.Attach = own
		return next(ctx)
	}))
	s := begun(t, c, []*tagger{here}, []*tagger{there})[0]
	step := func(what string, want ...string) {
		t.Helper()
		checkCalls(t, c, 200)
		seen := slices.Compact(at.take())
		if !slices.Equal(seen, want) {
			t.Errorf("%s: %q", what, seen)
		}
	}
	own = transport.Attachment{Op: idTag, Info: []byte("mine")}
	step("not allowed")
	s.conn.Attach("tag", []byte{})
	step("allowed", "0 mine")
	own = transport.Attachment{}
	step("allowed, and nothing brought")
	s.conn.Attach("tag", []byte("all"))
	step("the connection's", "0 all")
	own = transport.Attachment{Op: idTag, Info: []byte("mine")}
	step("both", "0 mine")
	own = transport.Attachment{Op: idTag, Info: make([]byte, 3001)}
	step("longer than declared", "0 all")
	own = transport.Attachment{Op: idTag + 9, Info: []byte("x")}
	step("of an operation that is not there", "0 all")
	s.conn.Attach("note", []byte("x"))
	s.conn.Attach("tag", make([]byte, 3001))
	step("what may not be attached", "0 all")
	if n := c.Counters(); n.ExtIgnored != 2 {
		t.Errorf("%d ignored", n.ExtIgnored)
	}
}

// TestAttachedInConnect: what is attached before the session stands is attached once it does; the last one counts.
func TestAttachedInConnect(t *testing.T) {
	here, there := newTagger(), newTagger()
	here.begin = []byte("early")
	var at attached
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)), at.option())
	c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)))
	begun(t, c, []*tagger{here}, []*tagger{there})
	at.take() // the first calls may have gone before
	checkCalls(t, c, 10)
	if seen := slices.Compact(at.take()); !slices.Equal(seen, []string{"0 early"}) {
		t.Errorf("attached: %q", seen)
	}
	if n := c.Counters(); n.ExtIgnored != 1 {
		t.Errorf("%d ignored", n.ExtIgnored)
	}
}

// TestAttachmentsOfTwo: one message is wrapped once, by the extension declared first.
func TestAttachmentsOfTwo(t *testing.T) {
	pair := func() (a, b *tagger) {
		a, b = newTagger(), newTagger()
		b.name, b.id = "second", idTag+2
		return a, b
	}
	h1, h2 := pair()
	t1, t2 := pair()
	var at attached
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, t1, t2)), at.option())
	c := dial(t, f.url, rpc.WithExtensions(setOf(t, h1, h2)))
	ss := begun(t, c, []*tagger{h1, h2}, []*tagger{t1, t2})
	call := func(want string) {
		t.Helper()
		checkCalls(t, c, 10)
		if seen := slices.Compact(at.take()); !slices.Equal(seen, []string{want}) {
			t.Errorf("%q, want %q", seen, want)
		}
	}
	ss[1].conn.Attach("tag", []byte("b"))
	call("2 b")
	ss[0].conn.Attach("tag", []byte("a"))
	call("0 a")
	ss[0].conn.Attach("tag", nil)
	call("2 b")
}

// TestAttachmentWithoutRoom: a call whose header has no room for it goes without.
func TestAttachmentWithoutRoom(t *testing.T) {
	here, there := newTagger(), newTagger()
	var at attached
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)), at.option())
	c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)), rpc.WithSegmentLength(1024))
	s := begun(t, c, []*tagger{here}, []*tagger{there})[0]
	s.conn.Attach("tag", pattern(3000))
	checkCalls(t, c, 800)
	if seen := at.take(); len(seen) != 4 {
		t.Errorf("%d of 4 calls have it", len(seen))
	}
	checkCalls(t, c, 100<<10) // 100 segments, 2400 bytes
	if seen := at.take(); len(seen) == 4 || len(seen) == 0 {
		t.Errorf("%d calls have it", len(seen))
	}
}

// TestBackwardAttachments: a server attaches to the calls that it makes, too, and they stay inline.
func TestBackwardAttachments(t *testing.T) {
	both := newTagger() // of either end
	var at attached
	d := newDuplex(t, "loopback://127.0.0.1:0", at.option(), rpc.WithExtensions(setOf(t, both)))
	d.subscribe(t)
	client, server := <-both.up, <-both.up
	if server.conn.Facts().Client {
		client, server = server, client
	}
	client.conn.Send(ext.Outgoing{Op: "note"}, nil)
	<-server.noted
	server.conn.Send(ext.Outgoing{Op: "note"}, nil)
	<-client.noted
	server.conn.Attach("tag", []byte("back"))
	for _, n := range []int{10, 1000, 3900} {
		var got blob
		if err := d.back.Call(ctx(t), procEcho, blob(pattern(n)), &got, rpc.MaxReply(n+8)); err != nil || !bytes.Equal(got, pattern(n)) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	var got blob
	if err := d.back.Call(ctx(t), procEcho, blob(pattern(4000)), &got, rpc.MaxReply(8)); err != nil {
		t.Errorf("no room for it beside the call: %v", err)
	}
	if seen := at.take(); !slices.Equal(seen, []string{"0 back", "0 back", "0 back"}) {
		t.Errorf("%q", seen)
	}
}

// TestAttachedIsLossy: an extension that hangs loses what it is told, and nobody waits for it.
func TestAttachedIsLossy(t *testing.T) {
	here, there := newTagger(), newTagger()
	there.held = make(chan struct{})
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)))
	c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)))
	ss := begun(t, c, []*tagger{here}, []*tagger{there})
	ss[0].conn.Attach("tag", []byte("x"))
	for range 10 {
		checkCalls(t, c, 10)
	}
	close(there.held)
	wait.For(t, "30 of 40 to be lost", func() bool { return f.srv.Counters().AttachLost >= 30 })
	wait.For(t, "the rest", func() bool { return ss[1].count("tag x")+int(f.srv.Counters().AttachLost) == 40 })
}

// TestHostileWraps: what is no wrapped message is BAD_XDR, once, and the connection carries on.
func TestHostileWraps(t *testing.T) {
	there := newTagger()
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithExtensions(setOf(t, there)))
	r := rawDial(t, f.url)
	r.send(head(1, 2, wire.Msg).Append(nil), echo(1))
	if h, _, _ := r.Parsed(); h.Proc != wire.Msg {
		t.Fatal(h.String())
	}
	s := <-there.up
	note := head(2, 2, wire.Optional)
	note.OptType = idTag + 1
	r.send(enc(note))
	<-s.noted
	lists := func(f func(*wire.Header)) []byte {
		h := wire.Header{Version: 2}
		if f != nil {
			f(&h)
		}
		return h.AppendChunkLists([]byte{0, 0, 0, 4, 't', 'a', 'g', '!'})
	}
	send := func(xid uint32, dir wire.Direction, info, payload []byte) {
		h := head(xid, 2, wire.Optional)
		h.Direction, h.OptType, h.OptInfo = dir, idTag, info
		r.send(h.Append(nil), payload)
	}
	good := func(xid uint32) {
		t.Helper()
		send(xid, wire.Call, lists(nil), echo(xid))
		if h, p, _ := r.Parsed(); h.Proc != wire.Msg || h.XID != xid || len(p) == 0 {
			t.Fatal(h.String())
		}
	}
	xid := uint32(100)
	for _, tc := range []struct {
		name    string
		info    []byte
		payload func(uint32) []byte
		code    wire.Code
	}{
		{"no optinfo", nil, echo, wire.ErrBadXDR},
		{"no lists", []byte{0, 0, 0, 0}, echo, wire.ErrBadXDR},
		{"more bytes", append(lists(nil), 0, 0, 0, 0), echo, wire.ErrBadXDR},
		{"an opaque that is not there", []byte{0xff, 0xff, 0xff, 0xf0}, echo, wire.ErrBadXDR},
		{"lists of a reply", lists(func(h *wire.Header) { h.Direction = wire.Reply }), echo, wire.ErrBadXDR},
		{"more bytes than declared", (&wire.Header{Version: 2}).AppendChunkLists(append([]byte{0, 0, 0x0b, 0xbc}, make([]byte, 3004)...)), echo, wire.ErrBadXDR},
		{"no message", lists(nil), func(uint32) []byte { return nil }, wire.ErrBadXDR},
		{"a message in both places", lists(func(h *wire.Header) { h.Reads = []wire.ReadSegment{seg(0, 100)} }), echo, wire.ErrBadXDR},
		{"another XID", lists(nil), func(xid uint32) []byte { return echo(xid + 1) }, wire.ErrBadXDR},
		{"a reply in a call", lists(nil), func(xid uint32) []byte { return []byte{0, 0, 0, byte(xid), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0} }, wire.ErrBadXDR},
		{"overlapping chunks", lists(func(h *wire.Header) { h.Reads = []wire.ReadSegment{seg(8, 100), seg(4, 100)} }), echo, wire.ErrBadXDR},
		{"too many chunks", lists(func(h *wire.Header) {
			for i := range uint32(20) {
				h.Reads = append(h.Reads, seg(40+4*i, 4))
			}
		}), echo, wire.ErrReadChunks},
	} {
		xid++
		send(xid, wire.Call, tc.info, tc.payload(xid))
		h, _, _ := r.Parsed()
		if h.Proc != wire.ErrorMsg || h.Err.Code != tc.code || h.XID != xid {
			t.Errorf("%s: %s", tc.name, h.String())
		}
		send(xid, wire.Reply, tc.info, tc.payload(xid)) // D-12: never answered
		good(xid + 1000)
	}
	h := head(7, 2, wire.Optional)
	h.OptType, h.OptInfo = idTag+5, lists(nil)
	r.send(h.Append(nil), echo(7))
	if h, _, _ := r.Parsed(); h.Err.Code != wire.ErrInvalidOption {
		t.Error(h.String())
	}
}

// TestHostileRefusals: a server that refuses whatever is wrapped, and then the call without it, ends the call and
// nothing else.
func TestHostileRefusals(t *testing.T) {
	here := newTagger()
	var wrapped, refuse atomic.Bool
	c := dial(t, rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
		if h.Proc == wire.Optional {
			wrapped.Store(true)
		}
		if refuse.Load() {
			r.send(errorTo(h, wire.ErrorBody{Code: wire.ErrInvalidOption}))
			return
		}
		r.answerTo(h, 9)
	}), rpc.WithExtensions(setOf(t, here)))
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	(<-here.up).conn.Attach("tag", []byte("x"))
	refuse.Store(true)
	var te *engine.TransportError
	if err := ask(t, c); !errors.As(err, &te) || te.Body.Code != wire.ErrInvalidOption || !wrapped.Load() {
		t.Errorf("%v, wrapped %v", err, wrapped.Load())
	}
	refuse.Store(false)
	if err := ask(t, c); err != nil {
		t.Error(err)
	}
	if n := c.Counters(); n.Wrapped != 1 || n.Dropped != 0 {
		t.Errorf("%+v", n)
	}
}

// TestHostileWrappedReply: a reply may come wrapped; what is none is dropped, and the call waits on.
func TestHostileWrappedReply(t *testing.T) {
	here := newTagger()
	up := make(chan struct{})
	c := dial(t, rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
		switch {
		case n == 0:
			r.answerTo(h, 9)
			return
		case h.Proc == wire.Optional:
			close(up)
			return
		}
		a := reply(h, 9)
		opt := func(info []byte) *wire.Header {
			o := head(h.XID, 2, wire.Optional)
			o.Direction, o.OptType, o.OptInfo = wire.Reply, idTag, info
			return o
		}
		good := a.AppendChunkLists([]byte{0, 0, 0, 3, 'o', 'l', 'd', 0})
		r.send(enc(opt(good[:len(good)-4])), result(h.XID, opaque([]byte("x"))...))
		r.send(enc(opt(append(good[:len(good):len(good)], 0, 0, 0, 0))), result(h.XID, opaque([]byte("x"))...))
		r.send(enc(opt(nil)), result(h.XID, opaque([]byte("x"))...))
		r.send(enc(opt(good)), result(h.XID, opaque([]byte("x"))...))
	}), rpc.WithExtensions(setOf(t, here)))
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	s := <-here.up
	s.conn.Send(ext.Outgoing{Op: "note"}, nil) // it goes when the session is up
	<-up
	for range 2 {
		if err := ask(t, c); err != nil {
			t.Fatal(err)
		}
	}
	wait.For(t, "the extension to be told", func() bool { return s.count("tag old") == 2 })
	if n := c.Counters(); n.Dropped != 6 || n.Wrapped != 2 || n.ErrorsSent != 0 {
		t.Errorf("%+v", n)
	}
}
