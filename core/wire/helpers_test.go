package wire

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/test/unhex"
)

// TestSubset: bit N is bit N mod 32, the least significant being 0, of word N div 32 (D-17).
func TestSubset(t *testing.T) {
	var s Subset
	for _, n := range []int{0, 33, 63} {
		s.Add(n)
	}
	if len(s) != 2 || s[0] != 1 || s[1] != 1<<1|1<<31 {
		t.Errorf("%x", []uint32(s))
	}
	for n := -1; n < 100; n++ {
		if s.Has(n) != (n == 0 || n == 33 || n == 63) {
			t.Errorf("Has(%d) = %v", n, s.Has(n))
		}
	}
	if s.End() != 64 || (Subset{0, 0}).End() != 0 || (Subset{1, 0}).End() != 1 || Subset(nil).End() != 0 {
		t.Error("End")
	}
	if s.String() != "[0 33 63]" {
		t.Error(s.String())
	}
}

// TestHandles: which handle may be invalidated (D-25).
func TestHandles(t *testing.T) {
	seg := func(h uint32) Segment { return Segment{Handle: h} }
	for _, tc := range []struct {
		name string
		l    Lists
		one  uint32
		ok   bool
	}{
		{"no chunk", Lists{}, 0, false},
		{"one", Lists{Writes: []Chunk{{seg(5)}}}, 5, true},
		{"one, everywhere", Lists{Reads: []ReadSegment{{0, seg(5)}, {8, seg(5)}}, Writes: []Chunk{{}, {seg(5), seg(5)}}, Reply: Chunk{seg(5)}, HasReply: true}, 5, true},
		{"two Reads", Lists{Reads: []ReadSegment{{0, seg(5)}, {8, seg(6)}}}, 0, false},
		{"Read and Write", Lists{Reads: []ReadSegment{{0, seg(5)}}, Writes: []Chunk{{seg(6)}}}, 0, false},
		{"two in a Reply chunk", Lists{Reply: Chunk{seg(5), seg(6)}, HasReply: true}, 0, false},
		{"handle 0", Lists{Writes: []Chunk{{seg(0)}, {seg(1)}}}, 0, false},
	} {
		if one, ok := tc.l.OneHandle(); one != tc.one || ok != tc.ok {
			t.Errorf("%s: %d %v", tc.name, one, ok)
		}
		if tc.ok && !tc.l.HasHandle(tc.one) || tc.l.HasHandle(99) {
			t.Errorf("%s: HasHandle", tc.name)
		}
	}
	l := Lists{Reads: []ReadSegment{{0, seg(1)}}, Writes: []Chunk{{seg(2)}}, Reply: Chunk{seg(3)}, HasReply: true}
	for h := range uint32(5) {
		if l.HasHandle(h) != (h >= 1 && h <= 3) {
			t.Errorf("HasHandle(%d)", h)
		}
	}
}

// TestOptionalForm: the property operations as operation types (D-1).
func TestOptionalForm(t *testing.T) {
	for p := ConnProp; p <= UpdProp; p++ {
		h := Header{XID: 9, Version: 2, Credit: 1, Proc: p, Props: []Property{{1, []byte{0, 0, 16, 0}}}}
		switch p {
		case ConnProp:
			h.NoChange = Subset{3}
		case RespProp:
			h.DoneSet, h.Rejected = Subset{1}, Subset{2, 4}
		}
		body := h.AppendPropBody(nil)
		if len(body) != h.PropBodyLen() {
			t.Errorf("%v: %d bytes, PropBodyLen %d", p, len(body), h.PropBodyLen())
		}
		typ, ok := p.OptType()
		if !ok || typ != uint32(p)-5 {
			t.Errorf("%v is operation type %d", p, typ)
		}
		d, _ := h.Dir()
		o := Header{XID: 9, Version: 2, Credit: 1, Proc: Optional, Direction: d, OptType: typ, OptInfo: body}
		var got Header
		if _, err := got.Parse(o.Append(nil), ProfileCel04); err != nil {
			t.Fatal(err)
		}
		back, ok := PropProc(got.OptType)
		if err := got.ParsePropBody(back, got.OptInfo); err != nil || !ok || back != p {
			t.Fatalf("%v: %v", back, err)
		}
		if got.Proc != Optional || got.Direction != d {
			t.Errorf("the rest of the header changed: %v", &got)
		}
		got.Proc, got.Direction, got.OptType, got.OptInfo = p, 0, 0, nil
		if !same(&got, &h) {
			t.Errorf("got %v, want %v", &got, &h)
		}
		for i := range body {
			if got.ParsePropBody(p, body[:i]) == nil {
				t.Errorf("%v: accepted %d of %d bytes", p, i, len(body))
			}
		}
		if got.ParsePropBody(p, append(body[:len(body):len(body)], 0)) == nil {
			t.Errorf("%v: accepted a surplus byte", p)
		}
	}
	for _, p := range []Proc{Msg, Optional, 10} {
		if _, ok := p.OptType(); ok {
			t.Error(p)
		}
	}
	for _, typ := range []uint32{0, 5, 1 << 31} {
		if _, ok := PropProc(typ); ok {
			t.Error(typ)
		}
	}
}

