package loopback

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft"
)

// A connection's life. Only the resident reader (drive.go) takes the last step.
//
//	setUp ──both ends Ready──► up ──Close──► closing ──all is carried out──► ended ─► buried
//	  └────── refused ──────────┴── Abort, a fault, the peer's end ────────────┘
type state uint8

const (
	setUp   state = iota // receives are posted, nothing else
	up                   // everything moves
	closing              // nothing more may be posted, what was moves
	ended                // nothing moves; the reader flushes what is left
)

// maxRecvs bounds the receives posted on one connection.
const maxRecvs = 1 << 16

// conn is one end. Whatever runs without mu says which flag keeps others out.
type conn struct {
	dom           *domain
	peer          *conn // set before up
	caps          verbs.Caps
	handler       verbs.Handler
	pool          *soft.Pool // nil: rq
	tap           verbs.Tap
	local, remote netip.AddrPort
	private       []byte // the peer's
	reading       int    // Reads that the peer may have in flight
	stats         stats

	windows soft.Windows // what the peer may reach

	// The two who wait for input: a poke tells them to look again.
	driverWake, readerWake chan struct{}

	// mu guards what follows. It is never held over a copy of bulk, a Handler or a wait.
	mu     sync.Mutex
	state  state
	lived  bool  // it was up
	cause  error // once ended: what Disconnected gets
	there  error // after a work that ended the connection: the peer's cause; it ends when that work is reported
	refuse error // from closing on: what methods return

	sq     workList // posted, not carried out
	cq     workList // carried out, not reported
	spare  *work    // for the next Post
	posted int      // in sq, under way and in cq: bounded by caps.Queue
	rq     ring[verbs.Recv]
	in     ring[verbs.Completion] // receives, filled, not reported

	pumping    bool // somebody carries out works
	sent       bool // and has put a message into the peer's hands, who may not know
	incoming   bool // the peer's pump fills a receive of ours
	completing bool // somebody is in Handler.Complete, or about to be
	news       bool // what it reports or has reported last was not Sends alone
	driving    bool // somebody is in Drive
	kicked     bool
	resident   bool // it is the resident reader's turn: nobody drove lately
	ticking    bool // the resident reader measures how long nobody has driven
	drives     uint64
	batch      [32]verbs.Completion // belongs to whoever is completing
}

var (
	_ verbs.Conn     = (*conn)(nil)
	_ verbs.Driver   = (*conn)(nil)
	_ verbs.Detacher = (*conn)(nil)

	errNotUp      = errors.New("loopback: the connection is not up yet")
	errClosed     = fmt.Errorf("loopback: connection closed: %w", net.ErrClosed)
	errPeerClosed = fmt.Errorf("loopback: connection closed by the peer: %w", net.ErrClosed)
	errRevoked    = fmt.Errorf("loopback: connection ended: %w", net.ErrClosed)
	errPooled     = fmt.Errorf("loopback: PostRecv on a connection with a receive pool: %w", verbs.ErrBadWork)
)

func newConn(d *domain, o *verbs.Options) (*conn, error) {
	if o.Handler == nil {
		return nil, errors.New("loopback: Options.Handler is missing")
	}
	c := &conn{
		dom:        d,
		windows:    d.keys.Windows(),
		caps:       d.caps,
		handler:    o.Handler,
		tap:        o.Tap,
		reading:    reads(o.Reading),
		driverWake: make(chan struct{}, 1),
		readerWake: make(chan struct{}, 1),
		resident:   true,
	}
	c.caps.MaxReads = reads(o.Reads)
	if o.Recv != nil {
		if c.pool = d.mem.Pool(o.Recv); c.pool == nil {
			return nil, errForeign
		}
	}
	return c, nil
}

// reads is Options.Reads and Options.Reading in plain numbers.
func reads(n int) int {
	switch {
	case n == 0:
		return defaultReads
	case n < 0:
		return 0
	}
	return min(n, maxReads)
}

func (c *conn) Caps() verbs.Caps           { return c.caps }
func (c *conn) PeerPrivateData() []byte    { return c.private }
func (c *conn) LocalAddr() netip.AddrPort  { return c.local }
func (c *conn) RemoteAddr() netip.AddrPort { return c.remote }
func (c *conn) Stats(s *verbs.Stats)       { c.stats.read(s) }

