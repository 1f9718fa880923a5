package iwarp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/providers/soft"
)

const (
	maxRecvs  = 1 << 16 // receives posted on one connection
	maxReads  = 1 << 10 // depth that either side may ask for
	batchSize = 64      // completions in one call of Handler.Complete, about
)

// conn is one MPA stream. Two roles move its bytes, each in one goroutine's hands at a
// time and neither waiting for the other:
//
//	reading   in   a leader in Drive, or the resident reader          receive.go segment.go drive.go
//	pumping   out  whoever flushes first, or the writer goroutine     combine.go encode.go
//
// What a role owns it touches without a lock; what both or users touch is guarded by mu.
// Reports to the Handler are made under completing (complete.go). Locks are taken in the
// order completing, mu, the domain's and a slot's.
type conn struct {
	dom           *domain
	stream        stream.Stream
	caps          verbs.Caps
	handler       verbs.Handler
	pool          *soft.Pool // nil: recvs
	tap           verbs.Tap
	note          func(verbs.Note, int64) // nil: nobody wants to know
	local, remote netip.AddrPort
	initiator     bool
	private       []byte // the peer's
	agreed        mpa.Agreed
	reads         int // asked for in either direction
	reading       int

	windows soft.Windows // what the peer may reach

	readerWake, writerWake chan struct{} // pokes: look again
	evicted                chan struct{} // the resident reader has given the role up

	completing sync.Mutex
	batch      []verbs.Completion // of whoever is completing

	wanted atomic.Bool // whoever reads should look at the flags below

	in  inbound  // of whoever is reading
	out outbound // of whoever is pumping

	mu     sync.Mutex // guards what follows
	state  state
	cause  error // once ended: what Disconnected gets
	refuse error // from closing on: what methods return
	how    ending
	atEnd  []func() // stop timers
	last   []byte   // the Terminate to send

	sq        works // posted, not gathered
	invs      int   // Invalidates among them
	posted    int   // works that have not been reported
	pending   works // Reads that are under way
	npending  int
	done      works // carried out, not reported
	spare     *work // for the next Post
	recvs     ring[verbs.Recv]
	responses ring[item] // the peer's Reads
	serving   int        // of them, what is not written yet
	sinkSTag  uint32
	readMSN   uint32
	flying    int // Sends that nothing came back for yet, about
	stats     verbs.Stats

	gated    bool // an acceptor that has not heard the initiator's first FPDU
	pumping  bool
	blocked  bool // pumping is the writer's, which may wait for room
	broken   bool // output failed
	sweeping int  // goroutines that hold works in sweep
	finSent  bool
	gotFIN   bool

	driving  bool // somebody is in Drive
	kicked   bool
	evict    bool // the leader waits for the resident reader to leave
	resident bool // reading is the resident reader's
	ticking  bool // the resident reader measures how long nobody has driven
	drives   uint64
	hurried  bool // the domain is closing
}

var (
	_ verbs.Conn     = (*conn)(nil)
	_ verbs.Driver   = (*conn)(nil)
	_ verbs.Detacher = (*conn)(nil)

	errClosed     = fmt.Errorf("iwarp: connection closed: %w", net.ErrClosed)
	errPeerClosed = fmt.Errorf("iwarp: connection closed by the peer: %w", net.ErrClosed)
	errAborted    = fmt.Errorf("iwarp: connection aborted: %w", net.ErrClosed)
	errEnded      = fmt.Errorf("iwarp: connection ended: %w", net.ErrClosed)
	errPooled     = fmt.Errorf("iwarp: PostRecv on a connection with a receive pool: %w", verbs.ErrBadWork)
)

// newConn is a connection before its stream.
func (d *domain) newConn(o *verbs.Options) (*conn, error) {
	if o.Handler == nil {
		return nil, errors.New("iwarp: Options.Handler is missing")
	}
	c := &conn{
		dom:        d,
		windows:    d.keys.Windows(),
		caps:       d.caps,
		handler:    o.Handler,
		tap:        o.Tap,
		note:       o.Note,
		reads:      d.depth(o.Reads),
		reading:    d.depth(o.Reading),
		readerWake: make(chan struct{}, 1),
		writerWake: make(chan struct{}, 1),
		evicted:    make(chan struct{}, 1),
		batch:      make([]verbs.Completion, 0, batchSize),
		sinkSTag:   rand.Uint32(),
	}
	c.caps.MaxReads = c.reads
	if o.Recv != nil {
		if c.pool = d.mem.Pool(o.Recv); c.pool == nil {
			return nil, errors.New("iwarp: Options.Recv is not a pool of this domain")
		}
	}
	return c, nil
}

