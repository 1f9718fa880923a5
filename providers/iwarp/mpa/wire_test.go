package mpa

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

// siw gives a frame of a capture by its name.
func siw(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../testdata/siw.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			b, err := hex.DecodeString(f[1])
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return b
		}
	}
	t.Fatalf("no frame %s", name)
	return nil
}

var rpcrdma = []byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3} // RFC 8797

var captured = []struct {
	name  string
	frame Frame
}{
	{"mpa.request", Frame{Revision: 2, Enhanced: true, Depths: Depths{IRD: 128}, Private: rpcrdma}},
	{"mpa.request.crc", Frame{Revision: 2, CRC: true, Enhanced: true, Depths: Depths{IRD: 128}, Private: rpcrdma}},
	{"mpa.request.markers", Frame{Revision: 2, Markers: true, Enhanced: true, Depths: Depths{IRD: 16, ORD: 16}, Private: rpcrdma}},
	{"mpa.request.bare", Frame{Revision: 2, Enhanced: true, Depths: Depths{IRD: 16, ORD: 16}, Private: []byte{}}},
	{"mpa.request.rev1", Frame{Revision: 1, Private: rpcrdma}},
	{"mpa.reply", Frame{Reply: true, Revision: 2, Enhanced: true, Depths: Depths{ORD: 128}, Private: []byte{0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3}}},
	{"mpa.reject", Frame{Reply: true, Revision: 2, Rejected: true, Enhanced: true, Private: []byte{}}},
	{"mpa.reject.rev1", Frame{Reply: true, Revision: 1, Rejected: true, Private: []byte{}}},
}

func TestFramesOfSiw(t *testing.T) {
	for _, c := range captured {
		t.Run(c.name, func(t *testing.T) {
			b := siw(t, c.name)
			got, err := Parse(b, c.frame.Reply)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.frame) {
				t.Errorf("parsed %+v, want %+v", got, c.frame)
			}
			if again := got.Append(nil); !bytes.Equal(again, b) {
				t.Errorf("re-encoded %x from %x", again, b)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	good := Frame{Revision: 2, Enhanced: true, Depths: Depths{IRD: 1, ORD: 2}, Private: rpcrdma}.Append(nil)
	with := func(off int, v byte) []byte {
		b := bytes.Clone(good)
		b[off] = v
		return b
	}
	for _, c := range []struct {
		name string
		b    []byte
		want error
	}{
		{"RFC 5044 §7.1.1: another key", with(3, 'X'), ErrKey},
		{"a Reply's key in a Request", append([]byte(replyKey), good[16:]...), ErrKey},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n0123456789"), ErrKey},
		{"PD_Length of 513", with(offLength, 2)[:HeaderLen], ErrMalformed},
		{"cut short", good[:len(good)-1], ErrMalformed},
		{"one octet over", append(bytes.Clone(good), 0), ErrMalformed},
		{"only a header's beginning", good[:17], ErrMalformed},
		{"RFC 6581 §6: S without room for the depths", append(bytes.Clone(good[:offLength]), 0, 2, 0, 0), ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse(c.b, false); !errors.Is(err, c.want) {
				t.Errorf("Parse(%x): %v, want %v", c.b, err, c.want)
			}
		})
	}
}

// TestLength: another protocol is found out by its first octets, and no more is ever
// waited for than PD_Length allows.
func TestLength(t *testing.T) {
	b := Frame{Revision: 1, Private: rpcrdma}.Append(nil)
	for i := range b {
		n, err := Length(b[:i], false)
		want := HeaderLen
		if i >= HeaderLen {
			want = len(b)
		}
		if err != nil || n != want {
			t.Errorf("Length of the first %d: %d, %v; want %d", i, n, err, want)
		}
	}
	if _, err := Length([]byte("\x16"), false); !errors.Is(err, ErrKey) {
		t.Errorf("the first octet of TLS: %v", err)
	}
}

func TestDepthWords(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Depths
		want string
	}{
		{"RFC 6581 §6: no flags", Depths{IRD: 128, ORD: 1}, "00800001"},
		{"A", Depths{PeerToPeer: true}, "80000000"},
		{"B", Depths{RTR: RTRSend}, "40000000"},
		{"C", Depths{RTR: RTRWrite}, "00008000"},
		{"D", Depths{RTR: RTRRead}, "00004000"},
		{"all, and the largest", Depths{IRD: NoDepth, ORD: NoDepth, PeerToPeer: true, RTR: RTRSend | RTRWrite | RTRRead}, "ffffffff"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := Frame{Revision: 2, Enhanced: true, Depths: c.d}.Append(nil)
			if got := hex.EncodeToString(b[HeaderLen:]); got != c.want {
				t.Errorf("words %s, want %s", got, c.want)
			}
			if f, err := Parse(b, false); err != nil || f.Depths != c.d {
				t.Errorf("back: %+v, %v", f.Depths, err)
			}
		})
	}
}

func TestFPDU(t *testing.T) {
	for _, c := range []struct{ ulpdu, pad, whole int }{ // RFC 5044 §4.1
		{14, 0, 20}, {15, 3, 24}, {16, 2, 24}, {17, 1, 24}, {18, 0, 24}, {MaxULPDU, 3, MaxFPDU},
	} {
		if p, n := Pad(c.ulpdu), FPDULen(c.ulpdu); p != c.pad || n != c.whole {
			t.Errorf("ULPDU of %d: pad %d, frame %d; want %d, %d", c.ulpdu, p, n, c.pad, c.whole)
		}
	}
	for _, mss := range []int{256, 536, 1448, 1460, 8948, 65483, MaxFPDU, 1 << 20} {
		n := MULPDU(mss)
		if n > MaxULPDU || FPDULen(n) > mss || Pad(n) != 0 || mss < MaxULPDU && FPDULen(n)+3 < mss {
			t.Errorf("MULPDU(%d) is %d: frame of %d, pad %d", mss, n, FPDULen(n), Pad(n))
		}
	}
}

func TestCRCOfSiw(t *testing.T) {
	for _, name := range []string{"write.crc", "send.crc", "send.invalidate.crc"} {
		b := siw(t, name)
		if n := FPDULen(ULPDULen(b)); n != len(b) {
			t.Errorf("%s: frame of %d, %d there", name, n, len(b))
		}
		body, field := b[:len(b)-CRCLen], b[len(b)-CRCLen:]
		if got := AppendCRC(nil, Sum(Sum(0, body[:5]), body[5:])); !bytes.Equal(got, field) {
			t.Errorf("%s: CRC %x, want %x", name, got, field)
		}
		if CRC(field) != Sum(0, body) {
			t.Errorf("%s: read as %#x, summed up as %#x", name, CRC(field), Sum(0, body))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range captured {
		f.Add(siw(f, c.name), c.frame.Reply)
	}
	f.Fuzz(func(t *testing.T, b []byte, reply bool) {
		frame, err := Parse(b, reply)
		if err != nil || len(frame.Private) > MaxULP {
			return // refused; it only must not panic
		}
		again := frame.Append(nil)
		got, err := Parse(again, reply)
		if err != nil || !reflect.DeepEqual(got, frame) {
			t.Fatalf("%x: %+v, then %+v, %v", b, frame, got, err)
		}
		if !bytes.Equal(again[offLength:], b[offLength:]) {
			t.Fatalf("re-encoded %x from %x", again, b)
		}
	})
}
