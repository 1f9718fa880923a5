package providertest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

var errTest = errors.New("the check's own error")

// ways are how connections end; by ends it.
var ways = []struct {
	name  string
	end   func(w *world, by *end)
	clean bool // Disconnected(nil) at both ends
}{
	{"Close", func(_ *world, by *end) { by.conn.Close() }, true},
	{"Abort", func(_ *world, by *end) { by.conn.Abort(errTest) }, false},
	{"Domain.Close", func(w *world, by *end) { w.hang("Domain.Close", func() { by.dom.Close() }) }, false},
}

// states are what a connection is doing when it ends. Each leaves a and b with works that are
// posted, under way or done.
var states = []struct {
	name string
	make func(w *world, a, b *end)
}{
	{"idle", func(w *world, a, b *end) {}},
	{"Sends posted and not flushed", func(w *world, a, b *end) {
		for _, e := range []*end{a, b} {
			for i := range 10 {
				e.post(send(e.mem(pattern(i, 100))))
			}
		}
	}},
	{"Sends flushed", func(w *world, a, b *end) {
		for _, e := range []*end{a, b} {
			for i := range 30 {
				e.post(send(e.mem(pattern(i, 1000))))
			}
			e.conn.Flush()
		}
	}},
	{"Writes under way", func(w *world, a, b *end) { w.transfers(a, b, write) }},
	{"Reads under way", func(w *world, a, b *end) {
		if a.conn.Caps().MaxReads > 0 {
			w.transfers(a, b, read)
		}
	}},
	{"Reads posted and not flushed", func(w *world, a, b *end) {
		win := b.expose(w.alloc(b.dom, 4096), 0, 4096, verbs.RemoteRead)
		for range 40 {
			a.post(read(win, 0, a.mem(make([]byte, 4096))))
		}
	}},
	{"Invalidates posted", func(w *world, a, b *end) {
		r := w.alloc(a.dom, 4096)
		for range 10 {
			a.post(invalidate(a.expose(r, 0, 4096, verbs.RemoteRead)))
		}
	}},
	{"windows exposed", func(w *world, a, b *end) {
		r := w.alloc(a.dom, 4096)
		for range 10 {
			a.expose(r, 0, 4096, verbs.RemoteWrite)
		}
	}},
	{"receives held", func(w *world, a, b *end) {
		b.mu.Lock()
		b.hold = true
		b.mu.Unlock()
		before := b.count()
		for i := range 20 {
			a.do(send(a.mem(pattern(i, 100))))
		}
		b.message(before + 19)
	}},
	{"Complete running", func(w *world, a, b *end) {
		entered := make(chan struct{}, 1)
		b.mu.Lock()
		b.hook = func([]verbs.Completion) {
			select {
			case entered <- struct{}{}:
				time.Sleep(widen)
			default:
			}
		}
		b.mu.Unlock()
		for i := range 10 {
			a.post(send(a.mem(pattern(i, 100))))
		}
		a.conn.Flush()
		among(w, "Complete", entered)
	}},
	{"four goroutines posting", func(w *world, a, b *end) {
		win := b.expose(w.alloc(b.dom, 4096), 0, 4096, verbs.RemoteRead|verbs.RemoteWrite)
		src := a.mem(pattern(1, 4096))
		started := make(chan struct{}, 4)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					_, n, err := a.tryPost([]verbs.Work{write(win, 0, src), write(win, 8, split(src, 8)[1])})
					a.conn.Flush()
					if i == 3 {
						started <- struct{}{}
					}
					if err != nil {
						if !isClosed(err) {
							w.Errorf("Post took %d, error %v", n, err)
						}
						if i < 3 {
							started <- struct{}{}
						}
						return
					}
					if n == 0 {
						time.Sleep(idle) // there is no room
					}
				}
			})
		}
		w.Cleanup(func() { // runs before the domains are closed
			a.conn.Abort(nil) // where the check has failed: else the connection has ended by then
			wg.Wait()
		})
		for range 4 {
			among(w, "goroutines", started)
		}
	}},
}

