package wire

import (
	"bytes"
	"testing"

	"github.com/rpcrdma/rpcrdma/test/unhex"
)

func TestPrivateAppend(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    PrivateData
		hex  string
	}{
		{"a Linux client", PrivateData{true, 4096, 4096}, "f6ab0e18 01 01 03 03"},
		{"knfsd", PrivateData{false, 4096, 4096}, "f6ab0e18 01 00 03 03"},
		{"§4.2 smallest", PrivateData{false, 1024, 1024}, "f6ab0e18 01 00 00 00"},
		{"§4.2 largest", PrivateData{false, 262144, 262144}, "f6ab0e18 01 00 ff ff"},
		{"directions differ", PrivateData{false, 1024, 65536}, "f6ab0e18 01 00 00 3f"},
		{"never more than there is", PrivateData{false, 4095, 5119}, "f6ab0e18 01 00 02 03"},
		{"out of range", PrivateData{false, 0, 1 << 30}, "f6ab0e18 01 00 00 ff"},
		{"negative", PrivateData{false, -1, -4096}, "f6ab0e18 01 00 00 00"},
	} {
		if got := tc.p.Append(nil); !bytes.Equal(got, unhex.Octets(t, tc.hex)) {
			t.Errorf("%s: %x", tc.name, got)
		}
	}
}

func TestParsePrivate(t *testing.T) {
	linux := PrivateData{true, 4096, 4096}
	for _, tc := range []struct {
		name string
		hex  string
		want PrivateData
		ok   bool
	}{
		{"at the start", "f6ab0e18 01 01 03 03", linux, true},
		{"T-18 IB CM's padding behind it", "f6ab0e18 01 01 03 03 00000000 00000000", linux, true},
		{"§5.1 behind another layer's, at an odd offset", "c0ffee f6ab0e18 01 01 03 03", linux, true},
		{"§5.1 identifier that begins within itself", "f6ab f6ab0e18 01 01 03 03", linux, true},
		{"§4 reserved bits are ignored", "f6ab0e18 01 ff 03 03", linux, true},
		{"§4.2 different sizes", "f6ab0e18 01 00 00 ff", PrivateData{false, 1024, 262144}, true},
		{"none", "", DefaultPrivate, false},
		{"all padding", "00000000 00000000 00000000 00000000", DefaultPrivate, false},
		{"foreign", "deadbeef 01 01 03 03", DefaultPrivate, false},
		{"§5.2 another format version", "f6ab0e18 02 01 03 03", DefaultPrivate, false},
		{"§5.1 overruns the buffer", "f6ab0e18 01 01 03", DefaultPrivate, false},
		{"§5.1 overruns the buffer, at an offset", "00 f6ab0e18 01 01 03", DefaultPrivate, false},
		{"another version first, ours behind it", "f6ab0e18 07 00 00 00 f6ab0e18 01 01 03 03", linux, true},
	} {
		if p, ok := ParsePrivate(unhex.Octets(t, tc.hex)); p != tc.want || ok != tc.ok {
			t.Errorf("%s: %+v %v", tc.name, p, ok)
		}
	}
}

func FuzzParsePrivate(f *testing.F) {
	f.Add(unhex.Octets(f, "f6ab0e18 01 01 03 03"))
	f.Add(unhex.Octets(f, "00 f6ab0e18 02 f6ab0e18 01 ff ff 00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := ParsePrivate(b)
		if !ok {
			if p != DefaultPrivate {
				t.Fatalf("%+v", p)
			}
			return
		}
		back := p.Append(nil)
		if got, ok := ParsePrivate(back); !ok || got != p {
			t.Fatalf("%+v became %+v", p, got)
		}
		back[5] |= 0xfe // reserved bits, ignored
		for at := 0; at+PrivateLen <= len(b); at++ {
			d := bytes.Clone(b[at : at+PrivateLen])
			d[5] |= 0xfe
			if bytes.Equal(d, back) {
				return
			}
		}
		t.Fatalf("%+v is not in %x", p, b)
	})
}
