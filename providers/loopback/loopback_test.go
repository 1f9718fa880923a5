package loopback

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestIsRegistered(t *testing.T) {
	if p, ok := verbs.Lookup(Scheme); !ok || p.Name() != Scheme {
		t.Errorf("Lookup(%q) is %v, %v", Scheme, p, ok)
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		key, value string
		ok         func(*domain) bool // nil: refused
	}{
		{"queue", "1", func(d *domain) bool { return d.Caps().Queue == 1 }},
		{"queue", "65536", func(d *domain) bool { return d.Caps().Queue == 65536 }},
		{"queue", "0", nil},
		{"queue", "many", nil},
		{"private", "0", func(d *domain) bool {
			return d.Caps().PrivateDial == 0 && d.Caps().PrivateAccept == 0 && d.Caps().PrivateReject == 0
		}},
		{"private", "56/196/148", func(d *domain) bool {
			return d.Caps().PrivateDial == 56 && d.Caps().PrivateAccept == 196 && d.Caps().PrivateReject == 148
		}},
		{"private", "-1", nil},
		{"setup_timeout", "2s", func(d *domain) bool { return d.Config().Setup == 2*time.Second }},
		{"setup_timeout", "0s", nil},
		{"mtu", "1500", nil},
	} {
		d, err := Provider{}.Open(context.Background(), "", map[string]string{c.key: c.value})
		var oe *verbs.OptionError
		switch {
		case c.ok == nil && (!errors.As(err, &oe) || oe.Key != c.key):
			t.Errorf("%s=%s: %v, want an OptionError", c.key, c.value, err)
		case c.ok != nil && (err != nil || !c.ok(d.(*domain))):
			t.Errorf("%s=%s: not in force, error %v", c.key, c.value, err)
		}
	}
}

func open(t *testing.T, local string) *domain {
	t.Helper()
	d, err := Provider{}.Open(context.Background(), local, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d.(*domain)
}

func TestAddresses(t *testing.T) {
	d := open(t, "")
	listen := func(at string) *listener {
		t.Helper()
		l, err := d.Listen(context.Background(), at, verbs.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return l.(*listener)
	}
	four, six, name := listen("127.0.0.1:7001"), listen("[::1]:7001"), listen("server:7001")
	any4, any6 := listen("0.0.0.0:7002"), listen("[::]:7003")
	if four.addr == name.addr {
		t.Errorf("two hosts share the address %v", four.addr)
	}
	for at, want := range map[string]*listener{
		"127.0.0.1:7001": four, "localhost:7001": four, ":7001": four, "[::1]:7001": six, "server:7001": name,
		"127.0.0.9:7001": nil, "other:7001": nil,
		"127.0.0.9:7002": any4, "server:7002": any4, "[::1]:7002": nil,
		"127.0.0.1:7003": any6, "[::1]:7003": any6, "[::ffff:127.0.0.1]:7001": four,
	} {
		a, err := names.split(at, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		if err != nil {
			t.Fatal(err)
		}
		if got := names.find(a); got != want {
			t.Errorf("%s leads to %v, want %v", at, got, want)
		}
	}
	if _, err := d.Listen(context.Background(), "server:7001", verbs.ListenOptions{}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second Listen: %v", err)
	}
	four.Close()
	if l := listen("127.0.0.1:7001"); l == nil {
		t.Errorf("a closed listener keeps its address")
	}
	o := verbs.Options{Handler: &end{gone: make(chan error, 1)}}
	if _, err := d.Dial(context.Background(), "127.0.0.1:7099", o); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Dial to a closed port: %v", err)
	}
	p1, p2 := listen("127.0.0.1:0"), listen("127.0.0.1:0")
	if p1.addr == p2.addr || p1.addr.Port() < firstPort {
		t.Errorf("chosen addresses %v, %v", p1.addr, p2.addr)
	}
}

func TestLocalAddressIsTheDialled(t *testing.T) {
	d := open(t, "127.0.0.5")
	if got := d.from(netip.IPv6Loopback()); got != netip.AddrFrom4([4]byte{127, 0, 0, 5}) {
		t.Errorf("dials from %v", got)
	}
	if got := open(t, "").from(netip.IPv6Loopback()); got != netip.IPv6Loopback() {
		t.Errorf("dials ::1 from %v", got)
	}
}

// A backlog bounds what strangers can make a listener hold.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		l, err := d.Listen(context.Background(), "backlog:1", verbs.ListenOptions{Backlog: 2})
		if err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := d.Dial(context.Background(), "backlog:1", verbs.Options{Handler: &end{gone: make(chan error, 1)}})
				errs <- err
			}()
		}
		synctest.Wait()
		if err := <-errs; !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the third: %v", err)
		}
		l.Close()
		for range 2 {
			if err := <-errs; !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("at Close: %v", err)
			}
		}
	})
}

func TestSetUpTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		l, err := d.Listen(context.Background(), "slow:1", verbs.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = d.Dial(context.Background(), "slow:1", verbs.Options{Handler: &end{gone: make(chan error, 1)}})
		var re *verbs.RejectedError
		if !errors.As(err, &re) || time.Since(began) != defaultSetup {
			t.Errorf("Dial: %v after %v", err, time.Since(began))
		}
		// The request is gone: the next one is the first that Accept sees.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if r, err := l.Accept(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Accept: %v, %v", r, err)
		}
		l.Close()
	})
}

func TestAcceptDoesNotWaitForAStalledDialler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, "")
		l, err := d.Listen(context.Background(), "stall:1", verbs.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		release, dialled := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := d.Dial(context.Background(), "stall:1", verbs.Options{Handler: &end{gone: make(chan error, 1)}, Ready: func(verbs.Conn) error {
				<-release
				return nil
			}})
			dialled <- err
		}()
		r, err := l.Accept(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Accept(context.Background(), verbs.Options{Handler: &end{gone: make(chan error, 1)}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Accept: %v", err)
		}
		close(release)
		if err := <-dialled; err == nil {
			t.Errorf("the stalled Dial succeeded")
		}
	})
}

func TestOnlyReceivesInReady(t *testing.T) {
	d := open(t, "")
	l, err := d.Listen(context.Background(), "ready:1", verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := d.Alloc(64)
	seg := verbs.Seg{R: r, N: 64}
	ready := func(c verbs.Conn) error {
		if n, err := c.PostRecv([]verbs.Recv{{Seg: seg}}); n != 1 || err != nil {
			t.Errorf("PostRecv: %d, %v", n, err)
		}
		if n, err := c.Post([]verbs.Work{{Op: verbs.OpSend}}); n != 0 || err == nil {
			t.Errorf("Post: %d, %v", n, err)
		}
		c.Flush()
		return nil
	}
	go func() {
		r, err := l.Accept(context.Background())
		if err == nil {
			r.Accept(context.Background(), verbs.Options{Handler: &end{gone: make(chan error, 1)}, Ready: ready})
		}
	}()
	if _, err := d.Dial(context.Background(), "ready:1", verbs.Options{Handler: &end{gone: make(chan error, 1)}, Ready: ready}); err != nil {
		t.Fatal(err)
	}
}

// Both ends of a refused message name the reason.
func TestRefusedMessages(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		want error
	}{{"too long", 4097, verbs.ErrTooLong}, {"no receive", 1, verbs.ErrNoReceive}} {
		t.Run(c.name, func(t *testing.T) {
			a, b, da, _ := pair(t, nil)
			if c.want == verbs.ErrNoReceive {
				for ok := true; ok; _, _, ok = b.pool.(*soft.Pool).Draw() {
				}
			}
			a.conn.Post([]verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: alloc(t, da, c.size), N: c.size}}}})
			a.conn.Flush()
			for _, e := range []*end{a, b} {
				var te *verbs.TerminatedError
				if err := <-e.gone; !errors.Is(err, c.want) || !errors.As(err, &te) || te.Remote != (e == a) {
					t.Errorf("Disconnected(%v)", err)
				}
			}
		})
	}
}

func TestAWindowInForceIsNotExposedAgain(t *testing.T) {
	a, _, da, _ := pair(t, nil)
	r, w := alloc(t, da, 64), new(verbs.Window)
	if err := a.conn.Expose(w, r, 0, 64, verbs.RemoteRead); err != nil {
		t.Fatal(err)
	}
	if err := a.conn.Expose(w, r, 0, 64, verbs.RemoteRead); !errors.Is(err, verbs.ErrBadWork) {
		t.Errorf("a second Expose: %v", err)
	}
}

