package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// extensions is a connection's side of package ext: a session for each extension of the set, what they have sent and what
// they are asked. Sessions begin when version 2 stands (begin), and end with the connection (end). A nil one has none.
type extensions struct {
	c        *Conn
	set      *ext.Set
	ops      []ext.OpRef
	sessions []*session // by index in set
	carrier  *session   // of properties; nil: none
	receives int        // beyond those of a connection without extensions
	begun    bool       // Complete sets it, with Conn.mu held
	gates    atomic.Int32

	// Guarded by Conn.mu.
	started bool // every session has begun
	open    bool // the carrier has been told so, and each Starter was done or late
	over    bool // the connection has ended
	users   int  // goroutines, and the connection while it lives: the last leaves the endpoint
	ctl     control
	out     outbound
	tokens  map[ext.Token]*question
	token   ext.Token // the last one given
	timer   *time.Timer
	wake    time.Time // when timer is due; zero: it is not set
	props   map[uint32]*property

	wrap wrapping
}

// newExtensions is nil where there is nothing to do.
func newExtensions(c *Conn, set *ext.Set) *extensions {
	if set.Len() == 0 || c.cfg.MaxVersion < wire.Version2 {
		return nil
	}
	x := &extensions{c: c, set: set, ops: set.Ops(), tokens: make(map[ext.Token]*question)}
	x.ctl.ops = make([]controlOp, len(x.ops))
	x.out.init(len(x.ops))
	for i := range set.Len() {
		s := &session{x: x, i: i, decl: set.Declared(i)}
		s.conn = &extConn{s}
		if s.decl.Carrier {
			s.conn = &carrierConn{extConn{s}}
			x.carrier = s
		}
		if s.decl.Gate {
			s.gate = true
			x.gates.Add(1)
		}
		x.sessions = append(x.sessions, s)
	}
	for i := range x.ops {
		x.ctl.ops[i].window, x.ctl.ops[i].own = x.ops[i].Op.Window, x.ops[i].Op.Proves
	}
	x.receives = x.countReceives()
	x.initProps()
	return x
}

// countReceives is how many receives the peer may use for operations (D-8): the window of each that it sends, and of each
// that we send, for answers or errors. The property operations have the control receives; one that carries an
// RPC message has that RPC's, but each Part takes one of its own.
func (x *extensions) countReceives() (n int) {
	for i := range x.ops {
		r := &x.ops[i]
		if isPropertyOp(&r.Op) || r.Op.Payload == ext.Wraps {
			continue
		}
		if x.may(r, theirs) && !x.isAnswer(i) {
			n += r.Op.Window
		}
		if !r.Op.Reply && x.may(r, ours) {
			n += r.Op.Window
		}
	}
	return n
}

// may tells whether the one side sends the operation.
func (x *extensions) may(r *ext.OpRef, mine bool) bool {
	switch r.Op.From {
	case ext.Client:
		return x.c.client == mine
	case ext.Server:
		return x.c.client != mine
	}
	return true
}

// isAnswer tells whether another operation names this one as its answer.
func (x *extensions) isAnswer(op int) bool {
	for i := range x.ops {
		if i != op && x.ops[i].Answer == op {
			return true
		}
	}
	return false
}

// isPropertyOp: see wire.PropProc.
func isPropertyOp(op *ext.Op) bool {
	if op.Proc != 0 {
		return wire.Proc(op.Proc) <= wire.UpdProp
	}
	_, ok := wire.PropProc(op.Type)
	return ok
}

// extra is the receives that extensions add to a connection's.
func (x *extensions) extra() int {
	if x == nil {
		return 0
	}
	return x.receives
}

// begin starts the sessions: version stands. Within Complete, without mu.
func (x *extensions) begin(version uint32) {
	if x == nil || version != wire.Version2 || x.begun || !x.c.group.users.enter() {
		return
	}
	x.c.mu.Lock()
	x.begun = true
	x.users = 2 // the connection, and start
	x.c.mu.Unlock()
	go x.start()
}

