package chunk

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// TestSmallInlineAfterReadList is T-5: a message with a Read list and inline data behind
// it, each size from nothing to 9000 bytes, and another operation behind both.
func TestSmallInlineAfterReadList(t *testing.T) {
	l := Limits{Version: wire.Version1, Send: 16384, MaxReads: 1}
	var p CallPlan
	for n := range 9001 {
		if n > 300 && n%97 != 0 && n < 8900 {
			continue
		}
		vs := []value{word(7), bulk(9001), word(22), bulk(n), word(9), opaque(n & 15), word(10)}
		msg := write(vs...)
		o, err := p.Plan(msg, true, l, ReplySpec{}, 1024)
		must(t, err)
		if !slices.Equal(p.Moved, []int{0}) || p.NoMsg {
			t.Fatalf("%d bytes: moved %v, NOMSG %v", n, p.Moved, p.NoMsg)
		}
		if _, _, _, _, err := deliverCall(memory{}, &p, o, l, vs, msg, false); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
}

// joinCall joins a call whose chunks have these bytes.
func joinCall(t *testing.T, h *wire.Header, inline []byte, data ...[]byte) *xdr.Reader {
	t.Helper()
	if h.Version == 0 {
		h.Version = wire.Version1
	}
	must(t, CheckCall(h, len(inline), RecvLimits{MaxReads: -1}))
	r := new(xdr.Reader)
	r.Reset(JoinCall(nil, h, ReadChunks(nil, h.Reads), data, inline))
	return r
}

func TestJoinCall(t *testing.T) {
	item := pattern(5)
	padded := append(slices.Clone(item), 0, 0, 0)
	head := write(word(7), word(5)).Bytes() // the second is the item's length word
	tail := write(word(9)).Bytes()
	inline := slices.Concat(head, tail)
	whole := slices.Concat(head, padded, tail)
	for _, c := range []struct {
		name   string
		h      wire.Header
		inline []byte
		data   [][]byte
		want   error
	}{
		{"§3.4.5.2 without round-up", wire.Header{Lists: wire.Lists{Reads: reads(8, 5)}}, inline, [][]byte{item}, nil},
		{"§3.4.5.2 T-7 round-up in the chunk", wire.Header{Lists: wire.Lists{Reads: reads(8, 8)}}, inline, [][]byte{padded}, nil},
		{"§3.4.5.2 T-7 round-up in a segment of its own", wire.Header{Lists: wire.Lists{Reads: reads(8, 5, 8, 3)}}, inline, [][]byte{padded}, nil},
		{"§3.5.3 position zero, round-up kept", wire.Header{Proc: wire.NoMsg, Lists: wire.Lists{Reads: reads(0, 20)}}, nil, [][]byte{whole}, nil},
		{"§3.5.3 T-10 position zero and another chunk", wire.Header{Proc: wire.NoMsg, Lists: wire.Lists{Reads: reads(0, 12, 8, 5)}}, nil, [][]byte{inline, item}, nil},
		{"D-26 what follows a NOMSG header is ignored", wire.Header{Proc: wire.NoMsg, Lists: wire.Lists{Reads: reads(0, 20)}}, tail, [][]byte{whole}, nil},
		{"§4.5.2 D-37 chunk shorter than its item", wire.Header{Lists: wire.Lists{Reads: reads(8, 4)}}, inline, [][]byte{item[:4]}, xdr.ErrChunk},
		{"§4.5.2 D-37 chunk longer than round-up explains", wire.Header{Lists: wire.Lists{Reads: reads(8, 7)}}, inline, [][]byte{padded[:7]}, xdr.ErrChunk},
		{"§4.5.2 D-37 chunk where no item is", wire.Header{Lists: wire.Lists{Reads: reads(12, 5)}}, write(word(7), word(0), word(9)).Bytes(), [][]byte{item}, xdr.ErrTrailing},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := joinCall(t, &c.h, c.inline, c.data...)
			xid, got, last := r.Uint32(), r.Bulk(100), r.Uint32()
			if err := r.Done(); c.want != nil {
				if !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
			} else if err != nil || xid != 7 || !bytes.Equal(got, item) || last != 9 {
				t.Fatalf("%d %x %d: %v", xid, got, last, err)
			}
		})
	}
}

