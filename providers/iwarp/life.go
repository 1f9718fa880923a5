package iwarp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
)

// A connection's life. Only the resident reader takes the last step (bury), when nobody
// else has a role.
//
//	setUp ──start-up done──► up ──Close──► closing ──all has left, the peer's FIN──► ended ─► buried
//	  └───────────────────────┴── Abort, a fault, a Terminate, the stream's end ──────┘
type state uint8

const (
	setUp   state = iota // posting is allowed, nothing moves
	up                   // everything moves
	closing              // nothing more may be posted, what was leaves
	ended                // nothing moves; what is left is flushed
)

// ending is what becomes of the stream.
type ending uint8

const (
	byFIN       ending = iota
	byReset            // drop what was not sent, at once
	byTerminate        // say why, then wait a little for the peer's FIN: a reset could overtake it
)

// terminateWait is how long a Terminate may take to be read.
const terminateWait = time.Second

// failure is an error that ends the connection: found here, or told by the peer.
type failure struct {
	fault  rdmap.Fault
	peers  bool
	header ddp.Header // of the segment at fault, if known
	size   int        // of that segment
	read   []byte     // the Read Request at fault
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

func (f *failure) Error() string { return f.fault.LayerName() + ": " + f.fault.Text() }

// cause is the failure in the words of the contract.
func (f *failure) cause() error {
	err := verbs.ErrProtocol
	switch {
	case f.fault.Protection():
		err = verbs.ErrRemoteAccess
	case f.fault == rdmap.DDPFault(ddp.FaultNoBuffer):
		err = verbs.ErrNoReceive
	case f.fault == rdmap.DDPFault(ddp.FaultTooLong):
		err = verbs.ErrTooLong
	}
	return fmt.Errorf("iwarp: %w", &verbs.TerminatedError{
		Remote: f.peers, Layer: f.fault.LayerName(), Code: f.fault.Text(), Err: err,
	})
}

// message is the Terminate that reports f, a whole frame.
func (f *failure) message(crc bool) []byte {
	t := rdmap.Termination{Fault: f.fault, Segment: f.size, Header: f.header, Read: f.read}
	ulpdu := ddp.AppendUntagged(nil, true, rdmap.Control(rdmap.Terminate), 0, ddp.QueueTerminate, 1, 0)
	ulpdu = t.Append(ulpdu)
	b := binary.BigEndian.AppendUint16(nil, uint16(len(ulpdu)))
	b = append(b, ulpdu...)
	b = append(b, pad[:mpa.Pad(len(ulpdu))]...)
	sum := uint32(0)
	if crc {
		sum = mpa.Sum(0, b)
	}
	return mpa.AppendCRC(b, sum)
}

// fail ends the connection by f. mu is held.
func (c *conn) fail(f *failure) {
	if c.note != nil && c.state != ended {
		c.noteFailure(f)
	}
	if f.peers {
		c.blame(f)
		c.end(f.cause(), byFIN)
		return
	}
	if c.state != ended {
		c.last = f.message(c.agreed.CRC)
	}
	c.end(f.cause(), byTerminate)
}

// noteFailure reports f for who observes the connection. mu is held.
func (c *conn) noteFailure(f *failure) {
	note := verbs.NoteTerminateSent
	if f.peers {
		note = verbs.NoteTerminateRecv
	} else if f.fault == rdmap.FaultMPACRC {
		c.note(verbs.NoteCorrupt, 0)
	}
	c.note(note, f.fault.Number())
}

// blame gives the Read that the peer refused its status; it has named the request's MSN, or
// we take the oldest. mu is held.
func (c *conn) blame(f *failure) {
	status := verbs.RemoteError
	switch {
	case f.fault.Protection():
		status = verbs.RemoteAccess
	case f.header == nil:
		return // not about a Read, as far as we know
	}
	if f.header != nil && (f.header.Tagged() || rdmap.Op(f.header) != rdmap.ReadRequest) {
		return
	}
	w := c.pending.head
	if f.header != nil {
		for ; w != nil && w.msn != f.header.MSN(); w = w.next {
		}
	}
	if w != nil {
		w.status = status
	}
}

// end is the end of the connection by cause, unless it has ended. mu is held.
func (c *conn) end(cause error, how ending) {
	if c.state == ended {
		return
	}
	c.state, c.cause, c.how = ended, cause, how
	if c.refuse == nil {
		c.refuse = refusal(cause)
	}
	for _, stop := range c.atEnd {
		stop()
	}
	c.atEnd = nil
	c.wanted.Store(true)
	_ = c.stream.SetReadDeadline(past)
	_ = c.stream.SetWriteDeadline(past)
	poke(c.readerWake)
	poke(c.writerWake)
}

// onEnd has f called when the connection ends. mu is held.
func (c *conn) onEnd(f func()) { c.atEnd = append(c.atEnd, f) }

// refusal is what methods return after the end: it wraps net.ErrClosed and the cause.
func refusal(cause error) error {
	switch {
	case cause == nil:
		return errPeerClosed
	case errors.Is(cause, net.ErrClosed):
		return cause
	}
	return fmt.Errorf("iwarp: connection ended: %w: %w", net.ErrClosed, cause)
}

// Close implements verbs.Conn. What is left leaves from the writer's hands.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != up {
		return nil
	}
	c.state, c.refuse = closing, errClosed
	t := time.AfterFunc(c.dom.opt.linger, func() {
		c.mu.Lock()
		c.end(nil, byReset)
		c.mu.Unlock()
	})
	c.onEnd(func() { t.Stop() })
	c.finish()
	poke(c.writerWake)
	poke(c.readerWake)
	return nil
}

