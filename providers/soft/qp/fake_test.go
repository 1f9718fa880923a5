package qp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a connection without a fabric: its tests carry works out by hand.
type fake struct {
	QP[int]
	idle   int
	ended  int
	closed int
	user   *user
	mem    verbs.Region
}

func (f *fake) Flush()   {}
func (f *fake) Idle()    { f.idle++ }
func (f *fake) Ended()   { f.ended++ }
func (f *fake) Closing() { f.closed++ }

// user is a Handler that keeps everything.
type user struct {
	mu    sync.Mutex
	got   []verbs.Completion
	gone  []error
	calls int
	on    func(cs []verbs.Completion)
}

func (u *user) Complete(cs []verbs.Completion) {
	u.mu.Lock()
	u.got = append(u.got, cs...)
	u.calls++
	on := u.on
	u.mu.Unlock()
	if on != nil {
		on(cs)
	}
}

func (u *user) Disconnected(err error) { u.gone = append(u.gone, err) }

// ids are those of the completions, with their statuses.
func (u *user) ids() (s []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.got {
		s = append(s, fmt.Sprintf("%v %d %v", c.Op, c.ID, c.Status))
	}
	return s
}

const queue = 8

func newDomain(t *testing.T) *Domain {
	t.Helper()
	d := new(Domain)
	d.Init(Config{Provider: "fake", Setup: time.Second, Linger: time.Minute, Caps: verbs.Caps{
		MaxReads: 2, Queue: queue, MaxMessage: 1000, PrivateDial: 4, PrivateAccept: 5, PrivateReject: 6,
	}})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// up is a connection that has begun.
func up(t *testing.T, o verbs.Options) *fake {
	t.Helper()
	f := fresh(t, newDomain(t), o)
	if err := f.Go(); err != nil {
		t.Fatal(err)
	}
	return f
}

func fresh(t *testing.T, d *Domain, o verbs.Options) *fake {
	t.Helper()
	f := &fake{user: new(user)}
	o.Handler = f.user
	if err := f.Init(d, f, &o); err != nil {
		t.Fatal(err)
	}
	r, err := d.Alloc(1000)
	if err != nil {
		t.Fatal(err)
	}
	f.mem = r
	t.Cleanup(func() {
		f.Abort(nil)
		if f.lived && len(f.user.gone) == 0 {
			f.Bury()
		}
	})
	f.Meet(netip.AddrPort{}, netip.AddrPort{}, nil, d.Caps())
	return f
}

// locked calls f with Mu held.
func (f *fake) locked(do func()) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	do()
}

func (f *fake) seg(off, n int) []verbs.Seg { return []verbs.Seg{{R: f.mem, Off: off, N: n}} }

// post posts one work of each op, with IDs from 1.
func (f *fake) post(t *testing.T, ops ...verbs.Op) {
	t.Helper()
	var ws []verbs.Work
	for i, op := range ops {
		w := verbs.Work{ID: uint64(i + 1), Op: op, Segs: f.seg(0, 10)}
		if op == verbs.OpInvalidate {
			w.Segs, w.Window = nil, new(verbs.Window)
			if err := f.Expose(w.Window, f.mem, 0, 10, verbs.RemoteRead); err != nil {
				t.Fatal(err)
			}
		}
		ws = append(ws, w)
	}
	if n, err := f.Post(ws); n != len(ws) || err != nil {
		t.Fatalf("Post took %d of %d, error %v", n, len(ws), err)
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// caller is a peer that asks to connect.
type caller struct {
	from     string
	hear     chan error // nil: its request is there at once
	dead     bool
	rejected chan []byte
	dropped  chan struct{}
}

func newCaller(from string) *caller {
	return &caller{from: from, rejected: make(chan []byte, 2), dropped: make(chan struct{}, 2)}
}

func (c *caller) RemoteAddr() netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(c.from), 7)
}

func (c *caller) LocalAddr() netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:7") }

func (c *caller) Hear() ([]byte, error) {
	if c.hear == nil {
		return []byte(c.from), nil
	}
	return []byte(c.from), <-c.hear
}

func (c *caller) Alive() bool { return !c.dead }

func (c *caller) Reject(private []byte) error {
	c.rejected <- private
	return nil
}

func (c *caller) Drop() { c.dropped <- struct{}{} }

func (c *caller) Half(*verbs.Options) (Acceptor, error) { return nil, context.Canceled }
