package props

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// pair is two Extensions and what lies between them: what an engine does with the contract, one event after the other, on the
// goroutine that calls run.
type pair struct {
	t      testing.TB
	ends   [2]*end
	closed bool
	wait   bool // Ask returns when it has been answered

	mu    sync.Mutex // queue, and the ends' logs: programs call from goroutines of their own
	queue []item
}

// item is something that happens later; those of a lane keep their order.
type item struct {
	lane string
	f    func()
}

// end is a CarrierConn, and the engine behind it.
type end struct {
	p     *pair
	peer  *end
	facts ext.Facts
	props []ext.Prop
	s     *session
	token ext.Token
	deaf  ext.Code // what the peer refuses every operation with; 0: it takes them
	log   []string
	owner func(id uint32, value []byte) ext.Change
	grant func(r ext.Request, done func(error))
	told  map[uint32][]byte
	def   map[uint32]bool
	in    map[ext.Token]func(ext.Verdict)
	done  map[ext.Token]ext.Change
	asks  map[ext.Token]func(ext.Change)
}

// newPair connects a client with a to a server with b; each has depth, strict and label, which other extensions own.
func newPair(t *testing.T, a, b Options) (p *pair, ae, be *Extension) {
	p = &pair{t: t, wait: true}
	ae, be = New(a), New(b)
	t.Cleanup(func() { p.close(ErrClosed) })
	for i, e := range []*Extension{ae, be} {
		n := &end{p: p, told: make(map[uint32][]byte), def: make(map[uint32]bool),
			in: make(map[ext.Token]func(ext.Verdict)), done: make(map[ext.Token]ext.Change),
			asks: make(map[ext.Token]func(ext.Change))}
		n.facts = ext.Facts{ID: uint64(i + 1), Client: i == 0, Version: 2, SendLimit: 4096, RecvSize: 4096, MaxRecv: 65536,
			Backward: ext.BackwardInline, Remote: netip.AddrPort{}}
		n.grant = func(r ext.Request, done func(error)) { done(nil) }
		n.owner = func(uint32, []byte) ext.Change { return ext.Change{Kind: ext.Done} }
		n.props = append(e.Declare().Props, depth.Prop(), strict.Prop(), label_.Prop())
		p.ends[i] = n
	}
	p.ends[0].peer, p.ends[1].peer = p.ends[1], p.ends[0]
	for i, e := range []*Extension{ae, be} {
		p.ends[i].s = e.Connect(p.ends[i]).(*session)
	}
	return p, ae, be
}

func (p *pair) begin() {
	for _, n := range p.ends {
		n.s.Begin()
	}
	p.run()
}

// run does what is to be done until nothing is.
func (p *pair) run() {
	for p.next(func(int) int { return 0 }) {
	}
}

// next does the first thing of a lane; pick chooses among n.
func (p *pair) next(pick func(n int) int) bool {
	p.mu.Lock()
	var first []int // of each lane
	for i, it := range p.queue {
		if !slices.ContainsFunc(first, func(j int) bool { return p.queue[j].lane == it.lane }) {
			first = append(first, i)
		}
	}
	p.mu.Unlock()
	if len(first) == 0 {
		return false
	}
	i := first[pick(len(first))]
	p.mu.Lock()
	f := p.queue[i].f
	p.queue = slices.Delete(p.queue, i, i+1)
	p.mu.Unlock()
	f()
	return true
}

// during runs the pair while f, a program, waits for what comes of it.
func (p *pair) during(f func() error) error {
	got := make(chan error, 1)
	go func() { got <- f() }()
	for {
		select {
		case err := <-got:
			p.run()
			return err
		default:
			p.run()
			runtime.Gosched()
		}
	}
}

func (n *end) later(lane string, f func()) {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	n.p.queue = append(n.p.queue, item{fmt.Sprint(n.facts.ID, lane), f})
}

func (p *pair) close(err error) {
	if p.closed {
		return
	}
	p.closed = true
	for _, n := range p.ends {
		n.s.Closed(err)
	}
}

