package keepalive

import (
	"errors"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// end is one side's ext.Conn: what an engine does with it, one thing after another, when the test says so.
type end struct {
	t       testing.TB
	peer    *end
	s       *session
	queue   []ext.Message // on their way to us
	out     int           // ours that are not known to be consumed
	most    int           // of out ever
	sent    []bool        // ask
	silence func(error)
	long    time.Duration
	grant   func(error)
	offered []byte
	failed  error
	full    bool // nothing can be sent
	later   []func()
}

func newPair(t testing.TB, o Options) (a, b *end) {
	t.Helper()
	x, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	a, b = &end{t: t}, &end{t: t}
	a.peer, b.peer = b, a
	for _, e := range []*end{a, b} {
		e.s = x.Connect(e).(*session)
	}
	return a, b
}

// meet is the exchange of properties.
func meet(a, b *end) {
	a.s.PeerValue(PropertyID, b.offered, false)
	b.s.PeerValue(PropertyID, a.offered, false)
}

func (e *end) Send(m ext.Outgoing, done func(ext.Outcome)) {
	ask, ok := parseGrant(m.Info)
	if m.Op != opGrant || !ok {
		e.t.Fatalf("%+v was sent", m)
	}
	if e.full {
		e.later = append(e.later, func() { done(ext.Outcome{Kind: ext.NotSent}) })
		return
	}
	e.out++
	if e.most = max(e.most, e.out); e.out > window {
		e.t.Fatalf("%d GRANTs are unconsumed", e.out)
	}
	e.sent = append(e.sent, ask)
	e.peer.queue = append(e.peer.queue, ext.Message{Op: opGrant, Reply: true, Info: append([]byte(nil), m.Info...)})
}

func (e *end) Consumed(op string, n int) {
	if e.out -= n; op != opGrant || e.out < 0 {
		e.t.Fatalf("%d more of %s are consumed than were sent", -e.out, op)
	}
}

func (e *end) Request(r ext.Request, done func(error)) {
	switch r := r.(type) {
	case ext.Silence:
		if old := e.silence; old != nil {
			e.later = append(e.later, func() { old(errors.New("replaced")) })
		}
		e.silence, e.long = done, time.Duration(r)
	case ext.GrantChange:
		if e.grant != nil {
			e.t.Fatal("two wait for a change of the grant")
		}
		e.grant = done
	default:
		e.t.Fatalf("%v was asked for", r)
	}
}

// step delivers one message or result.
func (e *end) step() bool {
	switch {
	case len(e.later) > 0:
		f := e.later[0]
		e.later = e.later[1:]
		f()
	case len(e.queue) > 0:
		m := e.queue[0]
		e.queue = e.queue[1:]
		e.s.Message(m)
	default:
		return false
	}
	return true
}

func settle(ends ...*end) {
	for more := true; more; {
		more = false
		for _, e := range ends {
			more = e.step() || more
		}
	}
}

func (e *end) fallSilent() {
	f := e.silence
	e.silence = nil
	f(nil)
}

func (e *end) changeGrant() {
	if f := e.grant; f != nil {
		e.grant = nil
		f(nil)
	}
}

func (e *end) Offer(id uint32, value []byte, fixed bool) {
	if id != PropertyID || !fixed {
		e.t.Fatalf("property %d, fixed %t", id, fixed)
	}
	e.offered = value
}

func (e *end) Fail(err error)                       { e.failed = err }
func (e *end) Facts() ext.Facts                     { return ext.Facts{} }
func (e *end) Answer(ext.Token, ext.Verdict)        { e.t.Fatal("something is answered") }
func (e *end) Ask(uint32, []byte, func(ext.Change)) { e.t.Fatal("a property is asked for") }
func (e *end) Settle(_ ext.Token, c ext.Change)     { e.t.Logf("settled %v", c.Kind) }
func (e *end) Attach(string, []byte)                { e.t.Fatal("something is attached") }
func (e *end) Open()                                { e.t.Fatal("a gate is opened") }
