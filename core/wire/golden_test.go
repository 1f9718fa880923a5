package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/rpcrdma/rpcrdma/test/unhex"
)

// plain is h without the memory behind its slices, empty ones nil.
func plain(h *Header) Header {
	c := *h
	c.segs = nil
	if len(c.Reads) == 0 {
		c.Reads = nil
	}
	c.Writes = nil
	for _, w := range h.Writes {
		c.Writes = append(c.Writes, append(Chunk{}, w...))
	}
	if c.Reply = append(Chunk{}, h.Reply...); !c.HasReply {
		c.Reply = nil
	}
	if len(c.OptInfo) == 0 {
		c.OptInfo = nil
	}
	c.Props = nil
	for _, p := range h.Props {
		c.Props = append(c.Props, Property{p.ID, append([]byte{}, p.Data...)})
	}
	for _, s := range []*Subset{&c.NoChange, &c.DoneSet, &c.Rejected} {
		if len(*s) == 0 {
			*s = nil
		}
	}
	return c
}

func same(a, b *Header) bool { return reflect.DeepEqual(plain(a), plain(b)) }

// golden are headers with their bytes, written by hand from the XDR, or sent by Linux 6.1.
var golden = []struct {
	name string
	hex  string
	h    Header
}{
	{"RFC 8166 §4.7 no chunks: the first call of a Linux client",
		"3bbaeb74 00000001 00000080 00000000  00000000 00000000 00000000",
		Header{XID: 0x3bbaeb74, Version: 1, Credit: 128, Proc: Msg}},
	{"the reply of knfsd",
		"3bbaeb74 00000001 00000040 00000000  00000000 00000000 00000000",
		Header{XID: 0x3bbaeb74, Version: 1, Credit: 64, Proc: Msg}},
	{"RFC 8166 §3.5.3 Position-Zero Read chunk",
		"11223344 00000001 00000020 00000001  00000001 00000000 0000dead 00001000 00000000 00001000 00000000 00000000 00000000",
		Header{XID: 0x11223344, Version: 1, Credit: 32, Proc: NoMsg,
			Lists: Lists{Reads: []ReadSegment{{0, Segment{0xdead, 0x1000, 0x1000}}}}}},
	{"RFC 8166 §4.7 1 PHLOO 1 PHLOO 1 PHLOO 0",
		`00000001 00000001 00000001 00000000
		 00000001 0000006c 00000001 00000005 00000000 00000002
		 00000001 0000006c 00000003 00000007 00000000 00000004
		 00000001 00000078 00000005 00000004 00000001 00000006
		 00000000 00000000 00000000`,
		Header{XID: 1, Version: 1, Credit: 1, Proc: Msg, Lists: Lists{Reads: []ReadSegment{
			{108, Segment{1, 5, 2}}, {108, Segment{3, 7, 4}}, {120, Segment{5, 4, 1<<32 | 6}}}}}},
	{"RFC 8166 §4.7 1 3 HLOO HLOO HLOO 1 2 HLOO HLOO 0",
		`00000001 00000001 00000001 00000000  00000000
		 00000001 00000003
		 00000001 00000010 00000000 000000a1  00000002 00000020 00000000 000000a2  00000003 00000030 00000000 000000a3
		 00000001 00000002
		 00000004 00000040 00000000 000000a4  00000005 00000050 ffffffff ffffffff
		 00000000 00000000`,
		Header{XID: 1, Version: 1, Credit: 1, Proc: Msg, Lists: Lists{Writes: []Chunk{
			{{1, 16, 0xa1}, {2, 32, 0xa2}, {3, 48, 0xa3}}, {{4, 64, 0xa4}, {5, 80, 1<<64 - 1}}}}}},
	{"RFC 8166 §4.7 1 2 HLOO HLOO",
		`00000001 00000001 00000001 00000001  00000000 00000000
		 00000001 00000002  00000001 00000010 00000000 000000a1  00000002 00000000 00000000 000000a2`,
		Header{XID: 1, Version: 1, Credit: 1, Proc: NoMsg, Lists: Lists{HasReply: true,
			Reply: Chunk{{1, 16, 0xa1}, {2, 0, 0xa2}}}}},
	{"RFC 8166 §4.3.2.3 empty Write chunk, and a Reply chunk of none",
		"00000001 00000001 00000001 00000000  00000000  00000001 00000000 00000000  00000001 00000000",
		Header{XID: 1, Version: 1, Credit: 1, Proc: Msg, Lists: Lists{Writes: []Chunk{{}}, Reply: Chunk{}, HasReply: true}}},
	{"RFC 8166 §4.6.1 MSGP",
		"00000001 00000001 00000001 00000002  00000100 00000400  00000000 00000000 00000000",
		Header{XID: 1, Version: 1, Credit: 1, Proc: MsgP, Align: 256, Thresh: 1024}},
	{"RFC 8166 §4.6.2 DONE",
		"00000001 00000001 00000001 00000003",
		Header{XID: 1, Version: 1, Credit: 1, Proc: Done}},
	{"RFC 8166 §4.5.2 ERR_CHUNK",
		"00000007 00000001 00000040 00000004  00000002",
		Header{XID: 7, Version: 1, Credit: 64, Proc: ErrorMsg, Err: ErrorBody{Code: ErrChunk}}},
	{"knfsd to a version 2 call: ERR_VERS, version echoed",
		"00000007 00000002 00000040 00000004  00000001 00000001 00000001",
		Header{XID: 7, Version: 2, Credit: 64, Proc: ErrorMsg, Err: ErrorBody{Code: ErrVers, Low: 1, High: 1}}},
	{"knfsd to a version 0 call",
		"00000007 00000000 00000040 00000004  00000001 00000001 00000001",
		Header{XID: 7, Version: 0, Credit: 64, Proc: ErrorMsg, Err: ErrorBody{Code: ErrVers, Low: 1, High: 1}}},

	{"v2 §6.2 MSG without chunks",
		"00000001 00000002 00000020 00000000  00000000 00000000  00000000 00000000 00000000",
		Header{XID: 1, Version: 2, Credit: 32, Proc: Msg}},
	{"v2 §6.2.3 MSG call that asks for invalidation of its Write chunk",
		`00000001 00000002 00000020 00000000  00000000 0000beef  00000000
		 00000001 00000001 0000beef 00100000 00007fff 00001000  00000000 00000000`,
		Header{XID: 1, Version: 2, Credit: 32, Proc: Msg, InvHandle: 0xbeef,
			Lists: Lists{Writes: []Chunk{{{0xbeef, 1 << 20, 0x7fff00001000}}}}}},
	{"v2 §6.2.2 NOMSG reply in a Reply chunk",
		`00000001 00000002 00000020 00000001  00000001 00000000  00000000 00000000
		 00000001 00000001 0000cafe 00002000 00000000 00000000`,
		Header{XID: 1, Version: 2, Credit: 32, Proc: NoMsg, Direction: Reply,
			Lists: Lists{HasReply: true, Reply: Chunk{{0xcafe, 8192, 0}}}}},
	{"v2 §6.2.4 BAD_XDR", "00000001 00000002 00000020 00000004 00000002",
		Header{XID: 1, Version: 2, Credit: 32, Proc: ErrorMsg, Err: ErrorBody{Code: ErrBadXDR}}},
	{"v2 §6.2.4 INVALID_PROC", "00000001 00000002 00000020 00000004 00000003",
		Header{XID: 1, Version: 2, Credit: 32, Proc: ErrorMsg, Err: ErrorBody{Code: ErrInvalidProc}}},
	{"v2 §6.2.4 READ_CHUNKS", "00000001 00000002 00000020 00000004 00000004 00000001",
		Header{XID: 1, Version: 2, Credit: 32, Proc: ErrorMsg, Err: ErrorBody{Code: ErrReadChunks, Max: 1}}},
	{"v2 §6.2.4 WRITE_CHUNKS", "00000001 00000002 00000020 00000004 00000005 00000000",
		Header{XID: 1, Version: 2, Credit: 32, Proc: ErrorMsg, Err: ErrorBody{Code: ErrWriteChunks}}},
	{"v2 §6.2.4 SEGMENTS", "00000001 00000002 00000020 00000004 00000006 00000010",
		Header{XID: 1, Version: 2, Credit: 32, Proc: ErrorMsg, Err: ErrorBody{Code: ErrSegments, Max: 16}}},
	{"v2 §6.2.4 WRITE_RESOURCE", "00000001 00000002 00000020 00000004 00000007 00000002 00010000",
		Header{XID: 1, Version: 2, Credit: 32, Proc: ErrorMsg, Err: ErrorBody{Code: ErrWriteResource, Index: 2, Needed: 65536}}},
	{"v2 §6.2.4 REPLY_RESOURCE", "00000001 00000002 00000020 00000004 00000008 00010000",
		Header{XID: 1, Version: 2, Credit: 32, Proc: ErrorMsg, Err: ErrorBody{Code: ErrReplyResource, Needed: 65536}}},
	{"v2 §4.1 INVALID_OPTION", "00000001 00000002 00000020 00000004 00000009",
		Header{XID: 1, Version: 2, Credit: 32, Proc: ErrorMsg, Err: ErrorBody{Code: ErrInvalidOption}}},
	{"v2 §6.2.4 SYSTEM", "00000001 00000002 00000020 00000004 0000000a",
		Header{XID: 1, Version: 2, Credit: 32, Proc: ErrorMsg, Err: ErrorBody{Code: ErrSystem}}},
	{"v2 §4.1 OPTIONAL", "00000001 00000002 00000020 00000005 00000001 12345678 00000005 68656c6c 6f000000",
		Header{XID: 1, Version: 2, Credit: 32, Proc: Optional, Direction: Reply, OptType: 0x12345678, OptInfo: []byte("hello")}},
	{"v2 §5.3.1 CONNPROP: RBSIZ 4096, BRS default; the first does not change",
		`00000001 00000002 00000020 00000006
		 00000002  00000001 00000004 00001000  00000002 00000000
		 00000001  00000001`,
		Header{XID: 1, Version: 2, Credit: 32, Proc: ConnProp, NoChange: Subset{1},
			Props: []Property{{1, []byte{0, 0, 0x10, 0}}, {2, []byte{}}}}},
	{"v2 §5.3.2 REQPROP",
		"00000001 00000002 00000020 00000007 00000001 00000001 00000004 00002000",
		Header{XID: 1, Version: 2, Credit: 32, Proc: ReqProp, Props: []Property{{1, []byte{0, 0, 0x20, 0}}}}},
	{"v2 §5.3.3 RESPROP",
		"00000001 00000002 00000020 00000008 00000001 00000002 00000002 00000000 00000001 00000001 00000001 00000003 aabbcc00",
		Header{XID: 1, Version: 2, Credit: 32, Proc: RespProp, DoneSet: Subset{2}, Rejected: Subset{0, 1},
			Props: []Property{{1, []byte{0xaa, 0xbb, 0xcc}}}}},
	{"v2 §5.3.4 UPDPROP of nothing", "00000001 00000002 00000020 00000009 00000000",
		Header{XID: 1, Version: 2, Credit: 32, Proc: UpdProp}},
}

