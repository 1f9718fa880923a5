package qp

import (
	"errors"
	"math"
	"net"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

func TestRing(t *testing.T) {
	var r Ring[int]
	next, first := 0, 0
	for round := range 200 {
		for range round % 7 {
			r.Push(next)
			next++
		}
		for range round % 5 {
			if r.Len() == 0 {
				break
			}
			v := r.Pop()
			if v != first {
				t.Fatalf("%d came where %d was due", v, first)
			}
			if round%3 == 0 {
				r.Unpop(v)
				v = r.Pop()
			}
			first = v + 1
		}
	}
	if r.Len() != next-first {
		t.Errorf("%d values are left of %d", r.Len(), next-first)
	}
	for range r.Len() {
		r.Pop()
	}
	r.Unpop(5)
	if r.Len() != 1 || r.Pop() != 5 {
		t.Error("Unpop into an empty ring")
	}
}

func TestSlices(t *testing.T) {
	f := up(t, verbs.Options{})
	for i := range f.mem.Bytes() {
		f.mem.Bytes()[i] = byte(i)
	}
	w := &Work[int]{N: 60, Segs: append(append(f.seg(10, 20), f.seg(100, 0)...), f.seg(200, 40)...)}
	for _, c := range []struct{ off, n int }{{0, 60}, {0, 0}, {5, 10}, {15, 10}, {20, 40}, {59, 1}, {60, 0}} {
		var got []byte
		for _, b := range w.Slices(nil, c.off, c.n) {
			got = append(got, b...)
		}
		if len(got) != c.n {
			t.Errorf("%d bytes from %d: %d", c.n, c.off, len(got))
		}
		for i, b := range got {
			want := 10 + c.off + i
			if c.off+i >= 20 {
				want = 200 + c.off + i - 20
			}
			if b != byte(want) {
				t.Errorf("%d bytes from %d: byte %d is %d, want %d", c.n, c.off, i, b, byte(want))
			}
		}
	}
}

// TestCheck is what Post refuses, which is never in the queue.
func TestCheck(t *testing.T) {
	f := up(t, verbs.Options{})
	other := newDomain(t)
	foreign, err := other.Alloc(10)
	if err != nil {
		t.Fatal(err)
	}
	released, _ := f.dom.Register(make([]byte, 10))
	released.Release()
	exposed, never := new(verbs.Window), new(verbs.Window)
	if err := f.Expose(exposed, f.mem, 0, 10, verbs.RemoteRead); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		w    verbs.Work
		ok   bool
	}{
		{"a Send", verbs.Work{Op: verbs.OpSend, Segs: f.seg(0, 1000)}, true},
		{"an empty Send", verbs.Work{Op: verbs.OpSend}, true},
		{"a Write with key 0", verbs.Work{Op: verbs.OpWrite, Segs: f.seg(0, 10)}, true},
		{"a Read", verbs.Work{Op: verbs.OpRead, Segs: f.seg(0, 10)}, true},
		{"an Invalidate", verbs.Work{Op: verbs.OpInvalidate, Window: exposed}, true},
		{"more than MaxMessage in sum", verbs.Work{Op: verbs.OpSend, Segs: append(f.seg(0, 999), f.seg(0, 2)...)}, false},
		{"a sum that wraps", verbs.Work{Op: verbs.OpSend, Segs: append(f.seg(0, 10), f.seg(0, math.MaxInt)...)}, false},
		{"beyond the region", verbs.Work{Op: verbs.OpWrite, Segs: f.seg(991, 10)}, false},
		{"before the region", verbs.Work{Op: verbs.OpWrite, Segs: f.seg(-1, 10)}, false},
		{"of negative length", verbs.Work{Op: verbs.OpWrite, Segs: f.seg(5, -1)}, false},
		{"no region", verbs.Work{Op: verbs.OpWrite, Segs: []verbs.Seg{{N: 1}}}, false},
		{"another domain's region", verbs.Work{Op: verbs.OpWrite, Segs: []verbs.Seg{{R: foreign, N: 1}}}, false},
		{"a released region", verbs.Work{Op: verbs.OpWrite, Segs: []verbs.Seg{{R: released, N: 1}}}, false},
		{"an Invalidate of nothing", verbs.Work{Op: verbs.OpInvalidate}, false},
		{"an Invalidate of what was never exposed", verbs.Work{Op: verbs.OpInvalidate, Window: never}, false},
		{"a receive", verbs.Work{Op: verbs.OpRecv, Segs: f.seg(0, 10)}, false},
		{"no operation", verbs.Work{}, false},
	} {
		n, err := f.Post([]verbs.Work{c.w})
		if c.ok != (n == 1) || c.ok != (err == nil) || !c.ok && !errors.Is(err, verbs.ErrBadWork) {
			t.Errorf("%s: Post took %d, error %v", c.name, n, err)
		}
		f.locked(func() {
			for w := f.Take(); w != nil; w = f.Take() {
				if w.Op == verbs.OpRead {
					f.EndRead()
				} else {
					f.Finish(w)
				}
			}
		})
	}
	f.caps.MaxReads = 0
	if _, err := f.Post([]verbs.Work{{Op: verbs.OpRead, Segs: f.seg(0, 10)}}); !errors.Is(err, verbs.ErrBadWork) {
		t.Errorf("a Read where the peer serves none: %v", err)
	}
}

