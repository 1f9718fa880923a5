package continuation

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"pgregory.net/rapid"
)

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return b
}

// TestCutAndTake: whatever is cut is put together again, in at most so many pieces as the window is sure to have, each within
// what a Send holds.
func TestCutAndTake(t *testing.T) {
	var into []ext.Piece
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.IntRange(4, 5000).Draw(t, "part")
		last := rapid.IntRange(4, 5000).Draw(t, "last")
		n := rapid.IntRange(1, MaxMax).Draw(t, "n")
		into = cut(into[:0], n, part, last)
		parts := (n - last + part&^3 - 1) / (part &^ 3)
		if n <= last || parts > Window-AckEvery+1 {
			if len(into) != 0 {
				t.Fatalf("%d pieces of what is none", len(into))
			}
			return
		}
		if len(into) != parts+1 {
			t.Fatalf("%d pieces, want %d and the last", len(into), parts)
		}
		msg := pattern(n)
		a := assembler{max: MaxMax}
		var whole *buffer
		for i, p := range into {
			most, isLast := part, i == len(into)-1
			if isLast {
				most = last
			}
			if p.To <= p.From || p.To-p.From > most || (p.Op == opLast) != isLast {
				t.Fatalf("piece %d of %d: %+v", i, len(into), p)
			}
			var v ext.Code
			if whole, v = a.take(9, false, isLast, p.Info, msg[p.From:p.To]); v != accepted || (whole != nil) != isLast {
				t.Fatalf("piece %d: %v, %v", i, v, whole)
			}
		}
		if !bytes.Equal(whole.b, msg) || len(a.open) != 0 {
			t.Fatal("another message")
		}
		whole.free()
	})
}

type send struct {
	xid     uint32
	reply   bool
	last    bool
	piece   piece
	payload int
	want    ext.Code
	whole   bool
}

// TestTake: what fits nothing is refused, what was refused is forgotten, and nothing else suffers.
func TestTake(t *testing.T) {
	part := func(xid, offset, remaining uint32, payload int, want ext.Code) send {
		return send{xid, false, false, piece{offset, remaining}, payload, want, false}
	}
	last := func(xid, offset uint32, payload int, want ext.Code, whole bool) send {
		return send{xid, false, true, piece{offset, 0}, payload, want, whole}
	}
	for _, tc := range []struct {
		name  string
		sends []send
		open  int
	}{
		{"two pieces", []send{part(1, 0, 4, 8, accepted), last(1, 8, 4, accepted, true)}, 0},
		{"the last alone", []send{last(1, 0, 4, accepted, false)}, 0},
		{"two messages, mixed", []send{
			part(1, 0, 8, 8, accepted), part(2, 0, 4, 4, accepted), part(1, 8, 4, 4, accepted),
			last(2, 4, 4, accepted, true), last(1, 12, 4, accepted, true),
		}, 0},
		{"a call and a reply of one XID", []send{
			part(1, 0, 4, 8, accepted), {1, true, false, piece{0, 8}, 8, accepted, false},
			last(1, 8, 4, accepted, true), {1, true, true, piece{8, 0}, 8, accepted, true},
		}, 0},
		{"no bytes", []send{part(1, 0, 4, 0, malformed)}, 0},
		{"the last without bytes", []send{part(1, 0, 4, 8, accepted), last(1, 8, 0, malformed, false)}, 0},
		{"a part that says it is the last", []send{part(1, 0, 0, 8, malformed)}, 0},
		{"a last that says it is none", []send{{1, false, true, piece{0, 4}, 8, malformed, false}}, 0},
		{"longer than announced", []send{part(1, 0, 60001, 40000, malformed)}, 0},
		{"as long as announced", []send{part(1, 0, 60000, 40000, accepted)}, 1},
		{"a length that wraps", []send{part(1, 0, 0xfffffff8, 16, malformed)}, 0},
		{"an offset that wraps", []send{part(1, 0, 8, 8, accepted), part(1, 0xfffffffc, 8, 8, malformed)}, 0},
		{"begun twice", []send{part(1, 0, 8, 8, accepted), part(1, 0, 8, 8, malformed), last(1, 8, 8, malformed, false)}, 0},
		{"a gap", []send{part(1, 0, 8, 8, accepted), part(1, 12, 4, 4, malformed), last(1, 12, 4, malformed, false)}, 0},
		{"a remaining that has changed", []send{part(1, 0, 8, 8, accepted), part(1, 8, 12, 4, malformed)}, 0},
		{"too long an end", []send{part(1, 0, 8, 8, accepted), last(1, 8, 12, malformed, false)}, 0},
		{"too short an end", []send{part(1, 0, 8, 8, accepted), last(1, 8, 4, malformed, false)}, 0},
		{"what was refused goes on", []send{
			part(1, 0, 90000, 40000, malformed), part(1, 40000, 50000, 40000, accepted), last(1, 80000, 8, malformed, false),
		}, 0},
		{"a message too many", []send{
			part(1, 0, 4, 4, accepted), part(2, 0, 4, 4, accepted), part(3, 0, 4, 4, accepted), part(4, 0, 4, 4, accepted),
			part(5, 0, 4, 4, tooMany), last(5, 4, 4, malformed, false), last(2, 4, 4, accepted, true), part(6, 0, 4, 4, accepted),
		}, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := assembler{max: 100000}
			msg := pattern(100000)
			for i, s := range tc.sends {
				from := min(int(s.piece.offset), len(msg)-s.payload)
				whole, v := a.take(s.xid, s.reply, s.last, s.piece.append(nil), msg[from:from+s.payload])
				if v != s.want || (whole != nil) != s.whole {
					t.Fatalf("piece %d: %v, whole %v", i, v, whole != nil)
				}
				if whole != nil && !bytes.Equal(whole.b, msg[:from+s.payload]) {
					t.Fatalf("piece %d: another message", i)
				}
			}
			if len(a.open) != tc.open {
				t.Errorf("%d messages are open, want %d", len(a.open), tc.open)
			}
			a.drop()
			if len(a.open) != 0 {
				t.Error("not dropped")
			}
		})
	}
	a := assembler{max: 100}
	for _, info := range [][]byte{nil, make([]byte, 4), make([]byte, 12)} {
		if _, v := a.take(1, false, false, info, pattern(4)); v != malformed {
			t.Errorf("%d bytes of optinfo: %v", len(info), v)
		}
	}
}

