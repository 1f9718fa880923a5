package stream

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Threads tells whether TCP.Thread can be had on this system.
const Threads = true

// thread waits for input in the kernel, on the thread of whoever reads, not in the runtime's
// poller. What the poller does for a waiting reader is done here: deadlines, and the end.
type thread struct {
	deadline atomic.Int64 // Unix nanoseconds; 0: none
	closed   atomic.Bool
	fds      [2]unix.PollFd // the reader's
	err      error          // of its wait

	wake int // an eventfd that the reader watches too

	mu   sync.Mutex // guards wake against its end
	gone bool       // wake is closed
}

func newThread() (*thread, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &thread{wake: fd}, nil
}

// until sets the deadline.
func (t *thread) until(at time.Time) {
	if at.IsZero() {
		t.deadline.Store(0)
		return
	}
	t.deadline.Store(max(at.UnixNano(), 1))
	t.nudge()
}

// nudge makes the reader look at what was set before.
func (t *thread) nudge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.gone {
		one := [8]byte{7: 1}
		_, _ = unix.Write(t.wake, one[:]) // full is as good
	}
}

// end makes the reader leave; close gives the descriptor back when it has left.
func (t *thread) end() {
	t.closed.Store(true)
	t.nudge()
}

func (t *thread) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.gone {
		_ = unix.Close(t.wake)
		t.gone = true
	}
}

// over is why nobody may read, if so.
func (t *thread) over() error {
	switch at := t.deadline.Load(); {
	case t.closed.Load():
		return net.ErrClosed
	case at != 0 && time.Now().UnixNano() >= at:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// run calls try after each wait until it returns true, or until the wait fails.
func (t *thread) run(fd uintptr, try func() bool) {
	for t.err = t.wait(fd); t.err == nil; t.err = t.wait(fd) {
		if try() {
			return
		}
	}
}

// wait returns when there may be input.
func (t *thread) wait(fd uintptr) error {
	if err := t.over(); err != nil {
		return err
	}
	timeout := -1
	if at := t.deadline.Load(); at != 0 {
		timeout = int(min(max(time.Until(time.Unix(0, at)), 0)/time.Millisecond+1, 1<<30))
	}
	t.fds = [2]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(t.wake), Events: unix.POLLIN}}
	if _, err := unix.Poll(t.fds[:], timeout); err != nil && err != unix.EINTR {
		return os.NewSyscallError("poll", err)
	}
	if t.fds[1].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(t.wake, count[:])
	}
	return nil
}
