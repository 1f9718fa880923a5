package iwarp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

// ending is what becomes of the stream.
type ending uint8

const (
	byReset     ending = iota // drop what was not sent, at once
	byFIN                     // in good order
	byTerminate               // say why, then wait a little for the peer's FIN: a reset could overtake it
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

// fail ends the connection by f. Mu is held.
func (c *conn) fail(f *failure) {
	if c.Note != nil && c.State() != qp.Ended {
		c.noteFailure(f)
	}
	if f.peers {
		c.blame(f)
		c.end(f.cause(), byFIN)
		return
	}
	if c.State() != qp.Ended {
		c.last = f.message(c.agreed.CRC)
	}
	c.end(f.cause(), byTerminate)
}

// noteFailure reports f to whoever observes the connection. Mu is held.
func (c *conn) noteFailure(f *failure) {
	note := verbs.NoteTerminateSent
	if f.peers {
		note = verbs.NoteTerminateRecv
	} else if f.fault == rdmap.FaultMPACRC {
		c.Note(verbs.NoteCorrupt, 0)
	}
	c.Note(note, f.fault.Number())
}

// blame gives the Read that the peer refused its status; it has named the request's MSN, or
// we take the oldest. Mu is held.
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
	w := c.Reads().Head()
	if f.header != nil {
		for ; w != nil && w.X.msn != f.header.MSN(); w = w.Next() {
		}
	}
	if w != nil {
		w.Status = status
	}
}

// end is the end of the connection by cause, unless it has ended. Mu is held.
func (c *conn) end(cause error, how ending) {
	if c.State() != qp.Ended {
		c.how = how
		c.End(cause)
	}
}

// Ended implements qp.Port.
func (c *conn) Ended() {
	for _, stop := range c.atEnd {
		stop()
	}
	c.atEnd = nil
	_ = c.stream.SetWriteDeadline(past)
	qp.Poke(c.writerWake)
}

// onEnd has f called when the connection ends. Mu is held.
func (c *conn) onEnd(f func()) { c.atEnd = append(c.atEnd, f) }

// Closing implements qp.Port. What is left leaves from the writer's hands.
func (c *conn) Closing() {
	c.finish()
	qp.Poke(c.writerWake)
	c.Wake()
}

// finish ends our direction once Close has nothing left to wait for. Mu is held.
func (c *conn) finish() {
	if c.State() != qp.Closing || c.finSent || c.Held() || c.responses.Len() > 0 {
		return
	}
	if !c.broken && !c.gotFIN && (c.Posted() && !c.gated || c.Reads().Len() > 0) {
		return
	}
	c.finSent = true
	if err := c.stream.CloseWrite(); err != nil || c.gotFIN {
		c.end(nil, byFIN)
	}
}

// inputEnded judges the end of the input: the peer's FIN, or an error.
func (c *conn) inputEnded(err error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	switch {
	case c.State() == qp.Ended || err == stream.ErrAgain:
	case errors.Is(err, os.ErrDeadlineExceeded): // by Interrupt
	case err == io.EOF && c.State() == qp.Up && (c.in.direct || c.in.r != c.in.w): // a peer that we closed may stop anywhere
		c.end(fmt.Errorf("iwarp: the stream ended inside a frame: %w", io.ErrUnexpectedEOF), byFIN)
	case err == io.EOF && c.State() == qp.Closing && !c.finSent:
		// The peer has closed too, and reads until we are done.
		c.gotFIN = true
		c.Deafen()
		c.finish()
	case err == io.EOF:
		c.end(nil, byFIN)
	case c.finSent:
		c.end(nil, byFIN) // it read all we had and left without a word
	default:
		c.end(fmt.Errorf("iwarp: %w", err), byFIN)
	}
}

// Bury implements qp.Input.
func (c *conn) Bury() {
	how := c.how
	_ = c.stream.SetWriteDeadline(time.Time{})
	switch how {
	case byTerminate:
		if c.broken || !c.out.farewell(c.last) || c.stream.CloseWrite() != nil {
			how = byReset
		} else if c.Tap != nil {
			c.Show(verbs.LinkTCP, true, c.last)
		}
	case byFIN:
		_ = c.stream.Close()
	}
	if how == byReset {
		_ = c.stream.Reset()
	}
	c.flush()
	if how == byTerminate {
		c.awaitFIN()
		_ = c.stream.Close()
	}
}

// flush gives back all that is under way, and reports the end.
func (c *conn) flush() {
	if c.in.recv.Buf != nil {
		c.Undraw(c.in.recv)
	}
	c.Mu.Lock()
	c.Count(&c.out.stats)
	c.Mu.Unlock()
	var left works
	for i := c.out.at; i < len(c.out.todo); i++ {
		if w := c.out.todo[i].work; w != nil {
			left.Push(w)
		}
	}
	c.QP.Bury(&c.out.sent, &left)
}

// awaitFIN reads until the peer has ended too, so that our Terminate is not lost to a
// reset.
func (c *conn) awaitFIN() {
	_ = c.stream.SetReadDeadline(time.Now().Add(terminateWait))
	defer context.AfterFunc(c.dom.Context(), func() { _ = c.stream.SetReadDeadline(past) })()
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
