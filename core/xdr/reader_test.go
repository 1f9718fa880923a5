package xdr

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"unsafe"
)

func TestReader(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   []byte
		read func(r *Reader) any
		want any
		err  error
		left int
	}{
		{"§4.2 unsigned", []byte{0xff, 0, 0, 1, 9}, func(r *Reader) any { return r.Uint32() }, uint32(0xff000001), nil, 1},
		{"§4.1 integer", []byte{0xff, 0xff, 0xff, 0xfe}, func(r *Reader) any { return r.Int32() }, int32(-2), nil, 0},
		{"§4.5 hyper", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe}, func(r *Reader) any { return r.Int64() }, int64(-2), nil, 0},
		{"§4.2 three bytes", []byte{0, 0, 1}, func(r *Reader) any { return r.Uint32() }, uint32(0), ErrShort, 3},
		{"§4.5 seven bytes", make([]byte, 7), func(r *Reader) any { return r.Uint64() }, uint64(0), ErrShort, 7},
		{"§4.4 TRUE", []byte{0, 0, 0, 1}, func(r *Reader) any { return r.Bool() }, true, nil, 0},
		{"§4.4 two", []byte{0, 0, 0, 2}, func(r *Reader) any { return r.Bool() }, false, ErrValue, 0},
		{"§4.9 fixed, round-up whatever it holds", []byte{1, 2, 3, 99, 5}, func(r *Reader) any { return r.Fixed(3) }, []byte{1, 2, 3}, nil, 1},
		{"§4.9 fixed, round-up missing", []byte{1, 2, 3}, func(r *Reader) any { return r.Fixed(3) }, []byte(nil), ErrShort, 0},
		{"§4.9 negative", make([]byte, 8), func(r *Reader) any { return r.Fixed(-1) }, []byte(nil), ErrShort, 8},
		{"§4.9 beyond any memory", make([]byte, 8), func(r *Reader) any { return r.Fixed(math.MaxInt) }, []byte(nil), ErrShort, 8},
		{"§4.10 opaque", []byte{0, 0, 0, 1, 7, 0, 0, 0}, func(r *Reader) any { return r.Opaque(1) }, []byte{7}, nil, 0},
		{"§4.10 opaque of nothing", []byte{0, 0, 0, 0}, func(r *Reader) any { return len(r.Opaque(0)) }, 0, nil, 0},
		{"§4.10 above its bound", []byte{0, 0, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0}, func(r *Reader) any { return r.Opaque(4) }, []byte(nil), ErrBounds, 8},
		{"§4.10 length near 2^32", []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4}, func(r *Reader) any { return r.Opaque(math.MaxUint32) }, []byte(nil), ErrShort, 4},
		{"§4.10 length 2^32-4, whose sum with an offset wraps", []byte{0xff, 0xff, 0xff, 0xfc, 1, 2, 3, 4}, func(r *Reader) any { return r.Opaque(math.MaxUint32) }, []byte(nil), ErrShort, 4},
		{"§4.11 string", []byte{0, 0, 0, 2, 'h', 'i', 0, 0}, func(r *Reader) any { return r.String(255) }, "hi", nil, 0},
		{"§4.11 string cut", []byte{0, 0, 0, 2, 'h'}, func(r *Reader) any { return r.String(255) }, "", ErrShort, 1},
		{"§4.13 count", []byte{0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0}, func(r *Reader) any { return r.Count(2, 4) }, 2, nil, 8},
		{"§4.13 more than the stream holds", []byte{0, 0, 0, 2, 0, 0, 0, 0}, func(r *Reader) any { return r.Count(2, 4) }, 0, ErrShort, 4},
		{"§4.13 above its bound", []byte{0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0}, func(r *Reader) any { return r.Count(1, 4) }, 0, ErrBounds, 8},
		{"§4.13 count near 2^32", []byte{0xff, 0xff, 0xff, 0xff}, func(r *Reader) any { return r.Count(math.MaxUint32, 1<<30) }, 0, ErrShort, 0},
		{"§4.13 count of items without a size", []byte{0xff, 0xff, 0xff, 0xff}, func(r *Reader) any { return r.Count(math.MaxUint32, 0) }, 0, ErrShort, 0},
		{"rest", []byte{1, 2, 3}, func(r *Reader) any { return r.Rest() }, []byte{1, 2, 3}, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := NewReader(tc.in)
			got := tc.read(r)
			if b, ok := got.([]byte); ok {
				if !bytes.Equal(b, tc.want.([]byte)) || (b == nil) != (tc.want.([]byte) == nil) {
					t.Errorf("got %v, want %v", b, tc.want)
				}
			} else if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if !errors.Is(r.Err(), tc.err) || (tc.err == nil) != (r.Err() == nil) {
				t.Errorf("fault %v, want %v", r.Err(), tc.err)
			}
			if r.Remaining() != tc.left || r.Offset() != len(tc.in)-tc.left {
				t.Errorf("%d bytes left after %d, want %d", r.Remaining(), r.Offset(), tc.left)
			}
		})
	}
}

