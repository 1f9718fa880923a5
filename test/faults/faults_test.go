package faults_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/loopback"
	"github.com/rpcrdma/rpcrdma/test/faults"
	"github.com/rpcrdma/rpcrdma/test/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Late and reordered completions are within the contract: the whole suite passes.
func TestProvider(t *testing.T) {
	for name, plan := range map[string]faults.Plan{
		"late and reorder": {Late: 100 * time.Microsecond, LateFlush: 100 * time.Microsecond, Reorder: true, Queue: 100},
		"late, in order":   {Late: 100 * time.Microsecond, NoDriver: true, NoDetach: true},
		"plain":            {},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && plan.Late > 0 {
				t.Skip("waits for thousands of real timers")
			}
			providertest.Run(t, func(t *testing.T) verbs.Provider {
				return faults.Wrap(t, loopback.Provider{}, plan)
			}, providertest.Options{Listen6: "[::1]:0", ShortSetup: map[string]string{"setup_timeout": "100ms"}})
		})
	}
}

// side keeps book of one end.
type side struct {
	t    *testing.T
	conn verbs.Conn
	pool verbs.RecvPool

	mu     sync.Mutex
	open   map[uint64]verbs.Op
	ended  bool
	status map[verbs.Status]int
	got    []uint32
	gone   chan struct{}
	cause  error
}

func (s *side) Complete(cs []verbs.Completion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range cs {
		if c.Op == verbs.OpRecv {
			s.got = append(s.got, binary.BigEndian.Uint32(c.Buf))
			s.pool.Put(c.BufID)
			continue
		}
		if s.ended {
			s.t.Errorf("%v %d completed after Disconnected", c.Op, c.ID)
		}
		if _, ok := s.open[c.ID]; !ok {
			s.t.Errorf("%v %d completed (%v), but it is not open", c.Op, c.ID, c.Status)
		}
		delete(s.open, c.ID)
		s.status[c.Status]++
	}
}

func (s *side) Disconnected(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.cause = true, err // what a Post in progress counted is settled when it returns; see the end of run
	close(s.gone)
}

// run sends until the connection ends, or n messages.
func (s *side) run(mem verbs.Region, n int) {
	for i := 0; i < n; {
		off := 4 * (i % 1024)
		binary.BigEndian.PutUint32(mem.Bytes()[off:], uint32(i))
		s.mu.Lock()
		s.open[uint64(i)] = verbs.OpSend
		s.mu.Unlock()
		k, err := s.conn.Post([]verbs.Work{{ID: uint64(i), Op: verbs.OpSend, Segs: []verbs.Seg{{R: mem, Off: off, N: 4}}}})
		if k == 0 {
			s.mu.Lock()
			delete(s.open, uint64(i))
			s.mu.Unlock()
		}
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.t.Errorf("Post: %v", err)
			}
			return
		}
		s.conn.Flush()
		i += k
		time.Sleep(50 * time.Microsecond)
	}
	s.conn.Close()
}

// exchange connects two ends, lets both send, and waits for the end. It is false where
// the connection did not come up.
func exchange(t *testing.T, p verbs.Provider, n int) (a, b *side, ok bool) {
	ctx := context.Background()
	open := func() (verbs.Domain, *side) {
		d, err := p.Open(ctx, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		pool, err := d.NewRecvPool(1024, 64)
		if err != nil {
			t.Fatal(err)
		}
		return d, &side{t: t, pool: pool, open: map[uint64]verbs.Op{}, status: map[verbs.Status]int{}, gone: make(chan struct{})}
	}
	da, a := open()
	db, b := open()
	defer da.Close()
	defer db.Close()
	l, err := db.Listen(ctx, "127.0.0.1:0", verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	options := func(s *side) verbs.Options {
		return verbs.Options{Handler: s, Recv: s.pool, Ready: func(c verbs.Conn) error { s.conn = c; return nil }}
	}
	go func() {
		r, err := l.Accept(ctx)
		if err == nil {
			r.Accept(ctx, options(b))
		}
	}()
	if _, err := da.Dial(ctx, l.Addr().String(), options(a)); err != nil {
		return a, b, false
	}
	var runs sync.WaitGroup
	for s, d := range map[*side]verbs.Domain{a: da, b: db} {
		mem, err := d.Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		runs.Go(func() { s.run(mem, n) })
	}
	<-a.gone
	<-b.gone
	runs.Wait()
	return a, b, true
}

func inOrder(t *testing.T, s *side) {
	t.Helper()
	for i, v := range s.got {
		if int(v) != i {
			t.Fatalf("message %d carries %d: lost, doubled or overtaken", i, v)
		}
	}
}

func TestConnectionsThatEndKeepTheirPromises(t *testing.T) {
	for _, c := range []struct {
		name string
		plan faults.Plan
		did  func(d faults.Done) int
	}{
		{"works fail", faults.Plan{FailEvery: 60, Late: time.Millisecond, LateFlush: time.Millisecond}, func(d faults.Done) int { return d.Fails }},
		{"cut", faults.Plan{CutEvery: 60, Late: time.Millisecond}, func(d faults.Done) int { return d.Cuts }},
		{"cut by age", faults.Plan{CutWithin: 5 * time.Millisecond}, func(d faults.Done) int { return d.Cuts }},
		{"refused", faults.Plan{RefuseEvery: 2, SlowDial: time.Second}, func(d faults.Done) int { return d.Refused }},
		{"overtaken", faults.Plan{Late: time.Millisecond, Reorder: true}, func(d faults.Done) int { return d.Overtaken }},
	} {
		t.Run(c.name, func(t *testing.T) {
			did := 0
			for range 20 {
				synctest.Test(t, func(t *testing.T) {
					p := faults.Wrap(t, loopback.Provider{}, c.plan)
					a, b, ok := exchange(t, p, 200)
					if ok {
						inOrder(t, a)
						inOrder(t, b)
						if len(a.open) > 0 || len(b.open) > 0 {
							t.Errorf("works are open after the end: %v %v", a.open, b.open)
						}
					}
					did += c.did(p.Done())
				})
			}
			if did == 0 {
				t.Errorf("nothing happened in 20 runs")
			}
		})
	}
}

func TestAFailedWorkEndsInItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := faults.Wrap(t, loopback.Provider{}, faults.Plan{Judge: func(conn int, w *verbs.Work) faults.Verdict {
			if conn == 1 && w.ID == 42 {
				return faults.FailRA
			}
			return faults.Pass
		}})
		a, b, _ := exchange(t, p, 200)
		if a.status[verbs.OK] != 42 || a.status[verbs.RemoteAccess] != 1 {
			t.Errorf("completions %v, want 42 OK and one RemoteAccess", a.status)
		}
		if len(b.got) != 42 {
			t.Errorf("%d messages arrived, want 42", len(b.got))
		}
		if !errors.Is(a.cause, verbs.ErrRemoteAccess) || b.cause == nil {
			t.Errorf("Disconnected(%v) and (%v)", a.cause, b.cause)
		}
	})
}

func TestCutAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := faults.Wrap(t, loopback.Provider{}, faults.Plan{})
		go func() {
			time.Sleep(3 * time.Millisecond)
			if n := p.CutAll(); n != 2 {
				t.Errorf("%d connections cut, want both ends", n)
			}
		}()
		a, b, _ := exchange(t, p, 1<<30)
		for _, s := range []*side{a, b} {
			if !errors.Is(s.cause, syscall.ECONNRESET) {
				t.Errorf("Disconnected(%v)", s.cause)
			}
		}
	})
}