func (n *end) did(s string) {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	n.log = append(n.log, s)
}

func (n *end) Facts() ext.Facts { return n.facts }

func (n *end) Send(m ext.Outgoing, done func(ext.Outcome)) {
	form := ""
	if m.Optional {
		form = " optional"
	}
	n.did(m.Op + form)
	if m.Op == opConn { // the first of its window, and nothing goes before it
		n.later("link", func() { n.deliver(m, done) })
		return
	}
	n.later(m.Op, func() { // when its window allows
		n.later("link", func() { n.deliver(m, done) })
	})
}

func (n *end) deliver(m ext.Outgoing, done func(ext.Outcome)) {
	n.token++
	t := n.token
	n.peer.in[t] = func(v ext.Verdict) {
		n.peer.later("link", func() {
			switch v.Kind {
			case ext.Refuse:
				done(ext.Outcome{Kind: ext.Refused, Code: v.Code})
			case ext.Answer:
				done(ext.Outcome{Kind: ext.Answered, Info: v.Info})
			default:
				done(ext.Outcome{Kind: ext.Consumed})
			}
		})
	}
	if n.deaf != 0 {
		n.peer.Answer(t, ext.Verdict{Kind: ext.Refuse, Code: n.deaf})
		return
	}
	n.peer.s.Message(ext.Message{Op: m.Op, XID: 1, Optional: m.Optional, Info: m.Info, Token: t})
}

func (n *end) Answer(t ext.Token, v ext.Verdict) {
	f := n.in[t]
	if f == nil {
		n.p.t.Errorf("message %d is answered a second time", t)
		return
	}
	delete(n.in, t)
	f(v)
}

func (n *end) Request(r ext.Request, done func(error)) {
	n.did(r.String())
	if l, ok := r.(ext.SendLimit); ok { // it counts for the next Send
		n.facts.SendLimit = int(l)
	}
	n.later("engine", func() { n.grant(r, done) })
}

func (n *end) Offer(id uint32, value []byte, fixed bool) { n.s.Offered(id, value, fixed) }

func (n *end) Ask(id uint32, value []byte, done func(ext.Change)) {
	n.token++
	t := n.token
	n.s.Asked(t, id, value)
	if n.p.wait {
		n.p.run()
	}
	n.asks[t] = done
	if c, ok := n.done[t]; ok {
		n.Settle(t, c)
	}
}

func (n *end) Settle(t ext.Token, c ext.Change) {
	n.done[t] = c
	if done := n.asks[t]; done != nil {
		delete(n.asks, t)
		done(c)
	}
}

func (n *end) Attach(string, []byte)              {}
func (n *end) Consumed(string, int)               {}
func (n *end) Open()                              {}
func (n *end) Fail(error)                         {}
func (n *end) Declared() []ext.Prop               { return n.props }
func (n *end) Peer(id uint32, v []byte, def bool) { n.told[id], n.def[id] = v, def }
func (n *end) Requested(id uint32, v []byte, done func(ext.Change)) {
	n.later("engine", func() { done(n.owner(id, v)) })
}

// wants compares the log of an end, and empties it.
func (n *end) wants(t *testing.T, want ...string) {
	t.Helper()
	if fmt.Sprint(n.log) != fmt.Sprint(want) {
		t.Errorf("it did %q, want %q", n.log, want)
	}
	n.log = nil
}

func text(t *testing.T, s Snapshot, err error, id uint32) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	v, ok := s.Get(id)
	if !ok {
		return "none"
	}
	return v.String()
}

