package engine

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// overtaken is a send queue: while Post is at it, a batch of completions ends on another goroutine, which then
// flushes.
type overtaken struct {
	verbs.Conn
	c               *Conn
	room            int
	posted, flushed int // works
}

func (v *overtaken) Post(ws []verbs.Work) (int, error) {
	v.endOfBatch()
	n := min(len(ws), v.room)
	v.room -= n
	v.posted += n
	v.endOfBatch()
	return n, nil
}

func (v *overtaken) endOfBatch() {
	done := make(chan struct{})
	go func() {
		v.c.Complete(nil)
		close(done)
	}()
	<-done
}

func (v *overtaken) Flush() { v.flushed = v.posted }

// TestPostedIsFlushed: who flushes before a work is in the queue does not take away the flush that is to follow it. It
// may be the last for long: where the caller then waits nothing comes that would flush once more.
func TestPostedIsFlushed(t *testing.T) {
	v := &overtaken{room: 1}
	c := &Conn{vc: v}
	v.c = c
	check := func(what string, posted, waiting int) {
		t.Helper()
		if v.posted != posted || len(c.outbox) != waiting {
			t.Fatalf("%s: %d works posted and %d waiting, want %d and %d", what, v.posted, len(c.outbox), posted, waiting)
		}
		if v.flushed != posted {
			t.Errorf("%s: %d works lie posted and nobody flushes them", what, posted-v.flushed)
		}
	}
	ws := []verbs.Work{{ID: workID(workInvalidate, 0)}, {ID: workID(workInvalidate, 1)}}

	c.mu.Lock()
	c.post(ws)
	c.mu.Unlock()
	c.flush()
	check("post", 1, 1)

	v.room = 1
	c.mu.Lock()
	c.drain()
	c.mu.Unlock()
	c.flush()
	check("drain", 2, 0)
}
