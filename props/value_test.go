package props

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCheck: v2 draft §5.1.1, D-13, D-16, A value is whole, of its type and within its bounds.
func TestCheck(t *testing.T) {
	number := Uint32(0xffffff00, "number", 0).Prop()
	lenient := Uint32(0xffffff01, "lenient", 5, Range(1, 9), Lenient).Prop()
	for _, tc := range []struct {
		what string
		p    ext.Prop
		data string
		ok   bool
	}{
		{"the default", number, "", true},
		{"a number", number, "ffffffff", true},
		{"too short", number, "ffffff", false},
		{"surplus bytes", number, "0000000100", false},
		{"the least", depth.Prop(), "00000001", true},
		{"the greatest", depth.Prop(), "00000040", true},
		{"below its bounds", depth.Prop(), "00000000", false},
		{"above its bounds", depth.Prop(), "00000041", false},
		{"outside its bounds, lenient", lenient, "00000041", true},
		{"short, lenient", lenient, "0000", false},
		{"false", strict.Prop(), "00000000", true},
		{"true", strict.Prop(), "00000001", true},
		{"neither", strict.Prop(), "00000002", false},
		{"a level", Backward.Prop(), "00000002", true},
		{"no level", Backward.Prop(), "00000003", false},
		{"no bytes", label_.Prop(), "00000000", true},
		{"three bytes", label_.Prop(), "0000000301020300", true},
		{"without round-up bytes", label_.Prop(), "00000003010203", false},
		{"with more than round-up bytes", label_.Prop(), "000000030102030000000000", false},
		{"a length beyond its data", label_.Prop(), "ffffffff01020300", false},
		{"of no type", ext.Prop{ID: 1}, "00000000", false},
	} {
		data, err := hex.DecodeString(tc.data)
		if err != nil {
			t.Fatal(err)
		}
		err = Check(tc.p, data)
		if (err == nil) != tc.ok || err != nil && !errors.As(err, new(*ValueError)) {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
	if err := Check(label_.Prop(), label_.Encode(make([]byte, 5001))); err == nil {
		t.Error("longer than MaxLen")
	}
}

// TestText: what ParseValue reads FormatValue writes.
func TestText(t *testing.T) {
	for _, tc := range []struct{ in, out, err string }{
		{in: "rbsiz=65536"},
		{in: "rbsiz=0x2000", out: "rbsiz=8192"},
		{in: "1=8192", out: "rbsiz=8192"},
		{in: "brs=inline"},
		{in: "brs=2", out: "brs=general"},
		{in: "brs=default"},
		{in: "strict=true"},
		{in: "label=0x0102"},
		{in: "label=0x"},
		{in: "4294967056=7", out: "depth=7"},
		{in: "77=0x00000005"},
		{in: " depth = 5 ", out: "depth=5"},
		{in: "rbsiz", err: `"rbsiz": a property is written NAME=VALUE`},
		{in: "size=1", err: `no property is called "size": there are rbsiz, brs, depth, strict, label, and numbers`},
		{in: "0=1", err: `no property is called "0": there are rbsiz, brs, depth, strict, label, and numbers`},
		{in: "rbsiz=big", err: `property rbsiz: "big" is not a number from 0 to 4294967295`},
		{in: "rbsiz=4294967296", err: `property rbsiz: "4294967296" is not a number from 0 to 4294967295`},
		{in: "brs=some", err: `property brs: "some" is not one of none, inline, general`},
		{in: "brs=3", err: `property brs: 3 is outside 0 to 2`},
		{in: "strict=maybe", err: `property strict: "maybe" is not true or false`},
		{in: "label=01", err: `property label: "01" is not bytes in hexadecimal such as 0x0a0b`},
		{in: "77=5", err: `property 77: "5" is not bytes in hexadecimal such as 0x0a0b`},
		{in: "depth=65", err: `property depth: 65 is outside 1 to 64`},
	} {
		id, value, err := names.Parse(tc.in)
		if err != nil || tc.err != "" {
			if err == nil || err.Error() != tc.err {
				t.Errorf("%q: %v, want %s", tc.in, err, tc.err)
			}
			continue
		}
		want := tc.out
		if want == "" {
			want = tc.in
		}
		p := names.ByID(id)
		if got := label(p) + "=" + FormatValue(p, value); got != want {
			t.Errorf("%q: %s, want %s", tc.in, got, want)
		}
	}
	if got := FormatValue(strict.Prop(), []byte{1, 2}); got != "0x0102" {
		t.Errorf("a value of another type is written as %s", got)
	}
}

func TestDefine(t *testing.T) {
	if got := strict.Encode(true); !bytes.Equal(got, []byte{0, 0, 0, 1}) {
		t.Errorf("%x", got)
	}
	if v, err := label_.Decode(label_.Encode([]byte("abc"))); err != nil || string(v) != "abc" {
		t.Error(v, err)
	}
	if v, err := Backward.Decode(nil); err != nil || v != ext.BackwardInline {
		t.Error(v, err)
	}
	if _, err := depth.Decode([]byte{0, 0, 0, 0}); !errors.As(err, new(*ValueError)) {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a default outside of its bounds is taken")
		}
	}()
	Uint32(0xffffff00, "wrong", 0, Range(1, 2))
}

func TestOptions(t *testing.T) {
	o, err := ParseOptions(map[string]string{"receive_size": "65536", "max_receive_size": "131072", "backward": "general", "encoding": "optional", "patience": "3s"})
	if err != nil || o.ReceiveSize != 65536 || o.MaxReceiveSize != 131072 || *o.Backward != ext.BackwardGeneral || !o.Optional || o.Patience != 3e9 {
		t.Error(o, err)
	}
	for _, tc := range []struct{ key, value, err string }{
		{"receive_size", "1024", "props: receive_size is 1024; it is 4096 to 262144 bytes"},
		{"receive_size", "many", `props: option receive_size = "many": strconv.Atoi: parsing "many": invalid syntax`},
		{"backward", "some", `props: option backward = "some": property brs: "some" is not one of none, inline, general`},
		{"encoding", "xdr", `props: option encoding = "xdr": it is proc or optional`},
		{"patience", "-1s", "props: patience is -1s; it is a time to wait"},
		{"level", "1", `props: option level = "1": there is no such option; there are backward, encoding, max_receive_size, patience, receive_size`},
	} {
		if _, err := ParseOptions(map[string]string{tc.key: tc.value}); err == nil || err.Error() != tc.err {
			t.Errorf("%s = %s: %v, want %s", tc.key, tc.value, err, tc.err)
		}
	}
}

// TestDeclaration: the set takes it, beside an extension with properties of its own; the ids are those of the draft.
func TestDeclaration(t *testing.T) {
	s, err := ext.NewSet(New(Options{Extra: []Extra{{Prop: depth.Prop()}}}))
	if err != nil {
		t.Fatal(err)
	}
	for typ := uint32(1); typ <= 4; typ++ {
		i, ok := s.Type(typ)
		j, also := s.Proc(typ + 5)
		if !ok || !also || i != j {
			t.Errorf("opttype %d and rdma_proc %d are not one operation", typ, typ+5)
		}
	}
	for id, name := range map[uint32]string{1: "rbsiz", 2: "brs", depth.ID(): "depth"} {
		if p, ok := s.Prop(id); !ok || p.Prop.Name != name {
			t.Error(id, p)
		}
	}
	i, _ := s.Proc(uint32(wire.ReqProp))
	if a := s.Ops()[i].Answer; a < 0 || s.Ops()[a].Op.Name != opResp || !s.Ops()[a].Op.Credit {
		t.Error("REQPROP has no answer, or its credit does not count")
	}
}