func TestGolden(t *testing.T) {
	for _, tc := range golden {
		t.Run(tc.name, func(t *testing.T) {
			want := unhex.Octets(t, tc.hex)
			if got := tc.h.Append(nil); !bytes.Equal(got, want) || tc.h.Len() != len(want) {
				t.Errorf("append, Len %d\n got %x\nwant %x", tc.h.Len(), got, want)
			}
			if err := tc.h.Check(); err != nil {
				t.Error(err)
			}
			var h Header
			n, err := h.Parse(append(want[:len(want):len(want)], "RPC follows"...), ProfileCel04)
			if err != nil || n != len(want) || !same(&h, &tc.h) {
				t.Errorf("parsed %d of %d: %v, %v", n, len(want), &h, err)
			}
			for i := range want { // cut anywhere, it is refused
				var cut Header
				if _, err := cut.Parse(want[:i:i], ProfileCel04); err == nil {
					t.Errorf("accepted %d of %d bytes", i, len(want))
				}
			}
		})
	}
}

// TestAppend: the bytes go behind what is there.
func TestAppend(t *testing.T) {
	h := Header{XID: 1, Version: 1, Credit: 1, Proc: Done}
	if got := h.Append([]byte("front")); string(got[:5]) != "front" || len(got) != 5+h.Len() {
		t.Errorf("%x", got)
	}
}

// TestAppendPanics: what no version has is a mistake of ours.
func TestAppendPanics(t *testing.T) {
	for _, h := range []Header{
		{Version: 1, Proc: Optional}, {Version: 2, Proc: MsgP}, {Version: 2, Proc: Done},
		{Version: 3, Proc: Msg}, {Version: 1, Proc: ErrorMsg, Err: ErrorBody{Code: ErrSegments}},
		{Version: 2, Proc: ErrorMsg}, {Version: 2, Proc: 10},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v was appended", &h)
				}
			}()
			if h.Check() == nil {
				t.Errorf("Check accepts %v", &h)
			}
			h.Append(nil)
		}()
	}
}

// TestV1Profile: with version 1 alone, version 2 is not read, ERR_VERS excepted (D-5).
func TestV1Profile(t *testing.T) {
	for _, tc := range golden {
		var h Header
		_, err := h.Parse(unhex.Octets(t, tc.hex), ProfileV1)
		wantOK := tc.h.Version == 1 || tc.h.Proc == ErrorMsg && tc.h.Err.Code == ErrVers
		if (err == nil) != wantOK {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
