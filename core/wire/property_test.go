package wire

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

var procsOf = map[uint32][]Proc{
	Version1: {Msg, NoMsg, MsgP, Done, ErrorMsg},
	Version2: {Msg, NoMsg, ErrorMsg, Optional, ConnProp, ReqProp, RespProp, UpdProp},
}

// headers draws any header that Check accepts.
func headers() *rapid.Generator[*Header] { return rapid.Custom(drawHeader) }

func drawHeader(t *rapid.T) *Header {
	u32 := func(name string) uint32 { return rapid.Uint32().Draw(t, name) }
	h := &Header{XID: u32("xid"), Credit: u32("credit"), Version: uint32(rapid.IntRange(1, 2).Draw(t, "version"))}
	h.Proc = rapid.SampledFrom(procsOf[h.Version]).Draw(t, "proc")
	v2 := h.Version == Version2
	direction := func() Direction { return Direction(rapid.IntRange(0, 1).Draw(t, "direction")) }
	segment := rapid.Custom(func(t *rapid.T) Segment {
		return Segment{rapid.Uint32().Draw(t, "handle"), rapid.Uint32().Draw(t, "length"), rapid.Uint64().Draw(t, "offset")}
	})
	chunk := rapid.Custom(func(t *rapid.T) Chunk {
		return append(Chunk{}, rapid.SliceOfN(segment, 0, 5).Draw(t, "chunk")...)
	})
	props := func(name string) []Property {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Property {
			return Property{rapid.Uint32().Draw(t, "which"), rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "data")}
		}), 0, 4).Draw(t, name)
	}
	subset := func(name string) Subset { return rapid.SliceOfN(rapid.Uint32(), 0, 3).Draw(t, name) }
	lists := func() {
		h.Reads = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ReadSegment {
			return ReadSegment{rapid.Uint32Range(0, 1<<30-1).Draw(t, "position") * 4, segment.Draw(t, "segment")}
		}), 0, 6).Draw(t, "reads")
		h.Writes = rapid.SliceOfN(chunk, 0, 4).Draw(t, "writes")
		if h.HasReply = rapid.Bool().Draw(t, "reply"); h.HasReply {
			h.Reply = chunk.Draw(t, "reply chunk")
		}
	}
	switch h.Proc {
	case Msg, NoMsg:
		if v2 {
			h.Direction, h.InvHandle = direction(), u32("inv_handle")
		}
		lists()
		if h.Proc == NoMsg && h.Lists.Empty() {
			h.HasReply = true
		}
	case MsgP:
		h.Align, h.Thresh = u32("align"), u32("thresh")
		lists()
	case ErrorMsg:
		last := ErrSystem
		if !v2 {
			last = ErrChunk
		}
		h.Err.Code = Code(rapid.Uint32Range(1, uint32(last)).Draw(t, "code"))
		switch {
		case h.Err.Code == ErrVers:
			h.Err.Low, h.Err.High = u32("low"), u32("high")
		case !v2:
		case h.Err.Code == ErrWriteResource:
			h.Err.Index, h.Err.Needed = u32("index"), u32("needed")
		case h.Err.Code == ErrReplyResource:
			h.Err.Needed = u32("needed")
		case h.Err.Code >= ErrReadChunks && h.Err.Code <= ErrSegments:
			h.Err.Max = u32("max")
		}
	case Optional:
		h.Direction, h.OptType = direction(), u32("opttype")
		h.OptInfo = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "optinfo")
	case ConnProp:
		h.Props, h.NoChange = props("start"), subset("nochg")
	case ReqProp, UpdProp:
		h.Props = props("props")
	case RespProp:
		h.DoneSet, h.Rejected, h.Props = subset("done"), subset("rejected"), props("other")
	}
	return h
}

// TestIdentity: a header is read as it was written, whatever the Header that reads it held
// before, and whatever follows.
func TestIdentity(t *testing.T) {
	var used Header // keeps its memory from one case to the next
	rapid.Check(t, func(t *rapid.T) {
		h := headers().Draw(t, "header")
		if err := h.Check(); err != nil {
			t.Fatal(err)
		}
		b := h.Append(nil)
		if len(b) != h.Len() || len(b)%4 != 0 {
			t.Fatalf("%d bytes, Len %d", len(b), h.Len())
		}
		rest := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "rest")
		for _, got := range []*Header{new(Header), &used} {
			n, err := got.Parse(append(b[:len(b):len(b)], rest...), ProfileCel04)
			if err != nil || n != len(b) || !same(got, h) {
				t.Fatalf("%d of %d, %v\n got %v\nwant %v", n, len(b), err, got, h)
			}
		}
		for i := range b {
			if _, err := new(Header).Parse(b[:i], ProfileCel04); err == nil {
				t.Fatalf("accepted %d of %d bytes", i, len(b))
			}
		}
	})
}

// TestJSONIdentity: bytes to JSON to bytes.
func TestJSONIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := headers().Draw(t, "header")
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		var back Header
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !bytes.Equal(back.Append(nil), h.Append(nil)) || !same(&back, h) {
			t.Fatalf("%s\n got %v\nwant %v", text, &back, h)
		}
	})
}
