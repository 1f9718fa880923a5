package loopback

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

// conn is one end. Its queues, its end and who reads are package qp's; what is left is that its input
// is what the peer's pump has delivered.
type conn struct {
	qp.QP[struct{}]
	qp.Reader
	dom     *domain
	user    verbs.Handler
	inside  atomic.Bool // in the user's Complete
	call    *caller     // the set-up
	peer    *conn       // set before up
	reading int         // Reads that the peer may have in flight
	input   chan struct{}

	// Guarded by Mu.
	pumping bool  // somebody carries out works
	sent    bool  // and has delivered a message to the peer, which may not know
	there   error // what the peer's Disconnected gets, if this end has ended first
}

var (
	_ verbs.Conn     = (*conn)(nil)
	_ verbs.Driver   = (*conn)(nil)
	_ verbs.Detacher = (*conn)(nil)

	errAborted = fmt.Errorf("loopback: aborted by the peer: %w", syscall.ECONNRESET)
)

func newConn(d *domain, o *verbs.Options, local, remote netip.AddrPort) (*conn, error) {
	c := &conn{
		dom:     d,
		user:    o.Handler,
		reading: qp.Depth(o.Reading, defaultReads, maxReads),
		input:   make(chan struct{}, 1),
		there:   errAborted,
	}
	own := *o
	if o.Handler != nil {
		own.Handler = (*handler)(c)
	}
	if err := c.QP.Init(&d.Domain, c, &own); err != nil {
		return nil, err
	}
	c.Reader.Init(&c.Life, c, true)
	caps := d.Caps()
	caps.MaxReads = qp.Depth(o.Reads, defaultReads, maxReads)
	c.Meet(local, remote, nil, caps)
	return c, nil
}

// join makes p the peer.
func (c *conn) join(p *conn, private []byte) {
	c.peer = p
	caps := c.Caps()
	caps.MaxReads = min(caps.MaxReads, p.reading)
	c.Meet(c.LocalAddr(), c.RemoteAddr(), private, caps)
}

// handler notes when the user's Complete runs.
type handler conn

func (h *handler) Complete(cs []verbs.Completion) {
	h.inside.Store(true)
	h.user.Complete(cs)
	h.inside.Store(false)
}

func (h *handler) Disconnected(err error) { h.user.Disconnected(err) }

// Receive implements qp.Input.
func (c *conn) Receive() {
	c.Mu.Lock()
	left := c.State() == qp.Closing && c.Posted()
	c.Mu.Unlock()
	if left {
		c.Flush() // what Close found unflushed
	}
	if !c.Report(nil) {
		<-c.input
		c.Report(nil)
	}
}

// Interrupt implements qp.Input.
func (c *conn) Interrupt() { qp.Poke(c.input) }

// Resume implements qp.Input: one Receive has returned.
func (c *conn) Resume() {}

// Closing implements qp.Port.
func (c *conn) Closing() {
	if !c.Posted() && !c.pumping {
		c.leave()
	}
	qp.Poke(c.input)
	c.Wake()
}

// leave is the orderly end: all is carried out. Mu is held.
func (c *conn) leave() {
	c.there = nil
	c.End(nil)
}

// Ended implements qp.Port.
func (c *conn) Ended() {}

// Bury implements qp.Input.
func (c *conn) Bury() {
	c.QP.Bury()
	c.Mu.Lock()
	there := c.there
	c.Mu.Unlock()
	p := c.peer
	p.Mu.Lock()
	p.End(there)
	p.Mu.Unlock()
}

// handOver wakes the goroutine that reads, if there is one and something is left to report. Whoever is in the user's Complete
// looks again when it returns, and calls handOver where it may not report what came in.
func (c *conn) handOver() {
	if c.inside.Load() || !c.Reading() {
		return
	}
	c.Mu.Lock()
	if c.Reportable(true) {
		qp.Poke(c.input)
	}
	c.Mu.Unlock()
}