// TestReceiveSize: RBSIZ (v2 draft §5.2.1, D-22).
func TestReceiveSize(t *testing.T) {
	ctx := context.Background()
	setup := func(t *testing.T, a, b Options) (*pair, *Extension, *Extension) {
		p, ae, be := newPair(t, a, b)
		p.begin()
		p.ends[0].log, p.ends[1].log = nil, nil
		return p, ae, be
	}
	ask := func(t *testing.T, p *pair, e *Extension, conn uint64, size uint32) ext.Change {
		t.Helper()
		var c ext.Change
		ReceiveSize.Ask(p.ends[conn-1], size, func(kind ext.ChangeKind, now uint32) {
			c = ReceiveSize.Instead(now)
			c.Kind = kind
		})
		return c
	}
	is := func(t *testing.T, c ext.Change, kind ext.ChangeKind, size uint32) {
		t.Helper()
		if v, _ := ReceiveSize.Decode(c.Value); c.Kind != kind || v != size {
			t.Errorf("%v %d, want %v %d", c.Kind, v, kind, size)
		}
	}

	t.Run("announced and honoured", func(t *testing.T) {
		p, _, be := newPair(t, Options{}, Options{})
		p.ends[0].facts.RecvSize = 16384
		p.ends[0].s.b = newBasic(p.ends[0].facts, 0)
		p.begin()
		p.ends[1].wants(t, "connprop", "send limit 16384", "backward level 1")
		s, err := be.Peer(2)
		if got := text(t, s, err, RBSIZ); got != "rbsiz=16384" {
			t.Error(got)
		}
	})
	t.Run("never announced below 4096", func(t *testing.T) {
		p, ae, _ := newPair(t, Options{}, Options{})
		p.ends[0].s.b.size = 1024
		p.begin()
		s, err := ae.Local(1)
		if got := text(t, s, err, RBSIZ); got != "none" {
			t.Error(got)
		}
	})
	t.Run("option above what the connection has: an update once it is true", func(t *testing.T) {
		p, _, be := newPair(t, Options{ReceiveSize: 1 << 17}, Options{})
		var done func(error)
		p.ends[0].grant = func(_ ext.Request, d func(error)) { done = d }
		p.begin()
		p.ends[0].wants(t, "connprop", "receive size 65536")
		s, err := be.Peer(2)
		if got := text(t, s, err, RBSIZ); got != "rbsiz=4096" {
			t.Error(got)
		}
		done(nil)
		p.run()
		p.ends[0].wants(t, "updprop")
		p.ends[1].wants(t, "connprop", "backward level 1", "send limit 65536")
	})
	t.Run("asked to raise: what is in force now, then an update", func(t *testing.T) {
		p, ae, be := setup(t, Options{}, Options{MaxReceiveSize: 32768})
		var done func(error)
		p.ends[1].grant = func(_ ext.Request, d func(error)) { done = d }
		is(t, ask(t, p, ae, 1, 65536), ext.Other, 4096)
		p.ends[1].wants(t, "receive size 32768")
		done(nil)
		p.run()
		p.ends[1].wants(t, "updprop")
		p.ends[0].wants(t, "reqprop", "send limit 32768")
		is(t, ask(t, p, ae, 1, 65536), ext.Rejected, DefaultReceiveSize) // it cannot grow further
		if n := be.Counters(); n != (Counters{}) {
			t.Error(n)
		}
	})
	t.Run("asked to raise what cannot grow", func(t *testing.T) {
		p, ae, be := setup(t, Options{}, Options{})
		p.ends[1].grant = func(r ext.Request, d func(error)) { d(&ext.RequestError{Request: r, Why: "no"}) }
		is(t, ask(t, p, ae, 1, 65536), ext.Other, 4096) // for now, and it stays
		p.ends[1].wants(t, "receive size 65536")
		if n := be.Counters().NotGranted; n != 1 {
			t.Error(n)
		}
		p.ends[1].s.b.most = 4096
		is(t, ask(t, p, ae, 1, 65536), ext.Rejected, DefaultReceiveSize)
		p.ends[1].wants(t)
	})
	t.Run("asked to lower: at once, and the asker keeps to it from its request on", func(t *testing.T) {
		p, _, _ := newPair(t, Options{}, Options{})
		p.ends[1].facts.RecvSize = 32768
		p.ends[1].s.b = newBasic(p.ends[1].facts, 0)
		p.begin()
		p.ends[0].wants(t, "connprop", "send limit 32768")
		p.ends[1].log = nil
		is(t, ask(t, p, nil, 1, 8192), ext.Done, 8192)
		p.ends[0].wants(t, "send limit 8192", "reqprop")
		p.ends[1].wants(t, "receive size 8192")
		is(t, ask(t, p, nil, 1, 2048), ext.Other, 4096) // D-22: never below 4096
		p.ends[0].wants(t, "send limit 2048", "reqprop", "send limit 4096")
		is(t, ask(t, p, nil, 1, 2048), ext.Rejected, 4096)
		p.ends[0].wants(t, "send limit 2048", "reqprop", "send limit 4096")
	})
	t.Run("a rejected request to lower does not limit us further", func(t *testing.T) {
		p, ae, _ := newPair(t, Options{}, Options{})
		p.ends[1].facts.RecvSize = 32768
		p.ends[1].s.b = newBasic(p.ends[1].facts, 0)
		p.begin()
		p.ends[0].log = nil
		p.ends[0].deaf = ext.System
		is(t, ask(t, p, ae, 1, 8192), ext.Rejected, DefaultReceiveSize)
		p.ends[0].wants(t, "send limit 8192", "reqprop", "send limit 32768")
	})
	t.Run("lowered while it is being raised", func(t *testing.T) {
		p, _, _ := setup(t, Options{}, Options{})
		var done []func(error)
		p.ends[1].grant = func(_ ext.Request, d func(error)) { done = append(done, d) }
		is(t, ask(t, p, nil, 1, 65536), ext.Other, 4096)
		is(t, ask(t, p, nil, 1, 4096), ext.Done, 4096)
		for _, d := range done {
			d(nil)
		}
		p.run()
		p.ends[1].wants(t, "receive size 65536", "receive size 4096") // no update
	})
	t.Run("raised further while it is being raised", func(t *testing.T) {
		p, _, _ := setup(t, Options{}, Options{})
		var done []func(error)
		p.ends[1].grant = func(_ ext.Request, d func(error)) { done = append(done, d) }
		is(t, ask(t, p, nil, 1, 8192), ext.Other, 4096)
		is(t, ask(t, p, nil, 1, 65536), ext.Other, 4096)
		done[0](nil)
		p.run()
		p.ends[1].wants(t, "receive size 8192", "receive size 65536")
		done[1](nil)
		p.run()
		p.ends[1].wants(t, "updprop")
		p.ends[0].wants(t, "reqprop", "reqprop", "send limit 65536")
	})
	t.Run("1024 to 4095 of a peer's limits us, less is ignored", func(t *testing.T) {
		p, ae, _ := setup(t, Options{}, Options{})
		for _, size := range []uint32{2048, 1023, 0, 1 << 31} {
			p.ends[1].s.step(func() { p.ends[1].s.x.offered(RBSIZ, encodeUint32(size), false) })
			p.run()
		}
		p.ends[0].wants(t, "send limit 2048", "send limit 262144")
		if n := ae.Counters().TooSmall; n != 2 {
			t.Errorf("%d counted, want 2", n)
		}
	})
	t.Run("changed by us", func(t *testing.T) {
		p, ae, _ := setup(t, Options{}, Options{})
		change := func(v uint32) error {
			return p.during(func() error { return ae.Change(ctx, 1, RBSIZ, encodeUint32(v)) })
		}
		if err := change(8192); err != nil {
			t.Error(err)
		}
		p.ends[0].wants(t, "receive size 8192", "updprop")
		p.ends[1].wants(t, "send limit 8192")
		var ask *AskError
		if err := change(4096); !errors.As(err, &ask) { // only at the peer's request
			t.Error(err)
		}
		if err := change(1 << 20); !errors.As(err, &ask) {
			t.Error(err)
		}
		p.ends[0].wants(t)
	})
	t.Run("a request that no receive could hold", func(t *testing.T) {
		p, ae, _ := setup(t, Options{}, Options{})
		if _, err := ae.Ask(ctx, 1, RBSIZ, encodeUint32(512)); err == nil {
			t.Error("asked for 512")
		}
		p.ends[0].wants(t)
	})
}

