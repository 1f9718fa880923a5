package engine

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func panics(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s does not panic", what)
		}
	}()
	f()
}

func TestCredits(t *testing.T) { // RFC 8166 §3.3.1
	c := newCredits(8)
	if !c.free() {
		t.Fatal("§3.3.3: the first call waits")
	}
	c.take()
	if c.free() {
		t.Error("§3.3.3: a second call before the first reply")
	}
	panics(t, "a credit beyond the limit", c.take)
	for _, tc := range []struct {
		grant uint32
		limit int
		zero  bool
	}{{0, 1, true}, {1, 1, false}, {7, 7, false}, {8, 8, false}, {9, 8, false}, {1<<32 - 1, 8, false}} {
		if zero := c.grant(tc.grant); zero != tc.zero || c.limit != tc.limit {
			t.Errorf("grant of %d: limit %d, zero %v", tc.grant, c.limit, zero)
		}
	}
	for range 7 {
		c.take()
	}
	c.grant(3) // five too many are out: none goes until they are back
	for range 5 {
		if c.free() {
			t.Fatalf("a call beyond a lowered grant, %d are out", c.inUse)
		}
		c.put()
	}
	c.put()
	if !c.free() {
		t.Error("no call within a lowered grant")
	}
	c.put()
	c.put()
	panics(t, "a credit that was not taken", c.put)
}

func TestGrants(t *testing.T) { // D-11
	g := grants{most: 16, now: 16}
	for _, want := range []int{8, 4, 2, 1, 1} {
		if g.step(true); g.now != want {
			t.Errorf("short: %d, want %d", g.now, want)
		}
	}
	for _, want := range []int{3, 5, 7, 9, 11, 13, 15, 16, 16} {
		if g.step(false); g.now != want {
			t.Errorf("free again: %d, want %d", g.now, want)
		}
	}
	if g = (grants{most: 1, now: 1}); true {
		g.step(true)
		g.step(false)
		if g.now != 1 {
			t.Errorf("one credit became %d", g.now)
		}
	}
}

func TestTable(t *testing.T) {
	var tb table[int]
	rng := rand.New(rand.NewPCG(1, 2))
	in := map[uint32]*int{}
	for range 5000 {
		if len(in) > 0 && rng.IntN(2) == 0 {
			for i, v := range in {
				if tb.at(i) != v {
					t.Fatalf("%d is another's", i)
				}
				tb.remove(i)
				delete(in, i)
				break
			}
			continue
		}
		v := new(int)
		i := tb.add(v)
		if in[i] != nil {
			t.Fatalf("%d given twice", i)
		}
		in[i] = v
	}
	n := 0
	for v := range tb.all() {
		n++
		if i := slices.Index(tb.items, v); in[uint32(i)] != v {
			t.Errorf("all yields a stranger")
		}
	}
	if n != len(in) {
		t.Errorf("all yields %d of %d", n, len(in))
	}
	for range tb.all() {
		break
	}
	i := tb.add(new(int))
	tb.remove(i)
	panics(t, "a second remove", func() { tb.remove(i) })
}

func TestCallList(t *testing.T) {
	var q callQueue
	var want []*call
	rng := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		switch k := rng.IntN(4); {
		case k < 2:
			c := new(call)
			q.push(c)
			want = append(want, c)
		case k == 2 && len(want) > 0:
			i := rng.IntN(len(want))
			q.remove(want[i])
			q.remove(want[i]) // does nothing
			want = slices.Delete(want, i, i+1)
		default:
			c := q.pop()
			if len(want) == 0 {
				if c != nil || !q.empty() {
					t.Fatal("out of an empty queue")
				}
				continue
			}
			if c != want[0] {
				t.Fatal("not first in, first out")
			}
			want = want[1:]
		}
		i := 0
		for c := q.head; c != nil; c = c.next {
			if c != want[i] || (c.next == nil) != (c == q.tail) {
				t.Fatal("the order is broken")
			}
			i++
		}
		if i != len(want) {
			t.Fatalf("%d of %d listed", i, len(want))
		}
	}
}