// depth is Options.Reads or Options.Reading in plain numbers.
func (d *domain) depth(n int) int {
	switch {
	case n == 0:
		return d.opt.reads
	case n < 0:
		return 0
	}
	return min(n, maxReads)
}

// adopt takes what start-up agreed. The stream is in place.
func (c *conn) adopt(a mpa.Agreed, private []byte) {
	c.agreed, c.private = a, private
	c.caps.MaxReads = a.Reads
	fpdu := c.dom.opt.fpdu(c.stream.MSS())
	c.caps.MTU = maxPayload(fpdu)
	c.in.init(c)
	c.out.init(c, fpdu)
}

// maxPayload is what one frame of fpdu bytes carries of a Write.
func maxPayload(fpdu int) int { return evenly(mpa.MULPDU(fpdu) - ddp.TaggedLen) }

// evenly makes segments end where a cache line may.
func evenly(n int) int {
	if n > 4096 {
		return n &^ 63
	}
	return n &^ 3
}

func (c *conn) Caps() verbs.Caps           { return c.caps }
func (c *conn) PeerPrivateData() []byte    { return c.private }
func (c *conn) LocalAddr() netip.AddrPort  { return c.local }
func (c *conn) RemoteAddr() netip.AddrPort { return c.remote }

func (c *conn) Stats(s *verbs.Stats) {
	c.mu.Lock()
	*s = c.stats
	c.mu.Unlock()
}

func (c *conn) Expose(w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
	if w == nil || !a.Valid() || !c.dom.mem.Inside(r, off, n) {
		return fmt.Errorf("iwarp: Expose of %d bytes from %d with rights %d: %w", n, off, a, verbs.ErrBadWork)
	}
	c.mu.Lock()
	refuse := c.refuse
	c.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	err := c.windows.Expose(w, r.Bytes()[off:off+n:off+n], a)
	if err == soft.ErrEnded {
		return errEnded
	}
	return err
}

// Detach implements verbs.Detacher.
func (c *conn) Detach(w *verbs.Window, spare []byte) bool {
	return c.windows.Detach(w, spare)
}

func (c *conn) PostRecv(rs []verbs.Recv) (int, error) {
	if c.pool != nil {
		return 0, errPooled
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return 0, c.refuse
	}
	for i := range rs {
		s := &rs[i].Seg
		if !c.dom.mem.Inside(s.R, s.Off, s.N) {
			return i, fmt.Errorf("iwarp: receive %d of the batch: %w", i, verbs.ErrBadWork)
		}
		if c.recvs.n == maxRecvs {
			return i, nil
		}
		c.recvs.push(rs[i])
	}
	return len(rs), nil
}

func (c *conn) Post(ws []verbs.Work) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		return 0, c.refuse
	}
	for i := range ws {
		n, ok := c.check(&ws[i])
		if !ok {
			return i, fmt.Errorf("iwarp: work %d of the batch, a %v: %w", i, ws[i].Op, verbs.ErrBadWork)
		}
		if c.posted == c.caps.Queue {
			return i, nil
		}
		c.posted++
		w := c.spare
		if w != nil {
			c.spare, w.next = w.next, nil
		} else {
			w = new(work)
		}
		w.fill(&ws[i], n)
		c.sq.push(w)
		switch w.op {
		case verbs.OpInvalidate:
			c.invs++
		case verbs.OpSend, verbs.OpSendInvalidate:
			c.flying++
		}
	}
	return len(ws), nil
}

// check tells how many bytes w moves, or that no connection could carry it out.
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

// recycle takes a work that was reported. mu is held.
func (c *conn) recycle(w *work) {
	w.drop()
	w.next, c.spare = c.spare, w
	c.posted--
}

func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
