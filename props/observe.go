package props

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

var (
	// ErrNoConnection: no connection of this id has begun here. It may be one of version 1.
	ErrNoConnection = errors.New("props: no such connection")
	// ErrClosed: the connection has ended.
	ErrClosed = errors.New("props: the connection has ended")
)

// UnsupportedError is a peer with which no properties are exchanged. All of its properties have their defaults, and
// what the connection has agreed upon otherwise stands.
type UnsupportedError struct {
	// Code is the peer's: RDMA2_ERR_INVALID_PROC or _INVALID_OPTION where it has no support (D-2). 0: there was none.
	Code ext.Code
	// Silent: it did not answer in time (Options.Patience).
	Silent bool
}

func (e *UnsupportedError) Error() string {
	switch {
	case e.Silent:
		return "the peer does not support transport properties: it sent none"
	case e.Code.Unsupported():
		return fmt.Sprintf("the peer does not support transport properties (%v)", e.Code)
	case e.Code != 0:
		return fmt.Sprintf("the peer refused our transport properties (%v)", e.Code)
	}
	return "our transport properties could not be sent"
}

// AskError is a request for a change that its peer was not asked, or did not answer.
type AskError struct {
	Prop ext.Prop // zero where nobody declared it
	ID   uint32
	Why  string
}

func (e *AskError) Error() string {
	if e.Prop.Name == "" {
		return fmt.Sprintf("property %d: %s", e.ID, e.Why)
	}
	return fmt.Sprintf("property %s: %s", e.Prop.Name, e.Why)
}

// Value is a property on one connection.
type Value struct {
	ID   uint32
	Name string // empty: no extension of ours declares it
	// Data is the value in force, as XDR; Text is the same for people, as ParseValue reads it. Default:
	// no value has been given.
	Data    []byte
	Text    string
	Default bool
	// Listed: it was in the CONNPROP. What was not keeps its default (D-24).
	Listed bool
	// Fixed: it will not change (rdma_nochg, D-18).
	Fixed bool
}

func (v Value) String() string {
	s := v.Name
	if s == "" {
		s = fmt.Sprint(v.ID)
	}
	s += "=" + v.Text
	if v.Default {
		s += " (default)"
	}
	if v.Fixed {
		s += " (fixed)"
	}
	return s
}

// Snapshot is one side's properties on a connection, by id.
type Snapshot struct {
	Values []Value
	// Over: the first exchange is over; Err is then what Wait says.
	Over bool
	Err  error
}

// Get finds a property.
func (s Snapshot) Get(id uint32) (Value, bool) {
	i, ok := slices.BinarySearchFunc(s.Values, id, func(v Value, id uint32) int { return cmp.Compare(v.ID, id) })
	if !ok {
		return Value{}, false
	}
	return s.Values[i], true
}

// Peer is what is known of the peer's properties: all declared ones, their defaults until the exchange is over, and
// those that the peer has sent and nobody here declares. The error is ErrNoConnection or ErrClosed.
func (e *Extension) Peer(conn uint64) (Snapshot, error) {
	return e.snapshot(conn, func(x *exchange, add func(uint32, []byte, bool, bool)) {
		for _, id := range x.ids() {
			if x.peer[id] == nil {
				add(id, nil, false, false)
			}
		}
		for id, t := range x.peer {
			add(id, t.data, t.listed, t.fixed)
		}
	})
}

// Local is what we have offered on a connection. The error is as Peer's.
func (e *Extension) Local(conn uint64) (Snapshot, error) {
	return e.snapshot(conn, func(x *exchange, add func(uint32, []byte, bool, bool)) {
		for id, l := range x.local {
			add(id, l.data, l.listed, l.fixed)
		}
	})
}

