package soak

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp"
	"github.com/rpcrdma/rpcrdma/providers/loopback"
	"github.com/rpcrdma/rpcrdma/test/faults"
	"github.com/rpcrdma/rpcrdma/test/memory"
)

// world is what a seed stands for.
type world struct {
	Seed uint64
	book *Book

	provider verbs.Provider
	fabric   string // for people
	plan     faults.Plan
	shared   []rpc.ConnOption // of both ends
	listener []rpc.ListenOption
	server   []rpc.ServerOption
	client   []rpc.ClientOption
	inline   bool // ECHO runs on the reading goroutine
	slow     time.Duration
	flips    bool          // bits change under way
	breaks   bool          // streams are cut or changed
	restarts int           // the listener ends and comes back
	leaves   time.Duration // the first client is closed after that long, whatever its callers are at; 0: not
	backward bool          // the server calls back
	clients  int
	callers  int // per client
	calls    int // per caller

	mu   sync.Mutex
	kept []kept
	sure []uint64 // tags of ADDs that were answered
}

// kept is memory that was given back to its caller.
type kept struct {
	what string
	area []byte
}

func (w *world) String() string {
	return fmt.Sprintf("%s, %d clients of %d callers of %d calls, %d restarts, faults %+v", w.fabric, w.clients, w.callers, w.calls, w.restarts, w.plan)
}

// newWorld makes seed's world.
func newWorld(seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{Seed: seed, book: new(Book), clients: 1 + r.IntN(3), callers: 1 + r.IntN(5), calls: 2 + r.IntN(6), inline: r.IntN(2) == 0}
	w.slow = time.Duration(r.IntN(3)) * time.Millisecond
	if r.IntN(4) == 0 {
		w.restarts = 1 + r.IntN(2)
	}
	if r.IntN(6) == 0 {
		w.leaves = time.Duration(1+r.IntN(10_000)) * time.Microsecond
	}
	upTo := func(most time.Duration) time.Duration { return time.Duration(r.Int64N(int64(most)) + 1) }
	often := func(n int) bool { return r.IntN(n) == 0 }

	if w.backward = often(3); w.backward {
		w.listener = append(w.listener, rpc.WithBackwardCredits(1+r.IntN(4)))
		w.client = append(w.client, rpc.WithBackwardCredits(1+r.IntN(4)))
		if often(2) {
			w.shared = append(w.shared, rpc.WithBackwardChunks())
		}
	}
	p := &w.plan
	p.Seed = seed
	if often(2) {
		p.Late, p.Reorder = upTo(2*time.Millisecond), often(2)
	}
	if often(3) {
		p.LateFlush = upTo(time.Millisecond)
	}
	if often(3) {
		p.FailEvery = 100 + r.IntN(400)
	}
	if often(3) {
		p.CutEvery = 100 + r.IntN(400)
	}
	if often(4) {
		p.CutWithin = 40*time.Millisecond + upTo(60*time.Millisecond)
	}
	if often(4) {
		p.RefuseEvery, p.SlowDial = 4+r.IntN(10), upTo(time.Millisecond)
	}
	if often(3) {
		p.Queue = 2 + r.IntN(8)
	}
	p.NoDriver, p.NoDetach = often(3), often(4)

	w.provider, w.fabric = loopback.Provider{}, "loopback"
	if often(2) {
		w.provider, w.fabric = w.stream(r), "iwarp"
	}

	w.shared = append(w.shared, rpc.WithInline([]int{4096, 4096, 8192}[r.IntN(3)]), rpc.WithCancelWait(time.Millisecond))
	w.listener = append(w.listener, rpc.WithCredits(1+r.IntN(16)))
	w.server = append(w.server, rpc.WithWorkers(1+r.IntN(8)))
	w.client = append(w.client, rpc.WithCredits(1+r.IntN(16)), rpc.WithConnections(1+r.IntN(2)), rpc.WithRetransmits(1000), rpc.WithLossLimit(1000))
	if often(3) {
		w.client = append(w.client, rpc.WithSegmentLength(512+r.IntN(4096)))
	}
	if often(3) {
		w.client = append(w.client, rpc.WithMoveAbove(64+r.IntN(1000)))
	}
	switch r.IntN(4) {
	case 0:
		w.shared = append(w.shared, rpc.WithVersions(1, 1))
	case 1:
		w.listener = append(w.listener, rpc.WithVersions(1, 1))
	}
	return w
}

