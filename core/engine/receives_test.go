package engine

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// fakePool counts.
type fakePool struct {
	verbs.RecvPool
	reserved, size int
}

func (p *fakePool) Reserve(n int) error { p.reserved += n; return nil }
func (p *fakePool) Unreserve(n int)     { p.reserved -= n }
func (p *fakePool) Resize(n int) error  { p.size = n; return nil }

func TestSharedReceives(t *testing.T) {
	pool := &fakePool{size: 4096}
	s := sharedReceives{pool: pool, base: 4096, size: 4096, most: 1 << 18, budget: 1 << 20}
	for i, step := range []struct {
		do   func() error
		fail string
		size int
	}{
		{func() error { return s.reserve(8) }, "", 4096},
		{func() error { return s.grow(0, 4096) }, "", 4096},
		{func() error { return s.grow(0, 8192) }, "", 8192},
		{func() error { return s.grow(0, 16384) }, "", 16384},
		{func() error { return s.grow(16384, 65536) }, "", 65536},
		{func() error { return s.grow(0, 65537) }, "more than half", 65536},
		{func() error { return s.reserve(8) }, "", 65536},
		{func() error { return s.reserve(1) }, "16 of the endpoint's 16 are reserved", 65536},
		{func() error { s.shrink(65536); return nil }, "", 8192},
		{func() error { return s.reserve(112) }, "", 8192},
		{func() error { return s.grow(0, 8193) }, "more than half", 8192},
		{func() error { return s.grow(0, 8192) }, "", 8192},
		{func() error { s.shrink(8192); return nil }, "", 8192},
		{func() error { s.shrink(8192); return nil }, "", 4096},
		{func() error { s.shrink(0); return nil }, "", 4096},
		{func() error { return s.reserve(1000) }, "", 4096}, // as the configuration says
	} {
		err := step.do()
		if (err == nil) != (step.fail == "") || err != nil && !strings.Contains(err.Error(), step.fail) {
			t.Errorf("step %d: %v", i, err)
		}
		if pool.size != step.size || s.size != step.size || pool.reserved != s.reserved {
			t.Errorf("step %d: %d bytes, %d reserved; %+v", i, pool.size, pool.reserved, &s)
		}
	}
}

// postings is a provider's side of own receives: what is posted, in order.
type postings struct {
	verbs.Conn
	posted []verbs.Recv
	room   int
}

func (p *postings) PostRecv(rs []verbs.Recv) (int, error) {
	n := min(len(rs), p.room-len(p.posted))
	p.posted = append(p.posted, rs[:n]...)
	return n, nil
}

