package props

import (
	"bytes"
	"errors"
	"slices"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// exchange is the property exchange of one connection (v2 draft §5.3): events go in by its methods, what is to be done
// comes out of take. No I/O, no clock, no lock, no property that it knows by number.
//
//	        begin, client: CONNPROP is sent        the peer's CONNPROP
//	idle ───────────────────────────────► waiting ────────────────────► open
//	        begin, server: nothing               │                        ▲
//	                                             │ refused, or silent     │ its CONNPROP after all
//	                                             └──────────────► alone ──┘
//
// The client's CONNPROP is the first; the server answers it with its own and sends none unasked (D-8).
// In waiting, requests to the peer wait; what changes of ours is announced when it is open. Alone, every property of the
// peer's has its default and nothing can be asked.
type exchange struct {
	client bool
	form   bool // RDMA2_OPTIONAL is what we send: as configured, at a server as the client's CONNPROP came (D-1)
	room   int  // bytes of a body that the peer's receives hold
	state  state
	props  table // declared on this connection
	local  map[uint32]*ours
	peer   map[uint32]*theirs

	announced bool // our CONNPROP has been sent: what it left out stays as it is (D-24)
	updating  bool // an UPDPROP is not known to be consumed
	deaf      bool // the peer does not take UPDPROP
	stubborn  bool // the peer does not take REQPROP

	asks   []asking // not yet sent
	held   bool     // more are about to come
	asked  []asking // in the REQPROP that is out, by position
	strays int      // values kept of properties that nobody declared: bytes
	answer *answering
	serial uint64        // of answering
	early  []ext.Message // come before begin

	lone  error // why it is alone
	count Counters
	out   []action
}

type state uint8

const (
	idle state = iota
	waiting
	open
	alone
)

// ours is a property of ours.
type ours struct {
	data   []byte // in force; empty: the default
	fixed  bool   // said so, or declared so
	listed bool   // in our CONNPROP
	due    bool   // to be announced
	flying bool   // in an UPDPROP that is not known to be consumed
}

// theirs is a property of the peer's.
type theirs struct {
	data          []byte // empty: the default
	listed, fixed bool
	told          bool // its owner knows
}

// Limits of what is kept for one connection.
const (
	maxAsks   = 64
	maxEarly  = 8
	maxStrays = 16 << 10 // bytes of properties that nobody declared, for those who want to look
)

// action is one thing to do, in the order in which they came about.
type action struct {
	do    doing
	op    string
	info  []byte
	form  bool
	token ext.Token
	// verdict is an answer's.
	verdict ext.Verdict
	id      uint32
	data    []byte
	def     bool
	ref     uint64 // of an ask, or of what an owner is asked
	at      int    // position in what the peer wants
	change  ext.Change
	err     error
}

// doing says what is to be done.
type doing uint8

const (
	doSend    doing = iota + 1 // op, info, form
	doAnswer                   // token, verdict
	doTell                     // id, data, def: the peer's value
	doOwner                    // ref, at, id, data: what the peer wants of a property's owner; granted is the answer
	doAsking                   // id, data: a request to the peer is sent
	doSettled                  // ref, id, change, err: it has been dealt with
	doOver                     // err: the exchange is over
)

func newExchange(client, optional bool, room int) *exchange {
	return &exchange{client: client, form: optional, room: room, props: make(table),
		local: make(map[uint32]*ours), peer: make(map[uint32]*theirs)}
}

// take gives what there is to do since it was last called.
func (x *exchange) take() []action {
	out := x.out
	x.out = nil
	return out
}

func (x *exchange) act(a action) { x.out = append(x.out, a) }

func (x *exchange) send(op string, h wire.Header) {
	x.act(action{do: doSend, op: op, info: encode(op, h), form: x.form})
}

// begin comes when the properties of the connection are known and what they begin with has been offered.
func (x *exchange) begin(declared []ext.Prop) {
	if x.state != idle {
		return
	}
	for _, p := range declared {
		x.props[p.ID] = p
	}
	for id, l := range x.local {
		p, ok := x.props[id]
		if !ok || Check(p, l.data) != nil {
			x.count.BadOffers++
			delete(x.local, id)
			continue
		}
		l.fixed = l.fixed || !p.Mutable
	}
	x.state = waiting
	if x.client {
		x.announce()
	}
	early := x.early
	x.early = nil
	for _, m := range early {
		x.message(m)
	}
}

// announce sends our CONNPROP: everything offered, in one message that a peer takes who knows nothing of us. What has
// no room is left out, and so keeps its default; those of low ids, the basic ones, come first.
func (x *exchange) announce() {
	ids := slices.Sorted(func(yield func(uint32) bool) {
		for id := range x.local {
			if !yield(id) {
				return
			}
		}
	})
	var set []wire.Property
	for _, id := range ids {
		set = append(set, wire.Property{ID: id, Data: x.local[id].data})
	}
	room := min(x.room, DefaultReceiveSize-longestHeader)
	for {
		words := 4 * ((len(set) + 31) / 32)
		n := fitting(set, room, 4+words)
		if n == len(set) {
			break
		}
		x.count.Omitted++
		set = slices.Delete(set, n, n+1) // one that does not fit; those behind it may
	}
	h := wire.Header{Props: set}
	for i, v := range set {
		l := x.local[v.ID]
		l.listed = true
		if l.fixed {
			h.NoChange.Add(i)
		}
	}
	x.announced = true
	x.send(opConn, h)
}

// offered takes a value of ours. Before begin nothing is known of the property.
func (x *exchange) offered(id uint32, data []byte, fixed bool) {
	l := x.local[id]
	if x.state == idle {
		x.local[id] = &ours{data: bytes.Clone(data), fixed: fixed}
		return
	}
	p, ok := x.props[id]
	if !ok || Check(p, data) != nil || x.announced && (l == nil || !l.listed || l.fixed) {
		x.count.BadOffers++ // no value, or one that we have said will not change (D-24, D-18)
		return
	}
	if l == nil {
		l = &ours{fixed: fixed || !p.Mutable}
		x.local[id] = l
	}
	if bytes.Equal(l.data, data) {
		return
	}
	l.data = bytes.Clone(data)
	x.due(l)
	x.update()
}

// due marks a value to be announced.
func (x *exchange) due(l *ours) { l.due = x.announced && l.listed }

// update sends what is due in one UPDPROP, if none is out: what changes meanwhile is in the next one, once.
func (x *exchange) update() {
	if x.state != open || x.updating || x.deaf {
		return
	}
	var set []wire.Property
	for id, l := range x.local {
		if l.due {
			set = append(set, wire.Property{ID: id, Data: l.data})
		}
	}
	slices.SortFunc(set, byID)
	for len(set) > 0 {
		n := fitting(set, x.room, 0)
		if n == 0 { // no receive of the peer's holds it
			x.local[set[0].ID].due = false
			x.count.Omitted++
			set = set[1:]
			continue
		}
		set = set[:n] // the rest goes with the next one
		for _, v := range set {
			x.local[v.ID].due, x.local[v.ID].flying = false, true
		}
		x.updating = true
		x.send(opUpd, wire.Header{Props: set})
		return
	}
}

func byID(a, b wire.Property) int {
	switch {
	case a.ID < b.ID:
		return -1
	case a.ID > b.ID:
		return 1
	}
	return 0
}

// message takes an operation of the peer's.
func (x *exchange) message(m ext.Message) {
	if x.state == idle { // a client is quick; of each operation the engine hands over one, until that is answered
		if len(x.early) < maxEarly {
			x.early = append(x.early, m)
		}
		return
	}
	h, err := decode(m.Op, m.Info)
	switch {
	case m.Op == opResp || m.Reply:
		x.count.Strays++ // an answer to nothing that we know of; never answered (D-12)
		x.verdict(m.Token, ext.Verdict{Kind: ext.Accept})
		return
	case err == nil:
		err = x.props.check(h.Props)
	}
	if err == nil && h.NoChange.End() > len(h.Props) {
		err = errors.New("rdma_nochg names positions that are not there")
	}
	if err != nil { // nothing of it is applied (D-13)
		x.count.Malformed++
		x.verdict(m.Token, ext.Verdict{Kind: ext.Refuse, Code: ext.BadXDR})
		return
	}
	switch m.Op {
	case opConn:
		x.connprop(h, m)
	case opUpd:
		x.verdict(m.Token, ext.Verdict{Kind: ext.Accept})
		x.learn(h)
	case opReq:
		x.reqprop(h, m.Token)
	}
}

// verdict answers a message, if it can be answered.
func (x *exchange) verdict(t ext.Token, v ext.Verdict) {
	if t != 0 {
		x.act(action{do: doAnswer, token: t, verdict: v})
	}
}

// connprop takes the peer's properties. What it leaves out has its default and does not change (D-24).
func (x *exchange) connprop(h wire.Header, m ext.Message) {
	x.verdict(m.Token, ext.Verdict{Kind: ext.Accept})
	if x.state == open { // a second one: an update (D-21)
		x.count.Seconds++
		x.learn(h)
		return
	}
	if !x.client && !x.announced {
		x.form = m.Optional
		x.announce()
	}
	for _, t := range x.peer {
		t.data, t.listed, t.fixed = nil, false, false
	}
	kept, doubles := last(h.Props, h.NoChange)
	x.count.Duplicates += uint64(doubles)
	for _, g := range kept {
		if t := x.of(g.id, len(g.data)); t != nil {
			t.data, t.listed, t.fixed = g.data, true, g.fixed
		}
	}
	x.over(open, nil)
}

// over ends the waiting: every declared property of the peer's has a value now.
func (x *exchange) over(s state, err error) {
	x.state, x.lone = s, err
	for _, id := range x.ids() {
		x.tell(id)
	}
	x.act(action{do: doOver, err: err})
	x.update()
	x.ask()
}

// ids are those of the declared properties, in order.
func (x *exchange) ids() []uint32 {
	ids := make([]uint32, 0, len(x.props))
	for id := range x.props {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// of is the record of a property of the peer's: of a declared one, or of another one, to be shown, if there is room for n
// bytes of it; nil if there is not.
func (x *exchange) of(id uint32, n int) *theirs {
	_, known := x.props[id]
	t := x.peer[id]
	if !known {
		x.count.Skipped++
		more := n + 16
		if t != nil {
			more = n - len(t.data)
		}
		if x.strays+more > maxStrays {
			return nil
		}
		x.strays += more
	}
	if t == nil {
		t = new(theirs)
		x.peer[id] = t
	}
	return t
}

// learn takes values that have changed, also of properties that the peer has left out or called fixed (D-24).
func (x *exchange) learn(h wire.Header) {
	kept, doubles := last(h.Props, nil)
	x.count.Duplicates += uint64(doubles)
	for _, g := range kept {
		if t := x.of(g.id, len(g.data)); t != nil && !(t.told && bytes.Equal(t.data, g.data)) {
			t.data, t.told = g.data, false
			x.tell(g.id)
		}
	}
}

// tell tells the owner of a declared property the peer's value.
func (x *exchange) tell(id uint32) {
	p, known := x.props[id]
	if !known {
		return
	}
	t := x.peer[id]
	if t == nil {
		t = new(theirs)
		x.peer[id] = t
	}
	t.told = true
	a := action{do: doTell, id: id, data: t.data}
	if len(t.data) == 0 {
		a.data, a.def = p.Default, true
	}
	x.act(a)
}

// silent comes when the peer has had its time to send its CONNPROP.
func (x *exchange) silent() {
	if x.state == waiting {
		x.over(alone, &UnsupportedError{Silent: true})
	}
}

// outcome takes what became of a message of ours.
func (x *exchange) outcome(op string, o ext.Outcome) {
	switch op {
	case opConn:
		switch {
		case o.Kind != ext.Refused && o.Kind != ext.NotSent:
			return
		case x.state == waiting:
			x.over(alone, &UnsupportedError{Code: o.Code})
		default:
			x.count.Refused++
		}
	case opReq:
		x.resprop(o)
	case opUpd:
		x.updating = false
		for _, l := range x.local {
			l.flying = false
		}
		switch o.Kind {
		case ext.Refused:
			x.count.Refused++
			x.deaf = o.Code.Unsupported()
		case ext.NotSent:
			x.count.Omitted++
		}
		x.update()
	}
}

// closed ends what waits.
func (x *exchange) closed() {
	if x.state == idle || x.state == waiting {
		x.act(action{do: doOver, err: ErrClosed})
	}
	for _, a := range append(x.asked, x.asks...) {
		x.act(action{do: doSettled, ref: a.ref, id: a.id, change: ext.Change{Kind: ext.Rejected}, err: ErrClosed})
	}
	x.asked, x.asks, x.answer = nil, nil, nil
	x.state, x.lone = alone, ErrClosed
}