// transfers starts large Writes or Reads both ways.
func (w *world) transfers(a, b *end, op func(*verbs.Window, int, ...verbs.Seg) verbs.Work) {
	const n = 1 << 20
	for _, d := range [][2]*end{{a, b}, {b, a}} {
		win := d[1].expose(w.alloc(d[1].dom, n), 0, n, verbs.RemoteRead|verbs.RemoteWrite)
		seg := verbs.Seg{R: w.alloc(d[0].dom, n), N: n}
		for range 8 {
			d[0].post(op(win, 0, seg))
		}
	}
	for _, e := range []*end{a, b} {
		go e.conn.Flush()
	}
}

var endChecks = append(everyWay(), []check{
	{name: "Close lets what was posted leave first", run: func(w *world) {
		const n = 4 << 20
		a, b := w.connect(link{})
		w.meet(a, b)
		r := w.alloc(b.dom, n)
		win := b.expose(r, 0, n, verbs.RemoteWrite)
		src := a.mem(pattern(4, n))
		var ids []uint64
		for i := range 20 {
			ids = append(ids, a.post(send(a.mem(pattern(i, 300))))...)
		}
		ids = append(ids, a.post(write(win, 0, src), send(a.mem([]byte("last"))))...)
		a.conn.Close()
		for _, e := range []*end{a, b} {
			if err := e.disconnected(); err != nil {
				w.Errorf("%s: Disconnected(%v), want nil", e.name, err)
			}
		}
		a.done(ids...)
		if got := b.count(); got != 22 {
			w.Fatalf("%d of 22 messages arrived", got)
		}
		w.same("the last message", b.message(21).data, []byte("last"))
		w.same("what was written", r.Bytes(), src.Bytes())
	}},
	{name: "Abort's error is Disconnected's, and the peer learns of an error", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		a.conn.Abort(errTest)
		if err := a.disconnected(); !errors.Is(err, errTest) {
			w.Errorf("Disconnected(%v), want Abort's error", err)
		}
		if err := b.disconnected(); err == nil || errors.Is(err, errTest) {
			w.Errorf("the peer: Disconnected(%v), want an error of its own", err)
		}
	}},
	{name: "after the end Post, PostRecv and Expose wrap net.ErrClosed and the cause", run: func(w *world) {
		a, b := w.connect(link{posted: true})
		w.meet(a, b)
		r := w.alloc(a.dom, 64)
		mem := a.mem([]byte("x"))
		win := a.expose(r, 0, 64, verbs.RemoteRead)
		a.conn.Abort(errTest)
		a.disconnected()
		for name, f := range map[string]func() error{
			"Post": func() error {
				_, n, err := a.tryPost([]verbs.Work{send(mem)})
				return wantNone(n, err)
			},
			"PostRecv": func() error {
				n, err := a.conn.PostRecv([]verbs.Recv{{Seg: mem}})
				return wantNone(n, err)
			},
			"Expose": func() error { return a.exposeAs(new(verbs.Window), r, 0, 64, verbs.RemoteRead) },
		} {
			if err := f(); !errors.Is(err, net.ErrClosed) || !errors.Is(err, errTest) {
				w.Errorf("%s: %v; want net.ErrClosed and the cause", name, err)
			}
		}
		a.conn.Flush()
		a.conn.Abort(errors.New("late"))
		a.conn.Close()
		a.conn.Stats(new(verbs.Stats))
		if d, ok := a.conn.(verbs.Driver); ok {
			d.Kick()
			w.hang("Drive after the end", func() { d.Drive(func() bool { return false }) })
		}
		if a.conn.Caps().Detach && a.detach(win, make([]byte, 64)) {
			w.Errorf("Detach after the end: true, but the window is not in force")
		}
		if err := a.disconnected(); !errors.Is(err, errTest) {
			w.Errorf("the cause has changed to %v", err)
		}
	}},
	{name: "Post after Close wraps net.ErrClosed", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		mem := a.mem([]byte("x"))
		a.conn.Close()
		a.disconnected()
		if _, n, err := a.tryPost([]verbs.Work{send(mem)}); n != 0 || !errors.Is(err, net.ErrClosed) {
			w.Errorf("Post took %d, error %v", n, err)
		}
		b.disconnected()
		mem = b.mem([]byte("x"))
		if _, n, err := b.tryPost([]verbs.Work{send(mem)}); n != 0 || !errors.Is(err, net.ErrClosed) {
			w.Errorf("the peer's Post took %d, error %v", n, err)
		}
	}},
	{name: "Close and Abort work from within Complete", run: func(w *world) {
		for _, how := range []func(c verbs.Conn){
			func(c verbs.Conn) { c.Close() },
			func(c verbs.Conn) { c.Abort(errTest) },
		} {
			a, b := w.connect(link{})
			w.meet(a, b)
			b.mu.Lock()
			b.hook = func([]verbs.Completion) { how(b.conn) }
			b.mu.Unlock()
			a.post(send(a.mem([]byte("go"))))
			a.conn.Flush()
			a.disconnected()
			b.disconnected()
		}
	}},
	{name: "Domain.Close ends live connections, and returns when no Handler runs", run: func(w *world) {
		d := w.open()
		l := w.listen(d)
		var as, bs []*end
		for range 5 {
			a, b := w.connect(link{domB: d, listener: l})
			w.meet(a, b)
			as, bs = append(as, a), append(bs, b)
		}
		w.transfers(as[0], bs[0], write)
		bs[1].mu.Lock()
		bs[1].hook = func([]verbs.Completion) { time.Sleep(widen / 3) }
		bs[1].mu.Unlock()
		as[1].post(send(as[1].mem([]byte("busy"))))
		as[1].conn.Flush()
		w.hang("Domain.Close", func() { d.Close() })
		for _, b := range bs {
			if b.alive() {
				w.Errorf("%s: Domain.Close returned before Disconnected", b.name)
			}
			if b.inside.Load() != 0 {
				w.Errorf("%s: Domain.Close returned while its Handler ran", b.name)
			}
		}
		for _, a := range as {
			a.disconnected()
		}
	}},
	{name: "one connection's end touches no other", run: func(w *world) {
		domA, domB := w.open(), w.open()
		l := w.listen(domB)
		a, b := w.connect(link{domA: domA, domB: domB, listener: l})
		w.meet(a, b)
		for _, how := range ways[:2] {
			c, d := w.connect(link{domA: domA, domB: domB, listener: l})
			w.meet(c, d)
			how.end(w, d)
			c.disconnected()
			d.disconnected()
			w.ping(a, b)
		}
	}},
}...)

func wantNone(n int, err error) error {
	if n != 0 {
		return fmt.Errorf("%d were accepted, error %v", n, err)
	}
	return err
}

// everyWay ends connections in each way, by either side, in each state. The books of both
// ends are checked by Disconnected itself: all that was posted has completed, once.
func everyWay() []check {
	var cs []check
	for _, how := range ways {
		for _, s := range states {
			for _, side := range []string{"the dialler", "the acceptor"} {
				cs = append(cs, check{name: fmt.Sprintf("%s by %s, %s: all that was posted completes once", how.name, side, s.name), run: func(w *world) {
					a, b := w.connect(link{})
					w.meet(a, b)
					s.make(w, a, b)
					by := a
					if side == "the acceptor" {
						by = b
					}
					how.end(w, by)
					ca, cb := a.disconnected(), b.disconnected()
					if how.clean && (ca != nil || cb != nil) {
						w.Errorf("Disconnected(%v) and (%v), want nil", ca, cb)
					}
					if !how.clean && by.cause == nil {
						w.Errorf("Disconnected(nil) where the end was not orderly")
					}
				}})
			}
		}
	}
	return cs
}
