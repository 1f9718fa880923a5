package chunk

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Sizes below: a header of version 1 has 28 bytes, of version 2 36; a Read chunk of one
// segment adds 24, a Write chunk 24, a Reply chunk 20. A test message has 8 bytes (XID and
// one more word) before the first item, and each item a length word.

func msgOf(sizes ...int) ([]value, *xdr.Writer) {
	vs := []value{word(7), word(8)}
	for _, n := range sizes {
		vs = append(vs, bulk(n))
	}
	return vs, write(vs...)
}

func TestCallPlan(t *testing.T) {
	const v1, v2 = wire.Version1, wire.Version2
	for _, c := range []struct {
		name  string
		items []int
		fixed bool // the binding moves nothing
		l     Limits
		moved []int
		noMsg bool
		size  int // of the Send
	}{
		{name: "§3.5.1 short message", items: nil,
			l: Limits{Version: v1, Send: 1024, MaxReads: -1}, size: 28 + 8},
		{name: "v2 draft §6.2 two words more", items: nil,
			l: Limits{Version: v2, Send: 1024, MaxReads: -1}, size: 36 + 8},
		{name: "§3.5.2 what may move does", items: []int{100},
			l: Limits{Version: v1, Send: 1024, MaxReads: -1}, moved: []int{0}, size: 28 + 24 + 12},
		{name: "MoveAbove keeps it inline", items: []int{100},
			l: Limits{Version: v1, Send: 1024, MaxReads: -1, MoveAbove: 100}, size: 28 + 12 + 100},
		{name: "above MoveAbove", items: []int{101},
			l: Limits{Version: v1, Send: 1024, MaxReads: -1, MoveAbove: 100}, moved: []int{0}, size: 28 + 24 + 12},
		{name: "fits to the byte", items: []int{984},
			l: Limits{Version: v1, Send: 1024, MaxReads: -1, MoveAbove: 4096}, size: 1024},
		{name: "one byte more does not: round-up counts", items: []int{985},
			l: Limits{Version: v1, Send: 1024, MaxReads: -1, MoveAbove: 4096}, moved: []int{0}, size: 28 + 24 + 12},
		{name: "§3.4.2 not eligible: long message", items: []int{985}, fixed: true,
			l: Limits{Version: v1, Send: 1024, MaxReads: -1}, noMsg: true, size: 28 + 24},
		{name: "T-32 an empty item is never moved", items: []int{0},
			l: Limits{Version: v1, Send: 1024, MaxReads: -1}, size: 28 + 12},
		{name: "T-32 nor below any threshold", items: []int{0},
			l: Limits{Version: v1, Send: 1024, MaxReads: -1, MoveAbove: -1}, size: 28 + 12},
		{name: "T-9 one Read chunk: the largest, the others inline", items: []int{300, 2000, 300},
			l: Limits{Version: v1, Send: 1024, MaxReads: 1}, moved: []int{1}, size: 28 + 24 + 8 + 3*4 + 600},
		{name: "T-9 of equal ones the first", items: []int{300, 300},
			l: Limits{Version: v1, Send: 1024, MaxReads: 1}, moved: []int{0}, size: 28 + 24 + 8 + 2*4 + 300},
		{name: "T-9 one Read chunk is not enough: all in the position-zero chunk", items: []int{2000, 2000},
			l: Limits{Version: v1, Send: 1024, MaxReads: 1}, noMsg: true, size: 28 + 24},
		{name: "several Read chunks", items: []int{2000, 4, 2000},
			l: Limits{Version: v2, Send: 1024, MaxReads: -1, MoveAbove: 64}, moved: []int{0, 2}, size: 36 + 48 + 8 + 12 + 4},
		{name: "more items move only until it fits", items: []int{400, 500, 450},
			l: Limits{Version: v2, Send: 1024, MaxReads: -1, MoveAbove: 500}, moved: []int{1}, size: 36 + 24 + 8 + 12 + 400 + 452},
		{name: "items smaller than their segments come inline", items: []int{20, 20, 20},
			l: Limits{Version: v1, Send: 28 + 8 + 3*24, MaxReads: -1}, size: 28 + 8 + 3*24},
		{name: "D-34 no Read chunks taken, but it fits", items: []int{500},
			l: Limits{Version: v2, Send: 1024, MaxReads: 0}, size: 36 + 12 + 500},
		{name: "D-34 no Read chunks taken", items: []int{5000},
			l: Limits{Version: v2, Send: 1024, MaxReads: 0}, noMsg: true, size: 36 + 24},
		{name: "§3.5.3 position-zero and another chunk (T-10)", items: []int{50, 2000},
			l: Limits{Version: v2, Send: 100, MaxReads: 1, LongMore: true}, moved: []int{1}, noMsg: true, size: 36 + 48},
		{name: "D-29 position-zero chunk alone", items: []int{50, 2000},
			l: Limits{Version: v2, Send: 77, MaxReads: 1}, noMsg: true, size: 36 + 24},
		{name: "no room for another chunk's segments", items: []int{50, 2000},
			l: Limits{Version: v2, Send: 77, MaxReads: 1, LongMore: true}, noMsg: true, size: 36 + 24},
		{name: "segments count", items: []int{4096},
			l: Limits{Version: v1, Send: 1024, MaxReads: 1, SegLen: 1000}, moved: []int{0}, size: 28 + 5*24 + 12},
		{name: "segments that do not fit send it another way", items: []int{640},
			l: Limits{Version: v1, Send: 700, MaxReads: 1, SegLen: 16}, size: 28 + 12 + 640},
	} {
		t.Run(c.name, func(t *testing.T) {
			vs, msg := msgOf(c.items...)
			var p CallPlan
			o, err := p.Plan(msg, !c.fixed, c.l, ReplySpec{}, 1024)
			must(t, err)
			if !slices.Equal(p.Moved, c.moved) || p.NoMsg != c.noMsg {
				t.Errorf("moved %v, NOMSG %v", p.Moved, p.NoMsg)
			}
			size := p.Header
			if !p.NoMsg {
				size += p.Len
			}
			if size != c.size {
				t.Errorf("%d bytes sent, want %d", size, c.size)
			}
			_, _, _, _, err = deliverCall(memory{}, &p, o, c.l, vs, msg, false)
			must(t, err)
		})
	}
}