func TestQueueIsFull(t *testing.T) {
	f := up(t, verbs.Options{})
	ws := make([]verbs.Work, queue+3)
	for i := range ws {
		ws[i] = verbs.Work{ID: uint64(i), Op: verbs.OpSend}
	}
	if n, err := f.Post(ws); n != queue || err != nil {
		t.Fatalf("Post took %d, error %v", n, err)
	}
	ws[0].Op = verbs.OpRecv
	if n, err := f.Post(ws); n != 0 || !errors.Is(err, verbs.ErrBadWork) {
		t.Errorf("a malformed work on a full queue: %d, %v", n, err)
	}
	// Taken and done is not yet free; reported is.
	f.locked(func() { f.Done(f.Take()) })
	if n, err := f.Post(ws[1:2]); n != 0 || err != nil {
		t.Errorf("Post took %d, error %v", n, err)
	}
	f.ReportDone()
	if n, err := f.Post(ws[1:3]); n != 1 || err != nil {
		t.Errorf("Post took %d, error %v", n, err)
	}
}

// TestStall: a Read beyond MaxReads holds back all that was posted behind it.
func TestStall(t *testing.T) {
	f := up(t, verbs.Options{})
	f.post(t, verbs.OpRead, verbs.OpRead, verbs.OpRead, verbs.OpSend)
	f.locked(func() {
		for id := range uint64(2) {
			if w := f.Take(); w == nil || w.ID != id+1 {
				t.Fatalf("Take is %+v", w)
			}
		}
		if w := f.Take(); w != nil || f.Next() != nil || !f.Posted() || f.Reads().Len() != 2 {
			t.Fatalf("a third Read of two: %+v", w)
		}
		if cp := f.EndRead(); cp.ID != 1 || f.Next() == nil {
			t.Fatalf("the first Read ended: %+v, and what waited is still held back", cp)
		}
		f.Take()
		if w := f.Take(); w == nil || w.Op != verbs.OpSend {
			t.Fatalf("behind it came %+v", w)
		}
	})
}

