package providertest

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// idle is slept between two attempts at something: who only tries again keeps Go's poller from the core that it
// needs, if there is but one.
const idle = 100 * time.Microsecond

// driver is e's Driver, or skips the check.
func (w *world) driver(e *end) verbs.Driver {
	w.Helper()
	d, ok := e.conn.(verbs.Driver)
	if !ok {
		w.Skipf("%s's connections are no Drivers", w.p.Name())
	}
	return d
}

// driveUntil leads until e has n messages.
func (e *end) driveUntil(d verbs.Driver, n int) bool {
	return d.Drive(func() bool { return e.count() >= n })
}

// lead starts a leader that stays until stop; it returns when somebody drives.
func (w *world) lead(d verbs.Driver) (stop func()) {
	w.Helper()
	var over atomic.Bool
	entered, left := make(chan struct{}), make(chan struct{})
	var once sync.Once
	go func() {
		defer close(left)
		for !d.Drive(func() bool {
			once.Do(func() { close(entered) })
			return over.Load()
		}) {
			if over.Load() || w.ctx.Err() != nil {
				return
			}
		}
	}()
	among(w, "Drive's first question to stop", entered)
	return func() {
		w.Helper()
		over.Store(true)
		d.Kick()
		among(w, "Drive to return", left)
	}
}

