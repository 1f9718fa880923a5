package chunk

import (
	"errors"
	"slices"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"pgregory.net/rapid"
)

// genLimits draws limits of either version, small enough that every form is met.
func genLimits(t *rapid.T) Limits {
	return Limits{
		Version:   rapid.SampledFrom([]uint32{wire.Version1, wire.Version2}).Draw(t, "version"),
		Send:      rapid.OneOf(rapid.IntRange(24, 300), rapid.SampledFrom([]int{1024, 4096})).Draw(t, "send"),
		MoveAbove: rapid.SampledFrom([]int{0, 1, 24, 100, 1 << 20}).Draw(t, "above"),
		MaxReads:  rapid.IntRange(-1, 4).Draw(t, "reads"),
		MaxWrites: rapid.IntRange(-1, 4).Draw(t, "writes"),
		MaxSegs:   rapid.SampledFrom([]int{0, 1, 2, 3, 8}).Draw(t, "segs"),
		SegLen:    rapid.SampledFrom([]int{0, 0, 1, 7, 64, 1000}).Draw(t, "seglen"),
		LongMore:  rapid.Bool().Draw(t, "longmore"),
	}
}

// genValues draws a message with up to six bulk items whose sizes lie around those that
// matter: the round-up, a header's segment, what MoveAbove says, what a Send takes.
func genValues(t *rapid.T, l Limits, name string) []value {
	edges := []int{0, 4, 24, 64, l.MoveAbove & 0xfff, l.Send, l.Send / 2, 1000}
	size := rapid.Custom(func(t *rapid.T) int {
		return max(0, rapid.SampledFrom(edges).Draw(t, "edge")+rapid.IntRange(-4, 4).Draw(t, "d"))
	})
	one := rapid.Custom(func(t *rapid.T) value {
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			return word(rapid.Uint32().Draw(t, "word"))
		case 1:
			return opaque(rapid.IntRange(0, 40).Draw(t, "opaque"))
		}
		return bulk(size.Draw(t, "bulk"))
	})
	vs := []value{word(7)} // an RPC message begins with its XID
	items := 0
	for _, v := range rapid.SliceOfN(one, 0, 14).Draw(t, name) {
		if v.kind == 'b' {
			if items++; items > 6 {
				continue
			}
		}
		vs = append(vs, v)
	}
	return vs
}

// TestCallComesBack: whatever the message and the limits, what was planned, encoded, sent,
// pulled and joined is the message, in a form that the limits allow.
func TestCallComesBack(t *testing.T) {
	var p CallPlan
	rapid.Check(t, func(t *rapid.T) {
		l := genLimits(t)
		vs := genValues(t, l, "call")
		move := rapid.Bool().Draw(t, "move")
		spec := genSpec(t)
		recv := rapid.IntRange(28, 600).Draw(t, "recv")
		msg := write(vs...)
		o, err := p.Plan(msg, move, l, spec, recv)
		if err != nil {
			if !errors.Is(err, ErrHeader) {
				t.Fatal(err)
			}
			if canSend(l, spec, recv, msg.Len()) {
				t.Fatalf("refused although it fits: %v", err)
			}
			return
		}
		wantForm(t, &p, o, l, msg.Bulk(), move)
		m := memory{}
		_, _, _, _, err = deliverCall(m, &p, o, l, vs, msg, rapid.Bool().Draw(t, "share"))
		if err != nil {
			t.Fatalf("%+v %+v: %v", p, o, err)
		}
	})
}

func genSpec(t *rapid.T) ReplySpec {
	s := ReplySpec{Writes: rapid.SliceOfN(rapid.IntRange(0, 90), 0, 3).Draw(t, "offer")}
	s.Max = 4 * rapid.IntRange(0, 100).Draw(t, "max")
	if rapid.Bool().Draw(t, "whole") {
		s.MaxWhole = s.Max
		for _, n := range s.Writes {
			s.MaxWhole += n + pad(n)
		}
	}
	return s
}

// canSend tells, counted the long way, whether a message of n bytes can be sent at all: the
// header that its reply returns fits what we receive; its own, with the message behind it or in a
// Position-Zero Read chunk, fits the Send.
func canSend(l Limits, spec ReplySpec, recv, n int) bool {
	h := wire.Header{Version: l.Version, Proc: wire.Msg}
	writes, stream := l.offeredWrites(spec)
	for _, n := range writes {
		h.Writes = append(h.Writes, make(wire.Chunk, len(l.Segments(nil, n))))
	}
	stream += pad(stream)
	if h.HasReply = stream > 0 && h.Len()+stream > recv; h.HasReply {
		h.Reply = make(wire.Chunk, len(l.Segments(nil, stream)))
	}
	long := h
	long.Reads = make([]wire.ReadSegment, len(l.Segments(nil, n)))
	return h.Len() <= recv && (h.Len()+n <= l.Send || long.Len() <= l.Send)
}

