package soft

import (
	"errors"
	"sync"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

func newPool(t *testing.T, n, size int) *Pool {
	t.Helper()
	m := newMemory(t)
	p, err := m.NewRecvPool(n, size)
	if err != nil {
		t.Fatal(err)
	}
	if m.Pool(p) != p {
		t.Fatal("a domain does not know its own pool")
	}
	return m.Pool(p)
}

func draw(t *testing.T, p *Pool) ([]byte, uint32) {
	t.Helper()
	mem, id, ok := p.Draw()
	if !ok {
		t.Fatal("no buffer")
	}
	return mem, id
}

func TestPoolIsABound(t *testing.T) {
	p := newPool(t, 3, 100)
	used := map[*byte]bool{}
	for range 3 {
		mem, _ := draw(t, p)
		if len(mem) != 100 || cap(mem) != 100 {
			t.Fatalf("a buffer of %d bytes with room for %d", len(mem), cap(mem))
		}
		used[&mem[0]] = true
	}
	if len(used) != 3 {
		t.Errorf("%d buffers at once are %d", 3, len(used))
	}
	if _, _, ok := p.Draw(); ok {
		t.Error("a fourth of three")
	}
	p.Put(1)
	p.Put(0)
	if _, id := draw(t, p); id != 0 {
		t.Errorf("buffer %d came, 0 is warmest", id)
	}
}

func TestPoolMakesWhatIsDrawn(t *testing.T) {
	p := newPool(t, 1<<20, 1<<20) // a terabyte of promises
	draw(t, p)
	if len(p.bufs) != 1 || len(p.slab) != 0 {
		t.Errorf("one is out: %d buffers, %d bytes beside", len(p.bufs), len(p.slab))
	}
	p = newPool(t, 2, 1000)
	draw(t, p)
	if len(p.slab) != 1000 {
		t.Errorf("%d bytes are made for the other one of two", len(p.slab))
	}
	if n := testing.AllocsPerRun(100, func() {
		_, id, _ := p.Draw()
		p.Put(id)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPoolResize(t *testing.T) {
	p := newPool(t, 2, 100)
	small, id := draw(t, p)
	if err := p.Resize(200); err != nil || p.Size() != 200 {
		t.Fatalf("%v, %d bytes", err, p.Size())
	}
	if len(small) != 100 {
		t.Errorf("what is out has %d bytes now", len(small))
	}
	p.Put(id)
	for range 2 {
		if mem, _ := draw(t, p); len(mem) != 200 {
			t.Errorf("a buffer of %d bytes", len(mem))
		}
	}
	if err := p.Resize(0); err == nil || err.Error() != "testfabric: receives of 0 bytes" {
		t.Errorf("no bytes: %v", err)
	}
}

func TestPoolReserve(t *testing.T) {
	p := newPool(t, 10, 100)
	if err := p.Reserve(8); err != nil {
		t.Fatal(err)
	}
	const want = "testfabric: 3 receives asked for, 8 of 10 reserved: "
	err := p.Reserve(3)
	if !errors.Is(err, verbs.ErrNoReceives) || err.Error() != want+verbs.ErrNoReceives.Error() {
		t.Errorf("3 of 2: %v", err)
	}
	if err := p.Reserve(-1); err == nil {
		t.Error("fewer than none")
	}
	p.Unreserve(1)
	if err := p.Reserve(3); err != nil {
		t.Error(err)
	}
	wantPanic(t, "testfabric: Unreserve of 11 receives, 10 are reserved", func() { p.Unreserve(11) })
	wantPanic(t, "testfabric: Unreserve of -1 receives, 10 are reserved", func() { p.Unreserve(-1) })
}

func TestPoolPutOnce(t *testing.T) {
	p := newPool(t, 2, 100)
	_, id := draw(t, p)
	p.Put(id)
	wantPanic(t, "testfabric: Put of receive buffer 0, which is not out", func() { p.Put(id) })
	wantPanic(t, "testfabric: Put of receive buffer 1, which is not out", func() { p.Put(1) })
	wantPanic(t, "testfabric: Put of receive buffer 4294967295, which is not out", func() { p.Put(1<<32 - 1) })
}

func TestPoolClose(t *testing.T) {
	p := newPool(t, 2, 100)
	_, a := draw(t, p)
	_, b := draw(t, p)
	p.Put(a)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := p.Draw(); ok {
		t.Error("a buffer after Close")
	}
	p.Put(b)
	if p.bufs[a].mem != nil || p.bufs[b].mem != nil || p.slab != nil {
		t.Error("a closed pool holds memory")
	}
}

func TestPoolsOfOthers(t *testing.T) {
	m, p := newMemory(t), newPool(t, 1, 1)
	if m.Pool(p) != nil || m.Pool((*Pool)(nil)) != nil || m.Pool(nil) != nil {
		t.Error("a domain takes what is not its own")
	}
	for _, c := range [][2]int{{0, 1}, {1, 0}, {-1, 1}, {1, -1}} {
		if p, err := m.NewRecvPool(c[0], c[1]); err == nil || p != nil {
			t.Errorf("%d of %d bytes: %v, %v", c[0], c[1], p, err)
		}
	}
}

// TestPoolAtOnce is for the race detector.
func TestPoolAtOnce(t *testing.T) {
	p := newPool(t, 8, 64)
	var all sync.WaitGroup
	for g := range byte(4) {
		all.Go(func() {
			for i := range 1000 {
				mem, id, ok := p.Draw()
				if !ok {
					t.Error("no buffer")
					return
				}
				mem[0] = g
				if i == 500 && g == 0 {
					p.Resize(128)
				}
				if mem[0] != g {
					t.Error("a buffer in two hands")
				}
				p.Put(id)
			}
		})
	}
	all.Wait()
}