// TestChunkLists: the lists of a message that an operation wraps.
func TestChunkLists(t *testing.T) {
	h := Header{Version: 2, Proc: Msg, Direction: Reply, InvHandle: 7,
		Lists: Lists{Reads: []ReadSegment{{8, Segment{1, 2, 3}}}, Writes: []Chunk{{{4, 5, 6}}}}}
	b := h.AppendChunkLists(nil)
	if len(b) != h.ChunkListsLen() {
		t.Errorf("%d bytes, ChunkListsLen %d", len(b), h.ChunkListsLen())
	}
	got := Header{XID: 1, Version: 2, Credit: 2, Proc: Optional, OptType: 3, OptInfo: b,
		Lists: Lists{HasReply: true, Reply: Chunk{{1, 1, 1}}}}
	n, err := got.ParseChunkLists(append(b[:len(b):len(b)], "rest"...))
	if err != nil || n != len(b) || got.Direction != Reply || got.InvHandle != 7 || got.HasReply ||
		got.Lists.String() != h.Lists.String() || got.Proc != Optional || got.OptType != 3 {
		t.Errorf("%v %d %v", &got, n, err)
	}
	for i := range b {
		if _, err := got.ParseChunkLists(b[:i]); err == nil {
			t.Errorf("accepted %d of %d bytes", i, len(b))
		}
	}
}

func TestDir(t *testing.T) {
	for _, tc := range []struct {
		h     Header
		d     Direction
		known bool
	}{
		{Header{Version: 1, Proc: Msg}, 0, false},
		{Header{Version: 1, Proc: ErrorMsg}, Reply, true},
		{Header{Version: 7, Proc: ErrorMsg}, Reply, true},
		{Header{Version: 2, Proc: Msg, Direction: Reply}, Reply, true},
		{Header{Version: 2, Proc: NoMsg}, Call, true},
		{Header{Version: 2, Proc: Optional, Direction: Reply}, Reply, true},
		{Header{Version: 2, Proc: ErrorMsg}, Reply, true},
		{Header{Version: 2, Proc: ConnProp}, Call, true},
		{Header{Version: 2, Proc: ReqProp}, Call, true},
		{Header{Version: 2, Proc: RespProp}, Reply, true},
		{Header{Version: 2, Proc: UpdProp}, Call, true},
		{Header{Version: 2, Proc: MsgP}, 0, false},
	} {
		if d, known := tc.h.Dir(); d != tc.d || known != tc.known {
			t.Errorf("version %d %v: %v %v", tc.h.Version, tc.h.Proc, d, known)
		}
	}
}

// TestString: one line, lists in the order of the header.
func TestString(t *testing.T) {
	for _, tc := range []struct{ hex, want string }{
		{`00000001 00000001 00000020 00000000
		  00000001 0000006c 00000001 00000005 00000000 00000002
		  00000001 0000006c 00000003 00000007 00000000 00000004
		  00000001 00000078 00000005 00000004 00000001 00000006  00000000
		  00000001 00000001 00000004 00000040 00000000 000000a4
		  00000001 00000000 00000000 00000001 00000000`,
			"xid 0x00000001 vers 1 credit 32 MSG reads {108: 5@0x00000001:0x2 7@0x00000003:0x4, 120: 4@0x00000005:0x100000006} writes [64@0x00000004:0xa4] [] reply []"},
		{"00000007 00000002 00000040 00000004 00000001 00000001 00000001",
			"xid 0x00000007 vers 2 credit 64 ERROR RDMA2_ERR_VERS supports 1..1"},
		{"00000007 00000001 00000040 00000004 00000002", "xid 0x00000007 vers 1 credit 64 ERROR ERR_CHUNK"},
		{"00000001 00000002 00000020 00000006 00000002  00000001 00000004 00001000  00000002 00000000 00000001 00000001",
			"xid 0x00000001 vers 2 credit 32 CONNPROP start {1: 00001000, 2: default} nochg [0]"},
	} {
		var h Header
		if _, err := h.Parse(unhex.Octets(t, tc.hex), ProfileCel04); err != nil || h.String() != tc.want {
			t.Errorf("%v\n got %v\nwant %v", err, &h, tc.want)
		}
	}
	for _, g := range golden { // none breaks, and none is more than a line
		for _, c := range g.h.String() {
			if c < ' ' {
				t.Errorf("%s: %q", g.name, g.h.String())
			}
		}
	}
}