// The reader takes over when nobody has driven for a millisecond, neither sooner nor much later.
func TestResidentReaderTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, _, db := pair(t, nil)
		d := a.conn.(verbs.Driver)
		msg := []verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: alloc(t, db, 8), N: 8}}}}
		b.done = make(chan int, 100)
		for range 20 { // back to back: the reader stays away
			d.Drive(func() bool { return true })
			time.Sleep(900 * time.Microsecond)
		}
		b.conn.Post(msg)
		b.conn.Flush()
		synctest.Wait()
		if a.recvs.Load() != 0 {
			t.Errorf("the reader was there 0.9 ms after the last leader")
		}
		time.Sleep(1200 * time.Microsecond)
		synctest.Wait()
		if a.recvs.Load() != 1 {
			t.Errorf("2.1 ms after the last leader nobody had read")
		}
		b.conn.Post(msg)
		b.conn.Flush()
		synctest.Wait()
		if a.recvs.Load() != 2 {
			t.Errorf("the reader did not stay")
		}
		a.conn.Close()
		<-a.gone
		<-b.gone
	})
}

// A steady state allocates nothing, whichever way it goes.
func TestNoAllocations(t *testing.T) {
	run := map[string]func(){"ping-pong with a leader": pingPong(t)}

	a, b, da, db := pair(t, nil)
	a.done, b.came = make(chan int, 64), make(chan struct{}, 64)
	near, far := alloc(t, da, 1<<16), alloc(t, db, 1<<16)
	w := new(verbs.Window)
	works := []verbs.Work{
		{ID: 1, Op: verbs.OpWrite, Segs: []verbs.Seg{{R: near, N: 100}, {R: near, Off: 100, N: 5000}}},
		{ID: 2, Op: verbs.OpRead, Segs: []verbs.Seg{{R: near, N: 1 << 16}}},
		{ID: 3, Op: verbs.OpSendInvalidate, Segs: []verbs.Seg{{R: near, N: 64}}},
	}
	run["exposed, written, read, invalidated by the peer"] = func() {
		if err := b.conn.Expose(w, far, 0, 1<<16, verbs.RemoteRead|verbs.RemoteWrite); err != nil {
			t.Fatal(err)
		}
		for i := range works {
			works[i].Key, works[i].Remote = w.Key, w.Addr
		}
		a.conn.Post(works)
		a.conn.Flush()
		for n := 0; n < len(works); {
			n += <-a.done
		}
		<-b.came // so that b keeps up: its pool is finite
	}
	own, end := new(verbs.Window), make([]verbs.Work, 1)
	run["exposed, detached, invalidated"] = func() {
		if err := a.conn.Expose(own, near, 0, 4096, verbs.RemoteRead); err != nil {
			t.Fatal(err)
		}
		a.conn.(verbs.Detacher).Detach(own, near.Bytes()[8192:])
		end[0] = verbs.Work{Op: verbs.OpInvalidate, Window: own}
		a.conn.Post(end)
		a.conn.Flush()
		<-a.done
	}
	for name, f := range run {
		for range 100 {
			f()
		}
		if n := testing.AllocsPerRun(500, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestTheEndFencesAll(t *testing.T) {
	a, _, da, _ := pair(t, nil)
	r, ws := alloc(t, da, 64), make([]verbs.Window, 100)
	for i := range ws {
		if err := a.conn.Expose(&ws[i], r, 0, 64, verbs.RemoteRead); err != nil {
			t.Fatal(err)
		}
	}
	a.conn.Abort(nil)
	<-a.gone
	for i := range ws {
		if ws[i].Slot.(*soft.Slot).Hold(ws[i].Key) {
			t.Fatalf("window %d is in force after the end", i)
		}
	}
	if err := a.conn.Expose(&ws[0], r, 0, 64, verbs.RemoteRead); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Expose after the end: %v", err)
	}
}

func TestErrorsSayWhere(t *testing.T) {
	d := open(t, "")
	_, err := d.Dial(context.Background(), "127.0.0.1:9", verbs.Options{Handler: &end{gone: make(chan error, 1)}})
	if err == nil || !strings.HasPrefix(err.Error(), "loopback: dial 127.0.0.1:9: ") {
		t.Errorf("%v", err)
	}
	if _, err := d.Dial(context.Background(), "127.0.0.1:9", verbs.Options{}); err == nil {
		t.Errorf("Dial without a Handler succeeded")
	}
}

// TestAddressIsFree: who has seen that a listener is closed, by whomever, can listen on its address.
func TestAddressIsFree(t *testing.T) {
	dom, err := (Provider{}).Open(context.Background(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dom.Close()
	for range 100_000 {
		l, err := dom.Listen(context.Background(), "127.0.0.1:33", verbs.ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		go l.Close()
		if _, err := l.Accept(context.Background()); err == nil {
			t.Fatal("accepted from nobody")
		}
	}
}
