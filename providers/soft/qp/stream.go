package qp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// faultWait is how long the peer may take to hear what is wrong.
const faultWait = time.Second

// ErrBye is what Wire.ReadFrame returns when the peer has ended the connection in good order.
var ErrBye = errors.New("qp: the peer has ended the connection")

// Ask is a peer's Read.
type Ask struct {
	Key  uint32
	Addr uint64
	N    int
}

// Wire is the format of what a Stream's socket carries: what a provider's connection adds to it. Send, Serve and Leave are
// the writer's, ReadFrame is for whoever reads. Where a method returns an error of the socket, the connection ends.
type Wire[X any] interface {
	// WriteHello and ReadHello are the set-up's. Private data that is read is not longer than Caps says.
	WriteHello(h Hello) error
	ReadHello() (Hello, error)
	// Send writes a Send, a SendInvalidate, a Write, or the request for a Read.
	Send(w *Work[X]) error
	// Serve writes what the peer's Read asks for. The error is verbs.ErrRemoteAccess where it may not have that.
	Serve(a Ask) error
	// Leave writes that we end the connection: in good order, or because of fault; a is the Read at fault, if it is one.
	Leave(fault error, a Ask) error
	// ReadFrame reads, and handles one piece of input at least. It may wait; it must be possible to go on after
	// os.ErrDeadlineExceeded. An error of the Place methods is returned as it is, and the peer is told by Leave. ErrBye: the
	// peer leaves in good order; *verbs.TerminatedError: it has told us what is wrong.
	ReadFrame() error
}

// Stream is a QP with a stream socket of its own: a goroutine writes, and a Reader reads. It is all of a verbs.Conn for a
// provider that adds Wire. One that must spare system calls, copies or goroutines does its own writing and reading.
type Stream[X any] struct {
	QP[X]
	Reader
	Sock   net.Conn // for Wire
	domain *Streams[X]
	wire   Wire[X]
	ours   int           // Reads in flight that we want
	wakes  chan struct{} // the writer

	// Guarded by Mu.
	most   int // Reads that the peer may have in flight
	asks   Ring[Ask]
	under  Works[X] // the work that could not be written
	fault  error    // the peer's, which it is to be told
	about  Ask      // the Read at fault
	broken bool     // the socket takes no more
	said   bool     // that we leave
	heard  bool     // that the peer does
}

// Flush implements verbs.Conn. It carries out the Invalidates, also those posted behind other works: whether the writer
// is going to wait for room in the socket is known only when it does, and an Invalidate waits for no peer. The rest is
// the writer's.
func (s *Stream[X]) Flush() {
	s.Mu.Lock()
	s.Sweep()
	s.Mu.Unlock()
	s.ReportDone()
	Poke(s.wakes)
}

// Closing implements Port.
func (s *Stream[X]) Closing() { Poke(s.wakes) }

// Ended implements Port.
func (s *Stream[X]) Ended() {
	_ = s.Sock.SetWriteDeadline(past)
	Poke(s.wakes)
}

// Interrupt implements Input.
func (s *Stream[X]) Interrupt() { _ = s.Sock.SetReadDeadline(past) }

// Resume implements Input.
func (s *Stream[X]) Resume() { _ = s.Sock.SetReadDeadline(time.Time{}) }

// Bury implements Input.
func (s *Stream[X]) Bury() {
	_ = s.Sock.Close()
	s.QP.Bury(&s.under)
}

// write is the writer, a goroutine.
func (s *Stream[X]) write() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for s.state != Ended {
		w := s.Next()
		switch {
		case s.fault != nil:
			s.step(func() error { return s.wire.Leave(s.fault, s.about) })
			s.End(&verbs.TerminatedError{Layer: s.dom.config.Provider, Code: s.fault.Error(), Err: s.fault})
		case s.broken: // whoever reads finds out why
			s.wait()
		case s.asks.n > 0:
			a := s.asks.Pop()
			s.step(func() error { return s.wire.Serve(a) })
			if errors.Is(s.fault, verbs.ErrRemoteAccess) {
				s.about = a
			}
			s.send()
		case w != nil:
			s.send()
		case s.state == Closing && !s.said && !s.Posted() && s.reads.n == 0:
			s.said = true
			s.step(func() error { return s.wire.Leave(nil, Ask{}) })
			if s.heard {
				s.End(nil)
			}
		default:
			s.wait()
		}
	}
}