// TestBackward: BRS (v2 draft §5.2.2, D-23).
func TestBackward(t *testing.T) {
	level := func(l ext.BackwardLevel) *ext.BackwardLevel { return &l }
	t.Run("a client's is told to the server's engine, a server has none", func(t *testing.T) {
		p, ae, be := newPair(t, Options{}, Options{})
		p.begin()
		p.ends[0].wants(t, "connprop")
		p.ends[1].wants(t, "connprop", "backward level 1")
		s, err := ae.Peer(1)
		if got := text(t, s, err, BRS); got != "brs=inline (default)" {
			t.Error(got)
		}
		s, err = be.Local(2)
		if got := text(t, s, err, BRS); got != "none" {
			t.Error(got)
		}
	})
	t.Run("option", func(t *testing.T) {
		p, _, be := newPair(t, Options{Backward: level(ext.BackwardGeneral)}, Options{})
		p.begin()
		p.ends[0].wants(t, "backward level 2", "connprop")
		s, err := be.Peer(2)
		if got := text(t, s, err, BRS); got != "brs=general" {
			t.Error(got)
		}
	})
	t.Run("option that the engine does not grant", func(t *testing.T) {
		p, _, be := newPair(t, Options{Backward: level(ext.BackwardGeneral)}, Options{})
		p.ends[0].grant = func(r ext.Request, d func(error)) { d(&ext.RequestError{Request: r, Why: "no chunks here"}) }
		p.begin()
		s, err := be.Peer(2)
		if got := text(t, s, err, BRS); got != "brs=inline" {
			t.Error(got)
		}
	})
	t.Run("asked for by the server", func(t *testing.T) {
		p, _, _ := newPair(t, Options{}, Options{})
		p.begin()
		p.ends[0].log, p.ends[1].log = nil, nil
		ask := func() (kind ext.ChangeKind) {
			Backward.Ask(p.ends[1], ext.BackwardGeneral, func(k ext.ChangeKind, _ ext.BackwardLevel) { kind = k })
			return kind
		}
		if k := ask(); k != ext.Done {
			t.Error(k)
		}
		p.ends[0].wants(t, "backward level 2")
		p.ends[1].wants(t, "reqprop", "backward level 2")
		p.ends[0].grant = func(r ext.Request, d func(error)) { d(&ext.RequestError{Request: r, Why: "no"}) }
		if k := ask(); k != ext.Rejected {
			t.Error(k)
		}
	})
	t.Run("outside of the enumeration", func(t *testing.T) {
		p, _, be := newPair(t, Options{}, Options{})
		p.begin()
		p.ends[0].s.conn.Send(ext.Outgoing{Op: opUpd, Info: []byte{0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 3}}, func(ext.Outcome) {})
		p.run()
		if n := be.Counters().Malformed; n != 1 {
			t.Errorf("%d counted, want 1", n)
		}
	})
}

