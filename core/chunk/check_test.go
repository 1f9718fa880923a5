package chunk

import (
	"errors"
	"math"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"pgregory.net/rapid"
)

// reads makes a Read list of (position, length) pairs.
func reads(pairs ...uint32) (rs []wire.ReadSegment) {
	for i := 0; i < len(pairs); i += 2 {
		rs = append(rs, wire.ReadSegment{
			Position: pairs[i],
			Segment:  wire.Segment{Handle: 1, Length: pairs[i+1], Offset: 1 << 63},
		})
	}
	return rs
}

func TestCheckCall(t *testing.T) {
	const (
		msg, noMsg = wire.Msg, wire.NoMsg
		v1, v2     = wire.Version1, wire.Version2
		max32      = math.MaxUint32
	)
	free := RecvLimits{MaxReads: -1, MaxWrites: -1}
	sound := wire.ErrorBody{}
	bad := wire.ErrorBody{Code: wire.ErrChunk} // BAD_XDR has the same number
	garbage := wire.ErrorBody{Code: 99}        // stands for ErrPayload
	type ints = []int
	for _, c := range []struct {
		name    string
		version uint32
		proc    wire.Proc
		lists   wire.Lists
		payload int
		lim     RecvLimits
		want    wire.ErrorBody
	}{
		{"§3.5.1 no chunks", v1, msg, wire.Lists{}, 40, RecvLimits{}, sound},
		{"§3.5.2 a Read chunk", v1, msg, wire.Lists{Reads: reads(36, 5)}, 40, free, sound},
		{"§3.4.5 at the very end", v1, msg, wire.Lists{Reads: reads(40, 5)}, 40, free, sound},
		{"§4.5.2 D-37 T-8 beyond the end", v1, msg, wire.Lists{Reads: reads(44, 5)}, 40, free, garbage},
		{"T-8 positions count in the unreduced stream", v1, msg, wire.Lists{Reads: reads(36, 5, 48, 9)}, 40, free, sound},
		{"T-8 beyond the end of it", v1, msg, wire.Lists{Reads: reads(36, 5, 52, 9)}, 40, free, garbage},
		{"T-7 round-up counts once, included or not", v1, msg, wire.Lists{Reads: reads(36, 8, 48, 9)}, 40, free, sound},
		{"T-7 round-up in a segment of its own", v1, msg, wire.Lists{Reads: reads(36, 5, 36, 3, 48, 9)}, 40, free, sound},
		{"§3.4.5 segments of odd length", v1, msg, wire.Lists{Reads: reads(36, 1, 36, 1, 36, 3)}, 40, free, sound},
		{"§3.4.5 position no multiple of four", v1, msg, wire.Lists{Reads: reads(35, 5)}, 40, free, bad},
		{"T-8 decreasing positions", v1, msg, wire.Lists{Reads: reads(36, 5, 12, 4)}, 40, free, bad},
		{"T-8 a chunk in two places", v1, msg, wire.Lists{Reads: reads(12, 4, 36, 5, 12, 4)}, 40, free, bad},
		{"overlapping chunks", v1, msg, wire.Lists{Reads: reads(12, 5, 16, 4)}, 40, free, bad},
		{"a fault of the header counts before one of the payload", v1, msg, wire.Lists{Reads: reads(80, 5, 81, 4)}, 40, free, bad},
		{"T-30 T-32 chunk of no bytes", v1, msg, wire.Lists{Reads: reads(12, 0, 16, 0, 16, 4)}, 40, free, sound},
		{"T-28 lengths near 2^32", v1, msg, wire.Lists{Reads: reads(12, max32, 12, max32, 16, 4)}, 40, free, bad},
		{"T-28 a sum that 32 bits would wrap to 4", v1, msg, wire.Lists{Reads: reads(12, max32, 12, 5, 20, 4)}, 40, free, bad},
		{"T-28 4 GiB are too much", v1, msg, wire.Lists{Reads: reads(12, max32, 12, 5)}, 40, RecvLimits{MaxReads: -1, MaxBytes: 1 << 20}, bad},
		{"T-28 the last position there is", v1, msg, wire.Lists{Reads: reads(max32-3, max32)}, 40, free, garbage},

		{"§3.5.3 long call", v1, noMsg, wire.Lists{Reads: reads(0, 4000)}, 0, free, sound},
		{"§3.5.3 in several segments", v1, noMsg, wire.Lists{Reads: reads(0, 4000, 0, 100)}, 0, free, sound},
		{"§3.5.3 T-10 with another chunk", v2, noMsg, wire.Lists{Reads: reads(0, 40, 36, 5)}, 0, free, sound},
		{"T-10 whose position counts in the whole message", v2, noMsg, wire.Lists{Reads: reads(0, 40, 36, 5, 48, 4)}, 0, free, sound},
		{"T-10 beyond the end of it", v2, noMsg, wire.Lists{Reads: reads(0, 40, 36, 5, 52, 4)}, 0, free, garbage},
		{"§4.5.2 NOMSG without chunks", v1, noMsg, wire.Lists{}, 0, free, bad},
		{"§4.2.4 T-12 NOMSG without the payload", v1, noMsg, wire.Lists{Writes: lists(nil, ints{4}).Writes, HasReply: true}, 0, free, bad},
		{"§4.2.4 NOMSG with other Read chunks only", v1, noMsg, wire.Lists{Reads: reads(36, 5)}, 0, free, bad},
		{"§4.2.4 empty position-zero chunk", v1, noMsg, wire.Lists{Reads: reads(0, 0, 0, 0)}, 0, free, bad},
		{"§3.5.3 MSG with a position-zero chunk", v1, msg, wire.Lists{Reads: reads(0, 40)}, 40, free, bad},
		{"T-8 position zero behind another", v1, noMsg, wire.Lists{Reads: reads(0, 40, 36, 5, 0, 40)}, 0, free, bad},
		{"D-26 bytes after NOMSG, version 1", v1, noMsg, wire.Lists{Reads: reads(0, 40)}, 4, free, sound},
		{"D-26 bytes after NOMSG, version 2", v2, noMsg, wire.Lists{Reads: reads(0, 40)}, 4, free, bad},

		{"§4.3.2.3 T-14 empty Write chunk", v1, msg, *lists(nil, ints{}, ints{4}), 40, free, sound},
		{"empty Reply chunk", v1, msg, *lists(ints{}), 40, free, sound},
		{"T-30 Write chunks of 4 GiB cost nothing", v1, msg, *lists(ints{max32, max32}, ints{max32, max32}), 40, free, sound},

		{"too many Read chunks, version 1", v1, msg, wire.Lists{Reads: reads(12, 4, 20, 4)}, 40, RecvLimits{MaxReads: 1}, bad},
		{"v2 draft §6.2.4 READ_CHUNKS", v2, msg, wire.Lists{Reads: reads(12, 4, 20, 4)}, 40, RecvLimits{MaxReads: 1}, wire.ErrorBody{Code: wire.ErrReadChunks, Max: 1}},
		{"D-34 READ_CHUNKS with maximum 0", v2, msg, wire.Lists{Reads: reads(12, 4)}, 40, RecvLimits{}, wire.ErrorBody{Code: wire.ErrReadChunks}},
		{"D-34 a position-zero chunk is not counted", v2, noMsg, wire.Lists{Reads: reads(0, 40)}, 0, RecvLimits{}, sound},
		{"segments of one chunk are one chunk", v2, msg, wire.Lists{Reads: reads(12, 4, 12, 4)}, 40, RecvLimits{MaxReads: 1}, sound},
		{"v2 draft §6.2.4 WRITE_CHUNKS", v2, msg, *lists(nil, ints{4}, ints{4}), 40, RecvLimits{MaxWrites: 1}, wire.ErrorBody{Code: wire.ErrWriteChunks, Max: 1}},
		{"v2 draft §6.2.4 SEGMENTS, Read list", v2, msg, wire.Lists{Reads: reads(12, 4, 12, 4, 12, 4)}, 40, RecvLimits{MaxReads: 1, MaxSegs: 2}, wire.ErrorBody{Code: wire.ErrSegments, Max: 2}},
		{"v2 draft §6.2.4 SEGMENTS, position zero", v2, noMsg, wire.Lists{Reads: reads(0, 4, 0, 4, 0, 4)}, 0, RecvLimits{MaxSegs: 2}, wire.ErrorBody{Code: wire.ErrSegments, Max: 2}},
		{"v2 draft §6.2.4 SEGMENTS, Write list", v2, msg, *lists(nil, ints{4}, ints{4, 4, 4}), 40, RecvLimits{MaxWrites: 2, MaxSegs: 2}, wire.ErrorBody{Code: wire.ErrSegments, Max: 2}},
		{"v2 draft §6.2.4 SEGMENTS, Reply chunk", v2, msg, *lists(ints{4, 4, 4}), 40, RecvLimits{MaxSegs: 2}, wire.ErrorBody{Code: wire.ErrSegments, Max: 2}},
		{"bytes within the limit", v2, noMsg, wire.Lists{Reads: reads(0, 40, 36, 60)}, 0, RecvLimits{MaxReads: 1, MaxBytes: 100}, sound},
		{"bytes above it, position zero included", v2, noMsg, wire.Lists{Reads: reads(0, 40, 36, 61)}, 0, RecvLimits{MaxReads: 1, MaxBytes: 100}, wire.ErrorBody{Code: wire.ErrSystem}},
		{"lists that our reply can return", v2, msg, *lists(ints{4}, ints{4, 4}), 40, RecvLimits{MaxWrites: 1, Send: 36 + 8 + 32 + 4 + 16}, sound},
		{"lists that it cannot", v2, msg, *lists(ints{4}, ints{4, 4}), 40, RecvLimits{MaxWrites: 1, Send: 36 + 8 + 32 + 4 + 15}, wire.ErrorBody{Code: wire.ErrSystem}},
		{"lists that it cannot, version 1", v1, msg, *lists(ints{4}, ints{4, 4}), 40, RecvLimits{MaxWrites: 1, Send: 28 + 8 + 32 + 4 + 15}, bad},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := wire.Header{Version: c.version, Proc: c.proc, Lists: c.lists}
			err := CheckCall(&h, c.payload, c.lim)
			var got wire.ErrorBody
			var le *ListError
			switch {
			case errors.As(err, &le):
				got = le.Body
			case errors.Is(err, ErrPayload):
				got = garbage
			case err != nil:
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("%v: %+v, want %+v", err, got, c.want)
			}
		})
	}
}