// TestSweep: Invalidates wait for nothing, and the rest keeps its order.
func TestSweep(t *testing.T) {
	f := up(t, verbs.Options{})
	f.post(t, verbs.OpRead, verbs.OpInvalidate, verbs.OpSend, verbs.OpInvalidate, verbs.OpWrite)
	f.locked(func() {
		if f.Invalidates() != 2 {
			t.Errorf("%d Invalidates", f.Invalidates())
		}
		f.Sweep()
		if f.Invalidates() != 0 || f.Held() {
			t.Errorf("%d Invalidates left, held %v", f.Invalidates(), f.Held())
		}
	})
	f.ReportDone()
	same(t, "swept", f.user.ids(), []string{"Invalidate 2 ok", "Invalidate 4 ok"})
	var left []uint64
	f.locked(func() {
		for w := f.Take(); w != nil; w = f.Take() {
			left = append(left, w.ID)
			if w.Op != verbs.OpRead {
				f.Done(w)
			}
		}
	})
	if len(left) != 3 || left[0] != 1 || left[1] != 3 || left[2] != 5 {
		t.Errorf("left are %v", left)
	}
}

func TestReceives(t *testing.T) {
	f := up(t, verbs.Options{})
	recv := func(id uint64, n int) verbs.Recv { return verbs.Recv{ID: id, Seg: f.seg(0, n)[0]} }
	if n, err := f.PostRecv([]verbs.Recv{recv(1, 10), recv(2, 20), recv(3, 1001)}); n != 2 || !errors.Is(err, verbs.ErrBadWork) {
		t.Errorf("PostRecv took %d, error %v", n, err)
	}
	r, ok := f.Draw()
	if !ok || len(r.Buf) != 10 {
		t.Fatalf("drawn %v, %v", r, ok)
	}
	f.Undraw(r)
	r, _ = f.Draw()
	if cp := r.Completion(4, 9); cp.ID != 1 || len(cp.Buf) != 4 || cp.Invalidated != 9 {
		t.Errorf("completion %+v of a receive that was put back", cp)
	}
	if r, ok = f.Draw(); !ok || len(r.Buf) != 20 {
		t.Errorf("the second: %v, %v", r, ok)
	}
	if _, ok = f.Draw(); ok {
		t.Error("a third")
	}
	p, err := f.dom.NewRecvPool(1, 10)
	if err != nil {
		t.Fatal(err)
	}
	pooled := fresh(t, f.dom, verbs.Options{Recv: p})
	if _, err := pooled.PostRecv([]verbs.Recv{recv(1, 1)}); !errors.Is(err, verbs.ErrBadWork) {
		t.Errorf("PostRecv with a pool: %v", err)
	}
	if r, ok = pooled.Draw(); !ok {
		t.Fatal("an empty pool")
	}
	pooled.Undraw(r)
	if _, ok = pooled.Draw(); !ok {
		t.Error("a buffer that was put back is not there")
	}
	if err := new(fake).Init(newDomain(t), nil, &verbs.Options{Handler: f.user, Recv: p}); err == nil {
		t.Error("another domain's pool")
	}
	if err := new(fake).Init(f.dom, nil, &verbs.Options{}); err == nil {
		t.Error("no Handler")
	}
}

