package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/rpcrdma/rpcrdma/test/unhex"
)

func seeds(f *testing.F) {
	for _, tc := range golden {
		f.Add(unhex.Octets(f, tc.hex))
	}
	for _, msgs := range captured(f) {
		for _, b := range msgs {
			f.Add(b)
		}
	}
}

// FuzzParse: refuse, or write the same bytes again. Round-up bytes are the exception: they are
// not looked at, and written as zeros.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range []Profile{ProfileV1, ProfileCel04} {
			checkParse(t, b, p)
		}
	})
}

func checkParse(t *testing.T, b []byte, p Profile) {
	var h Header
	n, err := h.Parse(b, p)
	_ = h.String()
	if err != nil {
		checkRefusal(t, &h, b, n, err)
		return
	}
	if n < FixedLen || n > len(b) || n%4 != 0 || n != h.Len() {
		t.Fatalf("%d of %d bytes, Len %d", n, len(b), h.Len())
	}
	if err := h.Check(); err != nil {
		t.Fatalf("Parse accepts %v, Check says %v", &h, err)
	}
	out := h.Append(nil)
	opaque := h.Proc >= Optional
	for i := range out {
		if out[i] != b[i] && !(opaque && out[i] == 0) {
			t.Fatalf("byte %d\nread    %x\nwritten %x", i, b[:n], out)
		}
	}
	var back Header
	if k, err := back.Parse(out, p); err != nil || k != n || !same(&back, &h) {
		t.Fatalf("%v became %v: %v", &h, &back, err)
	}
	if err := h.CheckRest(len(b) - n); err != nil {
		checkRefusal(t, &h, b, 0, err)
	}
}

// checkRefusal: every refusal is a HeaderError with a reason, and its answer one that the peer
// can read; never one to an RDMA_ERROR.
func checkRefusal(t *testing.T, h *Header, b []byte, n int, err error) {
	var e *HeaderError
	if !errors.As(err, &e) || e.Reason == 0 || e.Error() == "" {
		t.Fatalf("%v", err)
	}
	if n > len(b) || (n != 0) != (e.Reason == UnknownCode) || h.Direction == unread {
		t.Fatalf("n %d of %d, %v, %v", n, len(b), e, h.Direction)
	}
	for _, as := range []Direction{Call, Reply} {
		body, ok := e.Answer(as, 1, 2)
		if !ok {
			continue
		}
		if e.Proc == ErrorMsg || as == Reply && !e.DirKnown || len(b) < FixedLen {
			t.Fatalf("an answer to %x", b)
		}
		var a, back Header
		a.SetError(e, body, 1)
		if a.Check() != nil {
			t.Fatalf("answer %v: %v", &a, a.Check())
		}
		if _, err := back.Parse(a.Append(nil), ProfileCel04); err != nil || !bytes.Equal(back.Append(nil)[:8], b[:8]) {
			t.Fatalf("answer %v to %x: %v", &a, b, err)
		}
	}
}

// FuzzChunkLists: the lists within an operation that wraps a message.
func FuzzChunkLists(f *testing.F) {
	for _, tc := range golden {
		if b := unhex.Octets(f, tc.hex); len(b) > FixedLen {
			f.Add(b[FixedLen:])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		n, err := h.ParseChunkLists(b)
		if err != nil {
			return
		}
		if out := h.AppendChunkLists(nil); !bytes.Equal(out, b[:n]) || h.ChunkListsLen() != n {
			t.Fatalf("read    %x\nwritten %x", b[:n], out)
		}
	})
}

// FuzzPropBody: the property operations in their optional form.
func FuzzPropBody(f *testing.F) {
	for _, tc := range golden {
		if typ, ok := tc.h.Proc.OptType(); ok {
			f.Add(uint8(typ), tc.h.AppendPropBody(nil))
		}
	}
	f.Fuzz(func(t *testing.T, typ uint8, b []byte) {
		p, ok := PropProc(uint32(typ))
		if !ok {
			return
		}
		h := Header{Version: Version2, Proc: Optional}
		if err := h.ParsePropBody(p, b); err != nil {
			return
		}
		h.Proc = p
		out := h.AppendPropBody(nil)
		if len(out) != len(b) || h.PropBodyLen() != len(b) {
			t.Fatalf("read    %x\nwritten %x", b, out)
		}
		var back Header
		back.Version = Version2
		if err := back.ParsePropBody(p, out); err != nil {
			t.Fatal(err)
		}
		if back.Proc = p; !same(&back, &h) {
			t.Fatalf("%v became %v", &h, &back)
		}
	})
}

// FuzzJSON: what is read as JSON can be written as XDR, and is read back the same.
func FuzzJSON(f *testing.F) {
	for _, tc := range golden {
		text, err := json.Marshal(&tc.h)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var h Header
		if json.Unmarshal(text, &h) != nil {
			return
		}
		b := h.Append(nil)
		var back Header
		if n, err := back.Parse(b, ProfileCel04); err != nil || n != len(b) || !same(&h, &back) {
			t.Fatalf("%s\n%v became %v: %v", text, &h, &back, err)
		}
		again, err := json.Marshal(&back)
		if err != nil {
			t.Fatal(err)
		}
		var third Header
		if err := json.Unmarshal(again, &third); err != nil || !bytes.Equal(third.Append(nil), b) {
			t.Fatalf("%s became %s: %v", text, again, err)
		}
	})
}
