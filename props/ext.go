package props

import (
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// Name is the extension's.
const Name = "props"

// Extension exchanges transport properties on each connection: its own, RBSIZ and BRS, and those that the program's
// other extensions declare. It is safe for concurrent use.
type Extension struct {
	opts Options

	mu    sync.Mutex
	conns map[uint64]*session
	begun chan struct{} // closed, and replaced, when a connection begins
	ended [64]uint64    // the last ids of connections that have ended
	at    int           // in ended
	count Counters      // of connections that have ended
}

// New makes the extension. It panics where an option is not as its text says: ParseOptions checks those that come from
// outside.
func New(o Options) *Extension {
	if err := o.check(); err != nil {
		panic(err.Error())
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	return &Extension{opts: o, conns: make(map[uint64]*session), begun: make(chan struct{})}
}

// Configured makes one from the options of a configuration; see ParseOptions.
func Configured(options map[string]string) (ext.Extension, error) {
	o, err := ParseOptions(options)
	if err != nil {
		return nil, err
	}
	return New(o), nil
}

// Declare says what it is.
func (e *Extension) Declare() ext.Declaration {
	d := ext.Declaration{
		Name: Name, Version: "1", Document: document, Carrier: true,
		Ops:    operations(),
		Props:  []ext.Prop{ReceiveSize.Prop(), Backward.Prop()},
		Limits: ext.Limits{Info: ext.MaxInfo},
	}
	for _, x := range e.opts.Extra {
		d.Props = append(d.Props, x.Prop)
	}
	return d
}

// Connect begins a connection.
func (e *Extension) Connect(c ext.Conn) ext.Session {
	conn, ok := c.(ext.CarrierConn)
	if !ok {
		return nil
	}
	f := conn.Facts()
	s := &session{
		ext: e, conn: conn, id: f.ID,
		x:     newExchange(f.Client, e.opts.Optional, f.SendLimit-longestHeader),
		b:     newBasic(f, e.opts.MaxReceiveSize),
		asked: make(map[uint64]func(ext.Change, error)),
		over:  make(chan struct{}),
		end:   make(chan struct{}),
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conns[s.id] = s
	close(e.begun)
	e.begun = make(chan struct{})
	return s
}

// forget drops a connection.
func (e *Extension) forget(s *session, n Counters) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count.add(n)
	if e.conns[s.id] == s {
		delete(e.conns, s.id)
		e.ended[e.at] = s.id
		e.at = (e.at + 1) % len(e.ended)
	}
}

// session is one connection. It steps the machines under its lock and does what they say after unlocking, in order,
// on the goroutine that finds nobody doing it: the engine's or a program's.
type session struct {
	ext  *Extension
	conn ext.CarrierConn
	id   uint64

	mu     sync.Mutex
	x      *exchange
	b      basic
	props  []ext.Prop // declared on this connection
	asked  map[uint64]func(ext.Change, error)
	ref    uint64
	todo   []func()
	doing  bool
	timer  *time.Timer
	closed bool

	over    chan struct{} // closed when the exchange is over
	overErr error         // then
	end     chan struct{} // closed with the connection
}

// step runs f under the lock and then does what is to be done.
func (s *session) step(f func()) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	f()
	s.plan()
	if s.doing {
		s.mu.Unlock()
		return
	}
	s.doing = true
	for len(s.todo) > 0 {
		do := s.todo[0]
		s.todo = s.todo[1:]
		s.mu.Unlock()
		do()
		s.mu.Lock()
		s.plan()
	}
	s.doing = false
	s.mu.Unlock()
}

// plan turns the machine's actions into things to do. The basic properties are dealt with here, under the lock;
// that may give rise to further actions.
func (s *session) plan() {
	for {
		acts := s.x.take()
		if len(acts) == 0 {
			return
		}
		for _, a := range acts {
			s.planOne(a)
		}
	}
}

func (s *session) planOne(a action) {
	switch a.do {
	case doSend:
		s.later(func() {
			s.conn.Send(ext.Outgoing{Op: a.op, Info: a.info, Optional: a.form}, func(o ext.Outcome) {
				s.step(func() { s.x.outcome(a.op, o) })
			})
		})
	case doAnswer:
		s.later(func() { s.conn.Answer(a.token, a.verdict) })
	case doTell:
		s.tell(a)
	case doOwner:
		s.owner(a)
	case doAsking:
		if a.id == RBSIZ {
			v, _ := ReceiveSize.Decode(a.data)
			s.limit(s.b.asking(v))
		}
	case doSettled:
		if a.id == RBSIZ {
			s.limit(s.b.settled())
		}
		if done := s.asked[a.ref]; done != nil {
			delete(s.asked, a.ref)
			s.later(func() { done(a.change, a.err) })
		}
	case doOver:
		s.overErr = a.err
		select {
		case <-s.over:
		default:
			close(s.over)
		}
	}
}

func (s *session) later(do func()) { s.todo = append(s.todo, do) }

// request asks the engine for r; done may be nil. It is called under the lock.
func (s *session) request(r ext.Request, done func(error)) {
	if r == nil {
		return
	}
	s.later(func() {
		s.conn.Request(r, func(err error) {
			s.step(func() {
				if err != nil {
					s.x.count.NotGranted++
				}
				if done != nil {
					done(err)
				}
			})
		})
	})
}

// limit sets the limit of our Sends.
func (s *session) limit(r ext.Request) {
	s.x.room = int(s.b.limit) - longestHeader
	s.request(r, func(err error) {
		if err != nil { // what was, is
			s.b.limit = uint32(s.conn.Facts().SendLimit)
			s.x.room = int(s.b.limit) - longestHeader
		}
	})
}

// tell hands on the peer's value. Of a peer that knows no properties nothing changes: what the connection
// has agreed upon otherwise stands.
func (s *session) tell(a action) {
	if s.x.state == open || !a.def {
		r, ok := s.b.told(a.id, a.data)
		if !ok {
			s.x.count.TooSmall++
		}
		if a.id == RBSIZ {
			s.limit(r)
		} else {
			s.request(r, nil)
		}
	}
	s.later(func() { s.conn.Peer(a.id, a.data, a.def) })
}

// owner asks who owns a property for what the peer wants: ourselves, or the engine asks another extension.
func (s *session) owner(a action) {
	granted := func(c ext.Change) { s.x.granted(a.ref, a.at, a.id, a.data, c) }
	switch {
	case a.id == RBSIZ:
		s.believed()
		was := s.b.turn
		c, r := s.b.resize(decodeUint32(a.data))
		granted(c)
		if turn := s.b.turn; turn != was {
			s.request(r, func(err error) { s.raised(turn, err) })
		}
	case a.id == BRS:
		s.request(ext.BackwardLevel(decodeUint32(a.data)), func(err error) {
			if err != nil {
				granted(ext.Change{Kind: ext.Rejected})
				return
			}
			s.b.level = ext.BackwardLevel(decodeUint32(a.data))
			granted(ext.Change{Kind: ext.Done})
		})
	case s.extra(a.id):
		granted(ext.Change{Kind: ext.Done})
	default:
		s.later(func() {
			s.conn.Requested(a.id, a.data, func(c ext.Change) { s.step(func() { granted(c) }) })
		})
	}
}

// extra tells whether a property is one of Options.Extra.
func (s *session) extra(id uint32) bool {
	for _, x := range s.ext.opts.Extra {
		if x.Prop.ID == id {
			return true
		}
	}
	return false
}

// raised takes the engine's answer to a request for larger receives: they can be announced (D-22).
func (s *session) raised(turn uint64, err error) {
	if s.b.raised(turn, err) {
		s.believed()
		s.x.offered(RBSIZ, encodeUint32(s.b.size), false)
	}
}

// believed notes whether the peer knows the size that was announced last.
func (s *session) believed() {
	l := s.x.local[RBSIZ]
	s.b.believed(l != nil && !l.due && !l.flying)
}

// Offered takes what other extensions offer.
func (s *session) Offered(id uint32, value []byte, fixed bool) {
	s.step(func() { s.x.offered(id, value, fixed) })
}

// Asked takes what other extensions ask of the peer.
func (s *session) Asked(t ext.Token, id uint32, value []byte) {
	s.step(func() {
		s.ask(id, value, func(c ext.Change, _ error) { s.conn.Settle(t, c) })
	})
}

func (s *session) ask(id uint32, value []byte, done func(ext.Change, error)) {
	s.ref++
	s.asked[s.ref] = done
	s.x.want(s.ref, id, value)
}

// Begin starts the exchange.
func (s *session) Begin() {
	declared := s.conn.Declared()
	s.step(func() {
		s.props = declared
		s.timer = time.AfterFunc(s.ext.opts.Patience, func() { s.step(s.x.silent) })
		if level := s.ext.opts.Backward; s.b.client && level != nil && *level != s.b.level {
			s.request(*level, func(err error) { s.leveled(*level, err); s.start() })
			return
		}
		s.start()
	})
}

// start offers our own properties, as options have them, and begins.
func (s *session) start() {
	want := uint32(s.ext.opts.ReceiveSize)
	if want != 0 && want < s.b.size {
		s.b.size = want
		s.request(ext.ReceiveSize(want), nil)
	}
	if s.b.size >= DefaultReceiveSize {
		s.x.offered(RBSIZ, encodeUint32(s.b.size), false)
	}
	if s.b.client { // it is a client's readiness
		s.x.offered(BRS, Backward.Encode(s.b.level), false)
	}
	for _, x := range s.ext.opts.Extra {
		s.x.offered(x.Prop.ID, x.Value, false)
	}
	s.x.begin(s.props)
	s.plan()
	if want = min(want, s.b.most); want > s.b.size {
		turn := s.b.raise(want)
		s.request(s.b.receives(want), func(err error) { s.raised(turn, err) })
	}
}

// leveled takes the engine's answer to a request of ours for another level of backward calls.
func (s *session) leveled(l ext.BackwardLevel, err error) {
	if err == nil {
		s.b.level = l
		s.x.offered(BRS, Backward.Encode(l), false)
	}
}

// Message takes a property operation of the peer's.
func (s *session) Message(m ext.Message) { s.step(func() { s.x.message(m) }) }

// Closed ends the connection.
func (s *session) Closed(error) {
	s.step(func() {
		s.x.closed()
		if s.timer != nil {
			s.timer.Stop()
		}
	})
	s.mu.Lock()
	s.closed = true
	close(s.end)
	n := s.x.count
	s.mu.Unlock()
	s.ext.forget(s, n)
}