// wantForm checks the form of a call against the rules.
func wantForm(t *rapid.T, p *CallPlan, o Offer, l Limits, items []xdr.Bulk, move bool) {
	moved := map[int]bool{}
	for _, i := range p.Moved {
		moved[i] = true
		if len(items[i].Data) == 0 {
			t.Fatal("an empty item was moved")
		}
	}
	for _, part := range p.Parts {
		if part.N == 0 {
			t.Fatalf("an empty part in %+v", p.Parts)
		}
	}
	whole := p.Len
	for i := range moved {
		n := len(items[i].Data)
		whole += n + pad(n)
	}
	switch {
	case len(moved) > 0 && !move:
		t.Fatal("moved what the binding does not allow")
	case l.MaxReads >= 0 && len(moved) > l.MaxReads:
		t.Fatalf("%d read chunks, limit %d", len(moved), l.MaxReads)
	case p.NoMsg && len(moved) > 0 && !l.LongMore:
		t.Fatal("read chunks beside the position-zero chunk")
	case l.Version == wire.Version1 && slices.Contains(o.Writes, 0):
		t.Fatal("D-30: empty write chunk offered to a version 1 peer")
	case l.MaxWrites >= 0 && len(o.Writes) > l.MaxWrites:
		t.Fatalf("%d write chunks, limit %d", len(o.Writes), l.MaxWrites)
	}
	if l.SegLen != 0 {
		return // several small segments may take more room than their item
	}
	// The form is chunked or short if any choice of items makes it fit, long if none does.
	reads := 24 * len(p.Moved)
	if p.NoMsg {
		reads += 24
	}
	fixed := p.Header - reads
	fits := false
	for set := range 1 << len(items) {
		size, n := fixed+whole, 0
		ok := true
		for i := range items {
			if set>>i&1 == 1 {
				d := len(items[i].Data)
				size += 24 - d - pad(d)
				n++
				ok = ok && d > 0
			}
		}
		if ok && (n == 0 || move) && (l.MaxReads < 0 || n <= l.MaxReads) && size <= l.Send {
			fits = true
			if n == 0 && !p.NoMsg {
				for i := range moved {
					if len(items[i].Data) <= l.MoveAbove {
						t.Fatalf("item %d of %d bytes moved, all fits inline", i, len(items[i].Data))
					}
				}
			}
		}
	}
	if fits == p.NoMsg {
		t.Fatalf("long form %v, but fits in one send: %v", p.NoMsg, fits)
	}
}

// TestReplyComesBack: when the caller's bounds are true, every reply arrives, in the memory
// that was offered; when they are not, the responder names what is missing.
func TestReplyComesBack(t *testing.T) {
	var cp CallPlan
	var rp ReplyPlan
	rapid.Check(t, func(t *rapid.T) {
		l := genLimits(t)
		l.Send = max(l.Send, 700) // the call itself is not what is tried here
		back := l
		back.Send = rapid.OneOf(rapid.IntRange(28, 400), rapid.Just(1024)).Draw(t, "recv")
		vs := genValues(t, back, "reply")
		msg := write(vs...)
		move := rapid.Bool().Draw(t, "move")
		spec := ReplySpec{Max: msg.Len(), MaxWhole: msg.Len()}
		for i, it := range msg.Bulk() {
			n := rapid.SampledFrom([]int{0, len(it.Data), len(it.Data) + 9}).Draw(t, "room")
			if n > 0 && move {
				spec.Max -= len(it.Data) + pad(len(it.Data))
			}
			if i < 4 {
				spec.Writes = append(spec.Writes, n)
			} else if n > 0 && move {
				spec.Max += len(it.Data) + pad(len(it.Data))
			}
		}
		if len(msg.Bulk()) <= 4 && rapid.Bool().Draw(t, "unused") { // a union's other arm: the chunk comes back unused
			spec.Writes = append(spec.Writes, 50)
		}
		lie := rapid.SampledFrom([]string{"", "", "", "write", "max"}).Draw(t, "lie")
		switch {
		case lie == "write" && len(spec.Writes) > 0 && spec.Writes[0] > 1:
			spec.Writes[0] = 1
		case lie == "max" && spec.Max > 4:
			spec.Max, spec.MaxWhole = 4, 4
		}
		small := write(word(1))
		o, err := cp.Plan(small, true, l, spec, back.Send)
		if errors.Is(err, ErrHeader) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		m := memory{}
		call, h, writes, reply, err := deliverCall(m, &cp, o, l, []value{word(1)}, small, rapid.Bool().Draw(t, "share"))
		if err != nil {
			t.Fatal(err)
		}
		err = rp.Plan(msg, move, back, &call.Lists)
		var short *ResourceError
		if errors.As(err, &short) {
			wantShort(t, short, msg.Bulk(), &call.Lists, msg.Len())
			if lie == "" {
				t.Fatalf("true bounds %+v, offer %+v: %v", spec, o, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		var into [][]byte
		if rapid.Bool().Draw(t, "into") {
			for _, it := range msg.Bulk() {
				into = append(into, make([]byte, len(it.Data)))
			}
		}
		if err := deliverReply(m, &rp, back, call, &h.Lists, vs, msg, writes, reply, into); err != nil {
			t.Fatalf("%+v: %v", rp, err)
		}
	})
}

func wantShort(t *rapid.T, e *ResourceError, items []xdr.Bulk, ls *wire.Lists, whole int) {
	if e.Write == 0 {
		if uint64(e.Needed) <= ls.Reply.Len() || int(e.Needed) > whole {
			t.Fatalf("%v, offered %d, whole reply %d", e, ls.Reply.Len(), whole)
		}
		return
	}
	i := e.Write - 1
	if uint64(e.Needed) <= ls.Writes[i].Len() || int(e.Needed) != len(items[i].Data) {
		t.Fatalf("%v, offered %d", e, ls.Writes[i].Len())
	}
}
