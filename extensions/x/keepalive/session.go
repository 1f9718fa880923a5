package keepalive

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// session is the extension on one connection. All of it runs on the goroutine that ext.Session says: no lock, no timer.
//
//	          nothing for Interval: ask          nothing for Patience
//	awake ─────────────────────────────► asking ──────────────────────► the connection ends
//	  ▲                                    │
//	  └────────────────────────────────────┘
//	                  a GRANT
type session struct {
	conn     ext.Conn
	opts     Options
	takes    bool   // the peer takes GRANT
	asked    bool   // ours that asks has not been answered
	again    bool   // the grant has changed since
	owing    int    // answers of ours that are not known to be consumed
	turn     uint64 // of the last silence that was waited for: others are over
	watching bool   // a change of the grant is waited for
}

// SilentError is why a connection has ended whose peer did not answer.
type SilentError struct{ Interval, Patience time.Duration }

func (e *SilentError) Error() string {
	return fmt.Sprintf("the peer is gone: nothing has passed for %v, and a GRANT has no answer within %v", e.Interval, e.Patience)
}

// PeerValue implements ext.Owner.
func (s *session) PeerValue(_ uint32, value []byte, def bool) {
	s.takes = !def && len(value) == 4 && binary.BigEndian.Uint32(value) == 1
	s.turn++
	if s.takes {
		s.wait()
		s.watch()
	}
}

// Requested implements ext.Owner. Others reject by themselves what does not change.
func (s *session) Requested(t ext.Token, _ uint32, _ []byte) { s.conn.Settle(t, ext.Change{}) }

// wait waits for a silence from now on.
func (s *session) wait() {
	s.silence(s.opts.Interval, func() {
		if !s.asked { // else something else has come since, and it is still to be answered
			s.send(true)
		}
		s.silence(s.opts.Patience, func() { s.conn.Fail(&SilentError{s.opts.Interval, s.opts.Patience}) })
	})
}

func (s *session) silence(long time.Duration, then func()) {
	s.turn++
	turn := s.turn
	s.conn.Request(ext.Silence(long), func(err error) {
		if err == nil && turn == s.turn {
			then()
		}
	})
}

// watch waits for a change of our grant.
func (s *session) watch() {
	if s.watching {
		return
	}
	s.watching = true
	s.conn.Request(ext.GrantChange{}, func(err error) {
		s.watching = false
		switch {
		case err != nil || !s.takes:
		case s.asked: // the answer tells us to look again
			s.again = true
		default:
			s.send(true)
			s.watch()
		}
	})
}

func (s *session) send(ask bool) {
	if ask {
		s.asked = true
	} else {
		s.owing++
	}
	s.conn.Send(ext.Outgoing{Op: opGrant, Info: appendGrant(nil, ask)}, func(o ext.Outcome) {
		switch {
		case o.Kind != ext.NotSent: // Lost ends it all, Consumed we have said ourselves
		case ask:
			s.asked = false
		case s.owing > 0:
			s.owing--
		}
	})
}

// Message implements ext.Session: a GRANT. Its credit the engine has taken.
func (s *session) Message(m ext.Message) {
	ask, ok := parseGrant(m.Info)
	if !ok {
		return
	}
	s.takes = true // it may overtake the peer's property, which comes by way of another extension
	s.watch()
	s.wait()
	switch {
	case ask:
		if s.owing > 0 { // it asks again only after our answer
			s.conn.Consumed(opGrant, s.owing)
			s.owing = 0
		}
		s.send(false)
	case s.asked:
		s.asked = false
		s.conn.Consumed(opGrant, 1)
		if s.again {
			s.again = false
			s.send(true)
		}
	}
}

// Closed implements ext.Session.
func (s *session) Closed(error) {}
