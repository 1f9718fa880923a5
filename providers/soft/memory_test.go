package soft

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/pages"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

var errClosed = errors.New("testfabric: domain closed")

func newMemory(t *testing.T) *Memory {
	m := &Memory{Provider: "testfabric", Closed: errClosed}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func alloc(t *testing.T, m *Memory, n int) verbs.Region {
	t.Helper()
	r, err := m.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wantPanic runs f, which breaks a promise, and compares what it is told.
func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}()
	f()
}

func TestSlabs(t *testing.T) {
	m := newMemory(t)
	for _, n := range []int{1, 4096, 3 << 20} {
		r := alloc(t, m, n)
		if len(r.Bytes()) != n || len(bytes.Trim(r.Bytes(), "\x00")) != 0 {
			t.Errorf("%d bytes: %d came, or not zeroed", n, len(r.Bytes()))
		}
		r.Bytes()[n-1] = 1
		r.Release()
		if r.Bytes() != nil || len(m.slabs) != 0 {
			t.Errorf("%d bytes: a released slab has %d bytes; %d slabs are left", n, len(r.Bytes()), len(m.slabs))
		}
	}
	if _, err := m.Alloc(0); err == nil || err.Error() != "testfabric: Alloc of 0 bytes" {
		t.Errorf("no bytes: %v", err)
	}
	var call *os.SyscallError
	if _, err := m.Alloc(math.MaxInt &^ 4095); !errors.As(err, &call) || !strings.HasPrefix(err.Error(), "testfabric: Alloc of ") {
		t.Errorf("more than there is: %v", err)
	}
}

func TestRegistrationsAreReused(t *testing.T) {
	m, mem := newMemory(t), make([]byte, 64)
	r, err := m.Register(mem)
	if err != nil || &r.Bytes()[0] != &mem[0] || len(r.Bytes()) != 64 {
		t.Fatalf("%v, %v", r, err)
	}
	r.Release()
	if n := testing.AllocsPerRun(100, func() {
		r, _ := m.Register(mem)
		r.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	wantPanic(t, "testfabric: region released twice", r.Release)
	if _, err := m.Register(nil); err == nil || err.Error() != "testfabric: Register of no memory" {
		t.Errorf("no memory: %v", err)
	}
}

func TestMemoryClose(t *testing.T) {
	m := &Memory{Provider: "testfabric", Closed: errClosed}
	slab := alloc(t, m, 4096)
	mem := slab.Bytes()
	own, err := m.Register(make([]byte, 64))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if pages.Free(mem) == nil {
		t.Error("a slab was left mapped")
	}
	if _, err := m.Alloc(64); err != errClosed {
		t.Errorf("Alloc: %v", err)
	}
	if _, err := m.Register(make([]byte, 64)); err != errClosed {
		t.Errorf("Register: %v", err)
	}
	slab.Release() // is free already: must not be unmapped again
	own.Release()
}

func TestInside(t *testing.T) {
	m := newMemory(t)
	r, other, gone := alloc(t, m, 100), alloc(t, newMemory(t), 100), alloc(t, m, 100)
	gone.Release()
	var none *region
	for _, c := range []struct {
		name   string
		r      verbs.Region
		off, n int
		want   bool
	}{
		{"all", r, 0, 100, true},
		{"a part", r, 40, 60, true},
		{"nothing at the end", r, 100, 0, true},
		{"one byte too many", r, 40, 61, false},
		{"beyond the end", r, 101, 0, false},
		{"before the start", r, -1, 1, false},
		{"fewer than none", r, 10, -1, false},
		{"a sum that wraps", r, 1, math.MaxInt, false},
		{"another domain's", other, 0, 1, false},
		{"a released one", gone, 0, 1, false},
		{"none", nil, 0, 0, false},
		{"a nil one", none, 0, 0, false},
		{"somebody else's kind", foreign{}, 0, 0, false},
	} {
		if got := m.Inside(c.r, c.off, c.n); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

type foreign struct{}

func (foreign) Bytes() []byte { return nil }
func (foreign) Release()      {}