func TestCallPlanRefused(t *testing.T) {
	_, msg := msgOf(4000)
	broken := write(word(7))
	broken.Fail(xdr.ErrBounds)
	huge := make([]byte, 1<<20)
	whale := new(xdr.Writer)
	for range 1 << 12 {
		whale.BulkOpaque(huge)
	}
	for _, c := range []struct {
		name string
		msg  *xdr.Writer
		l    Limits
		spec ReplySpec
		recv int
		want error
	}{
		{"header alone above the Send", msg, Limits{Version: 1, Send: 51, MaxReads: 1}, ReplySpec{}, 1024, ErrHeader},
		{"too many segments for the header", msg, Limits{Version: 1, Send: 1024, SegLen: 64}, ReplySpec{}, 1024, ErrHeader},
		{"a reply's header that we could not take", msg, Limits{Version: 1, Send: 1024, SegLen: 64, MaxReads: 1, MaxWrites: 1}, ReplySpec{Writes: []int{4096}, Max: 24}, 1024, ErrHeader},
		{"the same, of the reply chunk", msg, Limits{Version: 1, Send: 1024, SegLen: 64, MaxReads: 1, MaxWrites: 1}, ReplySpec{Max: 4096}, 1024, ErrHeader},
		{"lists that leave no room for a reply", msg, Limits{Version: 1, Send: 1024, MaxReads: 1}, ReplySpec{}, 27, ErrHeader},
		{"a message above 4 GiB", whale, Limits{Version: 2, Send: 1024, MaxReads: -1}, ReplySpec{}, 1024, ErrTooLong},
		{"a write chunk above 4 GiB", msg, Limits{Version: 2, Send: 1024, MaxReads: -1, MaxWrites: -1}, ReplySpec{Writes: []int{1 << 32}, Max: 24}, 1024, ErrTooLong},
		{"a reply above 4 GiB", msg, Limits{Version: 2, Send: 1024, MaxReads: -1}, ReplySpec{Max: 1 << 32}, 1024, ErrTooLong},
		{"T-28 a reply beyond all bounds", msg, Limits{Version: 2, Send: 1024, MaxReads: -1}, ReplySpec{Max: math.MaxInt}, 1024, ErrTooLong},
		{"T-28 results that 32 bits would wrap", msg, Limits{Version: 2, Send: 1024, MaxReads: -1}, ReplySpec{Writes: []int{math.MaxUint32, 4}, Max: 24}, 1024, ErrTooLong},
		{"T-28 whole results beyond all bounds", msg, Limits{Version: 2, Send: 1024, MaxReads: -1}, ReplySpec{Writes: []int{4}, Max: 24, MaxWhole: math.MaxInt}, 1024, ErrTooLong},
		{"a message that did not encode", broken, Limits{Version: 1, Send: 1024}, ReplySpec{}, 1024, xdr.ErrBounds},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p CallPlan
			_, err := p.Plan(c.msg, true, c.l, c.spec, c.recv)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			var pe *PlanError
			if errors.As(err, &pe) && pe.Need <= pe.Limit {
				t.Errorf("refused without need: %v", err)
			}
		})
	}
}

