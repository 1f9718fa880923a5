package chunk

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/core/wire"
)

// The fuzzers read transport headers, so that what they find is what a peer can send.

func FuzzCheckCall(f *testing.F) {
	for _, version := range []uint32{wire.Version1, wire.Version2} {
		for _, h := range []wire.Header{
			{Proc: wire.Msg},
			{Proc: wire.Msg, Lists: wire.Lists{Reads: reads(36, 5, 36, 3, 48, 9)}},
			{Proc: wire.NoMsg, Lists: wire.Lists{Reads: reads(0, 40, 36, 5)}},
			{Proc: wire.Msg, Lists: *lists([]int{100, 200}, []int{10}, nil, []int{20, 30})},
		} {
			h.Version = version
			f.Add(append(h.Append(nil), make([]byte, 48)...), int8(-1), uint8(0))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, most int8, segs uint8) {
		var h wire.Header
		n, err := h.Parse(b, wire.ProfileCel04)
		if err != nil || h.Proc != wire.Msg && h.Proc != wire.NoMsg {
			return
		}
		tryCall(t, &h, b[n:], RecvLimits{MaxReads: int(most), MaxWrites: int(most), MaxSegs: int(segs), MaxBytes: 1 << 16})
		var p ReplyPlan
		_, msg := msgOf(0, 7, 300)
		l := Limits{Version: h.Version, Send: 1024}
		if CheckCall(&h, len(b)-n, RecvLimits{MaxReads: -1, MaxWrites: -1, Send: l.Send}) == nil && p.Plan(msg, true, l, &h.Lists) == nil {
			back := wire.Header{Version: h.Version, Proc: wire.Msg, Lists: p.Returned}
			if p.NoMsg {
				back.Proc = wire.NoMsg
			}
			if err := CheckReply(&back, &h.Lists, 0); err != nil {
				t.Fatalf("our own reply to %+v: %v", h.Lists, err)
			}
		}
	})
}

func FuzzCheckReply(f *testing.F) {
	offers := []*wire.Lists{lists(nil), lists([]int{100, 200}, []int{10}, nil, []int{20, 30}), lists([]int{64})}
	for i, o := range offers {
		h := wire.Header{Version: wire.Version1, Proc: wire.Msg, Lists: *o}
		f.Add(append(h.Append(nil), make([]byte, 24)...), uint8(i))
		h.Version, h.Proc, h.Direction = wire.Version2, wire.NoMsg, wire.Reply
		if i > 0 {
			f.Add(h.Append(nil), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, i uint8) {
		var h wire.Header
		n, err := h.Parse(b, wire.ProfileCel04)
		if err != nil || h.Proc != wire.Msg && h.Proc != wire.NoMsg {
			return
		}
		tryReply(t, &h, offers[int(i)%len(offers)], b[n:])
	})
}