func (e *Extension) snapshot(conn uint64, each func(*exchange, func(id uint32, data []byte, listed, fixed bool))) (Snapshot, error) {
	s, _, err := e.find(conn)
	if err != nil {
		return Snapshot{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := Snapshot{Over: s.x.state == open || s.x.state == alone, Err: s.overErr}
	each(s.x, func(id uint32, data []byte, listed, fixed bool) {
		p, known := s.x.props[id]
		if !known {
			p.ID = id
		}
		v := Value{ID: id, Name: p.Name, Data: bytes.Clone(data), Default: len(data) == 0, Listed: listed, Fixed: fixed}
		if v.Default {
			v.Data = bytes.Clone(p.Default)
		}
		v.Text = FormatValue(p, v.Data)
		snap.Values = append(snap.Values, v)
	})
	slices.SortFunc(snap.Values, func(a, b Value) int { return cmp.Compare(a.ID, b.ID) })
	return snap, nil
}

// find gives a connection, or why there is none; begun is closed when another one begins.
func (e *Extension) find(conn uint64) (s *session, begun <-chan struct{}, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, begun = e.conns[conn], e.begun
	switch {
	case s != nil:
	case conn != 0 && slices.Contains(e.ended[:], conn):
		err = ErrClosed
	default:
		err = ErrNoConnection
	}
	return s, begun, err
}

// Wait waits until the first exchange on a connection is over, the connection's beginning included: with one of
// version 1 it waits for ctx. The error is an *UnsupportedError where the peer exchanges no properties, ErrClosed, or
// ctx's.
func (e *Extension) Wait(ctx context.Context, conn uint64) error {
	for {
		s, begun, err := e.find(conn)
		switch {
		case s != nil:
			select {
			case <-s.over:
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.overErr
			case <-ctx.Done():
				return fmt.Errorf("waiting for the peer's properties: %w", ctx.Err())
			}
		case err == ErrClosed:
			return err
		}
		select {
		case <-begun:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the properties of connection %d, which has not begun: %w", conn, ctx.Err())
		}
	}
}

// Ask asks the peer to change one of its properties to value, as XDR; no bytes are its default. What the peer answered is the
// Change, without an error, be it a rejection. An error says why it was not asked or has not answered:
// *AskError, *ValueError, ErrNoConnection, ErrClosed or ctx's.
func (e *Extension) Ask(ctx context.Context, conn uint64, id uint32, value []byte) (ext.Change, error) {
	answers, err := e.AskAll(ctx, conn, []Asking{{id, value}})
	if err != nil {
		return ext.Change{Kind: ext.Rejected}, err
	}
	return answers[0].Change, answers[0].Err
}

// Asking is a change to ask the peer for: the value as XDR; no bytes are the default.
type Asking struct {
	ID    uint32
	Value []byte
}

// Answer is what became of an Asking, as Ask returns it.
type Answer struct {
	Change ext.Change
	Err    error
}

// AskAll asks for several changes at once: what fits goes in one REQPROP. The answers are in the order of asks. The error is
// ErrNoConnection, ErrClosed or ctx's.
func (e *Extension) AskAll(ctx context.Context, conn uint64, asks []Asking) ([]Answer, error) {
	if len(asks) == 0 {
		return nil, nil
	}
	answers := make([]Answer, len(asks))
	_, err := e.wait(ctx, conn, asks[0].ID, func(s *session, done func(ext.Change, error)) {
		left := len(asks)
		s.x.held = true
		for i, a := range asks {
			answer := func(c ext.Change, err error) {
				answers[i] = Answer{c, err}
				if left--; left == 0 {
					done(ext.Change{}, nil)
				}
			}
			if v := decodeUint32(a.Value); a.ID == RBSIZ && len(a.Value) == 4 && v < minSendLimit {
				answer(ext.Change{Kind: ext.Rejected}, s.x.why(a.ID, fmt.Sprintf("%d is less than every receive holds", v)))
				continue
			}
			s.ask(a.ID, a.Value, answer)
		}
		s.x.held = false
		s.x.ask()
	})
	if err != nil {
		return nil, err // answers may yet be written to
	}
	return answers, nil
}

// Change changes a property of our own, RBSIZ, BRS or one of Options.Extra, and announces it by UPDPROP; properties of
// other extensions are theirs to change. It returns when the change is in force: a larger receive size, once all
// smaller receives have been consumed.
func (e *Extension) Change(ctx context.Context, conn uint64, id uint32, value []byte) error {
	_, err := e.wait(ctx, conn, id, func(s *session, done func(ext.Change, error)) {
		s.change(id, value, func(err error) { done(ext.Change{}, err) })
	})
	return err
}

func (s *session) change(id uint32, value []byte, done func(error)) {
	var p ext.Prop
	if i := slices.IndexFunc(s.props, func(p ext.Prop) bool { return p.ID == id }); i >= 0 {
		p = s.props[i]
	}
	err := Check(p, value)
	if len(value) == 0 {
		value = p.Default
	}
	basic := id == RBSIZ || id == BRS
	switch {
	case !basic && !s.extra(id):
		err = s.x.why(id, "it is not ours to change")
	case err == nil && basic:
		err = s.b.change(id, decodeUint32(value))
	case err == nil && !p.Mutable:
		err = s.x.why(id, "it does not change")
	}
	switch {
	case err != nil:
		done(err)
	case id == RBSIZ:
		s.believed()
		turn := s.b.raise(decodeUint32(value))
		s.request(s.b.receives(s.b.aim), func(err error) { s.raised(turn, err); done(err) })
	case id == BRS:
		level := ext.BackwardLevel(decodeUint32(value))
		s.request(level, func(err error) { s.leveled(level, err); done(err) })
	default:
		s.x.offered(id, value, false)
		done(nil)
	}
}

// wait runs f on a connection and waits for what it says by done, which does not block.
func (e *Extension) wait(ctx context.Context, conn uint64, id uint32, f func(s *session, done func(ext.Change, error))) (ext.Change, error) {
	s, _, err := e.find(conn)
	if err != nil {
		return ext.Change{Kind: ext.Unsupported}, err
	}
	type result struct {
		c   ext.Change
		err error
	}
	got := make(chan result, 1)
	ran := false
	s.step(func() {
		ran = true
		f(s, func(c ext.Change, err error) { got <- result{c, err} })
	})
	if !ran {
		return ext.Change{Kind: ext.Rejected}, ErrClosed
	}
	select {
	case r := <-got:
		return r.c, r.err
	case <-s.end:
		return ext.Change{Kind: ext.Rejected}, ErrClosed
	case <-ctx.Done():
		return ext.Change{Kind: ext.Rejected}, fmt.Errorf("waiting for what becomes of property %d: %w", id, ctx.Err())
	}
}

// Counters are what was noticed and not acted upon, of all connections.
type Counters struct {
	Malformed  uint64 // operations with a malformed value of a known property: nothing of them was applied (D-13)
	Skipped    uint64 // properties that nobody declares (D-14)
	Duplicates uint64 // properties twice in one set (D-15)
	Seconds    uint64 // further CONNPROPs of a connection (D-21)
	Strays     uint64 // answers to nothing that was asked
	Foreign    uint64 // answers about what was not asked (D-19)
	Mismatches uint64 // properties that an answer has twice or not at all: rejected (D-19)
	Refused    uint64 // operations of ours that the peer answered with an error after the exchange
	TooSmall   uint64 // receive sizes below 1024, ignored (D-22)
	NotGranted uint64 // changes that the engine did not grant
	BadOffers  uint64 // values of extensions that are no values of their properties, or come too late (D-24)
	Omitted    uint64 // values that no receive of the peer's holds
}

func (c *Counters) add(o Counters) {
	cv, ov := reflect.ValueOf(c).Elem(), reflect.ValueOf(o)
	for i := range cv.NumField() {
		cv.Field(i).SetUint(cv.Field(i).Uint() + ov.Field(i).Uint())
	}
}

// Counters are the sums over all connections so far.
func (e *Extension) Counters() Counters {
	e.mu.Lock()
	sum := e.count
	live := make([]*session, 0, len(e.conns))
	for _, s := range e.conns {
		live = append(live, s)
	}
	e.mu.Unlock()
	for _, s := range live {
		s.mu.Lock()
		sum.add(s.x.count)
		s.mu.Unlock()
	}
	return sum
}