// setUpLen is what MPA's set-up frames have at most here, private data included. No CRC guards them (RFC 5044 §7.1.1): a bit that changes
// there changes what the two agree on, and a reply may then rightly not fit.
const setUpLen = 32

// stream is iwarp over streams in memory, which may fail by themselves.
func (w *world) stream(r *rand.Rand) verbs.Provider {
	n := &memory.Network{
		Buffer:  1 << (12 + r.IntN(6)),
		Delay:   time.Duration(r.IntN(3)) * 100 * time.Microsecond,
		Segment: []int{536, 1448, 9000, 32741}[r.IntN(4)],
	}
	fault := r.IntN(4)
	w.flips, w.breaks = fault == 1, fault < 2
	var mu sync.Mutex
	n.Made = func(dialled, accepted *memory.Stream) {
		mu.Lock()
		defer mu.Unlock()
		at := int64(24 + r.IntN(300_000))
		s := dialled
		if r.IntN(2) == 0 {
			s = accepted
		}
		switch fault {
		case 0:
			s.CutAt(at)
		case 1:
			s.Flip(max(at, setUpLen), 1<<r.IntN(8))
		}
	}
	return iwarp.New(n)
}

// stage is where worlds play: a scheme can be registered once, and worlds come and go.
type stage struct {
	scheme string
	verbs.Provider
}

var stages atomic.Int64

func newStage() *stage {
	s := &stage{scheme: fmt.Sprintf("soak%d", stages.Add(1))} // tests may run more than once
	verbs.Register(s.scheme, s)
	return s
}

func (s *stage) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	return s.Provider.Open(ctx, local, options)
}

