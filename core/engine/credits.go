package engine

import "encoding/binary"

// credits is a requester's side of flow control (RFC 8166 §3.3.1): how many calls
// may be outstanding. A connection has one: of forward calls at its client, of backward calls at its
// server, which are counted apart (RFC 8167 §4.1). Until the first valid reply that is one (§3.3.3).
type credits struct {
	slots int // what we ask for and have receives for
	limit int // granted, 1…slots
	inUse int
}

func newCredits(slots int) credits { return credits{slots: slots, limit: 1} }

// free tells whether one more call may go out.
func (c *credits) free() bool { return c.inUse < c.limit }

// take uses one; ask free first.
func (c *credits) take() {
	if c.inUse >= c.limit {
		panic("engine: credit taken beyond the limit")
	}
	c.inUse++
}

// put gives one back: its reply has come.
func (c *credits) put() {
	if c.inUse == 0 {
		panic("engine: credit returned twice")
	}
	c.inUse--
}

// grant takes the value of a reply. 0 breaks §3.3.1 and is taken as 1 (D-11); more than we asked
// for is cut, as there are no receives for it.
func (c *credits) grant(n uint32) (zero bool) {
	switch {
	case n == 0:
		c.limit, zero = 1, true
	case n > uint32(c.slots):
		c.limit = c.slots
	default:
		c.limit = int(n)
	}
	return zero
}

// grants is a responder's side: how many calls a peer may have in flight (RFC 8166 §3.3.1). It rides on
// replies, is never more than there are receives for, and never 0 (D-11). Peers may still use what an
// earlier reply granted, so receives stay reserved for the most.
type grants struct {
	most int // receives are reserved for so many
	now  int
}

// step is taken once a tick: where memory or workers are short the grant halves, down to 1, else it
// grows back by an eighth.
func (g *grants) step(short bool) {
	if short {
		g.now = max(g.now/2, 1)
		return
	}
	g.now = min(g.now+max(g.most/8, 1), g.most)
}

// creditRule is how rdma_credit is read and written. Plain, it is how many calls may be outstanding (RFC 8166 §3.3.1).
// Split, its high half is that, and its low half how many more the requester may make than it could before:
// what earlier words allowed counts on, less one for each call that has been answered. So at any time both words leave
// the requester with the same, and either may follow the other: no credit is lost or made where they change.
//
// A split word can be told from a plain one, which is never above 16384 (Config.Credits). Who asks for CreditsSplit
// reads both from then on, until the connection ends. A client also writes split words, from its next message on; a
// server does so from the first split word on that it gets in a call. So an extension asks at the server
// first, and at the client when the server is known to have done so. An RDMA_ERROR says it plain: who sends it
// may not know whether it answers a call.
type creditRule struct {
	both  bool // reads split words as well
	want  bool // is to write them
	split bool // writes them
	asked int  // what the peer's last call asked for: it takes no more; 0: not known
	told  int  // what the peer may have outstanding, as our last word said
}

// splitWord is the least word that is split.
const splitWord = 1 << 16

// set changes the algorithm.
func (r *creditRule) set(split, client bool) {
	r.want, r.both = split, r.both || split
	r.split = split && (client || r.split)
}

// heard takes the word of a call.
func (r *creditRule) heard(word uint32, client bool) {
	if r.both && word >= splitWord {
		word >>= 16
		r.split = r.split || r.want && !client
	}
	r.asked = int(min(word, splitWord-1))
}

// grant is the word of a message to a requester that may have now calls outstanding, 1 at least. answers: one of
// its calls is answered by it.
func (r *creditRule) grant(now int, answers bool) uint32 {
	before := r.told
	r.tell(now)
	if !r.split {
		return uint32(now)
	}
	if answers {
		before--
	}
	return uint32(now)<<16 | uint32(max(r.told-before, 0))
}

// tell notes a plain word that is sent.
func (r *creditRule) tell(now int) {
	r.told = now
	if r.asked > 0 {
		r.told = min(now, r.asked)
	}
}

// stale tells whether the peer would be told something else of now than it was.
func (r *creditRule) stale(now int) bool {
	if r.asked > 0 {
		now = min(now, r.asked)
	}
	return r.told > 0 && r.told != now
}

// ask is the word of a call of ours.
func (r *creditRule) ask(c *credits) uint32 {
	if !r.split {
		return uint32(c.slots)
	}
	return uint32(c.slots)<<16 | uint32(c.slots-c.limit)
}

// take gives c what a word of its responder's grants. answered: it came with the answer to a call.
func (r *creditRule) take(c *credits, word uint32, answered bool) (zero bool) {
	if !r.both || word < splitWord {
		return c.grant(word)
	}
	limit := c.limit + int(word&(splitWord-1))
	if answered {
		limit--
	}
	return c.grant(uint32(min(limit, int(word>>16))))
}

// takeGrant takes the credit of a message that says what calls of ours may be outstanding. Called with mu held.
func (c *Conn) takeGrant(word uint32, answered bool) {
	if c.rule.take(&c.credits, word, answered) {
		c.counters.ZeroCredit++
	}
}

// stampGrant writes the credit of a message for the requester at the peer, which is about to be posted: words are
// posted in the order in which they count. Called with mu held.
func (c *Conn) stampGrant(b []byte, answers bool) {
	now := int(binary.BigEndian.Uint32(b[8:]))
	if c.rule.split {
		now = c.grants.now
	}
	binary.BigEndian.PutUint32(b[8:], c.rule.grant(now, answers))
}

// stampAsk does the same for a call of ours. Called with mu held.
func (c *Conn) stampAsk(b []byte) {
	if c.rule.split {
		binary.BigEndian.PutUint32(b[8:], c.rule.ask(&c.credits))
	}
}