// start runs on a goroutine of its own: Connect is users' code.
func (x *extensions) start() {
	for i, s := range x.sessions {
		s.connect(x.set.At(i))
	}
	x.c.mu.Lock()
	x.started = true
	var refused []*question
	gater := ""
	for _, s := range x.sessions {
		if s.state == sessionStarting && s.s != nil {
			s.state = sessionUp
			s.starting()
			continue
		}
		if s.state == sessionStarting {
			s.state = sessionAbsent
		}
		refused = append(refused, s.drop()...)
		if s.gate {
			gater = s.decl.Name
		}
	}
	x.offerAll()
	x.beginWrapping()
	x.beginCarrier()
	for _, s := range x.sessions {
		if x.over && s.state != sessionAbsent {
			s.close(x.c.err)
		}
		s.kick()
	}
	x.c.mu.Unlock()
	for _, q := range refused {
		x.unsupported(q)
	}
	if gater != "" {
		x.c.endGated(gater, errNoSession)
	}
	x.pump()
	x.c.flush()
	x.leave()
}

// end is the connection's: it tells all sessions. Without mu, when down.
func (x *extensions) end(err error) {
	if x == nil || !x.begun {
		return
	}
	c := x.c
	c.mu.Lock()
	x.over = true
	if x.timer != nil {
		x.timer.Stop()
	}
	x.endSends()
	x.endSettles()
	x.endAwaits()
	clear(x.tokens)
	for _, s := range x.sessions {
		s.tasks = slices.DeleteFunc(s.tasks, func(t task) bool { return t.q != nil })
		s.lines = nil
		if x.started && s.state != sessionAbsent {
			s.close(err)
			s.kick()
		}
	}
	c.mu.Unlock()
	x.leave()
}

// leave is called by who is done with x.
func (x *extensions) leave() {
	x.c.mu.Lock()
	x.users--
	last := x.users == 0
	x.c.mu.Unlock()
	if last {
		x.c.group.users.leave()
	}
}

// spawn runs f on a goroutine that the connection's end waits for. Called with mu held.
func (x *extensions) spawn(f func()) {
	x.users++
	go func() {
		defer x.leave()
		f()
	}()
}

// alarm makes sure that onTimer runs at t. Called with mu held.
func (x *extensions) alarm(t time.Time) {
	if x.over || !x.wake.IsZero() && !t.Before(x.wake) {
		return
	}
	x.wake = t
	d := max(time.Until(t), 0)
	if x.timer == nil {
		x.timer = time.AfterFunc(d, x.onTimer)
	} else {
		x.timer.Reset(d)
	}
}

// onTimer ends what has waited for too long.
func (x *extensions) onTimer() {
	now, passed := time.Now(), x.passedBytes()
	x.c.mu.Lock()
	if x.over {
		x.c.mu.Unlock()
		return
	}
	x.users++
	defer x.leave()
	x.wake = time.Time{}
	var late []*question
	for _, q := range x.tokens {
		if q.until.After(now) {
			x.alarm(q.until)
			continue
		}
		x.settled(q)
		late = append(late, q)
	}
	x.expireSends(now)
	silent := x.silences(now, passed)
	for _, s := range x.sessions {
		switch {
		case s.startBy.IsZero():
		case s.startBy.After(now):
			x.alarm(s.startBy)
		default:
			s.startBy = time.Time{}
		}
	}
	x.beginCarrier()
	x.c.mu.Unlock()
	for _, q := range late {
		x.late(q)
	}
	answerAll(silent, nil)
	x.pump()
	x.c.flush()
}

func (x *extensions) event(k obs.Kind, xid uint32, op *ext.Op, n int) {
	id := op.Proc
	if id == 0 {
		id = op.Type
	}
	x.c.event(obs.Event{Kind: k, XID: xid, Bytes: n, Arg: int64(id)})
}
