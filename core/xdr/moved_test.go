package xdr

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// TestBulk: where a bulk item is found (RFC 8166 §3.4.5, §4.3.2). The stream is a word, the
// item's length, possibly the item, and a word.
func TestBulk(t *testing.T) {
	reduced := func(n byte) []byte { return []byte{0, 0, 0, 1, 0, 0, 0, n, 0, 0, 0, 9} }
	inline := []byte{0, 0, 0, 1, 0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 9}
	abc, abcPad := []byte("abc"), []byte("abc\x00")
	into := func(n int) []byte { return make([]byte, n) }
	for _, tc := range []struct {
		name  string
		in    []byte
		moved []Moved
		want  string
		err   error
	}{
		{"inline", inline, nil, "abc", nil},
		{"§3.4.5 Read chunk at its position", reduced(3), []Moved{{Position: 8, Data: abc}}, "abc", nil},
		{"§3.4.5.2 Read chunk with round-up", reduced(3), []Moved{{Position: 8, Data: abcPad}}, "abc", nil},
		{"§3.4.5.2 Read chunk longer than that", reduced(3), []Moved{{Position: 8, Data: []byte("abc\x00\x00")}}, "", ErrChunk},
		{"§3.4.5.2 with half of the round-up", reduced(1), []Moved{{Position: 8, Data: []byte("a\x00\x00")}}, "", ErrChunk},
		{"§4.5.2 Read chunk shorter than its item", reduced(3), []Moved{{Position: 8, Data: []byte("ab")}}, "", ErrChunk},
		{"Read chunk of no bytes for an empty item", reduced(0), []Moved{{Position: 8}}, "", nil},
		{"Read chunk for another position", inline, []Moved{{Position: 12, Data: abc}}, "abc", ErrTrailing},
		{"§4.3.2.1 Write chunk", reduced(3), []Moved{{Position: InOrder, Data: abc, Into: abc}}, "abc", nil},
		{"Write chunk with round-up", reduced(3), []Moved{{Position: InOrder, Data: abcPad}}, "abc", nil},
		{"Write chunk shorter than its item", reduced(3), []Moved{{Position: InOrder, Data: []byte("ab")}}, "", ErrChunk},
		{"Write chunk filled, item empty", reduced(0), []Moved{{Position: InOrder, Data: abc}}, "", ErrChunk},
		{"§4.3.2.2 unused Write chunk, no destination", inline, []Moved{{Position: InOrder}}, "abc", nil},
		{"§4.3.2.2 unused Write chunk, copied to its destination", inline, []Moved{{Position: InOrder, Into: into(3)}}, "abc", nil},
		{"unused Write chunk, destination too small", inline, []Moved{{Position: InOrder, Into: into(2)}}, "", ErrBounds},
		{"unused Write chunk, item missing", reduced(200), []Moved{{Position: InOrder, Into: into(300)}}, "", ErrShort},
		{"empty result, unused Write chunk", reduced(0), []Moved{{Position: InOrder, Into: into(8)}}, "", nil},
		{"above the bound", reduced(255), []Moved{{Position: 8, Data: abc}}, "", ErrBounds},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r Reader
			r.Reset(tc.in, tc.moved)
			r.Uint32()
			got := r.Bulk(250)
			if r.Err() == nil && r.Uint32() != 9 && r.Err() == nil {
				t.Error("the stream goes on elsewhere")
			}
			if err := r.Done(); err != tc.err {
				t.Fatalf("fault %v, want %v", err, tc.err)
			}
			if tc.err != nil && tc.err != ErrTrailing && got != nil {
				t.Errorf("%q despite the fault", got)
			}
			if string(got) != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if len(got) > 0 && len(tc.moved) > 0 && tc.moved[0].Into != nil && &got[0] != &tc.moved[0].Into[0] {
				t.Error("not in its destination")
			}
			if cap(got) != len(got) {
				t.Errorf("%d bytes can be appended in place", cap(got)-len(got))
			}
		})
	}
}