func TestUsers(t *testing.T) {
	for range 200 {
		u := users{empty: make(chan struct{}, 1)}
		var wg sync.WaitGroup
		var mu sync.Mutex
		inside, closed := 0, false
		for range 8 {
			wg.Go(func() {
				for range 50 {
					if !u.enter() {
						return
					}
					mu.Lock()
					inside++
					if closed {
						t.Error("entered after close returned")
					}
					mu.Unlock()
					mu.Lock()
					inside--
					mu.Unlock()
					u.leave()
				}
			})
		}
		u.close()
		mu.Lock()
		closed = true
		if inside != 0 {
			t.Errorf("%d inside when close returned", inside)
		}
		mu.Unlock()
		wg.Wait()
	}
}

func endpoint(t testing.TB, cfg EndpointConfig) *Endpoint {
	t.Helper()
	return endpointOn(t, "loopback", cfg)
}

func TestMemoryPool(t *testing.T) {
	e := endpoint(t, EndpointConfig{Memory: 1 << 20})
	get := func(n int) *memory {
		t.Helper()
		m, err := e.getMemory(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Bytes()) != n {
			t.Fatalf("%d bytes, want %d", len(m.Bytes()), n)
		}
		return m
	}
	used := func(n int) {
		t.Helper()
		if got := e.MemoryInUse(); got != n {
			t.Fatalf("%d bytes in use, want %d", got, n)
		}
	}
	for _, tc := range []struct{ n, size int }{{0, 4096}, {1, 4096}, {4096, 4096}, {4097, 8192}, {1 << 20, 1 << 20}} {
		m := get(tc.n)
		used(tc.size)
		m.Free()
		used(0)
		panics(t, "freeing twice", m.Free)
	}
	var all []*memory
	for range 256 {
		all = append(all, get(4096))
	}
	used(1 << 20)
	if _, err := e.getMemory(1); !errors.Is(err, transport.ErrNoMemory) {
		t.Errorf("beyond the limit: %v", err)
	}
	used(1 << 20)
	for _, m := range all {
		m.Free()
	}
	used(0)
	get(1 << 20).Free() // what lies idle in another class makes room
	big := endpoint(t, EndpointConfig{})
	m, err := big.getMemory(65 << 20) // not pooled
	if err != nil {
		t.Fatal(err)
	}
	if n := big.MemoryInUse(); n != 65<<20 {
		t.Errorf("%d bytes in use", n)
	}
	m.Free()
	if n := big.pool.total; n != 0 {
		t.Errorf("%d bytes kept", n)
	}
}

