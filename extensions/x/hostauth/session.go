package hostauth

import (
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// session is the extension on one connection.
//
//	client:  hello sent ──server's hello──► proof sent ──server's proof──► open
//	server:  hello sent ──client's hello──► met ─────────client's proof──► open
//
// Whatever does not fit ends in failed.
type session struct {
	x         *Extension
	conn      ext.Conn
	client    bool
	hello     message // ours
	addresses []byte

	mu    sync.Mutex // the timer has a goroutine of its own
	state state
	timer *time.Timer
	peer  message // its hello
	said  signed
	why   *Error // failed, and the server has not ended the connection yet
}

type state uint8

const (
	waiting state = iota // for the peer's hello
	met                  // for its proof
	open
	failed
)

// linger is how long a server gives a client that it has refused to end the connection by itself: the refusal is on its way.
const linger = time.Second

// fail ends the connection.
func (s *session) fail(why *Error) {
	why.Client = s.client
	if !s.client && s.why == nil {
		s.x.tell(s.conn.Facts().Remote, why)
	}
	s.state = failed
	s.conn.Fail(why)
}

// late is the timer's.
func (s *session) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == open:
	case s.why != nil:
		s.fail(s.why)
	case s.state != failed:
		s.fail(&Error{Reason: Late, Key: s.key(), After: s.x.opts.Timeout})
	}
}

// key is the id of the key in use, as far as it is known. Called with mu held.
func (s *session) key() string {
	if s.client {
		return s.hello.key
	}
	return s.peer.key
}

// PeerValue implements ext.Owner: the peer's hello. What comes later is none: the proofs have other ways.
func (s *session) PeerValue(_ uint32, value []byte, def bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != waiting {
		return
	}
	if def {
		if s.client {
			s.fail(&Error{Reason: NoPeer})
		}
		return // a client that does not authenticate may still call NULL, until it is late
	}
	m, octets, err := parse(value)
	switch {
	case err != nil, m.step != stepHello, s.client && m.key != "", !s.client && !validID(m.key):
		s.refuse(&Error{Reason: Malformed})
		return
	}
	s.peer = m
	if m.bind != s.hello.bind {
		s.refuse(&Error{Reason: OtherBind, Key: s.key(), Bind: s.hello.bind})
		return
	}
	s.state = met
	ours := s.hello.octets()
	if !s.client {
		s.said = signed{octets, ours, s.addresses}
		return
	}
	s.said = signed{ours, octets, s.addresses}
	proof := message{step: stepProof, mac: s.said.byClient(s.x.keys[s.hello.key])}
	s.conn.Ask(PropertyID, proof.value(), func(c ext.Change) { s.answered(proof.mac, c) })
}

// refuse ends the connection at a client at once. At a server the client has time to hear what it is told. Called with mu held.
func (s *session) refuse(why *Error) {
	if s.client {
		s.fail(why)
		return
	}
	s.state, s.why = failed, why
	s.x.tell(s.conn.Facts().Remote, why)
	s.timer.Reset(linger)
}

// answered takes the server's answer to our proof.
func (s *session) answered(ours [macLen]byte, c ext.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != met {
		return
	}
	switch c.Kind {
	case ext.Other:
	case ext.Unsupported:
		s.fail(&Error{Reason: NoCarrier})
		return
	case ext.Done: // without a proof of its own
		s.fail(&Error{Reason: WrongProof, Key: s.hello.key})
		return
	default:
		s.fail(&Error{Reason: Refused, Key: s.hello.key, Bind: s.hello.bind})
		return
	}
	m, _, err := parse(c.Value)
	switch {
	case err != nil || m.step != stepProof:
		s.fail(&Error{Reason: Malformed})
	case !same(m.mac, s.said.byServer(s.x.keys[s.hello.key], ours)):
		s.fail(&Error{Reason: WrongProof, Key: s.hello.key})
	default:
		s.open()
	}
}

// open opens the connection. Called with mu held.
func (s *session) open() {
	s.state = open
	s.timer.Stop()
	s.conn.Open()
}

// Requested implements ext.Owner: at a server, the client's proof.
func (s *session) Requested(t ext.Token, _ uint32, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client || s.state != met { // one attempt
		s.conn.Settle(t, ext.Change{Kind: ext.Rejected})
		return
	}
	key, known := s.x.keys[s.peer.key]
	if !known {
		key = s.x.dummy
	}
	m, _, err := parse(value)
	right := same(m.mac, s.said.byClient(key))
	var why *Error
	switch {
	case err != nil || m.step != stepProof:
		why = &Error{Reason: Malformed}
	case !known:
		why = &Error{Reason: UnknownKey, Key: s.peer.key}
	case !right:
		why = &Error{Reason: WrongProof, Key: s.peer.key}
	}
	if why != nil {
		s.refuse(why)
		s.conn.Settle(t, ext.Change{Kind: ext.Rejected})
		return
	}
	s.open() // before the client knows, who calls at once then
	proof := message{step: stepProof, mac: s.said.byServer(key, m.mac)}
	s.conn.Settle(t, ext.Change{Kind: ext.Other, Value: proof.value()})
}

// Message implements ext.Session: there is no operation of ours.
func (s *session) Message(ext.Message) {}

// Closed implements ext.Session.
func (s *session) Closed(error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.state, s.why = failed, nil
}