// wait is called with Mu held, and releases it meanwhile.
func (s *Stream[X]) wait() {
	s.Mu.Unlock()
	<-s.wakes
	s.Mu.Lock()
}

// step calls f without Mu, which is held. False: f failed, or the connection has ended.
func (s *Stream[X]) step(f func() error) bool {
	if s.state == Ended || s.broken {
		return false
	}
	s.Hold()
	s.Mu.Unlock()
	err := f()
	s.Mu.Lock()
	if fault(err) {
		s.fail(err)
	} else if err != nil {
		s.broken = true
	}
	s.Release()
	return err == nil
}

// send writes the next work, if there is one. Mu is held.
func (s *Stream[X]) send() {
	if s.state == Ended || s.fault != nil {
		return
	}
	w := s.Take()
	if w == nil {
		return
	}
	switch read := w.Op == verbs.OpRead; {
	case w.Op == verbs.OpInvalidate:
		s.Windows.Revoke(w.Key)
		s.Done(w)
	case s.step(func() error { return s.wire.Send(w) }):
		if !read { // its answer may have come, and w be another's
			s.Done(w)
		}
	case !read:
		s.under.Push(w)
	}
	s.Mu.Unlock()
	s.ReportDone()
	s.Mu.Lock()
}

// Passed counts a piece of the wire, and shows it to the Tap.
func (s *Stream[X]) Passed(sent bool, b []byte) {
	if s.Tap != nil {
		s.Show(verbs.LinkMessage, sent, b)
	}
	n := uint64(len(b))
	s.Mu.Lock()
	if sent {
		s.Counts.SentBytes += n
		s.Counts.SentFrames++
		s.Counts.WriteCalls++
	} else {
		s.Counts.RecvBytes += n
		s.Counts.RecvFrames++
		s.Counts.ReadCalls++
	}
	s.Counts.CopiedBytes += n
	s.Mu.Unlock()
}

// PlaceAsk takes a peer's Read.
func (s *Stream[X]) PlaceAsk(a Ask) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.asks.n >= s.most {
		return verbs.ErrProtocol
	}
	s.asks.Push(a)
	Poke(s.wakes)
	return nil
}

// Refused says that the peer has refused our Read a, where it is ours.
func (s *Stream[X]) Refused(a Ask) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if w := s.reads.head; w != nil && w.Key == a.Key && w.Remote == a.Addr && w.N == a.N {
		w.Status = verbs.RemoteAccess
	}
}

// Receive implements Input.
func (s *Stream[X]) Receive() {
	err := s.wire.ReadFrame()
	s.Report(nil)
	Poke(s.wakes) // what a Read has stalled may go on
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	var told *verbs.TerminatedError
	switch {
	case errors.As(err, &told):
		s.End(told)
	case fault(err):
		s.fail(err)
	case s.fault != nil: // the writer ends the connection
	case err == ErrBye && s.state == Closing && !s.said:
		s.heard = true // we go on until all has left
	case err == ErrBye, s.said: // the peer has all that we had
		s.End(nil)
	case s.heard:
		s.Deafen()
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
		fallthrough
	default:
		s.End(fmt.Errorf("%s: the peer has gone: %w", s.dom.config.Provider, err))
	}
}

// fault reports whether err is a fault of the peer's.
func fault(err error) bool {
	return errors.Is(err, verbs.ErrProtocol) || errors.Is(err, verbs.ErrRemoteAccess) || errors.Is(err, verbs.ErrNoReceive) || errors.Is(err, verbs.ErrTooLong)
}

// fail has the writer tell the peer what is wrong, and end the connection. Mu is held.
func (s *Stream[X]) fail(err error) {
	if s.fault == nil && s.state != Ended {
		s.fault = err
		s.Deafen()
		_ = s.Sock.SetWriteDeadline(time.Now().Add(faultWait))
		Poke(s.wakes)
	}
}
