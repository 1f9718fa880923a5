package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

// Options are what to measure.
type Options struct {
	Op      Op
	Sizes   []int // bytes of a payload; each is measured in turn
	Callers int   // that call at the same time
	// Calls ends the measuring of a size after so many, of all callers together; 0: Duration does.
	Calls    int
	Duration time.Duration
	// Warmup is how long calls are made before those that count. Each caller makes at least one,
	// whose payload is compared byte by byte.
	Warmup time.Duration
	// Tell, unless nil, hears ten times a second how far the measuring of a size is.
	Tell func(size int, calls uint64, elapsed time.Duration)
}

// Result is what was measured of one size.
type Result struct {
	Bytes   int
	Elapsed time.Duration
	Peak    float64       // calls a second in the best tenth of a second; of all, if it took no longer
	CPU     time.Duration // of this process
	Calls   Hist          // that were answered, and how long each took
}

// Rate is calls a second.
func (r *Result) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Calls.N()) / r.Elapsed.Seconds()
}

const (
	window = 100 * time.Millisecond
	// grace is how long calls may take to be answered once the user has had enough.
	grace = time.Second
)

// Run measures size after size and calls each with what it got, the last time with what there was
// when a call failed or ctx ended; the error is the call's or ctx's. A call that is then not
// answered within a second is cut short by closing client.
//
// Calls are made with a context that cannot end: watching one would cost what is not the
// transport's.
func Run(ctx context.Context, client *rpc.Client, o Options, each func(*Result)) error {
	most := 0
	for _, n := range o.Sizes {
		most = max(most, n)
	}
	pattern, err := NewPattern(most)
	if err != nil {
		return err
	}
	defer pattern.Free()
	r := runner{Options: o, call: context.WithoutCancel(ctx), callers: make([]worker, o.Callers)}
	for i := range r.callers {
		w := &r.callers[i]
		w.Caller = NewCaller(client, pattern)
		defer w.Free()
	}
	cut := make(chan struct{})
	done := context.AfterFunc(ctx, func() {
		defer close(cut)
		r.stop.Store(true)
		select {
		case <-r.idle():
		case <-time.After(grace):
			client.Close()
		}
	})
	for _, n := range o.Sizes {
		if err = r.size(n, each); err != nil || ctx.Err() != nil {
			break
		}
	}
	r.end()
	if !done() {
		<-cut
		return ctx.Err()
	}
	return err
}

// runner is a Run in progress.
type runner struct {
	Options
	call    context.Context
	callers []worker
	stop    atomic.Bool // no further calls

	mu   sync.Mutex
	over chan struct{} // closed by end; made by whoever comes first
	err  error         // the first
}

// worker is one caller and what it counted, on cache lines of its own.
type worker struct {
	*Caller
	calls Hist
	done  atomic.Uint64
	_     [64]byte
}

// idle is closed when no call is being made any more.
func (r *runner) idle() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == nil {
		r.over = make(chan struct{})
	}
	return r.over
}

func (r *runner) end() { close(r.idle()) }

func (r *runner) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	r.stop.Store(true)
}

// size warms up, and measures.
func (r *runner) size(n int, each func(*Result)) error {
	r.all(func(_ int, w *worker) {
		err := w.DoWhole(r.call, r.Op, n)
		for start := time.Now(); err == nil && !r.stop.Load() && time.Since(start) < r.Warmup; {
			err = w.Do(r.call, r.Op, n)
		}
		if err != nil {
			r.fail(err)
		}
	})
	if r.stop.Load() {
		return r.err
	}
	for i := range r.callers {
		r.callers[i].calls = Hist{}
		r.callers[i].done.Store(0)
	}
	res := &Result{Bytes: n}
	start := time.Now()
	used := cpu()
	watched := make(chan float64)
	unwatch := make(chan struct{})
	go func() { watched <- r.watch(n, start, unwatch) }()
	r.all(func(i int, w *worker) { r.measure(w, n, start, r.share(i)) })
	res.Elapsed = time.Since(start)
	res.CPU = cpu() - used
	close(unwatch)
	peak := <-watched
	for i := range r.callers {
		res.Calls.Merge(&r.callers[i].calls)
	}
	res.Peak = max(peak, res.Rate())
	if res.Calls.N() > 0 {
		each(res)
	}
	return r.err
}

// all runs f for every caller and returns when all have.
func (r *runner) all(f func(int, *worker)) {
	var wg sync.WaitGroup
	for i := range r.callers {
		wg.Go(func() { f(i, &r.callers[i]) })
	}
	wg.Wait()
}

// share is how many of the calls are caller i's; -1: as many as there is time for.
func (r *runner) share(i int) int {
	if r.Calls == 0 {
		return -1
	}
	n := r.Calls / len(r.callers)
	if i < r.Calls%len(r.callers) {
		n++
	}
	return n
}

func (r *runner) measure(w *worker, n int, start time.Time, calls int) {
	last := time.Since(start)
	for ; calls != 0 && !r.stop.Load() && (calls > 0 || last < r.Duration); calls-- {
		if err := w.Do(r.call, r.Op, n); err != nil {
			r.fail(err)
			return
		}
		now := time.Since(start)
		w.calls.Add(now - last)
		w.done.Add(1)
		last = now
	}
}

// watch returns the most calls a second that a window had, 0 if there was no whole one.
func (r *runner) watch(n int, start time.Time, end <-chan struct{}) (peak float64) {
	tick := time.NewTicker(window)
	defer tick.Stop()
	for at, before := time.Duration(0), uint64(0); ; {
		select {
		case <-end:
			return peak
		case <-tick.C:
		}
		now, calls := time.Since(start), uint64(0)
		for i := range r.callers {
			calls += r.callers[i].done.Load()
		}
		if d := now - at; d >= window/2 { // a late tick is followed by an early one
			peak = max(peak, float64(calls-before)/d.Seconds())
			at, before = now, calls
		}
		if r.Tell != nil {
			r.Tell(n, calls, now)
		}
	}
}

// cpu is the user and system time of this process.
func cpu() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
