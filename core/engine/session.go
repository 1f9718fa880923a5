package engine

import (
	"slices"
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
	known   bool // the peer has shown that it has the extension
	gate    bool // keeps the connection gated
	running bool
	tasks   []task
	waiting int           // of what Limits.Queue bounds
	lines   map[int]*line // by operation
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
	q      *question // not nil: only while that waits
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
	defer func() {
		if v := recover(); v != nil {
			s.panicked()
		}
	}()
	got := x.Connect(s.conn)
	s.x.c.mu.Lock()
	s.s = got
	s.x.c.mu.Unlock()
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
		switch {
		case t.q != nil && s.x.tokens[t.q.token] != t.q:
			continue // it was late
		case t.q != nil:
			t.q.delivered = true
			s.waiting--
		case t.counts && s.waiting > 0:
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
	defer func() {
		if v := recover(); v != nil {
			s.panicked()
		}
	}()
	t.run(s.s)
}

// panicked takes the session out of service for the connection's life. Without mu.
func (s *session) panicked() {
	c := s.x.c
	c.mu.Lock()
	c.counters.ExtPanics++
	if s.state < sessionAbsent {
		s.state = sessionDown
	}
	s.tasks = slices.DeleteFunc(s.tasks, func(t task) bool { return !t.last })
	late := s.drop()
	s.x.dropSends(s)
	gate := s.gate
	c.mu.Unlock()
	c.event(obs.Event{Kind: obs.ExtPanic, Arg: int64(s.i)})
	for _, q := range late {
		s.x.late(q)
	}
	if gate {
		c.Abort(&GateError{s.decl.Name})
	}
	c.flush()
}

// drop ends all questions to s, and returns them. Called with mu held.
func (s *session) drop() (qs []*question) {
	for _, q := range s.x.tokens {
		if q.s == s {
			delete(s.x.tokens, q.token)
			qs = append(qs, q)
		}
	}
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