// Abort implements verbs.Conn.
func (c *conn) Abort(err error) {
	c.mu.Lock()
	if c.refuse == nil && err == nil {
		c.refuse = errAborted
	}
	c.end(err, byReset)
	c.mu.Unlock()
}

// hurry is the domain's end: nothing lingers.
func (c *conn) hurry() {
	c.mu.Lock()
	c.hurried = true
	if c.state == ended {
		_ = c.stream.SetReadDeadline(past)
	}
	c.end(errDomainClosed, byReset)
	c.mu.Unlock()
}

// finish ends our direction once Close has nothing left to wait for. mu is held.
func (c *conn) finish() {
	if c.state != closing || c.finSent || c.pumping || c.sweeping > 0 || c.responses.n > 0 {
		return
	}
	if !c.broken && !c.gotFIN && (c.sq.head != nil && !c.gated || c.npending > 0) {
		return
	}
	c.finSent = true
	if err := c.stream.CloseWrite(); err != nil || c.gotFIN {
		c.end(nil, byFIN)
	}
}

// inputEnded judges the end of the input: the peer's FIN, or an error.
func (c *conn) inputEnded(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == ended || err == stream.ErrAgain:
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.listen() // it was to wake us: who wants what is in the flags
	case err == io.EOF && c.state == up && (c.in.direct || c.in.r != c.in.w): // a peer that we closed may stop anywhere
		c.end(fmt.Errorf("iwarp: the stream ended inside a frame: %w", io.ErrUnexpectedEOF), byFIN)
	case err == io.EOF && c.state == closing && !c.finSent:
		// The peer has closed too, and reads until we are done.
		c.gotFIN = true
		c.finish()
	case err == io.EOF:
		c.end(nil, byFIN)
	case c.finSent:
		c.end(nil, byFIN) // it read all we had and left without a word
	default:
		c.end(fmt.Errorf("iwarp: %w", err), byFIN)
	}
}

// bury flushes what is left and says good-bye. Nobody else has a role, and Post refuses. mu
// is held, and released meanwhile.
func (c *conn) bury() {
	how, cause := c.how, c.cause
	_ = c.stream.SetWriteDeadline(time.Time{})
	c.mu.Unlock()

	switch how {
	case byTerminate:
		if c.broken || !c.out.farewell(c.last) || c.stream.CloseWrite() != nil {
			how = byReset
		} else if c.tap != nil {
			c.tap.Frame(c.tapped(true, [][]byte{c.last}))
		}
	case byFIN:
		_ = c.stream.Close()
	}
	if how == byReset {
		_ = c.stream.Reset()
	}
	c.flushAll()
	c.handler.Disconnected(cause)
	if how == byTerminate {
		c.awaitFIN()
		_ = c.stream.Close()
	}
	c.dom.leave(c)
	c.mu.Lock()
}

// flushAll reports everything that was posted, and takes back what the peer could reach.
func (c *conn) flushAll() {
	c.windows.RevokeAll()
	c.completing.Lock() // a late Flush may be completing
	defer c.completing.Unlock()

	c.mu.Lock()
	c.out.publish(&c.stats)
	var left works
	for i := c.out.at; i < len(c.out.todo); i++ {
		if w := c.out.todo[i].work; w != nil {
			left.push(w)
		}
	}
	for _, q := range []*works{&c.pending, &c.out.sent, &left, &c.sq} {
		for w := q.pop(); w != nil; w = q.pop() {
			if w.status == verbs.OK {
				w.status = verbs.Flushed
			}
			c.done.push(w)
		}
	}
	c.mu.Unlock()
	for {
		batch := c.takeDone(c.batch[:0])
		if len(batch) == 0 {
			break
		}
		c.report(batch)
	}

	in := &c.in
	if in.mem != nil && c.pool != nil {
		c.pool.Put(in.bufID)
	}
	var batch []verbs.Completion
	if in.mem != nil && c.pool == nil {
		batch = append(batch, verbs.Completion{ID: in.recvID, Op: verbs.OpRecv, Status: verbs.Flushed})
	}
	in.mem = nil
	c.mu.Lock()
	for c.recvs.n > 0 {
		batch = append(batch, verbs.Completion{ID: c.recvs.pop().ID, Op: verbs.OpRecv, Status: verbs.Flushed})
	}
	c.mu.Unlock()
	c.report(batch)
}

// awaitFIN reads until the peer has ended too, so that our Terminate is not lost to a
// reset.
func (c *conn) awaitFIN() {
	c.mu.Lock()
	deadline := time.Now().Add(terminateWait)
	if c.hurried {
		deadline = past
	}
	_ = c.stream.SetReadDeadline(deadline)
	c.mu.Unlock()
	in := &c.in
	var err error
	try := func() bool {
		in.borrow()
		_, err = c.stream.Readv([][]byte{in.buf})
		return err != stream.ErrAgain
	}
	for err == nil {
		if e := c.stream.Read(try); e != nil {
			return
		}
	}
}
