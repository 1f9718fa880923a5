package engine

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// How long an owner, and the carrier with its peer, may take over a change.
const (
	settleOwner   = time.Second
	settleCarrier = time.Minute
)

// property is a row of a connection's property table, guarded by Conn.mu. Values are what their owner and the carrier
// say: only their length is looked at here. Of values that change while their hearer is busy it hears the last.
type property struct {
	prop  ext.Prop
	owner *session

	ours  []byte // nil: the default
	fixed bool
	given bool // there has been an Offer
	peers []byte
	def   bool // the peer has given none, and peers is the default

	offering, telling bool // a task is queued that takes the value when it runs
}

func (x *extensions) initProps() {
	for i, s := range x.sessions {
		for _, p := range x.set.Declared(i).Props {
			if x.props == nil {
				x.props = make(map[uint32]*property)
			}
			x.props[p.ID] = &property{prop: p, owner: s}
		}
	}
}

// fits tells whether a value's length is one of its type's, or 0: the default (D-16).
func (p *property) fits(value []byte) bool {
	if len(value) == 0 {
		return true
	}
	if p.prop.Type == ext.Opaque {
		return len(value) <= 4+p.prop.MaxLen+-p.prop.MaxLen&3
	}
	return len(value) == 4
}

// Offer implements ext.Conn.
func (e *extConn) Offer(id uint32, value []byte, fixed bool) {
	x := e.x
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	p := x.props[id]
	if p == nil || p.owner != e.session || e.state >= sessionAbsent || !p.fits(value) {
		x.c.counters.ExtIgnored++
		return
	}
	p.ours, p.fixed, p.given = bytes.Clone(value), fixed, true
	if x.started {
		x.offer(p)
	}
}

// offer tells the carrier. Called with mu held.
func (x *extensions) offer(p *property) {
	if x.carrier == nil || p.offering {
		return
	}
	p.offering = true
	x.carrier.push(task{run: func(s ext.Session) {
		x.c.mu.Lock()
		p.offering = false
		value, fixed := bytes.Clone(p.ours), p.fixed
		x.c.mu.Unlock()
		if to, ok := s.(ext.Carrier); ok {
			to.Offered(p.prop.ID, value, fixed)
		}
	}})
}

// offerAll tells the carrier what extensions begin with. Called with mu held.
func (x *extensions) offerAll() {
	for _, id := range slices.Sorted(maps.Keys(x.props)) {
		if p := x.props[id]; p.given {
			x.offer(p)
		}
	}
}

// beginCarrier tells the carrier, once nobody is starting any more, that all have begun. Called with mu held.
func (x *extensions) beginCarrier() {
	if x.carrier == nil || x.open || !x.started || x.over {
		return
	}
	for _, s := range x.sessions {
		if !s.startBy.IsZero() {
			return
		}
	}
	x.open = true
	x.carrier.push(task{run: func(s ext.Session) {
		if to, ok := s.(ext.Carrier); ok {
			to.Begin()
		}
	}})
}

// Ask implements ext.Conn.
func (e *extConn) Ask(id uint32, value []byte, done func(ext.Change)) {
	x := e.x
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	if e.state >= sessionAbsent {
		return
	}
	settle := e.settler(done)
	p := x.props[id]
	switch {
	case p == nil || p.owner != e.session || !p.fits(value):
		x.c.counters.ExtIgnored++
		settle(ext.Change{Kind: ext.Rejected})
	case x.carrier == nil || x.carrier.state >= sessionAbsent:
		settle(ext.Change{Kind: ext.Unsupported})
	case x.over || x.carrier.full():
		settle(ext.Change{Kind: ext.Rejected})
	default:
		value = bytes.Clone(value)
		q := &question{op: -1, settle: settle}
		x.carrier.ask(q, settleCarrier, func(s ext.Session) {
			if to, ok := s.(ext.Carrier); ok {
				to.Asked(q.token, id, value)
			}
		})
	}
}

// settler returns what has done hear, in its own session, how a change ended. It is called with mu held.
func (e *extConn) settler(done func(ext.Change)) func(ext.Change) {
	return func(c ext.Change) {
		if done != nil {
			e.push(task{run: func(ext.Session) { done(c) }})
		}
	}
}

// Settle implements ext.Conn.
func (e *extConn) Settle(t ext.Token, ch ext.Change) {
	x := e.x
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	q := x.tokens[t]
	if q == nil || q.s != e.session || q.op >= 0 {
		x.c.counters.ExtIgnored++
		return
	}
	x.settled(q)
	ch.Value = bytes.Clone(ch.Value)
	q.settle(ch)
}

// endSettles: the connection is lost. Called with mu held.
func (x *extensions) endSettles() {
	for _, q := range x.tokens {
		if q.op < 0 {
			q.settle(ext.Change{Kind: ext.Rejected})
		}
	}
}

// carrierConn is what the carrier has of a connection.
type carrierConn struct{ extConn }

// Declared implements ext.CarrierConn.
func (e *carrierConn) Declared() (all []ext.Prop) {
	for _, id := range slices.Sorted(maps.Keys(e.x.props)) {
		all = append(all, e.x.props[id].prop)
	}
	return all
}

// Peer implements ext.CarrierConn.
func (e *carrierConn) Peer(id uint32, value []byte, def bool) {
	x := e.x
	x.c.mu.Lock()
	p := x.props[id]
	if p == nil || e.state >= sessionAbsent {
		x.c.counters.ExtIgnored++
		x.c.mu.Unlock()
		return
	}
	p.peers, p.def = bytes.Clone(value), def
	if !def {
		x.heard(p.owner)
	}
	if !p.telling {
		p.telling = true
		p.owner.push(task{run: func(s ext.Session) {
			x.c.mu.Lock()
			p.telling = false
			value, def := bytes.Clone(p.peers), p.def
			x.c.mu.Unlock()
			if to, ok := s.(ext.Owner); ok {
				to.PeerValue(id, value, def)
			}
		}})
	}
	x.c.mu.Unlock()
	x.pump()
	x.c.flush()
}

// Requested implements ext.CarrierConn.
func (e *carrierConn) Requested(id uint32, value []byte, done func(ext.Change)) {
	x := e.x
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	if e.state >= sessionAbsent {
		return
	}
	settle := e.settler(done)
	p := x.props[id]
	if p == nil || !p.prop.Mutable || !p.fits(value) || x.over || p.owner.state >= sessionAbsent || p.owner.full() {
		settle(ext.Change{Kind: ext.Rejected})
		return
	}
	if _, ok := p.owner.s.(ext.Owner); !ok && p.owner.s != nil {
		settle(ext.Change{Kind: ext.Rejected})
		return
	}
	if len(value) == 0 {
		value = p.prop.Default
	}
	value = bytes.Clone(value)
	q := &question{op: -1, settle: settle}
	p.owner.ask(q, settleOwner, func(s ext.Session) {
		if to, ok := s.(ext.Owner); ok {
			to.Requested(q.token, id, value)
		}
	})
}