// TestBulkPositions: two Read chunks; the second one's position counts the bytes and the
// round-up of the first (RFC 8166 §3.4.5). An item in between that is not eligible stays in the stream.
func TestBulkPositions(t *testing.T) {
	var w Writer
	w.BulkOpaque([]byte("12345"))
	w.Opaque([]byte("x"))
	w.BulkOpaque([]byte("678"))
	if got := w.Bulk()[1].Position; got != 4+8+8+4 {
		t.Fatalf("second item at %d", got)
	}
	var r Reader
	r.Reset(w.Bytes(), []Moved{
		{Position: w.Bulk()[0].Position, Data: w.Bulk()[0].Data},
		{Position: w.Bulk()[1].Position, Data: w.Bulk()[1].Data},
	})
	a, x, b := r.Bulk(9), r.Opaque(9), r.Bulk(9)
	if err := r.Done(); err != nil || string(a)+string(x)+string(b) != "12345x678" {
		t.Errorf("%q %q %q %v", a, x, b, err)
	}
	if r.Position() != w.Len() {
		t.Errorf("position %d of %d", r.Position(), w.Len())
	}
}

// TestMovedWithoutLeave: an item that no binding allows to move is not taken from its chunk (RFC 8166 §6.1).
func TestMovedWithoutLeave(t *testing.T) {
	var w Writer
	w.BulkOpaque([]byte("12345"))
	var r Reader
	r.Reset(w.Bytes(), []Moved{{Position: 4, Data: []byte("12345")}})
	if b := r.Opaque(9); b != nil || !errors.Is(r.Err(), ErrChunk) {
		t.Errorf("%q, %v", b, r.Err())
	}
}

// TestBulkEmptyWriteChunk: an empty item takes its Write chunk, so that the next one gets
// its own (RFC 8166 §4.3.2.2).
func TestBulkEmptyWriteChunk(t *testing.T) {
	var r Reader
	r.Reset([]byte{0, 0, 0, 0, 0, 0, 0, 2}, []Moved{{Position: InOrder}, {Position: InOrder, Data: []byte("hi")}})
	if a, b := r.Bulk(9), r.Bulk(9); len(a) != 0 || !bytes.Equal(b, []byte("hi")) || r.Done() != nil {
		t.Errorf("%q %q %v", a, b, r.Err())
	}
}

// TestAhead: what lies ahead is the same however the message was cut, and stays unread.
func TestAhead(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	for range 2000 {
		var w Writer
		for range 1 + rng.IntN(5) {
			b := make([]byte, rng.IntN(40))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			w.Uint32(rng.Uint32())
			w.BulkOpaque(b)
		}
		whole := w.AppendUnreduced(nil)
		var moved []Moved
		var stream []byte
		at := 0
		for _, it := range w.Bulk() { // some items go as chunks, with their round-up or without
			stream = append(stream, w.Bytes()[at:it.Off]...)
			at = it.Off
			padded := whole[it.Position : it.Position+len(it.Data)+-len(it.Data)&3]
			switch rng.IntN(3) {
			case 0:
				stream = append(stream, padded...)
			case 1:
				moved = append(moved, Moved{Position: it.Position, Data: padded})
			default:
				moved = append(moved, Moved{Position: it.Position, Data: it.Data})
			}
		}
		stream = append(stream, w.Bytes()[at:]...)
		r := NewReader(nil)
		r.Reset(stream, moved)
		for range rng.IntN(len(w.Bulk()) + 1) {
			r.Uint32()
			r.Bulk(1000)
		}
		from, n := r.Position(), rng.IntN(2*len(whole))
		var got []byte
		r.Ahead(n, func(b []byte) { got = append(got, b...) })
		if want := whole[from:min(from+n, len(whole))]; !bytes.Equal(got, want) {
			t.Fatalf("%d bytes ahead of %d: %x, want %x", n, from, got, want)
		}
		if r.Unread() != len(whole)-from || r.Position() != from {
			t.Fatalf("%d unread at %d, want %d at %d", r.Unread(), r.Position(), len(whole)-from, from)
		}
	}
}
