package providertest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

var memoryChecks = []check{
	{name: "Write places its segments at the offset, and touches nothing else", run: func(w *world) {
		a, b := w.connect(link{})
		r := w.alloc(b.dom, 1<<16)
		want := bytes.Repeat([]byte{0xEE}, 1<<16)
		copy(r.Bytes(), want)
		win := b.expose(r, 100, 1<<15, verbs.RemoteWrite)
		for i, c := range []struct{ off, n int }{{0, 1}, {1, 7}, {4000, 9000}, {1<<15 - 1, 1}, {1<<15 - 77, 77}, {0, 1 << 15}} {
			data := pattern(i, c.n)
			segs := []verbs.Seg{a.mem(data)}
			if c.n > 10 {
				segs = split(segs[0], 1, 0, c.n/3, 5)
			}
			a.do(write(win, c.off, segs...), send())
			b.message(i)
			copy(want[100+c.off:], data)
			w.same(fmt.Sprintf("after a Write of %d bytes at %d", c.n, c.off), r.Bytes(), want)
		}
	}},
	{name: "Read fills its segments from the offset, and touches nothing else", needs: needsReads, run: func(w *world) {
		a, b := w.connect(link{})
		r := w.alloc(b.dom, 1<<16)
		copy(r.Bytes(), pattern(7, 1<<16))
		win := b.expose(r, 100, 1<<15, verbs.RemoteRead)
		for i, c := range []struct{ off, n int }{{0, 1}, {1, 7}, {4000, 9000}, {1<<15 - 1, 1}, {1<<15 - 77, 77}, {0, 1 << 15}} {
			sink := a.mem(make([]byte, c.n+2))
			sink.Bytes()[0], sink.Bytes()[c.n+1] = 0xEE, 0xEE
			in := sink
			in.Off, in.N = in.Off+1, c.n
			segs := []verbs.Seg{in}
			if c.n > 10 {
				segs = split(in, 1, 0, c.n/3, 5)
			}
			a.do(read(win, c.off, segs...))
			want := append([]byte{0xEE}, r.Bytes()[100+c.off:100+c.off+c.n]...)
			w.same(fmt.Sprintf("Read %d of %d bytes at %d", i, c.n, c.off), sink.Bytes(), append(want, 0xEE))
		}
		w.same("what was read from", r.Bytes(), pattern(7, 1<<16))
	}},
	{name: "a Write or Read of no bytes completes and moves nothing", needs: needsReads, run: func(w *world) {
		a, b := w.connect(link{})
		r := w.alloc(b.dom, 64)
		win := b.expose(r, 0, 64, verbs.RemoteRead|verbs.RemoteWrite)
		empty := a.mem(nil)
		a.do(write(win, 0), write(win, 64, empty), read(win, 0), read(win, 64, empty), write(win, 10, empty, empty), send())
		b.message(0)
		w.same("the window", r.Bytes(), make([]byte, 64))
		w.ping(a, b)
	}},
	{name: "Writes before a Send are placed before that Send completes", run: func(w *world) {
		const n, rounds = 64 * 65536, 30
		a, b := w.connect(link{prepare: func(_, b *end) {}})
		r := w.alloc(b.dom, n)
		win := b.expose(r, 0, n, verbs.RemoteWrite)
		late := make(chan int, rounds)
		b.mu.Lock()
		b.hook = func(cs []verbs.Completion) {
			for i := range cs {
				if cs[i].Op != verbs.OpRecv || cs[i].Status != verbs.OK {
					continue
				}
				round, mem := int(b.lastMessage().data[0]), r.Bytes()
				for at := n - 1; at >= 0; at -= 4093 { // the end is placed last
					if mem[at] != byte(round) {
						late <- at
						return
					}
				}
				late <- -1
			}
		}
		b.mu.Unlock()
		for round := 1; round <= rounds; round++ {
			src := a.mem(bytes.Repeat([]byte{byte(round)}, 65536))
			var ws []verbs.Work
			for off := 0; off < n; off += src.N {
				ws = append(ws, write(win, off, src))
			}
			ids := a.feed(append(ws, send(a.mem([]byte{byte(round)}))))
			if at := among(w, "the Send", late); at >= 0 {
				w.Fatalf("round %d: byte %d was not placed when the Send completed", round, at)
			}
			a.done(ids...)
		}
	}},
	{name: "large transfers arrive bit by bit", needs: needsReads, run: func(w *world) {
		const n = 9<<20 + 12345
		a, b := w.connect(link{})
		r := w.alloc(b.dom, n)
		win := b.expose(r, 0, n, verbs.RemoteRead|verbs.RemoteWrite)
		src, sink := a.mem(pattern(3, n)), a.mem(make([]byte, n))
		a.do(write(win, 0, src), send())
		b.message(0)
		w.same("written", r.Bytes(), src.Bytes())
		a.do(read(win, 0, sink))
		w.same("read", sink.Bytes(), src.Bytes())
	}},
	{name: "registered memory of the Go heap serves as source, sink and window", needs: needsReads, run: func(w *world) {
		const n = 300000
		a, b := w.connect(link{})
		reg := func(e *end, mem []byte) verbs.Region {
			r, err := e.dom.Register(mem)
			if err != nil {
				w.Fatal(err)
			}
			return r
		}
		src, sink, far := reg(a, pattern(5, n)), reg(a, make([]byte, n)), reg(b, make([]byte, n))
		win := b.expose(far, 0, n, verbs.RemoteRead|verbs.RemoteWrite)
		a.do(write(win, 0, verbs.Seg{R: src, N: n}))
		a.do(read(win, 0, verbs.Seg{R: sink, N: n}))
		w.same("there and back", sink.Bytes(), pattern(5, n))
		b.do(invalidate(win))
		src.Release()
		sink.Release()
		far.Release()
	}},
	{name: "Reads beyond MaxReads complete, and so does what they stall", needs: needsReads, run: func(w *world) {
		a, b := w.connect(link{a: verbs.Options{Reads: 2, Reading: 2}, b: verbs.Options{Reads: 2, Reading: 2}})
		const n = 20000
		r := w.alloc(b.dom, n)
		copy(r.Bytes(), pattern(2, n))
		win := b.expose(r, 0, n, verbs.RemoteRead)
		count := 4 * a.conn.Caps().MaxReads
		var ws []verbs.Work
		var sinks []verbs.Seg
		for range count {
			sinks = append(sinks, a.mem(make([]byte, n)))
			ws = append(ws, read(win, 0, sinks[len(sinks)-1]))
		}
		a.done(a.feed(append(ws, send(a.mem([]byte("behind")))))...)
		w.same("the message behind", b.message(0).data, []byte("behind"))
		for _, s := range sinks {
			w.same("a Read", s.Bytes(), r.Bytes())
		}
	}},
	{name: "MaxReads is what both sides agreed", needs: needsReads, run: func(w *world) {
		a, b := w.connect(link{a: verbs.Options{Reads: 8, Reading: 3}, b: verbs.Options{Reads: 5, Reading: 2}})
		if got := a.conn.Caps().MaxReads; got < 1 || got > 2 {
			w.Errorf("a wants 8, b serves 2: MaxReads is %d", got)
		}
		if got := b.conn.Caps().MaxReads; got < 1 || got > 3 {
			w.Errorf("b wants 5, a serves 3: MaxReads is %d", got)
		}
		a, _ = w.connect(link{})
		if a.conn.Caps().MaxReads < 1 {
			w.Errorf("by default MaxReads is %d", a.conn.Caps().MaxReads)
		}
	}},
	{name: "a key is never 0 and not used twice at once", run: func(w *world) {
		a, b := w.connect(link{})
		_ = b
		r := w.alloc(a.dom, 4096)
		keys, addrs := map[uint32]bool{}, map[uint64]bool{}
		for range 2000 {
			win := a.expose(r, 0, 4096, verbs.RemoteRead)
			if win.Key == 0 || keys[win.Key] || win.N != 4096 {
				w.Fatalf("window %+v: key 0, in use, or a wrong length", win)
			}
			keys[win.Key], addrs[win.Addr] = true, true
		}
		if a.conn.Caps().Keys == verbs.KeysRandom && len(addrs) < 1990 {
			w.Errorf("2000 exposures start at %d addresses only: they can be guessed", len(addrs))
		}
	}},
	{name: "a fenced window can be used again, with another key", run: func(w *world) {
		a, b := w.connect(link{})
		r := w.alloc(b.dom, 100)
		var win verbs.Window
		last := uint32(0)
		for i := range 300 {
			if err := b.exposeAs(&win, r, 0, 100, verbs.RemoteWrite); err != nil {
				w.Fatalf("Expose %d: %v", i, err)
			}
			if win.Key == last {
				w.Fatalf("the key %#x came twice running", last)
			}
			last = win.Key
			a.do(write(&win, 0, a.mem([]byte{byte(i)})), send())
			b.message(i)
			if r.Bytes()[0] != byte(i) {
				w.Fatalf("exposure %d: the Write was not placed", i)
			}
			b.do(invalidate(&win))
		}
	}},
	{name: "Expose outside the region or without rights is refused", run: func(w *world) {
		a, _ := w.connect(link{})
		r := w.alloc(a.dom, 100)
		for _, c := range []struct{ off, n int }{{-1, 10}, {0, 101}, {100, 1}, {50, -1}, {math.MaxInt, math.MaxInt}} {
			if err := a.exposeAs(new(verbs.Window), r, c.off, c.n, verbs.RemoteRead); err == nil {
				w.Errorf("Expose of %d bytes from %d of 100 succeeded", c.n, c.off)
			}
		}
		if err := a.exposeAs(new(verbs.Window), r, 0, 10, 0); err == nil {
			w.Errorf("Expose without rights succeeded")
		}
	}},
}

// lastMessage is the newest; for hooks.
func (e *end) lastMessage() message {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.msgs[len(e.msgs)-1]
}
