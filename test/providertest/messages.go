package providertest

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

var messageChecks = []check{
	{name: "a message arrives whole, into posted receives", run: func(w *world) {
		a, b := w.connect(link{posted: true})
		w.sizes(a, b)
	}},
	{name: "a message arrives whole, into a pool", run: func(w *world) {
		a, b := w.connect(link{})
		w.sizes(a, b)
	}},
	{name: "Send gathers its segments, however many", run: func(w *world) {
		a, b := w.connect(link{})
		for i, n := range []int{1, 2, 3, 17, 100, 500} {
			var segs []verbs.Seg
			var want []byte
			for k := range n {
				part := pattern(i*1000+k, k%9) // empty ones too
				segs = append(segs, a.mem(part))
				want = append(want, part...)
			}
			a.do(send(segs...))
			w.same(fmt.Sprintf("message of %d segments", n), b.message(i).data, want)
		}
	}},
	{name: "an empty message is a message", run: func(w *world) {
		a, b := w.connect(link{})
		a.do(send())
		a.do(send(a.mem(nil)))
		a.do(send(a.mem([]byte("x"))))
		for i, want := range []string{"", "", "x"} {
			w.same("message", b.message(i).data, []byte(want))
		}
	}},
	{name: "Buf stays valid until Put", needs: needsPool, run: func(w *world) {
		a, b := w.connect(link{prepare: func(_, b *end) { b.hold = true }})
		for i := range 50 {
			a.do(send(a.mem(pattern(i, 500))))
		}
		b.message(49)
		for i := range 50 {
			w.same(fmt.Sprintf("held message %d", i), b.message(i).live, pattern(i, 500))
		}
		for i := range 50 {
			b.pool.Put(b.message(i).buf)
		}
	}},
	{name: "Buf stays valid until its receive is posted again", run: func(w *world) {
		a, b := w.connect(link{posted: true})
		w.meet(a, b)
		b.mu.Lock()
		b.hold = true
		b.mu.Unlock()
		for i := range 50 {
			a.do(send(a.mem(pattern(i, 500))))
		}
		b.message(50)
		for i := range 50 {
			w.same(fmt.Sprintf("held message %d", i), b.message(1+i).live, pattern(i, 500))
		}
	}},
	{name: "messages arrive in the order posted, both ways at once", run: func(w *world) {
		const count = 2000
		a, b := w.connect(link{})
		w.meet(a, b)
		flood := func(e *end) error {
			buf := make([]verbs.Work, 0, 7)
			for i := 0; i < count; {
				buf = buf[:0]
				for k := i; k < min(i+7, count); k++ {
					buf = append(buf, send(e.mem(binary.BigEndian.AppendUint32(nil, uint32(k)))))
				}
				// No more on the way than the peer has receives.
				peer := b
				if e == b {
					peer = a
				}
				peer.wait("receives to be free", func() bool { return len(peer.msgs) >= i-40 })
				for len(buf) > 0 {
					_, n, err := e.tryPost(buf)
					if err != nil {
						return err
					}
					e.conn.Flush()
					buf, i = buf[n:], i+n
				}
			}
			return nil
		}
		errs := make(chan error, 2)
		for _, e := range []*end{a, b} {
			go func() { errs <- flood(e) }()
		}
		for range 2 {
			if err := among(w, "2000 messages each way", errs); err != nil {
				w.Fatal(err)
			}
		}
		for _, e := range []*end{a, b} {
			e.message(count)
			for i := range count {
				if got := binary.BigEndian.Uint32(e.message(1 + i).data); int(got) != i {
					w.Fatalf("%s: message %d carries %d", e.name, i, got)
				}
			}
		}
	}},
	{name: "SendInvalidate names the key to its receiver and fences the window", needs: needsInvalidate, run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		r := w.alloc(a.dom, 100)
		win, other := a.expose(r, 0, 100, verbs.RemoteWrite), a.expose(r, 0, 100, verbs.RemoteWrite)
		b.do(write(win, 0, b.mem([]byte("before"))), sendInvalidate(win.Key, b.mem([]byte("done"))))
		m := a.message(1)
		w.same("message", m.data, []byte("done"))
		if m.invalidated != win.Key {
			w.Fatalf("Invalidated is %#x, want %#x", m.invalidated, win.Key)
		}
		w.same("written before", r.Bytes()[:6], []byte("before"))
		b.do(write(other, 0, b.mem([]byte("others"))), send(b.mem(nil)))
		if m := a.message(2); m.invalidated != 0 {
			w.Errorf("a plain Send reports Invalidated %#x", m.invalidated)
		}
		w.same("the other window", r.Bytes()[:6], []byte("others"))

		b.post(write(win, 0, b.mem([]byte("after!"))))
		b.conn.Flush()
		w.refusedAccess(b, a)
		w.same("after the fence", r.Bytes()[:6], []byte("others"))
	}},
	{name: "SendInvalidate of a key that is not in force ends the connection", needs: needsInvalidate, run: func(w *world) {
		a, b := w.connect(link{})
		w.meet(a, b)
		win := a.expose(w.alloc(a.dom, 100), 0, 100, verbs.RemoteWrite)
		b.post(sendInvalidate(win.Key^0x5a, b.mem([]byte("x"))))
		b.conn.Flush()
		w.refusedAccess(b, a)
		for i := range a.count() {
			if a.message(i).invalidated != 0 {
				w.Errorf("a receive reports the invalidation of %#x", a.message(i).invalidated)
			}
		}
	}},
	{name: "a message without a receive ends the connection", run: func(w *world) {
		a, b := w.connect(link{posted: true, recvs: 2, prepare: func(_, b *end) { b.hold = true }, b: verbs.Options{Ready: func(c verbs.Conn) error { return nil }}})
		a.post(send(a.mem([]byte("one"))))
		a.conn.Flush()
		w.endsWith(a, b, verbs.ErrNoReceive)
	}},
	{name: "a message longer than its posted receive ends the connection", run: func(w *world) {
		a, b := w.connect(link{posted: true, size: 100})
		a.do(send(a.mem(pattern(1, 100))))
		b.message(0)
		a.post(send(a.mem(pattern(1, 101))))
		a.conn.Flush()
		w.endsWith(a, b, verbs.ErrTooLong)
		if b.count() != 1 {
			w.Errorf("the message was received")
		}
	}},
}