// TestOwners: properties of other extensions, across both sides and forms.
func TestOwners(t *testing.T) {
	for _, optional := range []bool{false, true} {
		p, ae, be := newPair(t, Options{Optional: optional}, Options{})
		a, b := p.ends[0], p.ends[1]
		depth.Offer(a, 3)
		strict.Fix(a, true)
		depth.Offer(b, 5)
		label_.Offer(b, []byte("x"))
		p.begin()
		form := ""
		if optional {
			form = " optional"
		}
		a.wants(t, "connprop"+form)
		b.wants(t, "connprop"+form, "backward level 1")
		if v, err := depth.Decode(b.told[depth.ID()]); err != nil || v != 3 || b.def[depth.ID()] {
			t.Error(v, err)
		}
		if !a.def[strict.ID()] || b.def[strict.ID()] {
			t.Error("default and value are not told apart")
		}
		// Asked for, and satisfied in part.
		b.owner = func(id uint32, value []byte) ext.Change {
			if id == depth.ID() {
				return depth.Instead(32)
			}
			return ext.Change{Kind: ext.Done}
		}
		var got []string
		depth.Ask(a, 64, func(k ext.ChangeKind, now uint32) { got = append(got, fmt.Sprint(k, now)) })
		label_.Ask(a, []byte("yz"), func(k ext.ChangeKind, now []byte) { got = append(got, fmt.Sprint(k, string(now))) })
		strict.Ask(a, true, func(k ext.ChangeKind, now bool) { got = append(got, fmt.Sprint(k, now)) })
		if fmt.Sprint(got) != "[another value 32 doneyz not supported false]" {
			t.Error(got)
		}
		s, err := ae.Peer(1)
		if err != nil || fmt.Sprint(s.Values) != "[rbsiz=4096 brs=inline (default) depth=32 strict=false (default) label=0x797a]" {
			t.Error(s, err)
		}
		if s, err = be.Peer(2); err != nil || fmt.Sprint(s.Values) != "[rbsiz=4096 brs=inline depth=3 strict=true (fixed) label=0x (default)]" {
			t.Error(s, err)
		}
		if s, err = be.Local(2); err != nil || fmt.Sprint(s.Values) != "[rbsiz=4096 depth=32 label=0x797a]" {
			t.Error(s, err)
		}
		// A change, and back to the default.
		depth.Offer(a, 9)
		p.run()
		depth.Reset(a)
		p.run()
		if v, _ := depth.Decode(b.told[depth.ID()]); v != 1 || !b.def[depth.ID()] {
			t.Error(v)
		}
	}
}

