package chunk

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/core/wire"
)

// TestCallInPieces: within the reach a call has no Read chunk; an item that is to be moved in any case is, and what is
// beyond the reach goes as if there were none.
func TestCallInPieces(t *testing.T) {
	base := Limits{Version: wire.Version2, Send: 1024, MaxReads: -1, MoveAbove: 1 << 30, Reach: 8000}
	with := func(f func(*Limits)) Limits { l := base; f(&l); return l }
	for _, c := range []struct {
		name          string
		items         []int
		l             Limits
		pieces, noMsg bool
		moved         int
	}{
		{"fits in one Send", []int{900}, base, false, false, 0},
		{"fits to the byte", []int{976}, base, false, false, 0},
		{"one more", []int{977}, base, true, false, 0},
		{"two items", []int{3000, 3000}, base, true, false, 0},
		{"the reach to the byte", []int{8000 - 12}, base, true, false, 0},
		{"beyond the reach", []int{8000 - 11}, base, false, false, 1},
		{"nothing may move", []int{8000}, with(func(l *Limits) { l.MaxReads = 0 }), false, true, 0},
		{"above MoveAbove", []int{3000}, with(func(l *Limits) { l.MoveAbove = 2999 }), false, false, 1},
		{"no reach", []int{3000}, with(func(l *Limits) { l.Reach = 0 }), false, false, 1},
		{"no chunks are taken", []int{3000}, with(func(l *Limits) { l.Inline = true }), true, false, 0},
		{"a longer header", []int{970}, with(func(l *Limits) { l.Extra = 16; l.Reach = 0 }), false, false, 1},
		{"a longer header that fits", []int{960}, with(func(l *Limits) { l.Extra = 16; l.Reach = 0 }), false, false, 0},
	} {
		var p CallPlan
		_, msg := msgOf(c.items...)
		if _, err := p.Plan(msg, true, c.l, ReplySpec{}, 1024); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if p.Pieces != c.pieces || p.NoMsg != c.noMsg || len(p.Moved) != c.moved {
			t.Errorf("%s: pieces %v, NOMSG %v, %d items moved", c.name, p.Pieces, p.NoMsg, len(p.Moved))
		}
		if want := headerLen(wire.Version2) + c.l.Extra + 24*c.moved; !p.NoMsg && p.Header != want {
			t.Errorf("%s: a header of %d bytes, want %d", c.name, p.Header, want)
		}
		if p.Pieces && p.Len != msg.Len() {
			t.Errorf("%s: %d of %d bytes", c.name, p.Len, msg.Len())
		}
	}
}

// TestReplyWithinReach: no Reply chunk is offered for what the responder can send in pieces, unless it has asked for one.
func TestReplyWithinReach(t *testing.T) {
	_, msg := msgOf()
	for _, c := range []struct {
		name  string
		spec  ReplySpec
		reply int
	}{
		{"in one Send", ReplySpec{Max: 900}, 0},
		{"no reach", ReplySpec{Max: 2000}, 2000},
		{"within the reach", ReplySpec{Max: 2000, Reach: 2000}, 0},
		{"beyond the reach", ReplySpec{Max: 2001, Reach: 2000}, 2004},
		{"asked for", ReplySpec{Max: 2000, Reach: 4000, Chunk: 3000}, 3000},
	} {
		var p CallPlan
		o, err := p.Plan(msg, true, Limits{Version: wire.Version2, Send: 1024}, c.spec, 1024)
		if err != nil || o.Reply != c.reply {
			t.Errorf("%s: Reply chunk of %d bytes, want %d (%v)", c.name, o.Reply, c.reply, err)
		}
	}
}

// TestReplyInPieces: what was offered Write chunks is written; the rest, within the reach, goes without the Reply chunk.
func TestReplyInPieces(t *testing.T) {
	lists := &wire.Lists{
		Writes: []wire.Chunk{{{Handle: 1, Length: 5000}}}, HasReply: true, Reply: wire.Chunk{{Handle: 2, Length: 8000}},
	}
	for _, c := range []struct {
		name          string
		items         []int
		reach         int
		pieces, noMsg bool
	}{
		{"small", []int{5000}, 8000, false, false},
		{"the rest is long", []int{5000, 3000}, 8000, true, false},
		{"beyond the reach", []int{5000, 3000}, 3000, false, true},
		{"no reach", []int{5000, 3000}, 0, false, true},
	} {
		var p ReplyPlan
		_, msg := msgOf(c.items...)
		if err := p.Plan(msg, true, Limits{Version: wire.Version2, Send: 1024, Reach: c.reach}, lists); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if p.Pieces != c.pieces || p.NoMsg != c.noMsg || p.Returned.Writes[0].Len() != 5000 || (p.Returned.Reply.Len() > 0) != c.noMsg {
			t.Errorf("%s: pieces %v, NOMSG %v, returned %+v", c.name, p.Pieces, p.NoMsg, p.Returned)
		}
	}
}
