package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	pb "github.com/rpcrdma/rpcrdma/extensions/sdk/extensionpb"
)

// session is the program's half of a connection of a plugin's: to the engine an ext.Session, whose calls become events and
// return at once. Where the plugin is down, or has as much waiting as it may, every question is answered by
// its declared default (D-38).
type session struct {
	x       *process
	id      uint64
	conn    ext.Conn
	carrier ext.CarrierConn // conn, where the plugin carries properties

	mu       sync.Mutex
	over     bool   // the connection or the process has ended, or the plugin has nothing to do with it
	begun    bool   // Started has come
	started  func() // the engine's, to be told so
	opened   bool
	watches  bool
	facts    ext.Facts // that it was last told
	waiting  int       // events that it has not taken
	open     int       // calls whose ends it has not taken
	ended    int       // of those, ends that are on their way to it
	tokens   map[uint64]token
	last     uint64 // number of a token
	attached map[string]bool
}

// token is a question of the engine's that the plugin has not answered.
type token struct {
	of   ext.Token
	kind tokenKind
	due  time.Time // of a message; zero: nothing is late
}

type tokenKind uint8

const (
	aMessage   tokenKind = iota
	aRequested           // of a property's owner
	anAsked              // of the carrier
)

// maxTokens bounds what a plugin leaves unanswered on a connection. Beyond it the oldest is forgotten, which the engine
// has long answered itself.
const maxTokens = 1024

// carrierSession is the session of a plugin that carries properties.
type carrierSession struct{ *session }

var (
	_ ext.Session = (*session)(nil)
	_ ext.Owner   = (*session)(nil)
	_ ext.Watcher = (*session)(nil)
	_ ext.Starter = (*session)(nil)
	_ ext.Carrier = (*carrierSession)(nil)
)

// Starting implements ext.Starter: what the plugin offers until it says Started is part of the first exchange.
func (s *session) Starting(done func()) time.Duration {
	s.mu.Lock()
	if !s.over && !s.begun && s.x.version >= 2 {
		s.started = done
		s.mu.Unlock()
		return s.x.p.c.Timeout
	}
	s.mu.Unlock()
	done()
	return 0
}

// Message implements ext.Session.
func (s *session) Message(m ext.Message) {
	e := &pb.Message{Op: m.Op, Xid: m.XID, Credit: m.Credit, Reply: m.Reply, Optional: m.Optional, Info: m.Info}
	if !s.ask(&pb.Event{Kind: &pb.Event_Message{Message: e}}, &e.Token, token{of: m.Token, due: s.x.p.due(m)}) && m.Token != 0 {
		s.conn.Answer(m.Token, ext.Verdict{})
	}
}

// Attached implements ext.Watcher.
func (s *session) Attached(xid uint32, op string, info []byte) {
	s.mu.Lock()
	watches := s.watches
	s.mu.Unlock()
	if watches {
		s.tell(&pb.Event{Kind: &pb.Event_Attached{Attached: &pb.Attached{Xid: xid, Op: op, Info: slices.Clone(info)}}})
	}
}

// PeerValue implements ext.Owner.
func (s *session) PeerValue(id uint32, value []byte, def bool) {
	s.tell(&pb.Event{Kind: &pb.Event_PeerValue{PeerValue: &pb.PropValue{Id: id, Value: slices.Clone(value), Def: def}}})
}

// Requested implements ext.Owner.
func (s *session) Requested(t ext.Token, id uint32, value []byte) {
	e := &pb.PropRequest{Id: id, Value: slices.Clone(value)}
	if !s.ask(&pb.Event{Kind: &pb.Event_Requested{Requested: e}}, &e.Token, token{of: t, kind: aRequested}) {
		s.conn.Settle(t, ext.Change{Kind: ext.Rejected})
	}
}

// Offered implements ext.Carrier.
func (s *carrierSession) Offered(id uint32, value []byte, fixed bool) {
	s.tell(&pb.Event{Kind: &pb.Event_Offered{Offered: &pb.PropValue{Id: id, Value: slices.Clone(value), None: value == nil, Fixed: fixed}}})
}

// Asked implements ext.Carrier.
func (s *carrierSession) Asked(t ext.Token, id uint32, value []byte) {
	e := &pb.PropRequest{Id: id, Value: slices.Clone(value)}
	if !s.ask(&pb.Event{Kind: &pb.Event_Asked{Asked: e}}, &e.Token, token{of: t, kind: anAsked}) {
		s.conn.Settle(t, ext.Change{Kind: ext.Unsupported})
	}
}

