package xdr

import (
	"bytes"
	"errors"
	"testing"
)

func TestWriter(t *testing.T) {
	var w Writer
	w.Uint32(1)
	w.Int32(-1)
	w.Uint64(2)
	w.Int64(-2)
	w.Bool(true)
	w.Bool(false)
	w.Fixed([]byte{1})
	w.Opaque([]byte{1, 2})
	w.String("abc")
	w.Raw([]byte{9, 9, 9, 9})
	want := []byte{
		0, 0, 0, 1,
		0xff, 0xff, 0xff, 0xff,
		0, 0, 0, 0, 0, 0, 0, 2,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe,
		0, 0, 0, 1,
		0, 0, 0, 0,
		1, 0, 0, 0,
		0, 0, 0, 2, 1, 2, 0, 0,
		0, 0, 0, 3, 'a', 'b', 'c', 0,
		9, 9, 9, 9,
	}
	if !bytes.Equal(w.Bytes(), want) || w.Len() != len(want) || w.Err() != nil {
		t.Errorf("%x, %d, %v", w.Bytes(), w.Len(), w.Err())
	}
	w.Fail(ErrBounds)
	w.Fail(ErrValue)
	if !errors.Is(w.Err(), ErrBounds) {
		t.Error("the first fault does not stick")
	}
	w.Reset()
	if w.Len() != 0 || w.Err() != nil || len(w.Bytes()) != 0 {
		t.Error("not empty after Reset")
	}
}

// TestTruncate: items behind the cut are dropped and released once, those before it stay.
func TestTruncate(t *testing.T) {
	released := map[string]int{}
	item := func(s string) Bulk {
		return Bulk{Data: []byte(s), Release: func() { released[s]++ }}
	}
	var w Writer
	w.Uint32(1)
	w.BulkItem(item("first"))
	at, n := len(w.Bytes()), w.Len()
	w.Uint32(2)
	w.BulkItem(item("second"))
	w.BulkItem(item("third"))
	w.Truncate(at)
	if w.Len() != n || len(w.Bulk()) != 1 || released["first"] != 0 || released["second"] != 1 || released["third"] != 1 {
		t.Errorf("len %d of %d, %d items, released %v", w.Len(), n, len(w.Bulk()), released)
	}
	want := []byte("\x00\x00\x00\x01\x00\x00\x00\x05first\x00\x00\x00")
	if got := w.AppendUnreduced(nil); !bytes.Equal(got, want) {
		t.Errorf("%q", got)
	}
	w.DropBulk()
	if released["first"] != 1 || len(w.Bulk()) != 0 || w.Len() != len(w.Bytes()) {
		t.Errorf("released %v", released)
	}
	for _, n := range []int{-1, len(w.Bytes()) + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Truncate(%d) of %d bytes did not panic", n, len(w.Bytes()))
				}
			}()
			w.Truncate(n)
		}()
	}
}

// TestResetForgets: Reset keeps memory but no reference to the caller's data.
func TestResetForgets(t *testing.T) {
	var w Writer
	w.BulkOpaque(make([]byte, 8))
	items := w.Bulk()
	w.Reset()
	if items[0].Data != nil {
		t.Error("Reset keeps the item alive")
	}
}

func TestAllocs(t *testing.T) {
	var w Writer
	data := make([]byte, 100)
	encode := func() {
		w.Reset()
		w.Uint32(1)
		w.Uint64(2)
		w.String("name")
		w.Opaque(data[:7])
		w.BulkOpaque(data)
		w.Bool(true)
	}
	encode()
	if n := testing.AllocsPerRun(100, encode); n != 0 {
		t.Errorf("%v allocations to write", n)
	}
	moved := []Moved{{Position: w.Bulk()[0].Position, Data: data}}
	var r Reader
	decode := func() {
		r.Reset(w.Bytes(), moved)
		r.Uint32()
		r.Uint64()
		_ = r.StringView(255)
		r.OpaqueView(7)
		r.Bulk(100)
		r.Bool()
		if r.Done() != nil {
			t.Fatal(r.Err())
		}
	}
	if n := testing.AllocsPerRun(100, decode); n != 0 {
		t.Errorf("%v allocations to read", n)
	}
}

func BenchmarkRead(b *testing.B) {
	var w Writer
	for i := range uint32(10) {
		w.Uint32(i)
	}
	w.Opaque(make([]byte, 40))
	var r Reader
	b.ReportAllocs()
	b.SetBytes(int64(w.Len()))
	for b.Loop() {
		r.Reset(w.Bytes(), nil)
		for range 10 {
			r.Uint32()
		}
		r.OpaqueView(40)
	}
}
