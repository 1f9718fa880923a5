package mount3

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

type codec interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

func encode(c xdr.Marshaler) []byte {
	var w xdr.Writer
	c.MarshalXDR(&w)
	return w.AppendUnreduced(nil)
}

func decode(c xdr.Unmarshaler, b []byte) error {
	r := xdr.NewReader(b)
	c.UnmarshalXDR(r)
	return r.Done()
}

func TestRoundTrip(t *testing.T) {
	h, _ := nfs3.NewHandle([]byte{1, 2, 3, 4, 5})
	for _, c := range []struct {
		hex  string
		v    codec
		into codec
	}{
		{"00000004" + "2f612f62", &Path{"/a/b"}, new(Path)},
		{"0000000d", &MntRes{Status: ErrAcces}, new(MntRes)},
		{"00000000" + "00000005" + "0102030405000000" + "00000002" + "00000001" + "00000006", &MntRes{Handle: h, Flavors: []uint32{1, 6}}, new(MntRes)},
		{"00000000", &Mounts{}, new(Mounts)},
		{"00000001" + "00000001" + "68000000" + "00000002" + "2f780000" + "00000000", &Mounts{{"h", "/x"}}, new(Mounts)},
		{"00000001" + "00000001" + "2f000000" + "00000001" + "00000001" + "67000000" + "00000000" + "00000000", &Exports{{"/", []string{"g"}}}, new(Exports)},
	} {
		b, _ := hex.DecodeString(c.hex)
		if got := encode(c.v); !bytes.Equal(got, b) {
			t.Errorf("%+v: %x, want %x", c.v, got, b)
		}
		if err := decode(c.into, b); err != nil {
			t.Errorf("%+v: %v", c.v, err)
		}
		if got := encode(c.into); !bytes.Equal(got, b) {
			t.Errorf("%+v decoded: %+v", c.v, c.into)
		}
		for n := range b {
			if decode(reflect.New(reflect.TypeOf(c.into).Elem()).Interface().(codec), b[:n]) == nil {
				t.Errorf("%+v: %d of %d bytes are accepted", c.v, n, len(b))
			}
		}
	}
}

func TestBounds(t *testing.T) {
	long := make(Mounts, MaxList+1)
	groups := Exports{{Groups: make([]string, MaxList+1)}}
	for what, c := range map[string]struct {
		v    codec
		into codec
	}{
		"path":    {&Path{strings.Repeat("p", MaxPath+1)}, new(Path)},
		"flavors": {&MntRes{Flavors: make([]uint32, MaxFlavors+1)}, new(MntRes)},
		"mounts":  {&long, new(Mounts)},
		"groups":  {&groups, new(Exports)},
	} {
		if decode(c.into, encode(c.v)) == nil {
			t.Errorf("%s beyond the bound are accepted", what)
		}
	}
	if n := len(encode(&MntRes{Flavors: make([]uint32, MaxFlavors)})); n > MntReply {
		t.Errorf("MNT can answer %d bytes", n)
	}
}

func FuzzMount(f *testing.F) {
	f.Add(byte(0), encode(&Path{"/x"}))
	f.Add(byte(1), encode(&MntRes{Flavors: []uint32{1}}))
	f.Add(byte(2), encode(&Mounts{{"h", "/d"}}))
	f.Add(byte(3), encode(&Exports{{"/", []string{"a", "b"}}}))
	f.Fuzz(func(t *testing.T, which byte, b []byte) {
		mk := func() codec {
			return []codec{new(Path), new(MntRes), new(Mounts), new(Exports)}[which%4]
		}
		c := mk()
		if decode(c, b) != nil {
			return
		}
		one, again := encode(c), mk()
		if len(one) != len(b) || decode(again, one) != nil || !bytes.Equal(encode(again), one) {
			t.Fatalf("%T: not the same again", c)
		}
	})
}