var needsPool = func(c verbs.Caps, o *Options) string { return "" } // refined at run time: NewRecvPool tells

var needsInvalidate = needs("no remote invalidation", func(c verbs.Caps) bool { return c.SendInvalidate && c.RemoteInvalidate })

// sizes sends messages of many lengths.
func (w *world) sizes(a, b *end) {
	w.Helper()
	for i, n := range []int{1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 1023, 1024, 1399, 1400, 1460, 4092, 4095, 4096} {
		a.do(send(a.mem(pattern(i, n))))
		w.same(fmt.Sprintf("message of %d bytes", n), b.message(i).data, pattern(i, n))
	}
}

// endsWith waits for the end of both ends; one of them at least says why.
func (w *world) endsWith(a, b *end, want error) {
	w.Helper()
	ca, cb := a.disconnected(), b.disconnected()
	if !errors.Is(ca, want) && !errors.Is(cb, want) {
		w.Errorf("the ends report %v and %v; want %v of one", ca, cb, want)
	}
	if ca == nil || cb == nil {
		w.Errorf("the ends report %v and %v; want an error of both", ca, cb)
	}
}

// refusedAccess waits for the end of a connection on which by reached for memory of at that it may not.
func (w *world) refusedAccess(by, at *end) {
	w.Helper()
	for _, e := range []*end{by, at} {
		if err := e.disconnected(); !errors.Is(err, verbs.ErrRemoteAccess) {
			w.Errorf("%s: Disconnected(%v), want ErrRemoteAccess", e.name, err)
		}
	}
}