// play runs w to its end. It runs in a bubble of its own.
func (s *stage) play(tb testing.TB, w *world) {
	fabric := &watch{
		Provider: faults.Wrap(tb, w.provider, w.plan), book: w.book, conns: map[*conn]struct{}{},
		flips: w.flips, ends: w.plan.NoDetach,
	}
	s.Provider = fabric
	url := fmt.Sprintf("%s://127.0.0.1:%d", s.scheme, 1024+w.Seed%60_000)

	log := slog.New(&journal{w: w})
	svc := &service{book: w.book, slow: w.slow, adds: map[uint64]int{}, rng: rand.New(rand.NewPCG(w.Seed, 2))}
	if w.backward {
		for range w.clients {
			b, err := rpc.NewBackchannel()
			if err != nil {
				w.book.errorf("NewBackchannel: %v", err)
				return
			}
			svc.back = append(svc.back, b)
		}
	}
	srv := rpc.NewServer(append(w.server, rpc.WithLog(log))...)
	svc.register(srv, w.inline)
	ctx, stop := context.WithCancel(context.Background())
	var house sync.WaitGroup
	var up sync.WaitGroup
	up.Add(1)
	house.Go(func() { w.listen(ctx, srv, url, up.Done) })
	up.Wait()

	var callers sync.WaitGroup
	var clients []*rpc.Client
	back, stopBack := context.WithCancel(context.Background())
	var backers sync.WaitGroup
	var programs []*rpc.Server
	for i := range w.clients {
		opts := append([]rpc.ClientOption{rpc.ConnOptions(w.shared...)}, w.client...)
		if w.backward {
			a := &answerer{book: w.book, seen: map[uint64]int{}}
			p := rpc.NewServer(rpc.WithLog(log))
			p.Register(procBack.Program, 1, rpc.Method{Proc: procBack, Handler: a.back})
			programs = append(programs, p)
			opts = append(opts, rpc.WithPrograms(p))
			backers.Go(func() { svc.callBack(back, w, i) })
		}
		c, err := rpc.NewClient(url, opts...)
		if err != nil {
			w.book.errorf("NewClient: %v", err)
			continue
		}
		clients = append(clients, c)
		for j := range w.callers {
			callers.Go((&caller{w: w, number: uint32(i), client: c, seed: uint64(i*100 + j), calls: w.calls}).run)
		}
	}
	if w.leaves > 0 && len(clients) > 0 {
		callers.Go(func() {
			time.Sleep(w.leaves)
			clients[0].Close()
		})
	}
	callers.Wait()
	stopBack()
	backers.Wait()
	for i, c := range clients {
		if !within(10*time.Second, func() bool { return c.Counters().Outstanding == 0 }) {
			w.book.errorf("client %d: %d calls are outstanding and nobody waits for them", i, c.Counters().Outstanding)
		}
		if n := c.Counters(); n.BadInvalidate != 0 {
			w.book.errorf("client %d: %d keys were invalidated that were not the call's", i, n.BadInvalidate)
		}
	}
	if !within(10*time.Second, func() bool { return fabric.exposed() == 0 }) {
		w.book.errorf("%d windows are exposed and no call is under way", fabric.exposed())
	}
	for i, c := range clients {
		if err := c.Close(); err != nil {
			w.book.errorf("client %d: Close: %v", i, err)
		}
	}
	for i, b := range svc.back {
		b.Close()
		if err := programs[i].Close(); err != nil {
			w.book.errorf("programs: Close: %v", err)
		}
	}
	stop()
	house.Wait()
	if err := srv.Close(); err != nil {
		w.book.errorf("server: Close: %v", err)
	}
	w.audit(svc)
}

// within waits for something that needs no more than other goroutines and d.
func within(d time.Duration, done func() bool) bool {
	for end := time.Now().Add(d); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// listen serves until ctx ends, and begins anew as often as w wants it.
func (w *world) listen(ctx context.Context, srv *rpc.Server, url string, ready func()) {
	for i := 0; ; i++ {
		l, err := rpc.Listen(ctx, url, append([]rpc.ListenOption{rpc.ConnOptions(w.shared...)}, w.listener...)...)
		if err != nil {
			w.book.errorf("Listen: %v", err)
		}
		if i == 0 {
			ready()
		}
		if err != nil {
			return
		}
		sub, cancel := context.WithCancel(ctx)
		if i < w.restarts {
			time.AfterFunc(10*time.Millisecond, cancel)
		}
		if err := srv.Serve(sub, l); err != nil {
			w.book.errorf("Serve: %v", err)
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
	}
}

// keep remembers memory that its caller has back.
func (w *world) keep(what string, area []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, kept{what, area})
}

// answered remembers an ADD that its caller knows to be done.
func (w *world) answered(tag uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sure = append(w.sure, tag)
}

// audit looks at what is left when everything has ended.
func (w *world) audit(svc *service) {
	for _, k := range w.kept {
		for i, b := range k.area {
			if b != guard {
				w.book.errorf("%s: byte %d of %d was written after the call had returned", k.what, i, len(k.area))
				break
			}
		}
	}
	for _, tag := range w.sure {
		if svc.adds[tag] == 0 {
			w.book.errorf("ADD %#x was answered and never executed", tag)
		}
	}
	if svc.lent != 0 {
		w.book.errorf("%d results were not released", svc.lent)
	}
}

// journal takes what the server logs: nothing of it may be our own doing.
type journal struct {
	slog.Handler
	w *world
}

func (*journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler     { return j }
func (j *journal) WithGroup(string) slog.Handler          { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panicked") {
		var what strings.Builder
		r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&what, " %v", a); return true })
		j.w.book.errorf("server: %s:%s", r.Message, what.String())
	}
	return nil
}
