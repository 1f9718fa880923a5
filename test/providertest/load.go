package providertest

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

var loadChecks = []check{
	{name: "64 Writes of 1 MiB posted by both ends at once arrive", run: func(w *world) { w.bothWays(64, 0) }},
	{name: "64 Reads of 1 MiB posted by both ends at once arrive", needs: needsReads, run: func(w *world) { w.bothWays(0, 64) }},
	{name: "64 Writes and 64 Reads of 1 MiB posted by both ends at once arrive", needs: needsReads, run: func(w *world) { w.bothWays(64, 64) }},
	{name: "many goroutines may post and flush at once; each keeps its order", run: func(w *world) {
		const posters, each = 16, 100
		a, b := w.connect(link{recvs: 4 * posters})
		w.meet(a, b)
		var wg sync.WaitGroup
		for p := range posters {
			wg.Go(func() {
				for i := range each {
					m := binary.BigEndian.AppendUint32(nil, uint32(p))
					m = binary.BigEndian.AppendUint32(m, uint32(i))
					ids, n, err := a.tryPost([]verbs.Work{send(a.mem(m))})
					if n != 1 || err != nil {
						w.Errorf("Post took %d, error %v", n, err)
						return
					}
					a.conn.Flush()
					a.waitQuietly(ids)
					// The peer has 64 receives: never more than four of ours on the way.
					if i%4 == 3 {
						b.waitCount(w, p, i)
					}
				}
			})
		}
		w.hang("16 posters", wg.Wait)
		b.message(posters * each)
		next := make([]uint32, posters)
		for k := range posters * each {
			m := b.message(1 + k).data
			p, i := binary.BigEndian.Uint32(m), binary.BigEndian.Uint32(m[4:])
			if i != next[p] {
				w.Fatalf("poster %d: message %d where %d was due", p, i, next[p])
			}
			next[p]++
		}
	}},
	{name: "a batch stays together: none of another's comes between a Write and its Send", run: func(w *world) {
		const posters, each = 8, 50
		a, b := w.connect(link{recvs: posters * each})
		w.meet(a, b)
		r := w.alloc(b.dom, 4096)
		win := b.expose(r, 0, 4096, verbs.RemoteWrite)
		wrong := make(chan string, 1)
		seen := 0
		b.mu.Lock()
		b.hook = func(cs []verbs.Completion) {
			// Only the last of a batch can be judged: later Writes may have come meanwhile, but
			// every slot holds at least what was written before its own Send.
			b.mu.Lock()
			msgs := b.msgs[seen:]
			seen = len(b.msgs)
			b.mu.Unlock()
			for _, m := range msgs {
				if len(m.data) != 8 {
					continue
				}
				p, i := binary.BigEndian.Uint32(m.data), binary.BigEndian.Uint32(m.data[4:])
				if got := binary.BigEndian.Uint32(r.Bytes()[4*p:]); got < i {
					select {
					case wrong <- fmt.Sprintf("poster %d: Send %d came before its Write (slot holds %d)", p, i, got):
					default:
					}
				}
			}
		}
		b.mu.Unlock()
		var wg sync.WaitGroup
		for p := range posters {
			wg.Go(func() {
				for i := range each {
					v := binary.BigEndian.AppendUint32(nil, uint32(i))
					m := append(binary.BigEndian.AppendUint32(nil, uint32(p)), v...)
					ids, _, err := a.tryPost([]verbs.Work{write(win, 4*p, a.mem(v)), send(a.mem(m))})
					if err != nil {
						w.Errorf("Post: %v", err)
						return
					}
					a.conn.Flush()
					a.waitQuietly(ids)
				}
			})
		}
		w.hang("8 posters", wg.Wait)
		b.message(posters * each)
		select {
		case s := <-wrong:
			w.Error(s)
		default:
		}
	}},
	{name: "windows come and go on many goroutines while the peer uses them", run: func(w *world) {
		a, b := w.connect(link{recvs: 512})
		w.meet(a, b)
		var wg sync.WaitGroup
		for p := range 8 {
			r := w.alloc(b.dom, 4096)
			wg.Go(func() {
				for i := range 60 {
					win := new(verbs.Window)
					if err := b.exposeAs(win, r, 0, 4096, verbs.RemoteWrite|verbs.RemoteRead); err != nil {
						w.Errorf("Expose: %v", err)
						return
					}
					data := pattern(p*1000+i, 4096)
					ids, _, err := a.tryPost([]verbs.Work{write(win, 0, a.mem(data)), send()})
					if err != nil {
						w.Errorf("Post: %v", err)
						return
					}
					a.conn.Flush()
					a.waitQuietly(ids)
					if a.conn.Caps().MaxReads > 0 {
						sink := a.mem(make([]byte, 4096))
						ids, _, _ = a.tryPost([]verbs.Work{read(win, 0, sink)})
						a.conn.Flush()
						a.waitQuietly(ids)
						if string(sink.Bytes()) != string(data) {
							w.Errorf("poster %d, round %d: what was read is not what was written", p, i)
							return
						}
					}
					ids, _, _ = b.tryPost([]verbs.Work{invalidate(win)})
					b.conn.Flush()
					b.waitQuietly(ids)
				}
			})
		}
		w.hang("8 goroutines", wg.Wait)
		b.message(8 * 60)
		w.ping(a, b)
	}},
	{name: "Stats count what was done", run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		r := w.alloc(b.dom, 100000)
		win := b.expose(r, 0, 100000, verbs.RemoteRead|verbs.RemoteWrite)
		var a0, b0, a1, b1 verbs.Stats
		a.conn.Stats(&a0)
		b.conn.Stats(&b0)
		a.do(write(win, 0, a.mem(pattern(1, 100000))))
		for range 5 {
			a.do(send(a.mem(pattern(1, 1000))))
		}
		reads := 0
		if a.conn.Caps().MaxReads > 0 {
			reads = 2
			for range reads {
				a.do(read(win, 0, a.mem(make([]byte, 50000))))
			}
		}
		b.message(5)
		a.conn.Stats(&a1)
		b.conn.Stats(&b1)
		if n := a1.Sends - a0.Sends; n != 5 {
			w.Errorf("Sends grew by %d, want 5", n)
		}
		if n := a1.Writes - a0.Writes; n != 1 {
			w.Errorf("Writes grew by %d, want 1", n)
		}
		if n := a1.Reads - a0.Reads; n != uint64(reads) {
			w.Errorf("Reads grew by %d, want %d", n, reads)
		}
		if n := b1.Recvs - b0.Recvs; n != 5 {
			w.Errorf("the peer's Recvs grew by %d, want 5", n)
		}
		if n := a1.SentBytes - a0.SentBytes; n < 105000 || n > 300000 {
			w.Errorf("SentBytes grew by %d for 105000 bytes", n)
		}
		if n := b1.RecvBytes - b0.RecvBytes; n < 105000 || n > 300000 {
			w.Errorf("the peer's RecvBytes grew by %d for 105000 bytes", n)
		}
		if n := a1.RecvBytes - a0.RecvBytes; n < uint64(reads)*50000 {
			w.Errorf("RecvBytes grew by %d for %d bytes read", n, reads*50000)
		}
		if a1.SentFrames <= a0.SentFrames || b1.RecvFrames <= b0.RecvFrames {
			w.Errorf("frames: %+v, then %+v", a0, a1)
		}
	}},
}

