package soft

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

func newKeys() *Keys { return &Keys{Provider: "testfabric"} }

func expose(t *testing.T, ws *Windows, mem []byte, a verbs.Access) *verbs.Window {
	t.Helper()
	w := new(verbs.Window)
	if err := ws.Expose(w, mem, a); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestResolve(t *testing.T) {
	k := newKeys()
	ours, others := k.Windows(), k.Windows()
	mem := make([]byte, 100)
	read := expose(t, &ours, mem, verbs.RemoteRead)
	both := expose(t, &ours, mem, verbs.RemoteRead|verbs.RemoteWrite)
	gone := expose(t, &ours, mem, verbs.RemoteRead)
	if r := ours.Revoke(gone.Key); r != Granted {
		t.Fatal(r)
	}
	theirs := expose(t, &others, mem, verbs.RemoteRead)
	elsewhere := newKeys().Windows()
	for _, c := range []struct {
		name    string
		ws      *Windows
		key     uint32
		addr, n uint64
		right   verbs.Access
		want    Refusal
	}{
		{"all of it", &ours, read.Key, read.Addr, 100, verbs.RemoteRead, Granted},
		{"a part within", &ours, read.Key, read.Addr + 10, 5, verbs.RemoteRead, Granted},
		{"its end", &ours, read.Key, read.Addr + 99, 1, verbs.RemoteRead, Granted},
		{"nothing at its end", &ours, read.Key, read.Addr + 100, 0, verbs.RemoteRead, Granted},
		{"one of two rights", &ours, both.Key, both.Addr, 100, verbs.RemoteWrite, Granted},
		{"one byte too many", &ours, read.Key, read.Addr + 1, 100, verbs.RemoteRead, OutOfBounds},
		{"before the start", &ours, read.Key, read.Addr - 1, 1, verbs.RemoteRead, OutOfBounds},
		{"beyond the end", &ours, read.Key, read.Addr + 101, 0, verbs.RemoteRead, OutOfBounds},
		{"a length that wraps", &ours, read.Key, read.Addr + 1, math.MaxUint64, verbs.RemoteRead, OutOfBounds},
		{"address 0", &ours, read.Key, 0, 1, verbs.RemoteRead, OutOfBounds},
		{"the right comes before the bounds", &ours, read.Key, read.Addr, 101, verbs.RemoteWrite, NoRight},
		{"two rights where there is one", &ours, read.Key, read.Addr, 1, verbs.RemoteRead | verbs.RemoteWrite, NoRight},
		{"another connection's", &ours, theirs.Key, theirs.Addr, 1, verbs.RemoteRead, NotTheirs},
		{"ours, named by another", &others, read.Key, read.Addr, 1, verbs.RemoteRead, NotTheirs},
		{"a revoked one", &ours, gone.Key, gone.Addr, 1, verbs.RemoteRead, NoKey},
		{"key 0", &ours, 0, 0, 0, verbs.RemoteRead, NoKey},
		{"another tag", &ours, read.Key ^ 1, read.Addr, 1, verbs.RemoteRead, NoKey},
		{"another generation", &ours, read.Key ^ 1<<tagBits, read.Addr, 1, verbs.RemoteRead, NoKey},
		{"a slot that was never used", &ours, 1000 << (genBits + tagBits), 0, 1, verbs.RemoteRead, NoKey},
		{"a page that was never made", &ours, math.MaxUint32, 0, 1, verbs.RemoteRead, NoKey},
		{"a table without pages", &elsewhere, read.Key, read.Addr, 1, verbs.RemoteRead, NoKey},
	} {
		s, got, r := c.ws.Resolve(c.key, c.addr, c.n, c.right)
		if r != c.want {
			t.Errorf("%s: %d, want %d", c.name, r, c.want)
		}
		if r != Granted {
			continue
		}
		if uint64(len(got)) != c.n || cap(got) != len(got) || s.mu.TryLock() {
			t.Errorf("%s: %d bytes with room for %d, or not locked", c.name, len(got), cap(got))
		}
		s.Unlock()
	}
}

func TestRevoke(t *testing.T) {
	k := newKeys()
	ws, others := k.Windows(), k.Windows()
	var all []*verbs.Window
	for range 5 {
		all = append(all, expose(t, &ws, make([]byte, 10), verbs.RemoteRead))
	}
	for _, i := range []int{4, 0, 2, 1, 3} { // the first of the list, its end, and between
		w := all[i]
		if r := others.Revoke(w.Key); r != NotTheirs {
			t.Errorf("window %d, by another connection: %d", i, r)
		}
		if r := ws.Revoke(w.Key); r != Granted {
			t.Errorf("window %d: %d", i, r)
		}
		if r := ws.Revoke(w.Key); r != NoKey {
			t.Errorf("window %d, again: %d", i, r)
		}
	}
	if r := ws.Revoke(0); r != NoKey {
		t.Errorf("key 0, of no slot: %d", r)
	}
	if ws.first != nil {
		t.Error("windows are left")
	}
	if n := freeSlots(k); n != pageSize {
		t.Errorf("%d slots of %d are free", n, pageSize)
	}
}

func TestRevokeAll(t *testing.T) {
	k := newKeys()
	ws, others := k.Windows(), k.Windows()
	theirs := expose(t, &others, make([]byte, 10), verbs.RemoteRead)
	var all []*verbs.Window
	for range 100 {
		all = append(all, expose(t, &ws, make([]byte, 10), verbs.RemoteRead))
	}
	ws.RevokeAll()
	for _, w := range all {
		if r := ws.Revoke(w.Key); r != NoKey {
			t.Fatalf("key %#x: %d", w.Key, r)
		}
	}
	if err := ws.Expose(new(verbs.Window), make([]byte, 10), verbs.RemoteRead); err != ErrEnded {
		t.Errorf("Expose after the end: %v", err)
	}
	ws.RevokeAll()
	if n := freeSlots(k); n != pageSize-1 {
		t.Errorf("%d slots are free", n)
	}
	if r := others.Revoke(theirs.Key); r != Granted {
		t.Errorf("another connection's: %d", r)
	}
}

func freeSlots(k *Keys) (n int) {
	for s := k.free; s != nil; s = s.next {
		n++
	}
	return n
}

func TestAWindowInForceIsNotExposedAgain(t *testing.T) {
	k := newKeys()
	ws := k.Windows()
	w := expose(t, &ws, make([]byte, 10), verbs.RemoteRead)
	err := ws.Expose(w, make([]byte, 10), verbs.RemoteRead)
	if !errors.Is(err, verbs.ErrBadWork) || !strings.HasPrefix(err.Error(), "testfabric: the window is in force: ") {
		t.Errorf("%v", err)
	}
	ws.Revoke(w.Key)
	if err := ws.Expose(w, make([]byte, 10), verbs.RemoteRead); err != nil {
		t.Error(err)
	}
}

func TestKeysAreUnguessable(t *testing.T) {
	k := newKeys()
	ws := k.Windows()
	tags, gens := map[uint32]bool{}, map[uint32]bool{}
	var w verbs.Window
	var index uint32
	for i := range 8000 {
		if err := ws.Expose(&w, make([]byte, 64), verbs.RemoteRead); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			index = w.Key >> (genBits + tagBits)
		}
		if w.Key>>(genBits+tagBits) != index {
			t.Fatalf("key %#x: one window at a time uses more than slot %d", w.Key, index)
		}
		if w.Key == 0 || w.Addr>>62 != 0 {
			t.Fatalf("key %#x, or address %#x is near the end", w.Key, w.Addr)
		}
		tags[w.Key&(1<<tagBits-1)] = true
		gens[w.Key>>tagBits&(1<<genBits-1)] = true
		ws.Revoke(w.Key)
	}
	if len(tags) < 1000 || len(gens) != 1<<genBits {
		t.Errorf("8000 keys have %d tags of %d and %d generations of %d", len(tags), 1<<tagBits, len(gens), 1<<genBits)
	}
}