// TestInlineOnly: RFC 8167 §5.3: no chunk of any kind, whatever might be moved or come back; what does not fit is refused.
func TestInlineOnly(t *testing.T) {
	for version := uint32(wire.Version1); version <= wire.Version2; version++ {
		l := Limits{Version: version, Send: 1024, MaxReads: -1, MaxWrites: -1, Inline: true}
		head := headerLen(version)
		for _, c := range []struct {
			item int
			fits bool
		}{{0, true}, {100, true}, {1024 - head - 12, true}, {1024 - head - 11, false}, {1 << 20, false}} {
			_, w := msgOf(c.item)
			var p CallPlan
			offer, err := p.Plan(w, true, l, ReplySpec{Writes: []int{5000}, Max: 1 << 20}, 1024)
			var refused *PlanError
			switch {
			case c.fits && (err != nil || p.NoMsg || len(p.Moved) > 0 || offer.Reply > 0 || len(offer.Writes) > 0 || p.Header != head):
				t.Errorf("version %d, item of %d bytes: %+v, %+v, %v", version, c.item, p, offer, err)
			case !c.fits && (!errors.Is(err, ErrInline) || !errors.As(err, &refused) || refused.Limit != 1024 || refused.Need <= 1024):
				t.Errorf("version %d, item of %d bytes: %v", version, c.item, err)
			}
		}
	}
}

func TestOffer(t *testing.T) {
	const v1, v2 = wire.Version1, wire.Version2
	for _, c := range []struct {
		name  string
		l     Limits
		spec  ReplySpec
		recv  int
		write []int
		reply int
	}{
		{"nothing expected", Limits{Version: v1, MaxWrites: 1}, ReplySpec{}, 1024, nil, 0},
		{"§4.3.3 the largest reply fits: no Reply chunk", Limits{Version: v1, MaxWrites: 1}, ReplySpec{Max: 996}, 1024, nil, 0},
		{"D-32 one word more: Reply chunk", Limits{Version: v1, MaxWrites: 1}, ReplySpec{Max: 1000}, 1024, nil, 1000},
		{"D-32 version 2's header is longer", Limits{Version: v2, MaxWrites: 1}, ReplySpec{Max: 996}, 1024, nil, 996},
		{"D-32 the reply returns the Write list", Limits{Version: v1, MaxWrites: 1}, ReplySpec{Writes: []int{4096}, Max: 976}, 1024, []int{4096}, 976},
		{"§4.3.2 Write chunk only", Limits{Version: v1, MaxWrites: 1}, ReplySpec{Writes: []int{4096}, Max: 972}, 1024, []int{4096}, 0},
		{"D-34 no Write chunks taken: the result comes in the Reply chunk", Limits{Version: v2}, ReplySpec{Writes: []int{4097}, Max: 40}, 1024, nil, 40 + 4100},
		{"D-34 as the caller bounds it", Limits{Version: v2}, ReplySpec{Writes: []int{4096}, Max: 40, MaxWhole: 2000}, 1024, nil, 2000},
		{"D-34 small enough for neither", Limits{Version: v2}, ReplySpec{Writes: []int{100}, Max: 40}, 1024, nil, 0},
		{"more Write chunks than taken: none", Limits{Version: v2, MaxWrites: 1}, ReplySpec{Writes: []int{400, 800}, Max: 40}, 1024, nil, 1240},
		{"any number of Write chunks", Limits{Version: v2, MaxWrites: -1}, ReplySpec{Writes: []int{400, 800}, Max: 40}, 1024, []int{400, 800}, 0},
		{"§4.3.2.3 empty Write chunk keeps its place", Limits{Version: v2, MaxWrites: -1}, ReplySpec{Writes: []int{0, 800}, Max: 40}, 1024, []int{0, 800}, 0},
		{"D-30 not to a version 1 peer", Limits{Version: v1, MaxWrites: -1}, ReplySpec{Writes: []int{0, 1800}, Max: 40}, 1024, nil, 1840},
		{"D-30 empty ones behind the last are left out", Limits{Version: v1, MaxWrites: 1}, ReplySpec{Writes: []int{800, 0, 0}, Max: 40}, 1024, []int{800}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, msg := msgOf()
			c.l.Send, c.l.MaxReads = 1024, 1
			var p CallPlan
			o, err := p.Plan(msg, true, c.l, c.spec, c.recv)
			must(t, err)
			if !slices.Equal(o.Writes, c.write) || o.Reply != c.reply {
				t.Errorf("offers %v and a reply chunk of %d, want %v and %d", o.Writes, o.Reply, c.write, c.reply)
			}
		})
	}
}

func TestRange(t *testing.T) {
	vs, msg := msgOf(5, 0, 7)
	msg.Uint32(9)
	parts, n := appendParts(nil, msg, nil)
	whole := msg.AppendUnreduced(nil)
	if n != len(whole) || string(Gather(nil, msg, parts)) != string(whole) {
		t.Fatalf("parts %v of %v are not the message", parts, vs)
	}
	for off := range n + 1 {
		for size := range n - off + 1 {
			var got []byte
			Range(parts, off, size, func(p Part) {
				if p.N+p.Pad == 0 || p.Pad < 0 || p.N < 0 {
					t.Errorf("part %+v in %d+%d", p, off, size)
				}
				got = Gather(got, msg, []Part{p})
			})
			if string(got) != string(whole[off:off+size]) {
				t.Fatalf("%d bytes from %d: %x, want %x", size, off, got, whole[off:off+size])
			}
		}
	}
	Range(parts, 0, math.MaxInt, func(Part) {})
}
