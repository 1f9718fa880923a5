package chunk

import (
	"errors"
	"slices"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/wire"
)

// lists makes what a call offered: Write chunks and a Reply chunk by the lengths of
// their segments. A handle tells its chunk and its segment.
func lists(reply []int, writes ...[]int) *wire.Lists {
	ls := &wire.Lists{HasReply: reply != nil}
	chunk := func(at int, lens []int) (c wire.Chunk) {
		for i, n := range lens {
			h := uint32(at<<8 | i + 1)
			c = append(c, wire.Segment{Handle: h, Length: uint32(n), Offset: uint64(h) << 32})
		}
		return c
	}
	for i, w := range writes {
		ls.Writes = append(ls.Writes, chunk(i+1, w))
	}
	ls.Reply = chunk(0, reply)
	return ls
}

func lens(c wire.Chunk) (ns []int) {
	for _, s := range c {
		ns = append(ns, int(s.Length))
	}
	return ns
}

func TestReplyPlan(t *testing.T) {
	type ints = []int
	const v1, v2 = wire.Version1, wire.Version2
	for _, c := range []struct {
		name  string
		items []int
		fixed bool // the binding moves nothing
		l     Limits
		lists *wire.Lists
		noMsg bool
		inl   int   // bytes of the stream
		wr    []int // returned lengths of all write chunks' segments
		rep   []int // and of the reply chunk's
		ops   []WriteOp
	}{
		{name: "§3.5.1 short message", items: ints{5}, l: Limits{Version: v1, Send: 1024},
			lists: lists(nil), inl: 20},
		{name: "§3.4.6.2 T-6 round-up is not written, and not inline either", items: ints{5}, l: Limits{Version: v1, Send: 1024},
			lists: lists(nil, ints{8}), inl: 12, wr: ints{5}, ops: []WriteOp{{0, 0, 0, 0, 5}}},
		{name: "§3.4.6 segments filled in order, T-13 lengths returned", items: ints{11}, l: Limits{Version: v1, Send: 1024},
			lists: lists(nil, ints{4, 4, 4, 4}), inl: 12, wr: ints{4, 4, 3, 0}, ops: []WriteOp{{0, 0, 0, 0, 4}, {0, 1, 0, 4, 4}, {0, 2, 0, 8, 3}}},
		{name: "T-30 empty segments are passed over", items: ints{6}, l: Limits{Version: v1, Send: 1024},
			lists: lists(nil, ints{0, 4, 0, 4}), inl: 12, wr: ints{0, 4, 0, 2}, ops: []WriteOp{{0, 1, 0, 0, 4}, {0, 3, 0, 4, 2}}},
		{name: "§4.3.2.2 unused Write chunk", l: Limits{Version: v1, Send: 1024},
			lists: lists(nil, ints{8, 8}), inl: 8, wr: ints{0, 0}},
		{name: "§4.3.2.2 T-11 results take the chunks in order", items: ints{4, 8}, l: Limits{Version: v1, Send: 1024},
			lists: lists(nil, ints{9}, ints{9}, ints{9}), inl: 16, wr: ints{4, 8, 0}, ops: []WriteOp{{0, 0, 0, 0, 4}, {1, 0, 1, 0, 8}}},
		{name: "T-32 an empty result consumes its chunk", items: ints{0, 8}, l: Limits{Version: v1, Send: 1024},
			lists: lists(nil, ints{9}, ints{9}), inl: 16, wr: ints{0, 8}, ops: []WriteOp{{1, 0, 1, 0, 8}}},
		{name: "§4.3.2.1 more results than chunks", items: ints{4, 8}, l: Limits{Version: v1, Send: 1024},
			lists: lists(nil, ints{9}), inl: 24, wr: ints{4}, ops: []WriteOp{{0, 0, 0, 0, 4}}},
		{name: "§4.3.2.3 T-14 empty Write chunk: inline", items: ints{4, 8}, l: Limits{Version: v1, Send: 1024},
			lists: lists(nil, ints{}, ints{9}), inl: 20, wr: ints{8}, ops: []WriteOp{{1, 0, 1, 0, 8}}},
		{name: "the binding moves no results", items: ints{4}, fixed: true, l: Limits{Version: v1, Send: 1024},
			lists: lists(nil, ints{9}), inl: 16, wr: ints{0}},
		{name: "§4.3.3 T-34 D-31 short reply, Reply chunk returned empty", l: Limits{Version: v1, Send: 1024},
			lists: lists(ints{4096, 4096}), inl: 8, rep: ints{0, 0}},
		{name: "§3.5.3 reduced stream fits: no Reply chunk used", items: ints{4000}, l: Limits{Version: v1, Send: 1024},
			lists: lists(ints{4096}, ints{4096}), inl: 12, wr: ints{4000}, rep: ints{0}, ops: []WriteOp{{0, 0, 0, 0, 4000}}},
		{name: "§3.5.3 long reply keeps its round-up", items: ints{2001}, l: Limits{Version: v1, Send: 1024},
			lists: lists(ints{2000, 100}), noMsg: true, inl: 2016, rep: ints{2000, 16}, ops: []WriteOp{{-1, 0, -1, 0, 2000}, {-1, 1, -1, 2000, 16}}},
		{name: "§3.5.3 reduced and long", items: ints{2000, 2000}, l: Limits{Version: v2, Send: 1024},
			lists: lists(ints{4096}, ints{2000}), noMsg: true, inl: 2016, wr: ints{2000}, rep: ints{2016}, ops: []WriteOp{{0, 0, 0, 0, 2000}, {-1, 0, -1, 0, 2016}}},
		{name: "fits to the byte", items: ints{1024 - 28 - 12}, l: Limits{Version: v1, Send: 1024},
			lists: lists(nil), inl: 1024 - 28},
		{name: "an empty Reply chunk", items: ints{4}, l: Limits{Version: v1, Send: 1024},
			lists: lists(ints{}), inl: 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, msg := msgOf(c.items...)
			var p ReplyPlan
			must(t, p.Plan(write(bulk(9), bulk(9)), true, c.l, lists(ints{9, 9}, ints{9, 9}))) // leaves nothing behind
			must(t, p.Plan(msg, !c.fixed, c.l, c.lists))
			if p.NoMsg != c.noMsg || p.Len != c.inl {
				t.Errorf("NOMSG %v with %d bytes, want %v with %d", p.NoMsg, p.Len, c.noMsg, c.inl)
			}
			if !slices.Equal(p.Writes, c.ops) {
				t.Errorf("writes %v, want %v", p.Writes, c.ops)
			}
			var wr []int
			for i, w := range p.Returned.Writes {
				wr = append(wr, lens(w)...)
				if len(w) != len(c.lists.Writes[i]) {
					t.Errorf("write chunk %d has %d segments, want %d", i, len(w), len(c.lists.Writes[i]))
				}
			}
			if !slices.Equal(wr, c.wr) || !slices.Equal(lens(p.Returned.Reply), c.rep) || p.Returned.HasReply != c.lists.HasReply {
				t.Errorf("returned %v and %v, want %v and %v", wr, lens(p.Returned.Reply), c.wr, c.rep)
			}
			h := wire.Header{Version: c.l.Version, Proc: wire.Msg, Lists: p.Returned}
			if h.Proc = wire.NoMsg; !p.NoMsg {
				h.Proc = wire.Msg
			}
			if h.Len() != p.Header {
				t.Errorf("header of %d bytes, planned %d", h.Len(), p.Header)
			}
			must(t, CheckReply(&h, c.lists, 0))
		})
	}
}