func TestKeysRunOut(t *testing.T) {
	k := newKeys()
	k.made = 1<<indexBits - 2*pageSize // as if all but the last pages were in use
	ws, mem := k.Windows(), make([]byte, 64)
	for range 2 * pageSize {
		expose(t, &ws, mem, verbs.RemoteRead)
	}
	err := ws.Expose(new(verbs.Window), mem, verbs.RemoteRead)
	if err == nil || err.Error() != "testfabric: all 262144 remote keys are in use" {
		t.Errorf("one too many: %v", err)
	}
	ws.RevokeAll()
	if n := freeSlots(k); n != 2*pageSize {
		t.Errorf("%d slots are free after the end", n)
	}
}

func TestDetach(t *testing.T) {
	k := newKeys()
	ws := k.Windows()
	for _, c := range []struct {
		a    verbs.Access
		want string
	}{
		{verbs.RemoteRead, "held-"},
		{verbs.RemoteRead | verbs.RemoteWrite, "held-"},
		{verbs.RemoteWrite, "-----"}, // the peer does not see it: not worth a copy
	} {
		own, spare := []byte("held"), []byte("-----")
		w := expose(t, &ws, own, c.a)
		s := w.Slot.(*Slot)
		moves := s.Moves
		if !ws.Detach(w, spare) || string(spare) != c.want || s.Moves != moves+1 {
			t.Errorf("rights %d: %q", c.a, spare)
		}
		_, mem, r := ws.Resolve(w.Key, w.Addr, 4, c.a)
		if r != Granted || &mem[0] != &spare[0] || len(s.Mem) != 4 || cap(s.Mem) != 4 {
			t.Errorf("rights %d: %d, not there", c.a, r)
		}
		s.Unlock()
		ws.Revoke(w.Key)
		if ws.Detach(w, spare) || !bytes.Equal(spare[:4], []byte(c.want[:4])) {
			t.Errorf("rights %d: detached after the end", c.a)
		}
	}
	if ws.Detach(new(verbs.Window), nil) {
		t.Error("a window that never was")
	}
	w := expose(t, &ws, make([]byte, 10), verbs.RemoteWrite)
	wantPanic(t, "testfabric: Detach of 10 bytes to 9", func() { ws.Detach(w, make([]byte, 9)) })
}

