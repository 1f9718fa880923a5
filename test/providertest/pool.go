package providertest

import (
	"errors"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// pool makes one, or skips the check.
func (w *world) pool(d verbs.Domain, n, size int) verbs.RecvPool {
	w.Helper()
	p, err := d.NewRecvPool(n, size)
	if errors.Is(err, errors.ErrUnsupported) {
		w.Skipf("the provider has no receive pools: %v", err)
	}
	if err != nil {
		w.Fatalf("NewRecvPool(%d, %d): %v", n, size, err)
	}
	return p
}

// pooled connects with a pool of n buffers at b, whose messages are held.
func (w *world) pooled(n, size int) (a, b *end) {
	w.Helper()
	d := w.open()
	return w.connect(link{domB: d, poolB: w.pool(d, n, size), prepare: func(_, b *end) { b.hold = true }})
}

var poolChecks = []check{
	{name: "Reserve promises no more than the pool has, in sum", run: func(w *world) {
		p := w.pool(w.open(), 10, 512)
		for _, s := range []struct {
			n  int
			ok bool
		}{{4, true}, {6, true}, {1, false}, {0, true}} {
			if err := p.Reserve(s.n); (err == nil) != s.ok || !s.ok && !errors.Is(err, verbs.ErrNoReceives) {
				w.Errorf("Reserve(%d): %v", s.n, err)
			}
		}
		p.Unreserve(3)
		if err := p.Reserve(4); !errors.Is(err, verbs.ErrNoReceives) {
			w.Errorf("Reserve(4) of 3: %v, want ErrNoReceives", err)
		}
		if err := p.Reserve(3); err != nil {
			w.Errorf("Reserve(3) of 3: %v", err)
		}
		if p.Size() != 512 {
			w.Errorf("Size is %d", p.Size())
		}
		if err := p.Close(); err != nil {
			w.Errorf("Close: %v", err)
		}
	}},
	{name: "Put gives the buffer back: a small pool carries any number of messages", run: func(w *world) {
		a, b := w.pooled(4, 512)
		for i := range 200 {
			a.do(send(a.mem(pattern(i, 200))))
			m := b.message(i)
			w.same("message", m.data, pattern(i, 200))
			b.pool.Put(m.buf)
		}
	}},
	{name: "buffers that are out have different BufIDs and different memory", run: func(w *world) {
		a, b := w.pooled(8, 512)
		seen := map[uint32]bool{}
		for i := range 8 {
			a.do(send(a.mem(pattern(i, 512))))
			m := b.message(i)
			if seen[m.buf] {
				w.Fatalf("BufID %d is out twice", m.buf)
			}
			seen[m.buf] = true
		}
		for i := range 8 {
			w.same(fmt.Sprintf("message %d, later", i), b.message(i).live, pattern(i, 512))
			b.pool.Put(b.message(i).buf)
		}
	}},
	{name: "a message for which the pool has no buffer ends the connection", run: func(w *world) {
		a, b := w.pooled(4, 512)
		for i := range 4 {
			a.do(send(a.mem(pattern(i, 10))))
		}
		b.message(3)
		a.post(send(a.mem([]byte("one too many"))))
		a.conn.Flush()
		w.endsWith(a, b, verbs.ErrNoReceive)
	}},
	{name: "a message longer than the pool's receives ends the connection", run: func(w *world) {
		a, b := w.pooled(4, 512)
		a.do(send(a.mem(pattern(1, 512))))
		b.message(0)
		a.post(send(a.mem(pattern(1, 513))))
		a.conn.Flush()
		w.endsWith(a, b, verbs.ErrTooLong)
	}},
	{name: "connections share a pool, and one's end leaves it whole for the others", run: func(w *world) {
		domA, domB := w.open(), w.open()
		l, p := w.listen(domB), w.pool(domB, 8, 512)
		held := func(_, b *end) { b.hold = true }
		a, b := w.connect(link{domA: domA, domB: domB, listener: l, poolB: p, prepare: held})
		c, d := w.connect(link{domA: domA, domB: domB, listener: l, poolB: p, prepare: held})
		for i := range 4 {
			a.do(send(a.mem(pattern(i, 100))))
			c.do(send(c.mem(pattern(10+i, 100))))
		}
		b.message(3)
		d.message(3)
		a.conn.Abort(errTest)
		b.disconnected()
		for i := range 4 { // buffers outlive their connection
			w.same("message of the ended connection", b.message(i).live, pattern(i, 100))
			p.Put(b.message(i).buf)
		}
		for i := range 4 {
			w.same("message of the other", d.message(i).live, pattern(10+i, 100))
			c.do(send(c.mem(pattern(20+i, 100))))
			w.same("in a buffer that came back", d.message(4+i).data, pattern(20+i, 100))
		}
		for i := range 8 {
			p.Put(d.message(i).buf)
		}
	}},
	{name: "PostRecv is not for a connection with a pool", run: func(w *world) {
		a, b := w.pooled(4, 512)
		_ = a
		if n, err := b.conn.PostRecv([]verbs.Recv{{Seg: b.mem(make([]byte, 100))}}); n != 0 || err == nil {
			w.Errorf("PostRecv took %d, error %v", n, err)
		}
	}},
	{name: "Resize lets longer messages in", run: func(w *world) {
		a, b := w.pooled(4, 512)
		a.do(send(a.mem(pattern(1, 512))))
		b.pool.Put(b.message(0).buf)
		if err := b.pool.Resize(2048); errors.Is(err, errors.ErrUnsupported) {
			w.Skipf("Resize: %v", err)
		} else if err != nil {
			w.Fatalf("Resize: %v", err)
		}
		if b.pool.Size() != 2048 {
			w.Errorf("Size is %d", b.pool.Size())
		}
		for i := 1; i <= 6; i++ {
			a.do(send(a.mem(pattern(i, 2048))))
			w.same("message", b.message(i).data, pattern(i, 2048))
			b.pool.Put(b.message(i).buf)
		}
	}},
}
