package rpcmsg

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/unhex"
)

// equalButPadding compares what was written with what was read; round-up bytes are not looked at
// and written as zeros.
func equalButPadding(out, in []byte) bool {
	if len(out) != len(in) {
		return false
	}
	for i := range out {
		if out[i] != in[i] && out[i] != 0 {
			return false
		}
	}
	return true
}

// FuzzCall: refuse, or write the same bytes again.
func FuzzCall(f *testing.F) {
	for _, b := range captured(f) {
		f.Add(b)
	}
	f.Add(unhex.Octets(f, "0000002a 00000000 00000003"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := xdr.NewReader(b)
		var h, back CallHeader
		if err := h.Parse(r); err != nil {
			var m *RPCMismatch
			if errors.As(err, &m) && (m.Version == Version || m.XID != h.XID) {
				t.Fatalf("%+v", m)
			}
			return
		}
		out := wrote(t, h.Append)
		if !equalButPadding(out, b[:r.Offset()]) || h.Len() != len(out) {
			t.Fatalf("read    %x\nwritten %x", b[:r.Offset()], out)
		}
		if err := back.Parse(xdr.NewReader(out)); err != nil || back.XID != h.XID || !bytes.Equal(back.Cred.Body, h.Cred.Body) ||
			!bytes.Equal(back.Verf.Body, h.Verf.Body) {
			t.Fatalf("%+v became %+v", h, back)
		}
		var s Sys
		if h.Cred.Flavor == AuthSys && s.Parse(h.Cred.Body) == nil {
			if out := wrote(t, s.Append); !equalButPadding(out, h.Cred.Body) {
				t.Fatalf("read    %x\nwritten %x", h.Cred.Body, out)
			}
		}
	})
}

// FuzzReply: refuse, or write the same bytes again; what is no success is an error that makes the
// same reply.
func FuzzReply(f *testing.F) {
	for _, b := range captured(f) {
		f.Add(b)
	}
	for _, tc := range replies {
		f.Add(unhex.Octets(f, tc.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := xdr.NewReader(b)
		var h ReplyHeader
		if h.Parse(r) != nil {
			return
		}
		out := wrote(t, h.Append)
		if !equalButPadding(out, b[:r.Offset()]) || h.Len() != len(out) {
			t.Fatalf("read    %x\nwritten %x", b[:r.Offset()], out)
		}
		if err := h.Err(); err != nil {
			var again ReplyHeader
			again.Refuse(h.XID, err)
			again.Verf = h.Verf
			if got := wrote(t, again.Append); !bytes.Equal(got, out) {
				t.Fatalf("%v: %x of %x", err, got, out)
			}
		}
	})
}

func FuzzSys(f *testing.F) {
	for _, s := range []Sys{{}, {Stamp: 1, Machine: "client", UID: 2, GID: 3, GIDs: []uint32{4, 5}}} {
		f.Add(wrote(f, s.Append))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Sys
		if s.Parse(b) != nil {
			return
		}
		if out := wrote(t, s.Append); !equalButPadding(out, b) {
			t.Fatalf("read    %x\nwritten %x", b, out)
		}
	})
}

// FuzzRecords: the same records and the same fault however the stream is cut; never more than the limit.
func FuzzRecords(f *testing.F) {
	f.Add(unhex.Octets(f, "00000001 61 00000002 6263 80000001 64 80000002 6162"), uint8(3))
	f.Add(unhex.Octets(f, "00000000 00000000 80000000 ffffffff"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		const limit = 64
		whole, wantErr := feed(NewRecords(limit), stream, all)
		cut := func(n int) int { return min(n, int(piece)+1) }
		recs, err := feed(NewRecords(limit), stream, cut)
		if err != wantErr || len(recs) != len(whole) {
			t.Fatalf("%d records, %v; whole %d, %v", len(recs), err, len(whole), wantErr)
		}
		for i := range recs {
			if len(recs[i]) > limit || !bytes.Equal(recs[i], whole[i]) {
				t.Fatalf("record %d: %x, whole %x", i, recs[i], whole[i])
			}
		}
	})
}