func TestCheckReply(t *testing.T) {
	type ints = []int
	const v1, v2 = wire.Version1, wire.Version2
	offer := lists(ints{100, 100}, ints{10, 20, 30}, ints{5})
	chunkless := lists(nil)
	// with makes a reply that returns offer with these lengths.
	with := func(reply []int, writes ...[]int) *wire.Lists { return lists(reply, writes...) }
	other := func(f func(*wire.Lists)) *wire.Lists {
		ls := with(ints{0, 0}, ints{10, 20, 3}, ints{0})
		f(ls)
		return ls
	}
	for _, c := range []struct {
		name    string
		version uint32
		proc    wire.Proc
		offered *wire.Lists
		lists   *wire.Lists
		payload int
		ok      bool
	}{
		{"§3.5.1 short", v1, wire.Msg, chunkless, with(nil), 24, true},
		{"§3.4.6 full, shorter, empty", v1, wire.Msg, offer, with(ints{0, 0}, ints{10, 3, 0}, ints{5}), 24, true},
		{"§3.4.6 all full", v1, wire.Msg, offer, with(ints{0, 0}, ints{10, 20, 30}, ints{0}), 24, true},
		{"§4.3.2.2 all unused", v1, wire.Msg, offer, with(ints{0, 0}, ints{0, 0, 0}, ints{0}), 24, true},
		{"§3.5.3 long", v1, wire.NoMsg, offer, with(ints{100, 1}, ints{0, 0, 0}, ints{0}), 0, true},
		{"§3.5.3 T-12 long and reduced", v1, wire.NoMsg, offer, with(ints{100, 1}, ints{10, 0, 0}, ints{0}), 0, true},
		{"T-13 a hole in a chunk", v1, wire.Msg, offer, with(ints{0, 0}, ints{9, 1, 0}, ints{0}), 24, false},
		{"T-13 an unused segment before a used one", v1, wire.Msg, offer, with(ints{0, 0}, ints{0, 20, 0}, ints{0}), 24, false},
		{"T-13 a hole in the Reply chunk", v1, wire.NoMsg, offer, with(ints{0, 100}, ints{0, 0, 0}, ints{0}), 0, false},
		{"longer than offered", v1, wire.Msg, offer, with(ints{0, 0}, ints{10, 20, 31}, ints{0}), 24, false},
		{"T-28 much longer", v1, wire.Msg, offer, with(ints{0, 0}, ints{10, 20, math.MaxUint32}, ints{0}), 24, false},
		{"§3.4.6 a segment missing", v1, wire.Msg, offer, with(ints{0, 0}, ints{10, 20}, ints{0}), 24, false},
		{"a segment too many", v1, wire.Msg, offer, with(ints{0, 0}, ints{10, 20, 0, 0}, ints{0}), 24, false},
		{"§4.3.2 a Write chunk missing", v1, wire.Msg, offer, with(ints{0, 0}, ints{10, 20, 0}), 24, false},
		{"a Write chunk too many", v1, wire.Msg, offer, with(ints{0, 0}, ints{0, 0, 0}, ints{0}, ints{0}), 24, false},
		{"Write chunk never offered", v1, wire.Msg, chunkless, with(nil, ints{0}), 24, false},
		{"another handle", v1, wire.Msg, offer, other(func(l *wire.Lists) { l.Writes[0][1].Handle++ }), 24, false},
		{"another offset", v1, wire.Msg, offer, other(func(l *wire.Lists) { l.Writes[0][1].Offset++ }), 24, false},
		{"another handle in the Reply chunk", v1, wire.Msg, offer, other(func(l *wire.Lists) { l.Reply[0].Handle++ }), 24, false},
		{"§4.3.1 a Read list", v1, wire.Msg, offer, other(func(l *wire.Lists) { l.Reads = reads(12, 4) }), 24, false},
		{"§4.3.3 Reply chunk used by MSG", v1, wire.Msg, offer, with(ints{100, 0}, ints{0, 0, 0}, ints{0}), 24, false},
		{"§4.2.4 NOMSG with an unused Reply chunk", v1, wire.NoMsg, offer, with(ints{0, 0}, ints{10, 0, 0}, ints{0}), 0, false},
		{"§4.2.4 NOMSG without a Reply chunk", v1, wire.NoMsg, offer, with(nil, ints{10, 0, 0}, ints{0}), 0, false},
		{"Reply chunk never offered", v1, wire.NoMsg, chunkless, with(ints{100, 100}), 0, false},
		{"empty Reply chunk never offered", v1, wire.Msg, chunkless, with(ints{}), 24, false},
		{"version 1: unused lists may be left out", v1, wire.Msg, offer, with(nil), 24, true},
		{"version 2: they may not", v2, wire.Msg, offer, with(ints{0, 0}), 24, false},
		{"version 2: the Reply chunk neither", v2, wire.Msg, offer, with(nil, ints{0, 0, 0}, ints{0}), 24, false},
		{"D-26 bytes after NOMSG, version 1", v1, wire.NoMsg, offer, with(ints{100, 0}, ints{0, 0, 0}, ints{0}), 4, true},
		{"D-26 bytes after NOMSG, version 2", v2, wire.NoMsg, offer, with(ints{100, 0}, ints{0, 0, 0}, ints{0}), 4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := wire.Header{Version: c.version, Proc: c.proc, Lists: *c.lists}
			err := CheckReply(&h, c.offered, c.payload)
			if (err == nil) != c.ok {
				t.Errorf("got %v", err)
			}
			var le *ListError
			if err != nil && !errors.As(err, &le) {
				t.Errorf("%T is no *ListError", err)
			}
		})
	}
}