// TestSticky: after the first fault every method returns its zero value and the fault stays.
func TestSticky(t *testing.T) {
	r := NewReader([]byte{0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1})
	r.Bool()
	r.Fail(ErrChunk)
	if r.Uint32() != 0 || r.Int32() != 0 || r.Uint64() != 0 || r.Int64() != 0 || r.Bool() ||
		r.Count(9, 1) != 0 || r.Fixed(1) != nil || r.Opaque(9) != nil || r.Bulk(9) != nil ||
		r.String(9) != "" || r.Rest() != nil || r.FixedView(1) != nil || r.OpaqueView(9) != nil ||
		r.StringView(9) != "" || r.RestView() != nil {
		t.Error("a value after the fault")
	}
	if r.Err() != ErrValue || r.Done() != ErrValue || r.Offset() != 4 {
		t.Errorf("fault %v at %d", r.Err(), r.Offset())
	}
}

// TestViews: a view lies in the stream, and cannot be appended into the next item.
func TestViews(t *testing.T) {
	for name, read := range map[string]func(*Reader) []byte{
		"opaque": func(r *Reader) []byte { return r.OpaqueView(4) },
		"bulk":   func(r *Reader) []byte { return r.Bulk(4) },
		"fixed":  func(r *Reader) []byte { r.Uint32(); return r.FixedView(1) },
	} {
		b := []byte{0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 9}
		r := NewReader(b)
		v := read(r)
		_ = append(v, 1, 2, 3, 4, 5)
		if r.Uint32() != 9 {
			t.Errorf("%s: an append to a view changed the stream", name)
		}
		if &v[0] != &b[4] {
			t.Errorf("%s: not a view", name)
		}
	}
	b := []byte{0, 0, 0, 1, 7, 0, 0, 0}
	r := NewReader(b)
	if s := r.StringView(4); unsafe.StringData(s) != &b[4] {
		t.Error("string: not a view")
	}
	if v := NewReader(b).RestView(); &v[0] != &b[0] {
		t.Error("rest: not a view")
	}
}

// TestCopies: what is not called a view stays as it is when the stream is overwritten.
func TestCopies(t *testing.T) {
	b := []byte{0, 0, 0, 2, 'h', 'i', 0, 0, 0, 0, 0, 1, 7, 0, 0, 0, 8, 0, 0, 0, 9}
	r := NewReader(b)
	s, o, f, rest := r.String(4), r.Opaque(4), r.Fixed(1), r.Rest()
	if err := r.Done(); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 0xdb
	}
	if s != "hi" || !bytes.Equal(o, []byte{7}) || !bytes.Equal(f, []byte{8}) || !bytes.Equal(rest, []byte{9}) {
		t.Errorf("%q %v %v %v: of the stream as it is now", s, o, f, rest)
	}
	r = NewReader(make([]byte, 8))
	if o, rest := r.Opaque(4), r.Rest(); o == nil || len(o) != 0 || len(rest) != 4 || cap(o) != 0 {
		t.Errorf("an empty opaque is %#v with room for %d bytes", o, cap(o))
	}
}

// TestCopyBounded: a length that the stream does not hold allocates nothing.
func TestCopyBounded(t *testing.T) {
	in := []byte{0x7f, 0xff, 0xff, 0xff, 1, 2, 3, 4}
	var r Reader
	for name, read := range map[string]func(){
		"opaque": func() { r.Opaque(math.MaxUint32) },
		"string": func() { _ = r.String(math.MaxUint32) },
		"fixed":  func() { r.Fixed(1 << 30) },
		"bound":  func() { r.Opaque(4) },
	} {
		if n := testing.AllocsPerRun(10, func() { r.Reset(in, nil); read() }); n != 0 || r.Err() == nil {
			t.Errorf("%s: %v allocations, %v", name, n, r.Err())
		}
	}
}

func TestDone(t *testing.T) {
	for _, tc := range []struct {
		name  string
		in    []byte
		moved []Moved
		want  error
	}{
		{"all read", nil, nil, nil},
		{"bytes left", []byte{0}, nil, ErrTrailing},
		{"a Read chunk that no item took", nil, []Moved{{Position: 8, Data: []byte{1}}}, ErrTrailing},
		{"an unused Write chunk", nil, []Moved{{Position: InOrder}}, nil},
		{"a Write chunk whose result the reply does not have", nil, []Moved{{Position: InOrder, Data: []byte{1}}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r Reader
			r.Reset(tc.in, tc.moved)
			if err := r.Done(); err != tc.want {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}