// waitCount waits until e has poster p's message i; for goroutines.
func (e *end) waitCount(w *world, p, i int) {
	for w.ctx.Err() == nil {
		e.mu.Lock()
		have, changed, gone := false, e.changed, e.gone
		for k := len(e.msgs) - 1; k >= 0 && !have; k-- {
			m := e.msgs[k].data
			have = len(m) == 8 && int(binary.BigEndian.Uint32(m)) == p && int(binary.BigEndian.Uint32(m[4:])) >= i
		}
		e.mu.Unlock()
		if have || gone {
			return
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
		}
	}
}

// bothWays posts writes and reads of 1 MiB at both ends at once, as many as the queues take. Two peers that
// both wait for room before they read would wait for ever.
func (w *world) bothWays(writes, reads int) {
	const n = 1 << 20
	a, b := w.connect(link{options: w.o.SmallBuffers})
	w.meet(a, b)
	type half struct {
		e            *end
		target, sink verbs.Region
		want         []byte
		works        []verbs.Work
		ids          []uint64
		posted       chan struct{}
	}
	var halves []*half
	for i, d := range [][2]*end{{a, b}, {b, a}} {
		by, at := d[0], d[1]
		h := &half{e: by, target: w.alloc(at.dom, n), sink: w.alloc(by.dom, n), want: pattern(10+i, n), posted: make(chan struct{})}
		from := w.alloc(at.dom, n)
		copy(from.Bytes(), h.want)
		to, src := at.expose(h.target, 0, n, verbs.RemoteWrite), at.expose(from, 0, n, verbs.RemoteRead)
		data := by.mem(h.want)
		for k := range max(writes, reads) {
			if k < writes {
				h.works = append(h.works, write(to, 0, data))
			}
			if k < reads {
				h.works = append(h.works, read(src, 0, verbs.Seg{R: h.sink, N: n}))
			}
		}
		h.works = append(h.works, send(by.mem([]byte("over"))))
		halves = append(halves, h)
	}
	for _, h := range halves {
		go func() {
			defer close(h.posted)
			h.ids = h.e.feed(h.works)
		}()
	}
	for i, h := range halves {
		among(w, "Post and Flush", h.posted)
		h.e.done(h.ids...)
		peer := halves[1-i].e
		w.same("the message behind", peer.message(1).data, []byte("over"))
		if writes > 0 {
			w.same("what was written", h.target.Bytes(), h.want)
		}
		if reads > 0 {
			w.same("what was read", h.sink.Bytes(), h.want)
		}
	}
}
