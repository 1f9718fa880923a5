package qp

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// TestBury: all that was posted completes once, in order, with the worst that is known of it.
func TestBury(t *testing.T) {
	f := up(t, verbs.Options{})
	f.PostRecv([]verbs.Recv{{ID: 21, Seg: f.seg(0, 10)[0]}, {ID: 22, Seg: f.seg(0, 10)[0]}})
	f.post(t, verbs.OpSend, verbs.OpRead, verbs.OpWrite, verbs.OpSend, verbs.OpRead, verbs.OpInvalidate)
	var win verbs.Window
	f.Expose(&win, f.mem, 0, 10, verbs.RemoteWrite)
	if err := f.PlaceMessage([]byte("half"), false, false, 0); err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	var under Works[int]
	f.locked(func() {
		f.Done(f.Take()) // the Send has left
		f.Take().Status = verbs.RemoteAccess
		under.Push(f.Take()) // the Write is under way
		f.End(no)
	})
	f.Bury(&under)
	same(t, "completions", f.user.ids(), []string{
		"Send 1 ok", "Read 2 remote access error", "Write 3 flushed", "Send 4 flushed", "Read 5 flushed", "Invalidate 6 flushed",
		"Recv 21 flushed", "Recv 22 flushed",
	})
	if len(f.user.gone) != 1 || f.user.gone[0] != no {
		t.Errorf("Disconnected %v", f.user.gone)
	}
	if err := f.PlaceWrite([]byte("x"), win.Key, win.Addr); err != verbs.ErrRemoteAccess {
		t.Errorf("a Write after the end: %v", err)
	}
	if s := f.Counts; s.Sends != 1 || s.Reads != 0 || s.Writes != 0 {
		t.Errorf("counted %+v", s)
	}
}

// TestHold: Idle comes once, when the connection has ended and the last hold is released.
func TestHold(t *testing.T) {
	f := up(t, verbs.Options{})
	f.locked(func() {
		f.Hold()
		f.Hold()
	})
	f.Abort(nil)
	f.Abort(errors.New("late"))
	f.locked(func() { f.Release() })
	if f.idle != 0 || f.ended != 1 {
		t.Errorf("held: Idle %d times, Ended %d", f.idle, f.ended)
	}
	f.locked(func() { f.Release() })
	if f.idle != 1 {
		t.Errorf("released: Idle %d times", f.idle)
	}
	f.Bury()
	f = up(t, verbs.Options{})
	f.Abort(nil)
	if f.idle != 1 {
		t.Errorf("nothing held: Idle %d times", f.idle)
	}
	f.Bury()
}

func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := up(t, verbs.Options{})
		f.Close()
		want := func(ended int) {
			t.Helper()
			synctest.Wait()
			f.locked(func() {
				if f.closed != 1 || f.ended != ended {
					t.Errorf("Closing %d times, Ended %d, want %d", f.closed, f.ended, ended)
				}
			})
		}
		want(0)
		time.Sleep(time.Minute - time.Nanosecond)
		want(0)
		time.Sleep(time.Nanosecond)
		want(1)
		f.Bury()
		if len(f.user.gone) != 1 || f.user.gone[0] != nil {
			t.Errorf("Disconnected %v", f.user.gone)
		}
	})
}

// TestCompleteIsSerial: whoever completes takes along what others leave, who do not wait.
func TestCompleteIsSerial(t *testing.T) {
	f := up(t, verbs.Options{})
	f.post(t, verbs.OpSend, verbs.OpSend, verbs.OpSend)
	done := func() { f.locked(func() { f.Done(f.Take()) }) }
	depth := 0
	f.user.on = func([]verbs.Completion) {
		if depth++; depth > 1 {
			t.Error("Complete within Complete")
		}
		if len(f.user.ids()) < 3 {
			done()
			f.ReportDone() // as a Flush from within Complete does
			if f.TryReport() {
				t.Error("TryReport while another completes")
			}
		}
		depth--
	}
	done()
	f.ReportDone()
	same(t, "completed", f.user.ids(), []string{"Send 1 ok", "Send 2 ok", "Send 3 ok"})
	f.Abort(nil)
	f.Bury()
}

// TestReaderWaitsForCompleter: what came in is never left to somebody who does not take it along.
func TestReaderWaitsForCompleter(t *testing.T) {
	f := up(t, verbs.Options{})
	f.post(t, verbs.OpSend)
	f.locked(func() { f.Done(f.Take()) })
	inside, leave, reported := make(chan struct{}), make(chan struct{}), make(chan struct{})
	f.user.on = func(cs []verbs.Completion) {
		if cs[0].Op == verbs.OpSend {
			close(inside)
			<-leave
		}
	}
	go f.ReportDone()
	<-inside
	go func() {
		f.locked(func() { f.Deliver(verbs.Completion{ID: 5, Op: verbs.OpRecv}) })
		f.Report(nil)
		close(reported)
	}()
	time.Sleep(5 * time.Millisecond) // for Report to find that somebody completes
	close(leave)
	<-reported
	same(t, "completed", f.user.ids(), []string{"Send 1 ok", "Recv 5 ok"})
	f.Abort(nil)
	f.Bury()
}