// TestOwnReceives: whatever is asked for and however long messages are held, as many receives are posted or held as are
// wanted, a raise ends when the last shorter one is consumed and not before, no two lie in the same memory, and
// all memory comes back.
func TestOwnReceives(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 2))
		e := endpoint(t, EndpointConfig{})
		dev := &postings{room: 1 << 20}
		in := &inbound{}
		o := &in.own
		o.size = 4096
		want, sizes := 10, new(sizes)
		sizes.init(4096)
		if err := o.add(e, dev, want); err != nil {
			t.Fatal(err)
		}
		var held []uint32
		pending, surplus := 0, 0
		done := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			pending = 0
		}
		for range 1000 {
			switch k := rng.IntN(20); {
			case k < 8 && len(dev.posted) > 0:
				id := uint32(dev.posted[0].ID)
				dev.posted = dev.posted[1:]
				if r := o.took(id); r != nil {
					r.done(nil)
				}
				held = append(held, id)
			case k < 16 && len(held) > 0:
				i := rng.IntN(len(held))
				if surplus > 0 {
					surplus--
				}
				o.put(dev, held[i])
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
			case k == 16:
				n := rng.IntN(4)
				surplus -= min(surplus, n)
				if err := o.add(e, dev, n); err != nil {
					t.Fatal(err)
				}
				want += n
			case k == 17 && want > 4:
				o.giveUp(1)
				want--
				surplus++
			case k == 18:
				n := 4096 + rng.IntN(8)*4096
				old, now, err := o.grow(e, &raise{size: n, sizes: sizes, done: done})
				switch {
				case errors.Is(err, errReplacing):
					continue
				case err != nil:
					t.Fatal(err)
				case (old != nil) != (pending > 0):
					t.Fatalf("seed %d: %v replaced, %d pending", seed, old, pending)
				}
				if pending = n; now {
					pending = 0
				}
			case k == 19 && rng.IntN(4) == 0:
				if (o.cancel() != nil) != (pending > 0) {
					t.Fatalf("seed %d: %d pending", seed, pending)
				}
				pending = 0
			}
			if n := len(dev.posted) + len(held); n != want+surplus {
				t.Fatalf("seed %d: %d posted and %d held, want %d and %d to be given up", seed, len(dev.posted), len(held), want, surplus)
			}
			short := false
			type place struct {
				r   verbs.Region
				off int
			}
			seen := map[place]bool{}
			for _, r := range dev.posted {
				short = short || r.Seg.N < pending
				if in := int(sizes.recv.Load()); r.Seg.N < in {
					t.Fatalf("seed %d: %d bytes are in force, and a receive of %d posted", seed, in, r.Seg.N)
				}
				if at := (place{r.Seg.R, r.Seg.Off}); seen[at] || r.Seg.Off+r.Seg.N > len(r.Seg.R.Bytes()) {
					t.Fatalf("seed %d: two receives in one place, or one outside", seed)
				} else {
					seen[at] = true
				}
			}
			if short != (pending > 0) {
				t.Fatalf("seed %d: raise to %d pending, shorter ones posted: %v", seed, pending, short)
			}
		}
		in.close()
		in.close()
		o.put(dev, 0)
		if err := o.add(e, dev, 1); err == nil {
			t.Error("receives after the end")
		}
		if n := e.MemoryInUse(); n != 0 {
			t.Fatalf("seed %d: %d bytes in use at the end", seed, n)
		}
	}
}

// TestOwnReceivesRefused: a device that takes no more receives gets none by pieces.
func TestOwnReceivesRefused(t *testing.T) {
	e := endpoint(t, EndpointConfig{})
	dev := &postings{room: 12}
	in := &inbound{}
	in.own.size = 4096
	if err := in.own.add(e, dev, 10); err != nil {
		t.Fatal(err)
	}
	if err := in.own.add(e, dev, 5); err == nil || !strings.Contains(err.Error(), "2 of 5") {
		t.Errorf("%v", err)
	}
	for range 30 {
		r := dev.posted[0]
		dev.posted = dev.posted[1:]
		in.own.took(uint32(r.ID))
		in.own.put(dev, uint32(r.ID))
	}
	if len(dev.posted) != 10 {
		t.Errorf("%d receives are posted", len(dev.posted))
	}
	if err := in.own.add(e, dev, 2); err != nil {
		t.Error(err)
	}
	in.close()
	if n := e.MemoryInUse(); n != 0 {
		t.Errorf("%d bytes in use at the end", n)
	}
}

func TestExtraReceives(t *testing.T) {
	for _, transport := range transports {
		t.Run(transport, func(t *testing.T) {
			p := couple(t, transport, Config{}, Config{})
			c := p.server
			before := c.reserved
			ask := func(of int, n ext.ExtraReceives) {
				t.Helper()
				if err := <-change(c, of, n); err != nil {
					t.Fatalf("%v: %v", n, err)
				}
			}
			ask(0, 100)
			ask(1, 50)
			ask(0, 20)
			if n := c.reserved - before; n != 70 {
				t.Errorf("%d receives more", n)
			}
			for range 300 {
				p.call(t, 10)
			}
			if transport == "own" {
				return
			}
			if n := p.serverEP.shared.reserved; n != c.reserved {
				t.Errorf("%d reserved in all", n)
			}
			if err := p.serverEP.shared.reserve(1<<17 - c.reserved - 10); err != nil {
				t.Fatal(err)
			}
			err := <-change(c, 2, ext.ExtraReceives(11))
			if err == nil || !strings.Contains(err.Error(), "more Receives") {
				t.Errorf("beyond the pool: %v", err)
			}
			ask(2, 10)
			p.serverEP.shared.unreserve(1<<17 - before - 70 - 10)
			p.client.Close()
			<-c.Done()
			if n := p.serverEP.shared.reserved; n != 0 {
				t.Errorf("%d reserved at the end", n)
			}
		})
	}
}