// TestCheckCallNeverPanics: any list at all is refused or can be joined and decoded
// within what was pulled, whose size the limits bound.
func TestCheckCallNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := wire.Header{Lists: genLists(t)}
		h.Version = rapid.SampledFrom([]uint32{wire.Version1, wire.Version2}).Draw(t, "version")
		h.Proc = rapid.SampledFrom([]wire.Proc{wire.Msg, wire.NoMsg}).Draw(t, "proc")
		payload := make([]byte, 4*rapid.IntRange(0, 30).Draw(t, "payload"))
		lim := RecvLimits{MaxReads: rapid.IntRange(-1, 3).Draw(t, "reads"), MaxWrites: rapid.IntRange(-1, 3).Draw(t, "writes"),
			MaxSegs: rapid.IntRange(0, 4).Draw(t, "segs"), MaxBytes: 4096}
		tryCall(t, &h, payload, lim)
	})
}

// TestCheckReplyNeverPanics: any list at all is refused, or names only memory that was offered.
func TestCheckReplyNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offered := genLists(t)
		offered.Reads = nil
		h := wire.Header{Lists: offered}
		h.Version = rapid.SampledFrom([]uint32{wire.Version1, wire.Version2}).Draw(t, "version")
		h.Proc = rapid.SampledFrom([]wire.Proc{wire.Msg, wire.NoMsg}).Draw(t, "proc")
		if rapid.Bool().Draw(t, "other") {
			h.Lists = genLists(t)
		} else {
			mutate(t, &h.Lists)
		}
		tryReply(t, &h, &offered, nil)
	})
}