// TestShares: what peers take leaves some for others.
func TestShares(t *testing.T) {
	e := endpoint(t, EndpointConfig{Memory: 1 << 20})
	var held [3]int
	var all []*memory
	for i := range held {
		for {
			m, err := e.memoryFor(4096, &held[i])
			if errors.Is(err, transport.ErrNoMemory) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
	}
	if held != [...]int{1 << 19, 1 << 18, 1 << 17} {
		t.Errorf("shares of %d bytes", held)
	}
	for range 1 << 17 / 4096 { // not for a peer
		m, err := e.getMemory(4096)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	for _, m := range all {
		m.Free()
	}
	if held != [3]int{} || e.MemoryInUse() != 0 {
		t.Errorf("after all: %d bytes", held)
	}
}

// TestSharesAreOfAddresses: more connections give an address no more memory.
func TestSharesAreOfAddresses(t *testing.T) {
	e := endpoint(t, EndpointConfig{})
	p := &e.pool
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	a, b, other := p.shareOf(one), p.shareOf(one), p.shareOf(two)
	if a != b || a == other {
		t.Error("connections of one address have one share, others another")
	}
	p.dropShare(a)
	if p.shareOf(one) != b {
		t.Error("the share ends before its last connection")
	}
	p.dropShare(b)
	p.dropShare(b)
	p.dropShare(other)
	if len(p.shares) != 0 {
		t.Errorf("%d shares without connections", len(p.shares))
	}
}

// TestUsersMemory is registered once with each endpoint, until Free or the endpoint's end.
func TestUsersMemory(t *testing.T) {
	a, b := endpoint(t, EndpointConfig{}), endpoint(t, EndpointConfig{})
	freed := 0
	m := transport.NewMemory(make([]byte, 100), func() { freed++ })
	for _, e := range []*Endpoint{a, b} {
		first, err := e.region(m)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if reg, err := e.region(m); err != nil || reg != first {
				t.Errorf("registered once more: %v", err)
			}
		}
	}
	if len(a.registered) != 1 || len(b.registered) != 1 {
		t.Errorf("registered %d and %d times", len(a.registered), len(b.registered))
	}
	reg, off, temporary, err := a.locate(m.Bytes()[10:20], m)
	if err != nil || reg == nil || off != 10 || temporary {
		t.Errorf("locate: %d, %v, %v", off, temporary, err)
	}
	if _, _, _, err := a.locate(make([]byte, 5), m); err == nil {
		t.Error("bytes of somewhere else lie in the memory")
	}
	old, _ := b.region(m)
	b.Close()
	if reg, err := b.region(m); err == nil && reg == old {
		t.Error("an endpoint that ended is still registered with")
	}
	m.Free()
	if freed != 1 || len(a.registered) != 0 {
		t.Errorf("freed %d times, %d registered", freed, len(a.registered))
	}
}

func TestConfig(t *testing.T) {
	e := endpoint(t, EndpointConfig{Inline: 8192, Receives: 100})
	for _, tc := range []struct {
		field string
		cfg   Config
	}{
		{"versions", Config{MinVersion: 2, MaxVersion: 1}}, {"versions", Config{MaxVersion: 3}},
		{"inline", Config{Inline: 1000}}, {"inline", Config{Inline: 512 << 10}}, {"inline", Config{Inline: 1024}},
		{"inline", Config{Inline: 16 << 10}}, {"credits", Config{Credits: -1}}, {"credits", Config{Credits: 1 << 15}},
		{"limits", Config{SegLen: -1}}, {"timeouts", Config{CallTimeout: -time.Second}},
	} {
		_, err := newConn(e.own, tc.cfg, true)
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != tc.field {
			t.Errorf("%+v: %v", tc.cfg, err)
		}
	}
	c, err := newConn(e.own, Config{Inline: 1024, MaxVersion: 1}, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newConn(e.own, Config{}, true); !errors.Is(err, verbs.ErrNoReceives) {
		t.Errorf("140 receives out of 100: %v", err)
	}
	c.unborn()
}

func TestSegmentsFit(t *testing.T) {
	for n := 1024; n <= 8192; n += 1024 {
		for reads := 1; reads < 5; reads++ {
			for writes := 1; writes < 5; writes++ {
				k := maxSegments(n, reads, writes)
				if header := 36 + k*24*reads + writes*(8+16*k); k > 1 && header > n {
					t.Errorf("%d segments each of %d and %d chunks make a header of %d bytes in %d", k, reads, writes, header, n)
				}
			}
		}
	}
}

// TestReadQueue: order holds while it grows and shrinks, room is kept, and much room is not.
func TestReadQueue(t *testing.T) {
	var q readQueue
	in, out := 0, 0
	pop := func() {
		if op := q.pop(); op.off != out {
			t.Fatalf("got %d, want %d", op.off, out)
		}
		out++
	}
	for round := range 200 {
		for range round % 7 {
			q.push(readOp{off: in})
			in++
		}
		for q.len() > round%3 {
			pop()
		}
	}
	for q.len() > 0 {
		pop()
	}
	if n := testing.AllocsPerRun(100, func() { q.push(readOp{off: in}); in++; pop() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	for range 4 * keepReads {
		q.push(readOp{off: in})
		in++
	}
	for q.len() > 0 {
		pop()
	}
	if cap(q.ops) > 0 {
		t.Errorf("room for %d is kept", cap(q.ops))
	}
}
