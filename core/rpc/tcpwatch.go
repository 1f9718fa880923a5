package rpc

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
)

// tcpWatch ends a connection of tcp:// that is idle, or whose peer lets a record trickle in: one ticker, as the
// engine has for its connections. Replies that are not read end by tcpWriteWait.
type tcpWatch struct {
	look func(idle bool) (calls uint64, busy bool) // idle: the last look, under the connection's mutex
	end  func(why error)                           // nil: idle

	record atomic.Uint64 // numbers the record that has begun and is not whole; 0: none
	begun  uint64        // the reader's

	mu          sync.Mutex // guards what follows
	timer       *time.Timer
	period      time.Duration
	idle, slow  int // limits in ticks; 0: none
	quiet, same int // ticks without a call, and with the same record
	calls       uint64
	seen        uint64
	stopped     bool
}

const (
	tcpTicks = 8 // of the shorter limit
	// tcpPace is the bytes per second by which a record comes in at least.
	tcpPace = 64 << 10
)

func (w *tcpWatch) start(cfg *engine.Config, idle time.Duration, most int, look func(bool) (uint64, bool), end func(error)) {
	stall := cfg.StallTimeout
	if cfg.IdleTimeout != 0 {
		idle = cfg.IdleTimeout
	}
	if stall == 0 {
		stall = engine.DefaultStall
	}
	w.look, w.end = look, end
	for _, d := range []time.Duration{idle, stall} {
		if d > 0 && (w.period == 0 || d < w.period) {
			w.period = d
		}
	}
	if w.period == 0 {
		return
	}
	w.period = max(w.period/tcpTicks, time.Millisecond)
	if idle > 0 {
		w.idle = int((idle + w.period - 1) / w.period)
	}
	if stall > 0 {
		w.slow = int((stall + time.Duration(most/tcpPace)*time.Second + w.period - 1) / w.period)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(w.period, w.tick)
}

func (w *tcpWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// partial tells after each read whether a record has begun and is not whole. The reader's.
func (w *tcpWatch) partial(yes bool) {
	switch {
	case !yes:
		w.record.Store(0)
	case w.record.Load() == 0:
		w.begun++
		w.record.Store(w.begun)
	}
}

func (w *tcpWatch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	calls, busy := w.look(false)
	w.quiet++
	if busy || calls != w.calls {
		w.quiet = 0
	}
	w.calls = calls
	record := w.record.Load()
	w.same++
	if record == 0 || record != w.seen {
		w.same = 0
	}
	w.seen = record
	switch {
	case w.slow > 0 && w.same > w.slow:
		w.end(fmt.Errorf("%w: a record that began is not whole after %v", engine.ErrStalled, time.Duration(w.same)*w.period))
	case w.idle > 0 && w.quiet >= w.idle:
		if _, busy := w.look(true); !busy {
			w.end(nil)
			return
		}
	}
	w.timer.Reset(w.period)
}