func TestManyComplete(t *testing.T) {
	f := up(t, verbs.Options{})
	const each = 2000
	var in atomic.Int32
	f.user.on = func(cs []verbs.Completion) {
		if in.Add(1) != 1 {
			t.Error("Complete is not serial")
		}
		in.Add(-1)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range uint64(each) {
			f.locked(func() { f.Deliver(verbs.Completion{ID: i, Op: verbs.OpRecv}) })
			f.Report(nil)
		}
	})
	for range 3 {
		wg.Go(func() {
			for posted := 0; posted < each; runtime.Gosched() {
				n, _ := f.Post([]verbs.Work{{Op: verbs.OpSend}})
				posted += n
				f.locked(func() {
					if w := f.Take(); w != nil {
						f.Done(w)
					}
				})
				f.ReportDone()
			}
		})
	}
	wg.Wait()
	var sends, recvs int
	for _, c := range f.user.got {
		if c.Op == verbs.OpSend {
			sends++
		} else if c.ID != uint64(recvs) {
			t.Fatalf("receive %d came where %d was due", c.ID, recvs)
		} else {
			recvs++
		}
	}
	if sends != 3*each || recvs != each {
		t.Errorf("%d Sends and %d receives completed", sends, recvs)
	}
	f.Abort(nil)
	f.Bury()
}

// TestReportOrder: works before what came in; more behind both, from a reader that keeps its own.
func TestReportOrder(t *testing.T) {
	f := up(t, verbs.Options{})
	f.post(t, verbs.OpSend)
	f.locked(func() {
		f.Deliver(verbs.Completion{ID: 7, Op: verbs.OpRecv})
		f.Done(f.Take())
	})
	f.ReportDone()
	same(t, "not for everybody", f.user.ids(), []string{"Send 1 ok"})
	f.post(t, verbs.OpWrite)
	f.locked(func() { f.Done(f.Take()) })
	more := []verbs.Completion{{ID: 8, Op: verbs.OpRecv}}
	if !f.Report(more) || f.Report(nil) || more[0].ID != 0 {
		t.Errorf("Report, %+v", more)
	}
	same(t, "all", f.user.ids(), []string{"Send 1 ok", "Write 1 ok", "Recv 8 ok", "Recv 7 ok"})
	f.Abort(nil)
	f.Bury()
}

// TestDomainClose ends what is there, and lets nothing in.
func TestDomainClose(t *testing.T) {
	d := newDomain(t)
	f := fresh(t, d, verbs.Options{})
	buried := make(chan struct{})
	ended := make(chan struct{})
	if err := f.Go(func() {
		<-ended
		f.Bury()
		close(buried)
	}); err != nil {
		t.Fatal(err)
	}
	go func() {
		for f.Context() == nil { // until Close has aborted
			runtime.Gosched()
		}
		close(ended)
	}()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-buried:
	default:
		t.Error("Close has returned before the connection's goroutine")
	}
	if late := fresh(t, newDomain(t), verbs.Options{}); late.Go() != nil {
		t.Error("another domain is closed")
	}
	if d.Go(func() {}) == nil || d.Context().Err() == nil {
		t.Error("a closed domain takes goroutines")
	}
}

// Context is the cause once the connection has ended.
func (f *fake) Context() (cause error) {
	f.locked(func() { cause = f.Cause() })
	return cause
}

// shared is a connection without a goroutine of its own, as one of a provider whose connections share a socket.
type shared struct{ fake }

func (s *shared) Idle() {
	s.idle++
	s.Run(func() { s.Bury() })
}

// TestDomainCloseWaitsForBury: Domain.Close returns after Disconnected, also for a connection without goroutines.
func TestDomainCloseWaitsForBury(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(Domain)
		d.Init(Config{Provider: "fake", Setup: time.Second})
		s := &shared{fake{user: new(user)}}
		if err := s.Init(d, s, &verbs.Options{Handler: s.user}); err != nil {
			t.Fatal(err)
		}
		if err := s.Go(); err != nil {
			t.Fatal(err)
		}
		s.locked(s.Hold)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			if len(s.user.gone) != 1 {
				t.Error("Domain.Close returned before Disconnected")
			}
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Domain.Close does not wait for Bury")
		default:
		}
		s.locked(s.Release)
		<-closed
	})
}

// TestReleaseAfterAbandon: the Handler of a connection that never began is not called, so it is never idle.
func TestReleaseAfterAbandon(t *testing.T) {
	f := fresh(t, newDomain(t), verbs.Options{})
	f.locked(func() { f.Hold() })
	if !f.Abandon(errors.New("no")) {
		t.Fatal("Abandon: it has begun")
	}
	f.locked(func() { f.Release() })
	if f.idle != 0 {
		t.Errorf("Idle %d times", f.idle)
	}
}

// TestTryReportLeavesNothing: a receive for which TryReport finds another goroutine completing is reported by that one.
func TestTryReportLeavesNothing(t *testing.T) {
	f := up(t, verbs.Options{})
	f.post(t, verbs.OpSend)
	f.locked(func() { f.Done(f.Take()) })
	inside, leave, reported := make(chan struct{}), make(chan struct{}), make(chan struct{})
	f.user.on = func(cs []verbs.Completion) {
		if cs[0].Op == verbs.OpSend {
			close(inside)
			<-leave
		}
	}
	go func() {
		f.ReportDone()
		close(reported)
	}()
	<-inside
	f.locked(func() { f.Deliver(verbs.Completion{ID: 5, Op: verbs.OpRecv}) })
	if f.TryReport() {
		t.Error("TryReport while another completes")
	}
	close(leave)
	<-reported
	same(t, "completed", f.user.ids(), []string{"Send 1 ok", "Recv 5 ok"})
	f.locked(func() { f.Deliver(verbs.Completion{ID: 6, Op: verbs.OpRecv}) })
	f.ReportDone()
	same(t, "not for everybody again", f.user.ids(), []string{"Send 1 ok", "Recv 5 ok"})
}