// FuzzTake: whatever pieces come, what is held is bounded, and what is whole is what came.
func FuzzTake(f *testing.F) {
	f.Add([]byte{1, 0, 2, 8, 1, 2, 0, 8})
	f.Add([]byte{0x41, 0, 9, 1, 0x41, 1, 0, 9, 0x82, 0, 0, 4})
	f.Fuzz(func(t *testing.T, script []byte) {
		const max = 64
		a := assembler{max: max}
		for ; len(script) >= 4; script = script[4:] {
			xid, n := uint32(script[0]&15), int(script[3]&63)
			p := piece{uint32(int8(script[1])), uint32(int8(script[2]))}
			whole, v := a.take(xid, script[0]&0x40 != 0, script[0]&0x80 != 0, p.append(nil), pattern(n))
			held := 0
			for _, o := range a.open {
				held += o.total
				if o.n >= o.total || o.total > max || o.n == 0 {
					t.Fatalf("%+v", o)
				}
			}
			if len(a.open) > Open || held > Open*max {
				t.Fatalf("%d messages are open, of %d bytes", len(a.open), held)
			}
			if whole != nil {
				if v != accepted || p.remaining != 0 || len(whole.b) != int(p.offset)+n || !bytes.Equal(whole.b[p.offset:], pattern(n)) {
					t.Fatalf("%d bytes with %+v of %d, %v", len(whole.b), p, n, v)
				}
				whole.free()
			}
		}
		a.drop()
	})
}

func TestBuffers(t *testing.T) {
	for n, want := range map[int]int{1: 4096, 4096: 4096, 4097: 8192, 8192: 8192, 8193: 16384, 65536: 65536, 65537: MaxMax, MaxMax: MaxMax} {
		b := getBuffer(n)
		if len(b.b) != want {
			t.Errorf("%d bytes for %d", len(b.b), n)
		}
		b.b = b.b[:n]
		b.free()
	}
}

func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		options map[string]string
		max     int
		option  string
	}{
		{nil, 65536, ""},
		{map[string]string{"max": "8192"}, 8192, ""},
		{map[string]string{"max": "131072"}, 131072, ""},
		{map[string]string{"max": "131073"}, 0, "max"},
		{map[string]string{"max": "4095"}, 0, "max"},
		{map[string]string{"max": "0"}, 0, "max"},
		{map[string]string{"max": "64k"}, 0, "max"},
		{map[string]string{"window": "9"}, 0, "window"},
	} {
		x, err := Configured(tc.options)
		var oe *OptionError
		switch {
		case tc.option == "" && (err != nil || x.(*Extension).max != tc.max):
			t.Errorf("%v: %v, %v", tc.options, x, err)
		case tc.option != "" && (!errors.As(err, &oe) || oe.Option != tc.option):
			t.Errorf("%v: %v", tc.options, err)
		}
	}
}

func TestDeclaration(t *testing.T) {
	x, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := x.Declare()
	if err := d.Check(); err != nil {
		t.Error(err)
	}
}
