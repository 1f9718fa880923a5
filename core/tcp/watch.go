package tcp

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/watch"
)

// ticker steps a connection's Watch, and ends a connection that is idle, or whose peer lets a record trickle in. Replies that
// are not read end by writeWait.
type ticker struct {
	look func(idle bool) (calls uint64, busy bool) // idle: the last look, under the connection's mutex
	end  func(why error)                           // nil: idle
	most int                                       // bytes of a record

	record atomic.Uint64 // numbers the record that has begun and is not whole; 0: none
	begun  uint64        // the reader's

	mu      sync.Mutex // guards what follows
	watch   watch.Watch
	tick    time.Duration
	whole   time.Duration // how long a record may take
	timer   *time.Timer
	stopped bool
}

func (t *ticker) start(cfg *Config, look func(bool) (uint64, bool), end func(error)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.look, t.end, t.most = look, end, cfg.MaxRecord
	t.whole = cfg.StallTimeout + time.Duration(t.most/watch.Slowest)*time.Second
	t.watch, t.tick = watch.New(watch.Limits{Idle: cfg.IdleTimeout, Stall: cfg.StallTimeout}, 0)
	if t.tick > 0 {
		t.timer = time.AfterFunc(t.tick, t.step)
	}
}

func (t *ticker) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}

// partial tells after each read whether a record has begun and is not whole. The reader's.
func (t *ticker) partial(yes bool) {
	switch {
	case !yes:
		t.record.Store(0)
	case t.record.Load() == 0:
		t.begun++
		t.record.Store(t.begun)
	}
}

func (t *ticker) step() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	calls, busy := t.look(false)
	record := t.record.Load()
	switch t.watch.Step(watch.Activity{Calls: calls, Busy: busy, Frames: record, Torn: record != 0, TornMost: t.most}) {
	case watch.Torn:
		t.end(fmt.Errorf("%w: a record that began is not whole after %v", transport.ErrStalled, t.whole))
	case watch.Idle:
		if _, busy := t.look(true); !busy {
			t.end(nil)
			return
		}
	}
	t.timer.Reset(t.tick)
}