func TestHold(t *testing.T) {
	k := newKeys()
	ws := k.Windows()
	w := expose(t, &ws, make([]byte, 10), verbs.RemoteWrite)
	s := w.Slot.(*Slot)
	if !s.Hold(w.Key) || s.Key() != w.Key {
		t.Fatal("in force, and not held")
	}
	s.Reach(w.Addr+3, 4)
	s.Reach(w.Addr+1, 2)
	if s.Reached != 7 {
		t.Errorf("reached %d", s.Reached)
	}
	s.Unlock()
	ws.Revoke(w.Key)
	if s.Hold(w.Key) || s.Hold(0) {
		t.Error("held after the end")
	}
	if err := ws.Expose(w, make([]byte, 10), verbs.RemoteWrite); err != nil || w.Slot != s || s.Reached != 0 {
		t.Errorf("%v, or another slot, or reached %d before anything came", err, s.Reached)
	}
}

func TestExposingAllocatesNothing(t *testing.T) {
	k := newKeys()
	ws, mem := k.Windows(), make([]byte, 10)
	var w verbs.Window
	if n := testing.AllocsPerRun(1000, func() {
		ws.Expose(&w, mem, verbs.RemoteRead)
		if s, _, r := ws.Resolve(w.Key, w.Addr, 10, verbs.RemoteRead); r == Granted {
			s.Unlock()
		}
		ws.Revoke(w.Key)
	}); n > 0 { // AllocsPerRun rounds down: the page of slots counts for nothing
		t.Errorf("%v allocations", n)
	}
}

// TestNoAccessOutlivesRevoke is for the race detector too: the memory is its owner's again
// as soon as Revoke, Detach or RevokeAll has returned.
func TestNoAccessOutlivesRevoke(t *testing.T) {
	k := newKeys()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			ws := k.Windows()
			mem, spare := make([]byte, 64), make([]byte, 64)
			var w verbs.Window
			named := make(chan verbs.Window, 1)
			var peer sync.WaitGroup
			peer.Go(func() {
				for w := range named {
					for range 3 {
						if s, b, r := ws.Resolve(w.Key, w.Addr, 64, verbs.RemoteWrite); r == Granted {
							b[0]++
							s.Unlock()
						}
					}
				}
			})
			for i := range 1000 {
				if err := ws.Expose(&w, mem, verbs.RemoteWrite); err != nil {
					t.Error(err)
					break
				}
				named <- w
				if i%2 == 0 {
					ws.Detach(&w, spare)
					mem[0]++
				}
				if i == 999 {
					ws.RevokeAll()
				} else if r := ws.Revoke(w.Key); r != Granted {
					t.Errorf("window %d: %d", i, r)
				}
				mem[0]++
				spare[0]++
			}
			close(named)
			peer.Wait()
		})
	}
	all.Wait()
}