var genLength = rapid.OneOf(rapid.Uint32Range(0, 40), rapid.Uint32Range(0, 2000), rapid.SampledFrom([]uint32{math.MaxUint32, math.MaxUint32 - 3, 1 << 31}))

func genLists(t *rapid.T) (ls wire.Lists) {
	at := uint32(0)
	for range rapid.IntRange(0, 5).Draw(t, "reads") {
		n := genLength.Draw(t, "len")
		ls.Reads = append(ls.Reads, reads(at, n)...)
		// Mostly the same or a later place, so that many lists are sound.
		at += rapid.SampledFrom([]uint32{0, 0, 4, 4 + (n+3)&^3, 4 + (n+3)&^3, 1, math.MaxUint32}).Draw(t, "step")
	}
	chunk := rapid.Custom(func(t *rapid.T) (c wire.Chunk) {
		for i := range rapid.IntRange(0, 4).Draw(t, "segs") {
			c = append(c, wire.Segment{Handle: uint32(i), Length: genLength.Draw(t, "len"), Offset: 5})
		}
		return c
	})
	ls.Writes = rapid.SliceOfN(chunk, 0, 4).Draw(t, "chunks")
	if ls.HasReply = rapid.Bool().Draw(t, "reply"); ls.HasReply {
		ls.Reply = chunk.Draw(t, "replychunk")
	}
	return ls
}

