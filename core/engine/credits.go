package engine

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
