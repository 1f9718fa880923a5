package chunk

import (
	"math"
	"slices"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/wire"
	"pgregory.net/rapid"
)

func TestSegments(t *testing.T) {
	for _, c := range []struct {
		name string
		l    Limits
		n    int
		want []int
	}{
		{"§3.4.6 an empty chunk has no segments", Limits{SegLen: 8}, 0, nil},
		{"one segment a chunk", Limits{}, 1 << 20, []int{1 << 20}},
		{"the last is shorter", Limits{SegLen: 8}, 20, []int{8, 8, 4}},
		{"§3.4.5 lengths need no alignment", Limits{SegLen: 3}, 8, []int{3, 3, 2}},
		{"exactly full", Limits{SegLen: 8, MaxSegs: 2}, 16, []int{8, 8}},
		{"MaxSegs wins, in multiples of SegLen", Limits{SegLen: 4096, MaxSegs: 8}, 10 * 4096, []int{8192, 8192, 8192, 8192, 8192}},
		{"MaxSegs alone does not split", Limits{MaxSegs: 8}, 100, []int{100}},
		{"rdma_length has 32 bits", Limits{}, math.MaxUint32 + 1, []int{math.MaxUint32, 1}},
		{"SegLen above 32 bits", Limits{SegLen: math.MaxInt}, 9, []int{9}},
		{"growing stops at 32 bits", Limits{SegLen: 3 << 30, MaxSegs: 1}, math.MaxUint32, []int{math.MaxUint32}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.l.Segments(nil, c.n); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if got := c.l.segments(c.n); got != len(c.want) {
				t.Errorf("%d segments counted, want %d", got, len(c.want))
			}
		})
	}
}

func TestSegmentsCoverTheChunk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limits{SegLen: rapid.IntRange(0, 1<<33).Draw(t, "seglen"), MaxSegs: rapid.IntRange(0, 40).Draw(t, "segs")}
		n := rapid.IntRange(0, math.MaxUint32).Draw(t, "n")
		if l.SegLen > 0 && l.MaxSegs == 0 {
			l.SegLen += n / 1000 // not a list of millions
		}
		sum := 0
		segs := l.Segments(nil, n)
		for i, s := range segs {
			if s <= 0 || s > math.MaxUint32 || i > 0 && s > segs[i-1] {
				t.Fatalf("segment %d of %d bytes in %v", i, s, segs)
			}
			sum += s
		}
		if sum != n || len(segs) != l.segments(n) || l.MaxSegs > 0 && len(segs) > l.MaxSegs {
			t.Fatalf("%d bytes became %d in %d segments (counted %d, most %d)", n, sum, len(segs), l.segments(n), l.MaxSegs)
		}
	})
}

// TestHeaderSizes compares the constants with wire's own count (RFC 8166 §4.1.2; T-4).
func TestHeaderSizes(t *testing.T) {
	for _, version := range []uint32{wire.Version1, wire.Version2} {
		for reads := range 3 {
			for writes := range 3 {
				for segs := range 3 {
					for _, reply := range []bool{false, true} {
						h := wire.Header{Version: version, Proc: wire.Msg}
						h.Reads = make([]wire.ReadSegment, reads)
						for range writes {
							h.Writes = append(h.Writes, make(wire.Chunk, segs))
						}
						want := headerLen(version) + reads*readLen + writes*(writeHead+segs*segmentLen)
						if h.HasReply = reply; reply {
							h.Reply = make(wire.Chunk, segs)
							want += replyHead + segs*segmentLen
						}
						if got := h.Len(); got != want {
							t.Errorf("version %d, %d reads, %d writes and reply %v of %d: %d bytes, counted %d",
								version, reads, writes, reply, segs, got, want)
						}
					}
				}
			}
		}
	}
}