// TestPlace: what a peer may send in pieces, and what is its fault.
func TestPlace(t *testing.T) {
	f := up(t, verbs.Options{})
	f.PostRecv([]verbs.Recv{{ID: 1, Seg: f.seg(0, 10)[0]}, {ID: 2, Seg: f.seg(10, 10)[0]}, {ID: 3, Seg: f.seg(20, 10)[0]}})
	var w verbs.Window
	if err := f.Expose(&w, f.mem, 100, 10, verbs.RemoteWrite); err != nil {
		t.Fatal(err)
	}
	f.post(t, verbs.OpRead)
	f.locked(func() { f.Take() })
	ten := []byte("0123456789")
	for _, c := range []struct {
		name string
		do   func() error
		want error
	}{
		{"a piece", func() error { return f.PlaceMessage(ten[:4], false, false, 0) }, nil},
		{"its end", func() error { return f.PlaceMessage(ten[4:], true, false, 99) }, nil},
		{"too long", func() error { return f.PlaceMessage(append(ten, 'x'), true, false, 0) }, verbs.ErrTooLong},
		{"a key that is none", func() error { return f.PlaceMessage(ten, true, true, w.Key^1) }, verbs.ErrRemoteAccess},
		{"a Write", func() error { return f.PlaceWrite(ten, w.Key, w.Addr) }, nil},
		{"a Write beyond", func() error { return f.PlaceWrite(ten, w.Key, w.Addr+1) }, verbs.ErrRemoteAccess},
		{"an answer's piece", func() error { return f.PlaceAnswer(ten[:3], false) }, nil},
		{"more than was asked for", func() error { return f.PlaceAnswer(ten, true) }, verbs.ErrProtocol},
		{"less than was asked for", func() error { return f.PlaceAnswer(ten[3:4], true) }, verbs.ErrProtocol},
		{"the rest", func() error { return f.PlaceAnswer(ten[3:], true) }, nil},
		{"an answer to nothing", func() error { return f.PlaceAnswer(nil, true) }, verbs.ErrProtocol},
	} {
		if err := c.do(); err != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	f.Report(nil)
	same(t, "delivered", f.user.ids(), []string{"Recv 1 ok", "Read 1 ok"})
	if got := string(f.mem.Bytes()[100:110]); got != string(ten) {
		t.Errorf("written %q", got)
	}
	if c := f.user.got[0]; string(c.Buf) != string(ten) || c.Invalidated != 0 {
		t.Errorf("message %+v", c)
	}
	if err := f.PlaceMessage(nil, true, true, w.Key); err != nil {
		t.Error(err)
	}
	f.Report(nil)
	if c := f.user.got[2]; c.Invalidated != w.Key {
		t.Errorf("message %+v, want the key %#x", c, w.Key)
	}
}

// TestRefusals: what methods return before the connection is up and after its end.
func TestRefusals(t *testing.T) {
	no := errors.New("no")
	for _, c := range []struct {
		name string
		end  func(f *fake)
		want []error
	}{
		{"Close", func(f *fake) { f.Close() }, []error{net.ErrClosed}},
		{"Abort", func(f *fake) { f.Abort(no) }, []error{net.ErrClosed, no}},
		{"Abort with nil", func(f *fake) { f.Abort(nil) }, []error{net.ErrClosed}},
		{"Close, then Abort", func(f *fake) { f.Close(); f.Abort(no) }, []error{net.ErrClosed}},
		{"the peer", func(f *fake) { f.locked(func() { f.End(nil) }) }, []error{net.ErrClosed}},
	} {
		for _, begun := range []bool{true, false} {
			f := fresh(t, newDomain(t), verbs.Options{})
			if _, err := f.Post([]verbs.Work{{Op: verbs.OpSend}}); err == nil {
				t.Error("Post in set-up")
			}
			if begun {
				f.Go()
			}
			c.end(f)
			_, post := f.Post([]verbs.Work{{Op: verbs.OpSend}})
			_, recv := f.PostRecv([]verbs.Recv{{Seg: f.seg(0, 1)[0]}})
			expose := f.Expose(new(verbs.Window), f.mem, 0, 1, verbs.RemoteRead)
			for name, err := range map[string]error{"Post": post, "PostRecv": recv, "Expose": expose} {
				for _, want := range c.want {
					if !errors.Is(err, want) {
						t.Errorf("%s after %s, begun %v: %v", name, c.name, begun, err)
					}
				}
			}
			f.locked(func() { f.End(nil) })
			if !f.Abandon(nil) != begun {
				t.Errorf("%s: Abandon, begun %v", c.name, begun)
			}
			if begun {
				f.Bury()
			} else if f.Go() == nil {
				t.Errorf("%s: begun after its end", c.name)
			}
			if len(f.user.gone) == 0 == begun {
				t.Errorf("%s, begun %v: Disconnected %v", c.name, begun, f.user.gone)
			}
		}
	}
}