func TestReplyPlanRefused(t *testing.T) {
	type ints = []int
	for _, c := range []struct {
		name  string
		items []int
		lists *wire.Lists
		want  ResourceError
		v2    wire.ErrorBody
	}{
		{"D-33 Write chunk too small, T-13 nothing is cut short", ints{4, 9}, lists(ints{4096}, ints{4}, ints{4, 4}),
			ResourceError{Write: 2, Needed: 9}, wire.ErrorBody{Code: wire.ErrWriteResource, Index: 2, Needed: 9}},
		{"a chunk of empty segments is no empty chunk", ints{4}, lists(nil, ints{0, 0}),
			ResourceError{Write: 1, Needed: 4}, wire.ErrorBody{Code: wire.ErrWriteResource, Index: 1, Needed: 4}},
		{"D-33 Reply chunk too small", ints{2000}, lists(ints{1000, 1011}),
			ResourceError{Needed: 2012}, wire.ErrorBody{Code: wire.ErrReplyResource, Needed: 2012}},
		{"v2 draft §6.2.4 no Reply chunk at all", ints{2000}, lists(nil),
			ResourceError{Needed: 2012}, wire.ErrorBody{Code: wire.ErrReplyResource, Needed: 2012}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, msg := msgOf(c.items...)
			var p ReplyPlan
			err := p.Plan(msg, true, Limits{Version: wire.Version1, Send: 1024}, c.lists)
			var e *ResourceError
			if !errors.As(err, &e) || *e != c.want {
				t.Fatalf("got %v, want %+v", err, c.want)
			}
			if got := e.Body(wire.Version2); got != c.v2 {
				t.Errorf("version 2 answers %+v, want %+v", got, c.v2)
			}
			if got := e.Body(wire.Version1); got != (wire.ErrorBody{Code: wire.ErrChunk}) {
				t.Errorf("version 1 answers %+v", got)
			}
		})
	}
	var p ReplyPlan
	_, msg := msgOf()
	ls := lists(nil, make(ints, 80))
	if err := p.Plan(msg, true, Limits{Version: wire.Version1, Send: 1024}, ls); !errors.Is(err, ErrHeader) {
		t.Errorf("lists that do not fit the reply: %v", err)
	}
}