// mutate makes of offered lists what a responder may return, and sometimes what it may not.
func mutate(t *rapid.T, ls *wire.Lists) {
	cut := func(c wire.Chunk) wire.Chunk {
		left := rapid.Uint64Range(0, c.Len()).Draw(t, "used")
		r := append(wire.Chunk(nil), c...)
		for i := range r {
			r[i].Length = uint32(min(left, uint64(r[i].Length)))
			left -= uint64(r[i].Length)
		}
		if len(r) > 0 && rapid.IntRange(0, 3).Draw(t, "break") == 0 {
			r[rapid.IntRange(0, len(r)-1).Draw(t, "at")].Length += 1 << 31
		}
		return r
	}
	ws := ls.Writes
	ls.Writes = nil
	for _, c := range ws {
		ls.Writes = append(ls.Writes, cut(c))
	}
	ls.Reply = cut(ls.Reply)
}

// tryCall goes the receiver's whole way with a call whose memory is all zeros.
func tryCall(t fataler, h *wire.Header, payload []byte, lim RecvLimits) {
	if CheckCall(h, len(payload), lim) != nil {
		return
	}
	chunks := ReadChunks(nil, h.Reads)
	var data [][]byte
	sum, segs := 0, 0
	for i, c := range chunks {
		if c.First != segs || c.N <= 0 || i > 0 && c.Position <= chunks[i-1].Position {
			t.Fatalf("chunks %+v of %+v", chunks, h.Reads)
		}
		segs += c.N
		if sum += c.Len; uint64(sum) > lim.MaxBytes {
			t.Fatalf("%d bytes pulled, limit %d", sum, lim.MaxBytes)
		}
		data = append(data, make([]byte, c.Len))
	}
	if segs != len(h.Reads) {
		t.Fatalf("chunks %+v of %+v", chunks, h.Reads)
	}
	stream, moved := JoinCall(nil, h, chunks, data, payload)
	var r xdr.Reader
	r.Reset(stream, moved)
	for r.Err() == nil && r.Remaining() > 0 {
		r.Opaque(math.MaxUint32)
	}
	_ = r.Done()
}

// tryReply goes the receiver's whole way with a reply. Lengths above 1 MiB are not backed by
// memory here: offers hold no more than that in practice.
func tryReply(t fataler, h *wire.Header, offered *wire.Lists, payload []byte) {
	if CheckReply(h, offered, len(payload)) != nil {
		return
	}
	var writes [][]byte
	for _, c := range offered.Writes {
		writes = append(writes, backing(c))
	}
	for i, c := range h.Writes {
		if c.Len() > offered.Writes[i].Len() {
			t.Fatalf("write chunk %v, offered %v", c, offered.Writes[i])
		}
		if c.Len() > 1<<20 {
			return
		}
	}
	if h.Reply.Len() > offered.Reply.Len() || h.HasReply && !offered.HasReply {
		t.Fatalf("reply chunk %v, offered %v", h.Reply, offered.Reply)
	}
	if h.Reply.Len() > 1<<20 {
		return
	}
	stream, moved := JoinReply(nil, &h.Lists, writes, backing(offered.Reply), payload, nil)
	if h.Proc == wire.NoMsg && len(stream) == 0 || len(moved) != len(h.Writes) {
		t.Fatalf("stream of %d bytes and %d items", len(stream), len(moved))
	}
}

func backing(c wire.Chunk) []byte { return make([]byte, min(c.Len(), 1<<20)) }

type fataler interface{ Fatalf(string, ...any) }
