package providertest

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

var needsDetach = needs("no Detach", func(c verbs.Caps) bool { return c.Detach })

var detachChecks = []check{
	{name: "a connection with Caps.Detach is a Detacher", run: func(w *world) {
		a, _ := w.connect(link{})
		if _, ok := a.conn.(verbs.Detacher); ok != a.conn.Caps().Detach {
			w.Errorf("Caps.Detach is %v, but Detacher: %v", a.conn.Caps().Detach, ok)
		}
	}},
	{name: "after Detach, Writes go to the spare and the old memory stays", needs: needsDetach, run: func(w *world) {
		a, b := w.connect(link{})
		r := w.alloc(b.dom, 1000)
		win := b.expose(r, 100, 500, verbs.RemoteWrite)
		a.do(write(win, 0, a.mem(pattern(1, 500))), send())
		b.message(0)
		before, spare := bytes.Clone(r.Bytes()), make([]byte, 600)
		if !b.detach(win, spare) {
			w.Fatalf("Detach: false, but the window is in force")
		}
		a.do(write(win, 50, a.mem(pattern(2, 450))), send())
		b.message(1)
		w.same("the old memory", r.Bytes(), before)
		w.same("the spare", spare[50:500], pattern(2, 450))
		w.same("behind the window's length", spare[500:], make([]byte, 100))
	}},
	{name: "after Detach, Reads see the bytes as they were", needs: needsDetach, run: func(w *world) {
		for _, rights := range []verbs.Access{verbs.RemoteRead, verbs.RemoteRead | verbs.RemoteWrite} {
			a, b := w.connect(link{})
			w.meet(a, b)
			r := w.alloc(b.dom, 1000)
			copy(r.Bytes(), pattern(1, 1000))
			win := b.expose(r, 100, 500, rights)
			if !b.detach(win, make([]byte, 500)) {
				w.Fatalf("Detach: false, but the window is in force")
			}
			clear(r.Bytes())
			sink := a.mem(make([]byte, 500))
			a.do(read(win, 0, sink))
			w.same("what was read", sink.Bytes(), pattern(1, 1000)[100:600])
		}
	}},
	{name: "Detach of a window that is not in force any more is false", needs: needsDetach, run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		r := w.alloc(b.dom, 100)
		win := b.expose(r, 0, 100, verbs.RemoteWrite)
		b.do(invalidate(win))
		if b.detach(win, make([]byte, 100)) {
			w.Errorf("after Invalidate: true")
		}
		win2 := b.expose(r, 0, 100, verbs.RemoteWrite) // may take the place of win
		if b.detach(win, make([]byte, 100)) {
			w.Errorf("after Invalidate and another Expose: true")
		}
		if b.conn.Caps().RemoteInvalidate && a.conn.Caps().SendInvalidate {
			a.do(sendInvalidate(win2.Key))
			b.message(1)
			if b.detach(win2, make([]byte, 100)) {
				w.Errorf("after the peer's SendInvalidate: true")
			}
		}
	}},
	{name: "a detached window ends like any other", needs: needsDetach, run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		win := b.expose(w.alloc(b.dom, 100), 0, 100, verbs.RemoteWrite)
		spare := make([]byte, 100)
		b.detach(win, spare)
		b.do(invalidate(win))
		a.post(write(win, 0, a.mem([]byte("late"))))
		a.conn.Flush()
		w.refusedAccess(a, b)
		w.same("the spare", spare, make([]byte, 100))
	}},
	{name: "Detach under a stream of Writes: from its return on the old memory is still", needs: needsDetach, run: func(w *world) {
		const n, rounds = 1 << 20, 30
		a, b := w.connect(link{})
		w.meet(a, b)
		r, src, spare := w.alloc(b.dom, n), a.mem(pattern(1, n)), w.alloc(b.dom, n)
		canary := bytes.Repeat([]byte{0xC5}, n)
		var target atomic.Pointer[verbs.Window]
		var stop atomic.Bool
		target.Store(b.expose(r, 0, n, verbs.RemoteWrite))
		var wg sync.WaitGroup
		wg.Go(func() {
			for !stop.Load() && a.alive() {
				ids, _, err := a.tryPost([]verbs.Work{write(target.Load(), 0, src), write(target.Load(), n/2, split(src, n/2)[1])})
				if err != nil {
					return
				}
				a.conn.Flush()
				a.waitQuietly(ids)
			}
		})
		for range rounds {
			win := target.Load()
			time.Sleep(widen / 30)
			if !b.detach(win, spare.Bytes()) {
				w.Errorf("Detach: false, but the window is in force")
				break
			}
			copy(r.Bytes(), canary)
			for range 3 {
				time.Sleep(widen / 30)
				if !bytes.Equal(r.Bytes(), canary) {
					w.Errorf("the old memory changed after Detach had returned")
				}
			}
			target.Store(b.expose(r, 0, n, verbs.RemoteWrite)) // the old one stays in force: Writes may be on their way
		}
		stop.Store(true)
		wg.Wait()
		w.ping(a, b)
	}},
	{name: "Detach waits for no peer", needs: needsDetach, run: func(w *world) {
		// The peer sits in its Handler while its Writes into the window are on their way.
		const n = 8 << 20
		a, b := w.connect(link{options: w.o.SmallBuffers})
		w.meet(a, b)
		r := w.alloc(b.dom, n)
		win := b.expose(r, 0, n, verbs.RemoteWrite)
		held, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		a.mu.Lock()
		a.hook = func([]verbs.Completion) {
			once.Do(func() {
				close(held)
				<-release
			})
		}
		a.mu.Unlock()
		id := a.post(send(), write(win, 0, a.mem(pattern(1, n))))[1]
		go a.conn.Flush()
		among(w, "the peer's Handler", held)
		spare := make([]byte, n)
		w.hang("Detach while the peer is stalled", func() { b.detach(win, spare) })
		old := bytes.Clone(r.Bytes())
		close(release)
		a.done(id)
		a.do(send())
		b.message(2)
		w.same("the old memory", r.Bytes(), old)
	}},
	{name: "Detach works from within Complete", needs: needsDetach, run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		win := b.expose(w.alloc(b.dom, 100), 0, 100, verbs.RemoteWrite)
		got := make(chan bool, 1)
		b.mu.Lock()
		b.hook = func(cs []verbs.Completion) {
			if cs[0].Op == verbs.OpRecv {
				got <- b.detach(win, make([]byte, 100))
			}
		}
		b.mu.Unlock()
		a.do(send())
		if !among(w, "Detach", got) {
			w.Errorf("false, but the window is in force")
		}
		b.mu.Lock()
		b.hook = nil
		b.mu.Unlock()
	}},
}

// waitQuietly waits until ids have completed or the connection has ended; for goroutines.
func (e *end) waitQuietly(ids []uint64) {
	for {
		e.mu.Lock()
		open := 0
		for _, id := range ids {
			if e.works[id].done == 0 {
				open++
			}
		}
		gone, changed := e.gone, e.changed
		e.mu.Unlock()
		if open == 0 || gone || e.w.ctx.Err() != nil {
			return
		}
		select {
		case <-changed:
		case <-e.w.ctx.Done():
		}
	}
}
