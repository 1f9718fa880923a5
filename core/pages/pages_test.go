package pages

import (
	"bytes"
	"errors"
	"math"
	"os"
	"testing"
	"unsafe"
)

func TestAlloc(t *testing.T) {
	page := uintptr(os.Getpagesize())
	for _, n := range []int{1, 4096, 3<<20 + 1} {
		b, err := Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) != n || len(bytes.Trim(b, "\x00")) != 0 {
			t.Errorf("%d bytes: %d came, or they are not zeroed", n, len(b))
		}
		if at := uintptr(unsafe.Pointer(&b[0])); at%page != 0 {
			t.Errorf("%d bytes begin at %#x, which is no page boundary", n, at)
		}
		b[0], b[n-1] = 1, 1
		if err := Free(b); err != nil {
			t.Error(err)
		}
		if Free(b) == nil {
			t.Errorf("%d bytes could be freed twice", n)
		}
	}
}

func TestAllocRefuses(t *testing.T) {
	for _, n := range []int{math.MinInt, -1, 0} {
		if _, err := Alloc(n); err != errSize {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	var call *os.SyscallError
	for _, n := range []int{math.MaxInt, math.MaxInt &^ 4095} {
		if _, err := Alloc(n); !errors.As(err, &call) {
			t.Errorf("%d bytes, more than there is: %v", n, err)
		}
	}
}