var driveChecks = []check{
	{name: "a leader receives what it waits for, and stop ends its lead", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		d := w.driver(a)
		for i := range 200 {
			b.post(send(b.mem(pattern(i, 100))))
			b.conn.Flush()
			w.hang("Drive", func() {
				if !a.driveUntil(d, 2+i) {
					w.Errorf("Drive: false, but nobody else drives")
				}
			})
			w.same("message", a.message(1+i).data, pattern(i, 100))
		}
	}},
	{name: "stop is asked before the first wait", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		d := w.driver(a)
		w.hang("Drive that is to stop at once", func() { d.Drive(func() bool { return true }) })
	}},
	{name: "Drive is false at once while another drives", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		d := w.driver(a)
		stop := w.lead(d)
		w.hang("a second Drive", func() {
			if d.Drive(func() bool { return false }) {
				w.Errorf("a second Drive: true")
			}
		})
		stop()
	}},
	{name: "Kick makes the present Drive return, and no later one", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		d := w.driver(a)
		for i := range 100 {
			in, left := make(chan struct{}), make(chan bool, 1)
			var once sync.Once
			go func() {
				left <- d.Drive(func() bool {
					once.Do(func() { close(in) })
					return false
				})
			}()
			among(w, "Drive", in)
			d.Kick()
			if !among(w, "a kicked Drive", left) {
				w.Fatalf("round %d: Drive: false", i)
			}
		}
		d.Kick() // hits nobody
		b.post(send(b.mem([]byte("x"))))
		b.conn.Flush()
		w.hang("Drive after an idle Kick", func() {
			for a.count() < 2 {
				a.driveUntil(d, 2)
			}
		})
	}},
	{name: "receives complete on the leader's goroutine", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		d := w.driver(a)
		led := 0
		for i := range 50 {
			in := make(chan struct{})
			var once sync.Once
			leader := make(chan uint64, 1)
			go func() {
				d.Drive(func() bool {
					once.Do(func() { close(in) })
					return a.count() >= 2+i
				})
				leader <- goroutine()
			}()
			among(w, "Drive", in)
			b.post(send(b.mem(nil)))
			b.conn.Flush()
			if a.message(1+i).goroutine == among(w, "the leader", leader) {
				led++
			}
		}
		if led == 0 {
			w.Errorf("none of 50 messages completed on the goroutine that drove")
		}
	}},
	{name: "without a leader the provider's own reader reads, before the first and after each", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b) // nobody drove here
		d := w.driver(a)
		for i := range 10 {
			w.lead(d)()
			b.do(send(b.mem(pattern(i, 50))))
			w.same("message", a.message(1+i).data, pattern(i, 50))
		}
	}},
	{name: "local completions need no leader", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		d := w.driver(a)
		r := w.alloc(a.dom, 100)
		far := b.expose(w.alloc(b.dom, 1000), 0, 1000, verbs.RemoteRead)
		for range 50 {
			w.lead(d)()
			win := a.expose(r, 0, 100, verbs.RemoteWrite)
			a.do(invalidate(win), send())
			if a.conn.Caps().MaxReads > 0 {
				a.do(read(far, 0, a.mem(make([]byte, 1000))))
			}
		}
	}},
	{name: "a leader is asked again when another's Flush has fenced a window", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		d := w.driver(a)
		r := w.alloc(a.dom, 100)
		for range 50 {
			var fence atomic.Uint64
			in := make(chan struct{})
			var once sync.Once
			left := make(chan bool, 1)
			go func() {
				left <- d.Drive(func() bool {
					once.Do(func() { close(in) })
					id := fence.Load()
					return id != 0 && a.isDone(id)
				})
			}()
			among(w, "Drive", in)
			ids := a.post(invalidate(a.expose(r, 0, 100, verbs.RemoteWrite)))
			fence.Store(ids[0])
			a.conn.Flush()
			among(w, "the leader to hear of the fence", left)
		}
	}},
	{name: "the end of the connection ends Drive", run: func(w *world) {
		for _, how := range ways[:2] {
			for _, far := range []bool{false, true} {
				a, b := w.connect(link{})
				w.meet(a, b)
				d := w.driver(a)
				in, left := make(chan struct{}), make(chan struct{})
				var once sync.Once
				go func() {
					defer close(left)
					d.Drive(func() bool {
						once.Do(func() { close(in) })
						return false
					})
				}()
				among(w, "Drive", in)
				if far {
					how.end(w, b)
				} else {
					how.end(w, a)
				}
				among(w, "Drive to return at the end", left)
				a.disconnected()
			}
		}
	}},
	{name: "leaders come and go in mid-stream, and nothing is lost or overtaken", run: func(w *world) {
		const count = 600
		a, b := w.connect(link{recvs: 64, options: w.o.SmallBuffers})
		w.meet(a, b)
		d := w.driver(a)
		r := w.alloc(a.dom, 1<<17)
		win := a.expose(r, 0, 1<<17, verbs.RemoteWrite)
		bulk := b.mem(pattern(1, 1<<17))
		var stop atomic.Bool
		var wg sync.WaitGroup
		for k := range 3 { // each leads for a batch or two, now and then nobody
			wg.Go(func() {
				for asked := 0; !stop.Load() && w.ctx.Err() == nil; {
					asked = 0
					if !d.Drive(func() bool { asked++; return asked > k+1 || stop.Load() }) {
						time.Sleep(idle) // another leads
					}
					d.Kick()
				}
			})
		}
		for i := range count {
			b.post(write(win, 0, bulk), send(b.mem(binary.BigEndian.AppendUint32(pattern(i, 2000)[:2000:2000], uint32(i)))))
			b.conn.Flush()
			if i%8 == 7 {
				a.message(1 + i) // no more under way than there are receives
			}
		}
		a.message(count)
		stop.Store(true)
		d.Kick()
		among(w, "the leaders to leave", closedBy(&wg, d))
		for i := range count {
			if got := binary.BigEndian.Uint32(a.message(1 + i).data[2000:]); int(got) != i {
				w.Fatalf("message %d carries %d", i, got)
			}
		}
		w.same("the last Write", r.Bytes(), bulk.Bytes())
	}},
}

// closedBy is closed when wg is done; whoever drives meanwhile is kicked.
func closedBy(wg *sync.WaitGroup, d verbs.Driver) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	go func() {
		for {
			select {
			case <-done:
				return
			default:
				d.Kick()
				time.Sleep(idle)
			}
		}
	}()
	return done
}
