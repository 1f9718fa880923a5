package rpc_test

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
)

// logged is what sessions were told, in order, for one connection.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *logged) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// owner is an extension with properties, and carrier one that carries them to nobody: tests play the peer.
type owner struct {
	decl  ext.Declaration
	begin func(*ownerSession)
	last  *ownerSession
}

type ownerSession struct {
	o    *owner
	conn ext.Conn
	log  logged
	// tokens of what it was asked.
	tokens []ext.Token
	delay  time.Duration // of a Starter
	ready  func()
}

func (o *owner) Declare() ext.Declaration { return o.decl }

func (o *owner) Connect(c ext.Conn) ext.Session {
	s := &ownerSession{o: o, conn: c}
	o.last = s
	if o.begin != nil {
		o.begin(s)
	}
	if s.delay != 0 {
		return &starterSession{s}
	}
	return s
}

func (s *ownerSession) Message(ext.Message) {}
func (s *ownerSession) Closed(error)        { s.log.add("closed") }
func (s *ownerSession) PeerValue(id uint32, value []byte, def bool) {
	s.log.add("peer %d %x %v", id-ext.ExperimentalFirst, value, def)
}
func (s *ownerSession) Requested(t ext.Token, id uint32, value []byte) {
	s.tokens = append(s.tokens, t)
	s.log.add("requested %d %x", id-ext.ExperimentalFirst, value)
}

type starterSession struct{ *ownerSession }

func (s *starterSession) Starting(done func()) time.Duration {
	s.ready = done
	s.log.add("starting")
	return s.delay
}

type carrierSession struct{ *ownerSession }

func (s *carrierSession) Offered(id uint32, value []byte, fixed bool) {
	s.log.add("offered %d %x %v", id-ext.ExperimentalFirst, value, fixed)
}
func (s *carrierSession) Asked(t ext.Token, id uint32, value []byte) {
	s.tokens = append(s.tokens, t)
	s.log.add("asked %d %x", id-ext.ExperimentalFirst, value)
}
func (s *carrierSession) Begin() { s.log.add("begin") }

type carrier struct{ owner }

func (c *carrier) Connect(conn ext.Conn) ext.Session {
	s := &carrierSession{&ownerSession{o: &c.owner, conn: conn}}
	c.last = s.ownerSession
	return s
}

const propBase = ext.ExperimentalFirst

func newOwner(name string, first uint32) *owner {
	return &owner{decl: ext.Declaration{Name: name, Props: []ext.Prop{
		{ID: propBase + first, Name: "depth", Type: ext.Uint32, Default: []byte{0, 0, 0, 9}, Mutable: true},
		{ID: propBase + first + 1, Name: "key", Type: ext.Opaque, MaxLen: 5},
	}}}
}

func newCarrier() *carrier {
	return &carrier{owner{decl: ext.Declaration{Name: "carrier", Carrier: true}}}
}

// carried is a client with extensions, and a server without.
func carried(t testing.TB, exts ...ext.Extension) *rpc.Client {
	t.Helper()
	f := serve(t, "loopback://127.0.0.1:0")
	c := dial(t, f.url, rpc.WithExtensions(setOf(t, exts...)))
	if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // for the sessions to begin
	return c
}

func wantLines(t testing.TB, who string, l *logged, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := l.take(); !slices.Equal(got, want) {
		t.Errorf("%s heard %q, want %q", who, got, want)
	}
}

func TestPropertyTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, cr := newOwner("a", 0), newOwner("b", 0x10), newCarrier()
		a.begin = func(s *ownerSession) {
			value := []byte{0, 0, 0, 1}
			s.conn.Offer(propBase, value, true)
			value[3] = 99                                                // the engine has its own
			s.conn.Offer(propBase+0x10, []byte{0, 0, 0, 2}, false)       // b's
			s.conn.Offer(propBase+7, nil, false)                         // nobody's
			s.conn.Offer(propBase, []byte{1, 2, 3}, false)               // no uint32
			s.conn.Offer(propBase+1, bytes.Repeat([]byte{1}, 13), false) // count, 5 octets, 3 of round-up: 12
			s.conn.Offer(propBase+1, bytes.Repeat([]byte{1}, 12), false)
		}
		c := carried(t, b, cr, a)
		s, conn := cr.last, cr.last.conn.(ext.CarrierConn)
		wantLines(t, "the carrier", &s.log, "offered 0 00000001 true", "offered 1 010101010101010101010101 false", "begin")
		if n := c.Counters().ExtIgnored; n != 4 {
			t.Errorf("%d ignored, want 4", n)
		}
		var ids []uint32
		for _, p := range conn.Declared() {
			ids = append(ids, p.ID-propBase)
		}
		if !slices.Equal(ids, []uint32{0, 1, 0x10, 0x11}) {
			t.Errorf("declared: %v", ids)
		}
		if _, ok := a.last.conn.(ext.CarrierConn); ok {
			t.Error("who is no carrier has a CarrierConn")
		}

		// Updates, and what the peer has.
		b.last.conn.Offer(propBase+0x10, []byte{0, 0, 0, 4}, false)
		b.last.conn.Offer(propBase+0x10, nil, false)
		synctest.Wait()
		if got := s.log.take(); len(got) == 0 || got[len(got)-1] != "offered 16  false" { // the first may have been overtaken
			t.Errorf("updates: %q", got)
		}
		conn.Peer(propBase, []byte{0, 0, 0, 9}, true)
		conn.Peer(propBase+0x11, []byte{0, 0, 0, 0}, false)
		conn.Peer(propBase+7, nil, false)
		wantLines(t, "a", &a.last.log, "peer 0 00000009 true")
		wantLines(t, "b", &b.last.log, "peer 17 00000000 false")

		// Asking the peer.
		var changes logged
		done := func(ch ext.Change) { changes.add("%v %x", ch.Kind, ch.Value) }
		a.last.conn.Ask(propBase, []byte{0, 0, 0, 5}, done)
		wantLines(t, "the carrier", &s.log, "asked 0 00000005")
		a.last.conn.Settle(s.tokens[0], ext.Change{Kind: ext.Done}) // not its to settle
		conn.Answer(s.tokens[0], ext.Verdict{})                     // no message
		conn.Settle(s.tokens[0], ext.Change{Kind: ext.Other, Value: []byte{0, 0, 0, 6}})
		conn.Settle(s.tokens[0], ext.Change{Kind: ext.Done}) // twice
		wantLines(t, "who asked", &changes, "another value 00000006")
		a.last.conn.Ask(propBase+0x10, []byte{0, 0, 0, 5}, done) // b's
		a.last.conn.Ask(propBase, []byte{5}, done)
		wantLines(t, "who asked", &changes, "rejected ", "rejected ")

		// The peer asks.
		conn.Requested(propBase, []byte{0, 0, 0, 3}, done)
		conn.Requested(propBase+1, []byte{0, 0, 0, 0}, done) // not mutable
		conn.Requested(propBase+7, []byte{0, 0, 0, 0}, done) // nobody's
		conn.Requested(propBase, []byte{3}, done)
		wantLines(t, "a", &a.last.log, "requested 0 00000003")
		wantLines(t, "the carrier", &changes, "rejected ", "rejected ", "rejected ")
		conn.Settle(a.last.tokens[0], ext.Change{Kind: ext.Done})
		a.last.conn.Settle(a.last.tokens[0], ext.Change{Kind: ext.Done})
		wantLines(t, "the carrier", &changes, "done ")
		conn.Requested(propBase, nil, done)
		wantLines(t, "a", &a.last.log, "requested 0 00000009") // its default (D-16)
		time.Sleep(time.Second - time.Millisecond)
		wantLines(t, "the carrier", &changes)
		time.Sleep(time.Millisecond)
		wantLines(t, "the carrier", &changes, "rejected ")

		// Who asked and who is asked hear of the end.
		a.last.conn.Ask(propBase, nil, done)
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantLines(t, "who asked", &changes, "rejected ")
		wantLines(t, "a", &a.last.log, "closed")
	})
}

// TestNobodyCarries: without a carrier nothing is known of the peer, and asking is not supported.
func TestNobodyCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newOwner("a", 0)
		carried(t, a)
		var got logged
		a.last.conn.Offer(propBase, []byte{0, 0, 0, 1}, false)
		a.last.conn.Ask(propBase, []byte{0, 0, 0, 1}, func(c ext.Change) { got.add("%v", c.Kind) })
		wantLines(t, "who asked", &got, "not supported")
		wantLines(t, "the owner", &a.last.log)
	})
}

// TestStarters: the carrier begins when each Starter is done, or late, or has panicked.
func TestStarters(t *testing.T) {
	for _, tc := range []struct {
		name        string
		most        time.Duration
		done, panic time.Duration // after the start; 0: never
		want        time.Duration
	}{
		{"done", time.Second, 300 * time.Millisecond, 0, 300 * time.Millisecond},
		{"late by its own measure", 200 * time.Millisecond, 0, 0, 200 * time.Millisecond},
		{"late by ours", time.Hour, 0, 0, time.Second},
		{"down", time.Hour, 0, 100 * time.Millisecond, 100 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, cr := newOwner("a", 0), newOwner("b", 0x10), newCarrier()
				a.begin = func(s *ownerSession) { s.delay = tc.most }
				c := carried(t, cr, a, b)
				wantLines(t, "the starter", &a.last.log, "starting")
				if tc.done > 0 {
					time.AfterFunc(tc.done, func() {
						a.last.conn.Offer(propBase, []byte{0, 0, 0, 7}, true)
						a.last.ready()
						a.last.ready()
					})
				}
				if tc.panic > 0 {
					time.AfterFunc(tc.panic, func() {
						a.last.conn.Request(ext.SendLimit(1<<30), func(error) { panic("on purpose") })
					})
				}
				time.Sleep(tc.want - time.Millisecond)
				wantLines(t, "the carrier", &cr.last.log)
				time.Sleep(time.Millisecond)
				if tc.done > 0 {
					wantLines(t, "the carrier", &cr.last.log, "offered 0 00000007 true", "begin")
				} else {
					wantLines(t, "the carrier", &cr.last.log, "begin")
				}
				time.Sleep(time.Minute)
				wantLines(t, "the carrier", &cr.last.log)
				c.Close()
			})
		})
	}
}
