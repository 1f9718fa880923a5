package engine

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
)

// session is one extension on one connection. What it is to hear goes through tasks, which a goroutine runs
// one at a time and which ends when there are none: an idle connection keeps no goroutine. Guarded by Conn.mu.
//
//	               start            Closed has been queued
//	Starting ------------> Up ---------------------------> Closed
//	    | nil session       | panic                          ^
//	    v                   v                                |
//	 Absent                Down ----------------------------+
type session struct {
	x    *extensions
	i    int
	decl *ext.Declaration
	conn ext.Conn

	state   sessionState
	s       ext.Session
	startBy time.Time // a Starter's, until it is done
	known   bool      // the peer has shown that it has the extension
	gate    bool      // keeps the connection gated
	running bool
	tasks   []task
	waiting int           // of what Limits.Queue bounds
	lines   map[int]*line // by operation
	awaits  awaits
	spoiled atomic.Pointer[PanicError] // what giving memory back has panicked with
}

type sessionState uint8

const (
	sessionStarting sessionState = iota
	sessionUp
	sessionAbsent // as if it were not loaded
	sessionDown   // it has panicked: all that it would answer is late
	sessionClosed
)

// task is something to tell a session.
type task struct {
	run    func(ext.Session)
	q      *question // that it hands over
	counts bool      // in session.waiting
	last   bool      // Closed
}

// line is an operation's messages: the first is with the session, the others wait for its answer.
type line struct{ qs []*question }

// question is something that a session is to answer, by its token.
type question struct {
	s         *session
	token     ext.Token
	until     time.Time
	delivered bool

	op  int // a message, and its operation; -1: to be settled
	msg ext.Message
	// settle gets the answer of one to be settled; rejected is what it is after until. Called with mu held.
	settle func(ext.Change)
}

// connect asks x for its session. Without mu.
func (s *session) connect(x ext.Extension) {
	var got ext.Session
	if p := s.try(func() { got = x.Connect(s.conn) }); p != nil {
		s.panicked(p)
		return
	}
	s.x.c.mu.Lock()
	s.s = got
	s.x.c.mu.Unlock()
}

// mostStarting is how long a Starter may keep Carrier.Begin back.
const mostStarting = time.Second

// starting queues what a Starter hears first. Called with mu held.
func (s *session) starting() {
	st, ok := s.s.(ext.Starter)
	if !ok {
		return
	}
	c := s.x.c
	by := func(t time.Time) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if s.startBy.IsZero() {
			return
		}
		s.startBy = t
		if t.IsZero() {
			s.x.beginCarrier()
		} else {
			s.x.alarm(t)
		}
	}
	s.startBy = time.Now().Add(mostStarting)
	s.x.alarm(s.startBy)
	s.tasks = slices.Insert(s.tasks, 0, task{run: func(ext.Session) {
		most := st.Starting(func() { by(time.Time{}) })
		by(time.Now().Add(min(most, mostStarting)))
	}})
}

// push queues t. Called with mu held.
func (s *session) push(t task) {
	if s.state >= sessionAbsent {
		return
	}
	if t.counts {
		s.waiting++
	}
	s.tasks = append(s.tasks, t)
	s.kick()
}

// full tells whether nothing more may wait. Called with mu held.
func (s *session) full() bool { return s.waiting >= s.decl.Limits.Queue }

// close queues the last task. Called with mu held, when down.
func (s *session) close(err error) {
	s.state = sessionClosed
	if s.s == nil {
		return
	}
	s.tasks = append(s.tasks, task{run: func(e ext.Session) { e.Closed(err) }, last: true})
}

// kick starts the goroutine if there is work for it. Called with mu held.
func (s *session) kick() {
	if s.running || len(s.tasks) == 0 || s.state == sessionStarting {
		return
	}
	s.running = true
	s.x.spawn(s.run)
}

// run is the goroutine.
func (s *session) run() {
	mu := &s.x.c.mu
	mu.Lock()
	defer mu.Unlock()
	for len(s.tasks) > 0 {
		t := s.tasks[0]
		s.tasks[0] = task{}
		s.tasks = s.tasks[1:]
		if t.q != nil {
			t.q.delivered = true
		}
		if t.q != nil || t.counts {
			s.waiting--
		}
		mu.Unlock()
		s.do(t)
		mu.Lock()
	}
	s.tasks, s.running = nil, false
}

