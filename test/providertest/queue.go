package providertest

import (
	"errors"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

var queueChecks = []check{
	{name: "Post on a full queue accepts what fits, and the rest never existed", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		r := w.alloc(b.dom, 8)
		win := b.expose(r, 0, 8, verbs.RemoteWrite)
		q, src := a.conn.Caps().Queue, a.mem([]byte("12345678"))
		ws := make([]verbs.Work, q+10)
		for i := range ws {
			ws[i] = write(win, 0, src)
		}
		ids, n, err := a.tryPost(ws)
		if err != nil || n != q {
			w.Fatalf("Post of %d works on an empty queue of %d took %d, error %v", len(ws), q, n, err)
		}
		if _, n, err := a.tryPost(ws[:1]); n != 0 || err != nil {
			w.Fatalf("Post on a full queue took %d, error %v; want 0 and none", n, err)
		}
		a.conn.Flush()
		a.done(ids...)
		w.ping(a, b) // there is room again
	}},
	{name: "slots are free when the completions are reported", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		win := b.expose(w.alloc(b.dom, 8), 0, 8, verbs.RemoteWrite)
		q, src := a.conn.Caps().Queue, a.mem([]byte("12345678"))
		short, left := make(chan int, 1), 3*q
		a.mu.Lock()
		a.hook = func(cs []verbs.Completion) {
			ws := make([]verbs.Work, min(len(cs), left))
			for i := range ws {
				ws[i] = write(win, 0, src)
			}
			_, n, _ := a.tryPost(ws)
			if n < len(ws) {
				select {
				case short <- len(ws) - n:
				default:
				}
			}
			left -= n
			a.conn.Flush()
		}
		a.mu.Unlock()
		ws := make([]verbs.Work, q)
		for i := range ws {
			ws[i] = write(win, 0, src)
		}
		a.post(ws...)
		a.conn.Flush()
		a.wait("all Writes", func() bool {
			if len(a.works) < 4*q {
				return len(short) > 0
			}
			for _, p := range a.works {
				if p.done == 0 {
					return false
				}
			}
			return true
		})
		select {
		case n := <-short:
			w.Errorf("posting as many as had completed, %d were not accepted", n)
		default:
		}
	}},
	{name: "a malformed work is refused with those behind it, those before it are carried out", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		r := w.alloc(a.dom, 100)
		seg := func(off, n int) []verbs.Seg { return []verbs.Seg{{R: r, Off: off, N: n}} }
		for name, bad := range map[string]verbs.Work{
			"a segment beyond its region":          {Op: verbs.OpSend, Segs: seg(50, 51)},
			"a segment before its region":          {Op: verbs.OpSend, Segs: seg(-1, 10)},
			"a segment of negative length":         {Op: verbs.OpSend, Segs: seg(50, -10)},
			"a segment whose end overflows":        {Op: verbs.OpSend, Segs: seg(50, int(^uint(0)>>1))},
			"a segment without a region":           {Op: verbs.OpSend, Segs: []verbs.Seg{{N: 10}}},
			"no operation":                         {},
			"a receive":                            {Op: verbs.OpRecv, Segs: seg(0, 10)},
			"an unknown operation":                 {Op: 99, Segs: seg(0, 10)},
			"an Invalidate without a window":       {Op: verbs.OpInvalidate},
			"an Invalidate of what is not exposed": {Op: verbs.OpInvalidate, Window: &verbs.Window{}},
		} {
			before := b.count()
			ids, n, err := a.tryPost([]verbs.Work{send(a.mem([]byte("good"))), bad, send(a.mem([]byte("behind")))})
			if n != 1 || !errors.Is(err, verbs.ErrBadWork) {
				w.Fatalf("%s: Post took %d of 3, error %v; want 1 and ErrBadWork", name, n, err)
			}
			a.conn.Flush()
			a.done(ids...)
			w.same(name+": the message before", b.message(before).data, []byte("good"))
			a.do(send(a.mem([]byte("next"))))
			w.same(name+": the next message", b.message(before+1).data, []byte("next"))
		}
	}},
	{name: "Post copies the Works and their Segs", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		segs := []verbs.Seg{a.mem([]byte("one ")), a.mem([]byte("two"))}
		ws := []verbs.Work{{Op: verbs.OpSend, Segs: segs}}
		ids, _, err := a.tryPost(ws)
		if err != nil {
			w.Fatal(err)
		}
		segs[0], segs[1] = a.mem([]byte("three")), verbs.Seg{}
		ws[0] = verbs.Work{}
		a.conn.Flush()
		a.done(ids...)
		w.same("message", b.message(1).data, []byte("one two"))
	}},
	{name: "a local completion does not wait for the peer to send", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		win := b.expose(w.alloc(b.dom, 8), 0, 8, verbs.RemoteWrite)
		own := a.expose(w.alloc(a.dom, 8), 0, 8, verbs.RemoteWrite)
		for range 50 {
			a.do(write(win, 0, a.mem([]byte("x"))))
			a.do(send(a.mem([]byte("y"))))
		}
		a.do(invalidate(own))
	}},
	{name: "an Invalidate waits for no peer that does not read", needs: needs("a device may carry it out behind earlier works", func(c verbs.Caps) bool { return c.Detach }), run: func(w *world) {
		const n = 4 << 20
		for _, behind := range []string{"Writes", "Reads"} {
			a, b := w.connect(link{a: verbs.Options{Reads: 1}})
			w.meet(a, b)
			if behind == "Reads" && a.conn.Caps().MaxReads == 0 {
				continue
			}
			entered, leave := make(chan struct{}), make(chan struct{})
			var enter, release sync.Once
			b.mu.Lock()
			b.hook = func([]verbs.Completion) {
				enter.Do(func() { close(entered) })
				<-leave
			}
			b.mu.Unlock()
			let := func() { release.Do(func() { close(leave) }) }
			w.Cleanup(let)
			a.post(send(a.mem([]byte("stop reading"))))
			flushed := make(chan struct{})
			go func() { // it may call the peer's Handler, where both ends are in one process
				defer close(flushed)
				a.conn.Flush()
			}()
			among(w, "Complete", entered)
			win := b.expose(w.alloc(b.dom, n), 0, n, verbs.RemoteRead|verbs.RemoteWrite)
			mem, own := verbs.Seg{R: w.alloc(a.dom, n), N: n}, w.alloc(a.dom, 8)
			op := write
			if behind == "Reads" {
				op = read
			}
			var all []uint64
			for range 3 { // posted with what blocks, then while that is blocked
				all = append(all, a.post(op(win, 0, mem), op(win, 0, mem))...)
				fence := a.post(invalidate(a.expose(own, 0, 8, verbs.RemoteRead)))
				all = append(all, fence...)
				a.conn.Flush()
				a.done(fence...)
			}
			let()
			a.done(all...)
			among(w, "Flush", flushed)
		}
	}},
	{name: "a chain may run in Complete alone: posting and flushing from within it", run: func(w *world) {
		const rounds = 500
		a, b := w.connect(link{})
		w.meet(a, b)
		over := make(chan struct{})
		bounce := func(e *end) {
			msg := e.mem([]byte("ball"))
			n := 0
			e.mu.Lock()
			defer e.mu.Unlock()
			e.hook = func(cs []verbs.Completion) {
				for i := range cs {
					if cs[i].Op != verbs.OpRecv || cs[i].Status != verbs.OK {
						continue
					}
					if n++; n == rounds {
						close(over)
					} else if n < rounds {
						e.tryPost([]verbs.Work{send(msg)})
					}
				}
				e.conn.Flush()
			}
		}
		bounce(a)
		bounce(b)
		a.do(send(a.mem([]byte("ball"))))
		among(w, "500 bounces", over)
	}},
	{name: "Expose, PostRecv and Invalidate work from within Complete", run: func(w *world) {
		a, b := w.connect(link{posted: true})
		w.meet(a, b)
		r := w.alloc(a.dom, 64)
		errs := make(chan error, 100)
		a.mu.Lock()
		a.hook = func(cs []verbs.Completion) {
			for i := range cs {
				if cs[i].Op != verbs.OpRecv || cs[i].Status != verbs.OK {
					continue
				}
				win := new(verbs.Window)
				err := a.exposeAs(win, r, 0, 64, verbs.RemoteWrite)
				if err == nil {
					_, _, err = a.tryPost([]verbs.Work{invalidate(win), send(a.mem([]byte("back")))})
				}
				errs <- err
			}
			a.conn.Flush()
		}
		a.mu.Unlock()
		for i := range 100 {
			b.do(send(b.mem([]byte("go"))))
			if err := among(w, "the answer", errs); err != nil {
				w.Fatal(err)
			}
			b.message(1 + i)
		}
	}},
	{name: "nothing completes from within Post, PostRecv, Expose or Detach, and Complete is serial", run: func(w *world) {
		a, b := w.connect(link{posted: true})
		w.meet(a, b)
		r, far := w.alloc(a.dom, 4096), w.alloc(b.dom, 4096)
		win := b.expose(far, 0, 4096, verbs.RemoteRead|verbs.RemoteWrite)
		var wg sync.WaitGroup
		for i := range 8 {
			src, own := a.mem(pattern(i, 64)), new(verbs.Window)
			wg.Go(func() {
				for range 100 {
					if a.exposeAs(own, r, 0, 4096, verbs.RemoteRead|verbs.RemoteWrite) != nil {
						w.Errorf("Expose failed")
						return
					}
					if a.conn.Caps().Detach {
						a.detach(own, make([]byte, 4096))
					}
					ids, n, err := a.tryPost([]verbs.Work{write(win, 0, src), invalidate(own)})
					if n != 2 || err != nil {
						w.Errorf("Post took %d, error %v", n, err)
						return
					}
					a.conn.Flush()
					a.wait("the Invalidate", func() bool { return a.works[ids[1]].done > 0 })
				}
			})
		}
		wg.Wait()
		w.ping(a, b)
	}},
}