// Begin implements ext.Carrier.
func (s *carrierSession) Begin() {
	facts := s.conn.Facts()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.send(&pb.Event{Kind: &pb.Event_Begin{Begin: &pb.Begin{}}}, facts, false)
	}
}

// Closed implements ext.Session.
func (s *session) Closed(err error) {
	closed := &pb.Closed{Ok: err == nil}
	if err != nil {
		closed.Error = strings.ToValidUTF8(err.Error(), "?")
	}
	facts := s.conn.Facts()
	s.mu.Lock()
	if !s.over {
		s.over = true
		s.send(&pb.Event{Kind: &pb.Event_Closed{Closed: closed}}, facts, false)
	}
	s.tokens, s.started = nil, nil
	s.mu.Unlock()
	s.x.forget(s.id)
}

// ask sends an event that may have to be answered; where it has no room the question is the caller's again.
func (s *session) ask(e *pb.Event, number *uint64, t token) bool {
	facts := s.conn.Facts()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full() {
		return false
	}
	if t.of != 0 {
		s.last++
		*number = s.last
	}
	if !s.send(e, facts, true) {
		return false
	}
	s.waiting++
	if t.of != 0 {
		if len(s.tokens) >= maxTokens {
			oldest := s.last
			for n := range s.tokens {
				oldest = min(oldest, n)
			}
			delete(s.tokens, oldest)
		}
		s.tokens[s.last] = t
	}
	return true
}

// tell sends an event that nobody answers; where it has no room it is lost.
func (s *session) tell(e *pb.Event) {
	facts := s.conn.Facts()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.full() && s.send(e, facts, true) {
		s.waiting++
	}
}

// full tells whether an event is not to be sent, and counts those that the plugin is too slow for.
func (s *session) full() bool {
	if s.over {
		return true
	}
	if s.waiting >= s.x.p.queue {
		s.x.p.dropped.Add(1)
		return true
	}
	return false
}

// send hands an event to the writer, with the facts if they have changed. s.mu is held; the engine's calls come one at a
// time, so events and facts keep their order.
func (s *session) send(e *pb.Event, facts ext.Facts, bounded bool) bool {
	e.Conn = s.id
	if facts != s.facts {
		e.Facts = pb.FromFacts(facts)
	}
	if !s.x.push(e, bounded) {
		s.x.p.dropped.Add(1)
		return false
	}
	s.facts = facts
	return true
}

// end tells the plugin the end of a call. Calls are bounded, so there is room.
func (s *session) end(e *pb.Event) {
	facts := s.conn.Facts()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.ended++
		s.send(e, facts, false)
	}
}

// down takes the plugin from the connection: it has ended, or has nothing to do with it. What is open is answered by its
// default, what it has attached ends, and a connection that it has not opened cannot be.
func (s *session) down(why error) {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	s.over = true
	tokens, attached, started := s.tokens, s.attached, s.started
	s.tokens, s.attached, s.started = nil, nil, nil
	shut := s.x.p.decl.Gate && !s.opened
	s.mu.Unlock()
	for _, t := range tokens {
		s.abandon(t)
	}
	for op := range attached {
		s.conn.Attach(op, nil)
	}
	if started != nil {
		started()
	}
	if shut {
		s.conn.Fail(why)
	}
}

// abandon answers for the plugin.
func (s *session) abandon(t token) {
	switch t.kind {
	case aMessage:
		s.conn.Answer(t.of, ext.Verdict{})
	case aRequested:
		s.conn.Settle(t.of, ext.Change{Kind: ext.Rejected})
	case anAsked:
		s.conn.Settle(t.of, ext.Change{Kind: ext.Unsupported})
	}
}

// DownError is why a connection ends that an extension gates, when the extension's process has ended.
type DownError struct {
	Name string
}

func (e *DownError) Error() string {
	return fmt.Sprintf("extension %q, which gates the connection, is down", e.Name)
}

// FailError is why a connection ends that an extension has failed (ext.Conn.Fail), in the extension's words.
type FailError struct {
	Name string
	Text string
}

func (e *FailError) Error() string { return fmt.Sprintf("extension %q: %s", e.Name, e.Text) }

// requestDone is the end of a Request as an event.
func requestDone(call uint64, err error) *pb.Event {
	d := &pb.RequestDone{Call: call, Ok: err == nil}
	var refused *ext.RequestError
	switch {
	case errors.As(err, &refused):
		d.Refused, d.Why = true, strings.ToValidUTF8(refused.Why, "?")
	case err != nil:
		d.Why = strings.ToValidUTF8(err.Error(), "?")
	}
	return &pb.Event{Kind: &pb.Event_RequestDone{RequestDone: d}}
}
