package wire

import "testing"

// TestAllocs: Append into a buffer that is large enough, and Parse into a Header that was used
// before, allocate nothing, for every procedure.
func TestAllocs(t *testing.T) {
	buf := make([]byte, 0, 4096)
	var h Header
	for _, tc := range golden {
		src := tc.h
		b := src.Append(nil)
		if n := testing.AllocsPerRun(20, func() { buf = src.Append(buf[:0]) }); n != 0 {
			t.Errorf("%s: %v allocations to append", tc.name, n)
		}
		if n := testing.AllocsPerRun(20, func() {
			if _, err := h.Parse(b, ProfileCel04); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations to parse", tc.name, n)
		}
	}
	p := PrivateData{true, 4096, 4096}
	if n := testing.AllocsPerRun(20, func() { buf = p.Append(buf[:0]); ParsePrivate(buf) }); n != 0 {
		t.Errorf("%v allocations for private data", n)
	}
}

// TestReuse: chunks of one header are its own, also when the memory behind them had to grow.
func TestReuse(t *testing.T) {
	var src Header
	src.Version, src.Proc = Version1, Msg
	for i := range 40 {
		c := Chunk{}
		for j := range i {
			c = append(c, Segment{Handle: uint32(i), Length: uint32(j)})
		}
		src.Writes = append(src.Writes, c)
	}
	src.HasReply, src.Reply = true, Chunk{{Handle: 99}}
	b := src.Append(nil)
	var h Header
	for range 3 {
		if _, err := h.Parse(b, ProfileV1); err != nil || !same(&h, &src) {
			t.Fatalf("%v\n%v", err, &h)
		}
		for i := range h.Writes {
			if cap(h.Writes[i]) != len(h.Writes[i]) {
				t.Fatalf("chunk %d can be appended to in place", i)
			}
		}
	}
}

func benchHeader(b *testing.B, h *Header) {
	buf := h.Append(nil)
	b.Run("Append", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			buf = h.Append(buf[:0])
		}
	})
	b.Run("Parse", func(b *testing.B) {
		var got Header
		b.ReportAllocs()
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			if _, err := got.Parse(buf, ProfileCel04); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkInline(b *testing.B) {
	benchHeader(b, &Header{XID: 1, Version: 2, Credit: 64, Proc: Msg})
}

func BenchmarkRead1MiB(b *testing.B) {
	h := &Header{XID: 1, Version: 2, Credit: 64, Proc: Msg, InvHandle: 1}
	for range 8 {
		h.Reads = append(h.Reads, ReadSegment{108, Segment{1, 131072, 0}})
	}
	benchHeader(b, h)
}
