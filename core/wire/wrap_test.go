package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// TestWrapped: a message wrapped into an operation is the same message when it is unwrapped, in either layout, and
// its header as much longer as Extra says.
func TestWrapped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.Custom(drawHeader).Filter(func(h *Header) bool {
			return h.Version == Version2 && (h.Proc == Msg || h.Proc == NoMsg)
		}).Draw(t, "header")
		w := Wrap{Type: rapid.Uint32Min(1).Draw(t, "opttype"), Info: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "info")}
		cut := -1
		if w.Raw = rapid.Bool().Draw(t, "raw"); w.Raw {
			w.Info = w.Info[:len(w.Info)&^3]
			cut = len(w.Info)
		}
		b := h.AppendWrapped(nil, &w)
		if len(b) != h.Len()+w.Extra() {
			t.Fatalf("%d bytes, want %d and %d", len(b), h.Len(), w.Extra())
		}
		var got Header
		if n, err := got.Parse(b, ProfileCel04); err != nil || n != len(b) || got.OptType != w.Type || got.Direction != h.Direction {
			t.Fatalf("%v: %d of %d, %v", &got, n, len(b), err)
		}
		payload := 100
		if h.Proc == NoMsg {
			payload = 0
		}
		if err := got.Unwrap(cut, payload); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.OptInfo, w.Info) || got.OptType != w.Type {
			t.Fatalf("%x of operation %d", got.OptInfo, got.OptType)
		}
		got.OptInfo, got.OptType = nil, 0
		if !same(&got, h) {
			t.Fatalf("%v became %v", h, &got)
		}
	})
}

// TestUnwrapRefuses: what is no opaque<> and chunk lists, whole, of one direction, is BAD_XDR where it is a call.
func TestUnwrapRefuses(t *testing.T) {
	lists := (&Header{Version: Version2}).AppendChunkLists(nil)
	reply := (&Header{Version: Version2, Direction: Reply}).AppendChunkLists(nil)
	bare := append([]byte{0, 0, 0, 0}, lists...)
	with := func(b []byte, more ...byte) []byte { return append(b[:len(b):len(b)], more...) }
	for _, tc := range []struct {
		name string
		info []byte
		cut  int
		why  Reason
	}{
		{"nothing", nil, -1, Truncated},
		{"no lists", []byte{0, 0, 0, 0}, -1, Truncated},
		{"lists end early", bare[:len(bare)-4], -1, Truncated},
		{"an opaque beyond the end", []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, -1, BadXDR},
		{"an opaque longer than what is there", []byte{0, 0, 0, 9, 0, 0, 0, 0}, -1, Truncated},
		{"more than lists", with(bare, 0, 0, 0, 0), -1, Surplus},
		{"lists of the other direction", append([]byte{0, 0, 0, 0}, reply...), -1, DirMismatch},
		{"lists of no direction", append([]byte{0, 0, 0, 0, 0, 0, 0, 7}, lists[4:]...), -1, BadXDR},
		{"a bool of 2", with(bare[:len(bare)-4], 0, 0, 0, 2), -1, BadXDR},
		{"a cut beyond the end", lists, len(lists) + 4, BadXDR},
		{"a cut that is no multiple of 4", with(lists, 0, 0), 2, BadXDR},
	} {
		for _, dir := range []Direction{Call, Reply} {
			if dir == Reply && (tc.why == DirMismatch || tc.why == Surplus) {
				continue // another fault comes first
			}
			o := Header{XID: 5, Version: Version2, Credit: 1, Proc: Optional, Direction: dir, OptType: 77, OptInfo: tc.info}
			var h Header
			if _, err := h.Parse(o.Append(nil), ProfileCel04); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			var he *HeaderError
			if err := h.Unwrap(tc.cut, 8); !errors.As(err, &he) || he.Reason != tc.why && dir == Call {
				t.Errorf("%s: %v, want %v", tc.name, err, tc.why)
				continue
			}
			body, ok := he.Answer(Call, 1, 2)
			if ok != (dir == Call) || ok && body.Code != ErrBadXDR {
				t.Errorf("%s, %v: answered %v with %v", tc.name, dir, ok, body)
			}
			if h.Proc != Optional || h.Direction != dir {
				t.Errorf("%s: the header is now %v %v", tc.name, h.Direction, h.Proc)
			}
		}
	}
}

// FuzzUnwrap: refuse, or write the same bytes again, but for round-up.
func FuzzUnwrap(f *testing.F) {
	seg := Segment{Handle: 7, Length: 100, Offset: 9}
	for _, h := range []Header{
		{Version: Version2},
		{Version: Version2, Direction: Reply, Lists: Lists{HasReply: true, Reply: Chunk{seg}}},
		{Version: Version2, InvHandle: 7, Lists: Lists{Reads: []ReadSegment{{0, seg}}, Writes: []Chunk{{seg, seg}}}},
	} {
		for _, w := range []Wrap{{Type: 1, Info: []byte("abc")}, {Type: 1, Info: []byte("abcdefgh"), Raw: true}} {
			b := h.AppendWrapped(nil, &w)
			cut := int8(-1)
			if w.Raw {
				cut = int8(len(w.Info))
			}
			f.Add(b[FixedLen+12:], cut, h.Direction == Reply)
		}
	}
	f.Fuzz(func(t *testing.T, info []byte, cut8 int8, reply bool) {
		cut := max(int(cut8), -1)
		h := Header{XID: 1, Version: Version2, Proc: Optional, OptType: 9, OptInfo: info}
		if reply {
			h.Direction = Reply
		}
		if err := h.Unwrap(cut, len(info)&4); err != nil {
			var he *HeaderError
			if !errors.As(err, &he) || he.Reason == 0 || h.Proc != Optional {
				t.Fatalf("%v", err)
			}
			return
		}
		if err := h.Check(); err != nil && !(h.Proc == NoMsg && h.Lists.Empty()) {
			t.Fatal(err)
		}
		out := h.AppendWrapped(nil, &Wrap{Type: 9, Info: h.OptInfo, Raw: cut >= 0})
		if n := binary.BigEndian.Uint32(out[FixedLen+8:]); int(n) != len(info) {
			t.Fatalf("%d bytes of optinfo became %d", len(info), n)
		}
		for i, x := range out[FixedLen+12:] {
			if x != info[i] && x != 0 {
				t.Fatalf("byte %d\nread    %x\nwritten %x", i, info, out[FixedLen+12:])
			}
		}
	})
}

func TestWrapAllocs(t *testing.T) {
	src := Header{Version: Version2, Lists: Lists{Writes: []Chunk{{{Handle: 1}}}}}
	w := Wrap{Type: 5, Info: []byte("context")}
	b := src.AppendWrapped(nil, &w)
	buf := make([]byte, 0, 256)
	var h Header
	if n := testing.AllocsPerRun(20, func() {
		buf = src.AppendWrapped(buf[:0], &w)
		if _, err := h.Parse(b, ProfileCel04); err != nil {
			t.Fatal(err)
		}
		if err := h.Unwrap(-1, 4); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