// do runs t, and survives it. Without mu.
func (s *session) do(t task) {
	if p := s.try(func() { t.run(s.s) }); p != nil {
		s.panicked(p)
	}
}

func (s *session) try(f func()) (p *PanicError) {
	defer s.survive(&p)
	f()
	return nil
}

// survive, deferred, makes a panic of the extension's an error.
func (s *session) survive(p **PanicError) {
	if v := recover(); v != nil {
		*p = &PanicError{Extension: s.decl.Name, Conn: s.x.c.id, Value: v, Stack: debug.Stack(), s: s}
	}
}

// PanicError is what an extension's session panicked with.
type PanicError struct {
	Extension string
	Conn      uint64 // Conn.ID
	Value     any
	Stack     []byte

	s *session
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("extension %q panicked on connection %d: %v", e.Extension, e.Conn, e.Value)
}

// panicked takes the session out of service for the connection's life. One that wraps messages ends the connection: the peer goes on
// to send what nobody can read any more, and does not on the next one, which has a session of its own. Without mu.
func (s *session) panicked(p *PanicError) {
	c := s.x.c
	if c.cfg.Panicked != nil {
		c.cfg.Panicked(p)
	}
	c.mu.Lock()
	c.counters.ExtPanics++
	if s.state < sessionAbsent {
		s.state = sessionDown
	}
	late := s.drop()
	s.x.dropSends(s)
	s.x.endWrapping(s)
	s.startBy = time.Time{}
	s.x.beginCarrier()
	gate, wraps := s.gate, s.wraps()
	c.mu.Unlock()
	c.event(obs.Event{Kind: obs.ExtPanic, Arg: int64(s.i)})
	for _, q := range late {
		s.x.late(q)
	}
	switch {
	case gate:
		c.endGated(s.decl.Name, errPanicked)
	case wraps:
		c.Close()
	}
	c.flush()
}

// drop ends all that s was to do but Closed, and returns the questions among it. Called with mu held.
func (s *session) drop() (qs []*question) {
	for _, q := range s.x.tokens {
		if q.s == s {
			delete(s.x.tokens, q.token)
			qs = append(qs, q)
		}
	}
	s.tasks = slices.DeleteFunc(s.tasks, func(t task) bool { return !t.last })
	s.lines, s.waiting = nil, 0
	return qs
}

// ask gives q its token and its deadline, and queues it, a message behind those of its operation. Called with mu held; ask full first.
func (s *session) ask(q *question, patience time.Duration, deliver func(ext.Session)) {
	x := s.x
	x.token++
	q.s, q.token, q.until = s, x.token, time.Now().Add(patience)
	x.tokens[q.token] = q
	x.alarm(q.until)
	s.waiting++
	if q.op < 0 {
		s.push(task{run: deliver, q: q})
		return
	}
	q.msg.Token = q.token
	if s.lines == nil {
		s.lines = make(map[int]*line)
	}
	l := s.lines[q.op]
	if l == nil {
		l = new(line)
		s.lines[q.op] = l
	}
	l.qs = append(l.qs, q)
	if len(l.qs) == 1 {
		s.pushMessage(q)
	}
}

func (s *session) pushMessage(q *question) {
	s.push(task{run: func(e ext.Session) { e.Message(q.msg) }, q: q})
}

// settled ends q: it is answered, or late. Called with mu held.
func (x *extensions) settled(q *question) {
	delete(x.tokens, q.token)
	s := q.s
	if !q.delivered {
		s.waiting--
		s.tasks = slices.DeleteFunc(s.tasks, func(t task) bool { return t.q == q })
	}
	l := s.lines[q.op]
	if q.op < 0 || l == nil {
		return
	}
	for i, o := range l.qs {
		if o != q {
			continue
		}
		l.qs = append(l.qs[:i], l.qs[i+1:]...)
		switch {
		case len(l.qs) == 0:
			delete(s.lines, q.op)
		case i == 0:
			s.pushMessage(l.qs[0])
		}
		return
	}
}