// TestAskAll: several changes in one REQPROP, answers in the order of the questions.
func TestAskAll(t *testing.T) {
	p, ae, _ := newPair(t, Options{}, Options{})
	a, b := p.ends[0], p.ends[1]
	depth.Offer(b, 5)
	label_.Offer(b, nil)
	p.begin()
	b.owner = func(id uint32, value []byte) ext.Change {
		if id == depth.ID() {
			return depth.Instead(32)
		}
		return ext.Change{Kind: ext.Rejected}
	}
	a.log = nil
	var got []Answer
	err := p.during(func() (err error) {
		got, err = ae.AskAll(t.Context(), 1, []Asking{{depth.ID(), depth.Encode(64)}, {strict.ID(), strict.Encode(true)}, {RBSIZ, ReceiveSize.Encode(100)},
			{label_.ID(), label_.Encode([]byte("z"))}, {RBSIZ, ReceiveSize.Encode(4096)}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		kind   ext.ChangeKind
		failed bool
	}{{ext.Other, false}, {ext.Unsupported, true}, {ext.Rejected, true}, {ext.Rejected, false}, {ext.Done, false}}
	for i, w := range want {
		if got[i].Change.Kind != w.kind || (got[i].Err != nil) != w.failed {
			t.Errorf("%d: %+v, %v; want %v", i, got[i].Change, got[i].Err, w.kind)
		}
	}
	n := 0
	for _, s := range a.log {
		if s == opReq {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d REQPROPs: %q", n, a.log)
	}
	if got, err := ae.AskAll(t.Context(), 1, nil); got != nil || err != nil {
		t.Error(got, err)
	}
	if _, err := ae.AskAll(t.Context(), 9, []Asking{{RBSIZ, nil}}); !errors.Is(err, ErrNoConnection) {
		t.Error(err)
	}
}

// TestExtra: properties without code behind them.
func TestExtra(t *testing.T) {
	x := Uint32(0xffffff20, "x", 7, Mutable, Range(0, 100))
	p, ae, _ := newPair(t, Options{}, Options{Extra: []Extra{{x.Prop(), x.Encode(8)}}})
	p.ends[0].props = append(p.ends[0].props, x.Prop())
	p.begin()
	x.Ask(p.ends[0], 9, func(k ext.ChangeKind, now uint32) {
		if k != ext.Done || now != 9 {
			t.Error(k, now)
		}
	})
	s, err := ae.Peer(1)
	if got := text(t, s, err, x.ID()); got != "x=9" {
		t.Error(got)
	}
}

// TestWait: what a program hears of connections.
func TestWait(t *testing.T) {
	ctx := context.Background()
	short, cancel := context.WithCancel(ctx)
	cancel()
	p, ae, be := newPair(t, Options{}, Options{})
	if err := ae.Wait(short, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.begin()
	if err := errors.Join(ae.Wait(ctx, 1), be.Wait(ctx, 2)); err != nil {
		t.Error(err)
	}
	if err := ae.Wait(short, 99); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := ae.Peer(99); !errors.Is(err, ErrNoConnection) {
		t.Error(err)
	}
	got := make(chan error)
	go func() {
		_, err := ae.Ask(ctx, 1, RBSIZ, encodeUint32(8192))
		got <- err
	}()
	for asked := false; !asked; {
		p.ends[0].s.mu.Lock()
		asked = p.ends[0].s.ref > 0 && !p.ends[0].s.doing
		p.ends[0].s.mu.Unlock()
	}
	p.close(nil)
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	for _, err := range []error{ae.Wait(ctx, 1), ae.Change(ctx, 1, RBSIZ, encodeUint32(8192))} {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	if len(ae.conns)+len(be.conns) != 0 {
		t.Error("connections that have ended are kept")
	}
}

// TestStrays: what a peer sends that nobody here declares is shown, within a bound.
func TestStrays(t *testing.T) {
	p, ae, _ := newPair(t, Options{}, Options{})
	p.begin()
	for i := range 100 {
		var h wire.Header
		for j := range 5 {
			h.Props = append(h.Props, wire.Property{ID: uint32(1000 + (5*i+j)%100), Data: make([]byte, 7*i)})
		}
		p.ends[1].Send(ext.Outgoing{Op: opUpd, Info: encode(opUpd, h)}, func(ext.Outcome) {})
		p.run()
	}
	s, err := ae.Peer(1)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, v := range s.Values {
		if v.Name == "" {
			n += len(v.Data)
		}
	}
	if n == 0 || n > maxStrays {
		t.Errorf("%d bytes are kept, of at most %d", n, maxStrays)
	}
	if v, ok := s.Get(1000); !ok || v.Text == "" || v.Name != "" {
		t.Error(v)
	}
}

// TestUnsupported: D-2, and a peer that is silent.
func TestUnsupported(t *testing.T) {
	ctx := context.Background()
	for _, code := range []ext.Code{ext.InvalidProc, ext.InvalidOption} {
		p, ae, _ := newPair(t, Options{}, Options{})
		p.ends[0].deaf = code
		p.ends[0].facts.SendLimit = 8192 // agreed upon by private data
		p.ends[0].s.b = newBasic(p.ends[0].facts, 0)
		p.begin()
		var e *UnsupportedError
		if err := ae.Wait(ctx, 1); !errors.As(err, &e) || e.Code != code {
			t.Error(err)
		}
		if c, err := ae.Ask(ctx, 1, RBSIZ, encodeUint32(8192)); c.Kind != ext.Unsupported || !errors.As(err, &e) {
			t.Error(c, err)
		}
		p.ends[0].wants(t, "connprop") // and the send limit stays
		if !p.ends[0].def[depth.ID()] {
			t.Error("owners do not hear of defaults")
		}
	}
	p, _, be := newPair(t, Options{}, Options{Patience: time.Microsecond})
	p.ends[1].s.Begin()
	var e *UnsupportedError
	if err := be.Wait(ctx, 2); !errors.As(err, &e) || !e.Silent {
		t.Error(err)
	}
}