func TestReadChunks(t *testing.T) {
	got := ReadChunks(nil, reads(0, 5, 0, 6, 12, 7, 40, 0, 40, 1, 40, 2))
	want := []ReadChunk{{0, 0, 2, 11}, {12, 2, 1, 7}, {40, 3, 3, 3}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestJoinReply(t *testing.T) {
	type ints = []int
	a, b := pattern(5), pattern(9)
	mem := func(p []byte, n int) []byte { return append(slices.Clone(p), make([]byte, n-len(p))...) }
	fresh := func() []byte { return make([]byte, 16) }
	inlineBoth := write(value{kind: 'o', data: a}, value{kind: 'o', data: b}).Bytes()
	inlineA := slices.Concat(write(value{kind: 'o', data: a}, word(9)).Bytes())
	reduced := write(word(5), word(9)).Bytes()
	for _, c := range []struct {
		name     string
		returned *wire.Lists
		writes   [][]byte
		reply    []byte
		inline   []byte
		into     [][]byte
	}{
		{"§3.4.6 both moved", lists(nil, ints{5}, ints{9}), [][]byte{mem(a, 16), mem(b, 16)}, nil, reduced, nil},
		{"§3.4.6 T-13 by the returned lengths", lists(nil, ints{2, 2, 1}, ints{8, 1, 0}), [][]byte{mem(a, 16), mem(b, 16)}, nil, reduced, nil},
		{"D-28 a peer that writes the round-up", lists(nil, ints{8}, ints{12}), [][]byte{mem(a, 16), mem(b, 16)}, nil, reduced, nil},
		{"§4.3.2.2 unused chunks: inline", lists(nil, ints{0}, ints{0}), [][]byte{fresh(), fresh()}, nil, inlineBoth, nil},
		{"§4.3.2.3 empty chunk: inline", lists(nil, nil, ints{9}), [][]byte{nil, mem(b, 16)}, nil, inlineA, nil},
		{"no chunks offered, destinations filled", lists(nil), nil, nil, inlineBoth, [][]byte{fresh(), fresh()}},
		{"one chunk, two destinations", lists(nil, ints{5}), [][]byte{mem(a, 16)}, nil, slices.Concat(write(word(5), value{kind: 'o', data: b}).Bytes()), [][]byte{nil, fresh()}},
		{"§3.5.3 long reply", lists(ints{8, 20, 0}), nil, mem(inlineBoth, 100), nil, nil},
		{"§3.5.3 long and reduced", lists(ints{8, 0}, ints{5}, ints{9}), [][]byte{mem(a, 16), mem(b, 16)}, mem(reduced, 100), nil, nil},
		{"D-34 all in the Reply chunk, destinations filled", lists(ints{28}), nil, mem(inlineBoth, 100), nil, [][]byte{fresh(), fresh()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r xdr.Reader
			r.Reset(JoinReply(nil, c.returned, c.writes, c.reply, c.inline, c.into))
			ga, gb := r.Bulk(100), r.Bulk(100)
			if err := r.Done(); err != nil || !bytes.Equal(ga, a) || !bytes.Equal(gb, b) {
				t.Fatalf("%x %x: %v", ga, gb, err)
			}
			for i, want := range [][]byte{a, b} {
				if i < len(c.into) && c.into[i] != nil && !bytes.Equal(c.into[i][:len(want)], want) {
					t.Errorf("destination %d has %x", i, c.into[i])
				}
			}
		})
	}
}

// TestNothingAllocates: a connection plans and joins calls for ever in the same memory.
func TestNothingAllocates(t *testing.T) {
	for _, version := range []uint32{wire.Version1, wire.Version2} {
		for _, send := range []int{140, 1024} { // long and chunked
			t.Run(fmt.Sprintf("version %d send %d", version, send), func(t *testing.T) {
				allocates(t, version, send)
			})
		}
	}
}

func allocates(t *testing.T, version uint32, send int) {
	l := Limits{Version: version, Send: send, MaxReads: -1, MaxWrites: -1, SegLen: 4096}
	_, msg := msgOf(5, 3000, 70)
	msg.Fixed(make([]byte, 100))
	spec := ReplySpec{Writes: []int{5, 3000}, Max: 100}
	var cp CallPlan
	o, err := cp.Plan(msg, true, l, spec, send)
	must(t, err)
	m := memory{}
	call, writes, reply := exposeCall(m, &cp, o, l, msg, false)
	var inline []byte
	if !cp.NoMsg {
		inline = make([]byte, cp.Len)
	}
	must(t, CheckCall(&call, len(inline), RecvLimits{MaxReads: -1, MaxWrites: -1, Send: 1024}))
	chunks, data, err := pull(m, &call)
	must(t, err)
	_, answer := msgOf(5, 3000)
	var rp ReplyPlan
	must(t, rp.Plan(answer, true, l, &call.Lists))
	back := wire.Header{Version: version, Proc: wire.Msg, Lists: rp.Returned}
	if rp.NoMsg {
		back.Proc = wire.NoMsg
	}
	var (
		lens  []int
		moved []xdr.Moved
		buf   []byte
		n     int
	)
	got := testing.AllocsPerRun(100, func() {
		_, err1 := cp.Plan(msg, true, l, spec, send)
		lens = l.Segments(lens[:0], 1<<16)
		buf = Gather(buf[:0], msg, cp.Parts)
		err2 := CheckCall(&call, len(inline), RecvLimits{MaxReads: -1, MaxWrites: -1, Send: 1024})
		chunks = ReadChunks(chunks[:0], call.Reads)
		_, moved = JoinCall(moved[:0], &call, chunks, data, inline)
		err3 := rp.Plan(answer, true, l, &call.Lists)
		Range(rp.Parts, 4, rp.Len-4, func(p Part) { n += p.N })
		err4 := CheckReply(&back, &call.Lists, 0)
		_, moved = JoinReply(moved[:0], &back.Lists, writes, reply, nil, nil)
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
			t.Fatal(err1, err2, err3, err4)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}