func (c *conn) Expose(w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
	if w == nil || !a.Valid() || !c.dom.mem.Inside(r, off, n) {
		return fmt.Errorf("loopback: Expose of %d bytes from %d with rights %d: %w", n, off, a, verbs.ErrBadWork)
	}
	err := c.windows.Expose(w, r.Bytes()[off:off+n:off+n], a)
	if err == soft.ErrEnded {
		return c.refusal()
	}
	return err
}

func (c *conn) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse == nil {
		return errRevoked
	}
	return c.refuse
}

func (c *conn) PostRecv(rs []verbs.Recv) (int, error) {
	if c.pool != nil {
		return 0, errPooled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state >= closing {
		return 0, c.refuse
	}
	for i := range rs {
		r := &rs[i]
		if !c.dom.mem.Inside(r.Seg.R, r.Seg.Off, r.Seg.N) {
			return i, fmt.Errorf("loopback: receive %d of the batch: %w", i, verbs.ErrBadWork)
		}
		if c.rq.n == maxRecvs {
			return i, nil
		}
		c.rq.push(*r)
	}
	return len(rs), nil
}

func (c *conn) Post(ws []verbs.Work) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == setUp:
		return 0, errNotUp
	case c.state >= closing:
		return 0, c.refuse
	}
	for i := range ws {
		n, ok := c.check(&ws[i])
		if !ok {
			return i, fmt.Errorf("loopback: work %d of the batch, a %v: %w", i, ws[i].Op, verbs.ErrBadWork)
		}
		if c.posted == c.caps.Queue {
			return i, nil
		}
		c.posted++
		e := c.spare
		if e != nil {
			c.spare = e.next
			e.next = nil
		} else {
			e = new(work)
		}
		e.fill(&ws[i], n)
		c.sq.push(e)
	}
	return len(ws), nil
}

// check tells the bytes that w moves, or that it is malformed.
func (c *conn) check(w *verbs.Work) (int, bool) {
	switch w.Op {
	case verbs.OpInvalidate:
		if w.Window == nil {
			return 0, false
		}
		_, ok := w.Window.Slot.(*soft.Slot)
		return 0, ok
	case verbs.OpRead:
		if c.caps.MaxReads == 0 {
			return 0, false
		}
	case verbs.OpSend, verbs.OpSendInvalidate, verbs.OpWrite:
	default:
		return 0, false
	}
	n := 0
	for i := range w.Segs {
		s := &w.Segs[i]
		if !c.dom.mem.Inside(s.R, s.Off, s.N) || s.N > c.caps.MaxMessage-n {
			return 0, false
		}
		n += s.N
	}
	return n, true
}

func (c *conn) Detach(w *verbs.Window, spare []byte) bool {
	return c.windows.Detach(w, spare)
}

func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.state {
	case setUp:
		c.terminate(nil, errClosed)
	case up:
		c.state, c.refuse = closing, errClosed
		poke(c.readerWake) // it sees to it that the rest leaves
	}
	return nil
}

func (c *conn) Abort(err error) {
	c.end(err, errAborted)
}

// end ends both ends, each with its cause. Who was first at an end decides there.
func (c *conn) end(ours, peers error) {
	c.mu.Lock()
	c.terminate(ours, nil)
	p := c.peer
	if c.there != nil {
		peers = c.there
	}
	c.mu.Unlock()
	if p == nil {
		return
	}
	p.mu.Lock()
	p.terminate(peers, nil)
	p.mu.Unlock()
}

// terminate is called with mu held. refuse is made from cause where it is nil.
func (c *conn) terminate(cause, refuse error) {
	if c.state == ended {
		return
	}
	if refuse == nil {
		refuse = refusal(cause)
	}
	if c.refuse == nil {
		c.refuse = refuse
	}
	c.state, c.cause = ended, cause
	poke(c.driverWake)
	poke(c.readerWake)
}

// refusal is what methods return after the end: it wraps net.ErrClosed and the cause.
func refusal(cause error) error {
	switch {
	case cause == nil:
		return errPeerClosed
	case errors.Is(cause, net.ErrClosed):
		return cause
	}
	return fmt.Errorf("loopback: connection ended: %w: %w", net.ErrClosed, cause)
}

func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
