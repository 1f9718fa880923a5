package iwarp

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

const (
	maxReads  = 1 << 10 // depth that either side may ask for
	batchSize = 64      // receives and Reads in one report
)

// conn is one MPA stream. Two roles move its bytes, each in one goroutine's hands at a
// time and neither waiting for the other:
//
//	reading   in   a leader in Drive, or the resident reader (qp.Reader)   receive.go segment.go
//	pumping   out  whoever flushes first, or the writer goroutine          combine.go encode.go
//
// What a role owns it touches without a lock; what both or users touch is guarded by Mu.
// The queues, the reports to the Handler and the end are package qp's.
type conn struct {
	qp.QP[flight]
	qp.Reader
	dom       *domain
	stream    stream.Stream
	initiator bool
	asked     *caller // an acceptor's, until it has been answered
	agreed    mpa.Agreed
	reads     int // asked for in either direction
	reading   int
	fpdu      int // longest frame to send

	writerWake chan struct{} // a poke: look again
	wanted     atomic.Bool   // whoever reads should look at the connection's state

	in  inbound  // of whoever is reading
	out outbound // of whoever is pumping

	// Guarded by Mu.

	how   ending
	atEnd []func() // stop timers
	last  []byte   // the Terminate to send

	responses qp.Ring[item]
	serving   int // the peer's Reads whose answer is not written yet
	sinkSTag  uint32
	readMSN   uint32

	gated   bool // an acceptor that has not heard the initiator's first FPDU
	pumping bool
	blocked bool // pumping is the writer's, which may wait for room
	broken  bool // output failed
	finSent bool
	gotFIN  bool
}

// work is a posted work request, and flight what is known of it while it is under way.
type (
	work   = qp.Work[flight]
	works  = qp.Works[flight]
	flight struct {
		sink rdmap.Sink // of a Read
		msn  uint32     // of its request
		end  uint64     // output position after the last byte
	}
)

var (
	_ verbs.Conn     = (*conn)(nil)
	_ verbs.Driver   = (*conn)(nil)
	_ verbs.Detacher = (*conn)(nil)
)

// newConn is a connection before its stream.
func (d *domain) newConn(o *verbs.Options) (*conn, error) {
	c := &conn{
		dom:        d,
		reads:      qp.Depth(o.Reads, d.opt.reads, maxReads),
		reading:    qp.Depth(o.Reading, d.opt.reads, maxReads),
		writerWake: make(chan struct{}, 1),
		sinkSTag:   rand.Uint32(),
	}
	if err := c.QP.Init(&d.Domain, c, o); err != nil {
		return nil, err
	}
	c.meet(nil, mpa.Agreed{Reads: c.reads})
	return c, nil
}

// attach gives c its stream.
func (c *conn) attach(s stream.Stream, initiator bool) {
	c.stream, c.initiator, c.gated = s, initiator, !initiator
	c.fpdu = c.dom.opt.fpdu(s.MSS())
	c.Reader.Init(&c.Life, c, !initiator) // nobody drives an acceptor
	c.meet(nil, mpa.Agreed{Reads: c.reads})
}

func (c *conn) meet(private []byte, a mpa.Agreed) {
	var local, remote netip.AddrPort
	caps := c.dom.Caps()
	caps.MaxReads = a.Reads
	if c.stream != nil {
		local, remote = c.stream.LocalAddr(), c.stream.RemoteAddr()
		caps.MTU = maxPayload(c.fpdu)
	}
	c.Meet(local, remote, private, caps)
}

// adopt takes what start-up agreed.
func (c *conn) adopt(a mpa.Agreed, private []byte) {
	c.agreed = a
	c.meet(private, a)
	c.in.init(c)
	c.out.init(c, c.fpdu)
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

// Interrupt implements qp.Input.
func (c *conn) Interrupt() {
	c.wanted.Store(true)
	_ = c.stream.SetReadDeadline(past)
}

// Resume implements qp.Input.
func (c *conn) Resume() {
	c.wanted.Store(false)
	_ = c.stream.SetReadDeadline(time.Time{})
}
