package engine

import (
	"fmt"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// awaits are the requests of one extension that are answered when something has come to pass: ext.Silence,
// ext.GrantChange. Guarded by Conn.mu.
type awaits struct {
	grant   func(error) // nil: not asked for
	silence func(error) // the same
	long    time.Duration
	since   time.Time // when the last byte was seen to have passed, or the request
	passed  uint64    // bytes until then
	due     time.Time // when to look again
}

// looks is how often a silence is looked for in its time: that much later at most it is found.
const looks = 4

// passedBytes is what has come from the peer and gone to it, of any kind: who is still sending a long message cannot
// expect an answer behind it. Without mu.
func (x *extensions) passedBytes() uint64 {
	var s verbs.Stats
	x.c.vc.Stats(&s)
	return s.RecvBytes + s.SentBytes
}

func (x *extensions) awaitSilence(of int, d ext.Silence, done func(error)) (err error, later bool) {
	long := time.Duration(d)
	if long < ext.MinSilence || long > ext.MaxSilence {
		return fmt.Errorf("want %v to %v", ext.MinSilence, ext.MaxSilence), false
	}
	passed, now := x.passedBytes(), time.Now()
	x.c.mu.Lock()
	if x.over {
		x.c.mu.Unlock()
		return errEnded, false
	}
	a := &x.sessions[of].awaits
	old := a.silence
	a.silence, a.long, a.since, a.passed, a.due = done, long, now, passed, now.Add(long/looks)
	x.alarm(a.due)
	x.c.mu.Unlock()
	if old != nil {
		old(&ext.RequestError{Request: d, Why: errReplaced})
	}
	return nil, true
}

const errReplaced = "a later request has replaced it"

// silences are the answers that are due, passed being the bytes until now. Called with mu held.
func (x *extensions) silences(now time.Time, passed uint64) (due []func(error)) {
	for _, s := range x.sessions {
		a := &s.awaits
		if a.silence == nil {
			continue
		}
		if !a.due.After(now) {
			if passed != a.passed {
				a.passed, a.since = passed, now
			}
			if now.Sub(a.since) >= a.long {
				due = append(due, a.silence)
				a.silence = nil
				continue
			}
			a.due = now.Add(min(a.long/looks, a.long-now.Sub(a.since)))
		}
		x.alarm(a.due)
	}
	return due
}

func (x *extensions) awaitGrant(of int, done func(error)) (err error, later bool) {
	x.c.mu.Lock()
	if x.over {
		x.c.mu.Unlock()
		return errEnded, false
	}
	a := &x.sessions[of].awaits
	old := a.grant
	a.grant = done
	x.c.mu.Unlock()
	if old != nil {
		old(&ext.RequestError{Request: ext.GrantChange{}, Why: errReplaced})
	}
	return nil, true
}

// grantChanges are the answers that are due, as the peer should be told of another grant and no reply is about to. Called with
// mu held.
func (x *extensions) grantChanges() (due []func(error)) {
	if x == nil || !x.begun || x.over || x.c.owed > 0 || x.c.serving > 0 || !x.c.rule.stale(x.c.grants.now) {
		return nil
	}
	for _, s := range x.sessions {
		if s.awaits.grant != nil {
			due = append(due, s.awaits.grant)
			s.awaits.grant = nil
		}
	}
	return due
}

// endAwaits are those that nothing comes of any more, as the connection has ended. Called with mu held.
func (x *extensions) endAwaits() {
	for _, s := range x.sessions {
		s.awaits = awaits{}
	}
}

// answerAll answers requests. Without mu.
func answerAll(done []func(error), err error) {
	for _, d := range done {
		d(err)
	}
}
