package properties

import (
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/props"
)

// mode is an enumeration of this test's.
type mode uint32

// The properties of the probe, of each type.
var (
	depth  = props.Uint32(0xffffff80, "depth", 1, props.Range(1, 64), props.Mutable)
	strict = props.Bool(0xffffff81, "strict", false)
	label  = props.Opaque(0xffffff82, "label", props.MaxLen(2000), props.Mutable)
	shape  = props.Enum(0xffffff83, "shape", mode(1), props.Range(0, 3), props.Mutable)
	absent = props.Uint32(0xffffff84, "absent", 42, props.Mutable) // that nobody offers
)

// patience is how long what must happen may take; only a failure takes so long.
const patience = time.Minute

// probe is an extension that owns properties and writes down what it hears of them.
type probe struct {
	tb    testing.TB
	begin func(ext.Conn)                           // offers what the side begins with; nil: nothing
	want  func(id uint32, value []byte) ext.Change // answers the peer's requests; nil: all done
	up    chan *probed
}

// probed is it on one connection.
type probed struct {
	*probe
	conn ext.Conn

	mu    sync.Mutex
	heard map[uint32]heard
	news  chan struct{} // closed and replaced when something is heard
}

// heard is a value of the peer's.
type heard struct {
	value []byte
	def   bool
}

func newProbe(tb testing.TB) *probe { return &probe{tb: tb, up: make(chan *probed, 16)} }

func (p *probe) Declare() ext.Declaration {
	return ext.Declaration{Name: "probe", Version: "1", Props: []ext.Prop{depth.Prop(), strict.Prop(), label.Prop(), shape.Prop(), absent.Prop()}}
}

func (p *probe) Connect(c ext.Conn) ext.Session {
	s := &probed{probe: p, conn: c, heard: make(map[uint32]heard), news: make(chan struct{})}
	if p.begin != nil {
		p.begin(c)
	}
	p.up <- s
	return s
}

// session waits for the next connection.
func (p *probe) session() *probed {
	p.tb.Helper()
	select {
	case s := <-p.up:
		return s
	case <-time.After(patience):
		p.tb.Fatal("no connection has begun")
		return nil
	}
}

func (p *probe) none() {
	p.tb.Helper()
	select {
	case <-p.up:
		p.tb.Error("a session has begun")
	default:
	}
}

func (s *probed) PeerValue(id uint32, value []byte, def bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard[id] = heard{value, def}
	close(s.news)
	s.news = make(chan struct{})
}

func (s *probed) Requested(t ext.Token, id uint32, value []byte) {
	c := ext.Change{Kind: ext.Done}
	if s.want != nil {
		c = s.want(id, value)
	}
	s.conn.Settle(t, c)
}

func (s *probed) Message(ext.Message) {}
func (s *probed) Closed(error)        {}

// until waits until what has been heard is as ok wants it.
func (s *probed) until(what string, ok func(heard map[uint32]heard) bool) {
	s.tb.Helper()
	end := time.After(patience)
	for {
		s.mu.Lock()
		good, news := ok(s.heard), s.news
		s.mu.Unlock()
		if good {
			return
		}
		select {
		case <-news:
		case <-end:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tb.Fatalf("not heard of: %s; but %v", what, s.heard)
		}
	}
}

// hears waits until the peer's value of p is v.
func hears[T any](s *probed, p props.Property[T], v T, def bool) {
	s.tb.Helper()
	want := string(p.Encode(v))
	s.until(p.Prop().Name+"="+props.FormatValue(p.Prop(), p.Encode(v)), func(h map[uint32]heard) bool {
		got, ok := h[p.ID()]
		return ok && string(got.value) == want && got.def == def
	})
}

// asks asks the peer, and compares what becomes of it.
func asks[T any](s *probed, p props.Property[T], v T, kind ext.ChangeKind, now T) {
	s.tb.Helper()
	type answer struct {
		kind ext.ChangeKind
		now  T
	}
	got := make(chan answer, 1)
	p.Ask(s.conn, v, func(k ext.ChangeKind, now T) { got <- answer{k, now} })
	select {
	case a := <-got:
		if a.kind != kind || string(p.Encode(a.now)) != string(p.Encode(now)) {
			s.tb.Errorf("%s asked to be %v: %v %v, want %v %v", p.Prop().Name, v, a.kind, a.now, kind, now)
		}
	case <-time.After(patience):
		s.tb.Fatalf("%s asked to be %v: no answer", p.Prop().Name, v)
	}
}

// facts waits until the connection's facts are as ok wants them.
func (s *probed) facts(what string, ok func(ext.Facts) bool) {
	s.tb.Helper()
	for end := time.Now().Add(patience); !ok(s.conn.Facts()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.tb.Fatalf("never: %s; but %+v", what, s.conn.Facts())
		}
	}
}
