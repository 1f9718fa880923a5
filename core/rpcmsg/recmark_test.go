package rpcmsg

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/rpcrdma/rpcrdma/test/unhex"
)

// feed gives stream to s in pieces that next says, and collects the records.
func feed(s *Records, stream []byte, next func(max int) int) (recs [][]byte, err error) {
	for len(stream) > 0 {
		p := stream[:next(len(stream))]
		stream = stream[len(p):]
		for len(p) > 0 {
			rec, n, err := s.Feed(p)
			if err != nil {
				return recs, err
			}
			if rec != nil {
				recs = append(recs, bytes.Clone(rec))
			}
			p = p[n:]
		}
	}
	return recs, nil
}

func all(n int) int { return n }
func one(int) int   { return 1 }

func TestRecords(t *testing.T) {
	for _, tc := range []struct {
		name string
		hex  string
		want []string
		err  error
	}{
		{"§11 one fragment", "80000004 61626364", []string{"abcd"}, nil},
		{"two records", "80000001 61 80000002 6263", []string{"a", "bc"}, nil},
		{"§11 three fragments", "00000001 61 00000002 6263 80000001 64", []string{"abcd"}, nil},
		{"last fragment empty", "00000004 61626364 80000000", []string{"abcd"}, nil},
		{"empty fragments in between", "00000000 00000002 6162 00000000 80000002 6364", []string{"abcd"}, nil},
		{"empty record, and one behind it", "80000000 80000001 61", []string{"", "a"}, nil},
		{"at the limit", "80000008 6162636465666768", []string{"abcdefgh"}, nil},
		{"above the limit", "80000009", nil, ErrRecordSize},
		{"above the limit by a second fragment", "00000008 6162636465666768 80000001", nil, ErrRecordSize},
		{"2^31-1 bytes", "ffffffff", nil, ErrRecordSize},
		{"a good one, then a bad one", "80000001 61 7fffffff", []string{"a"}, ErrRecordSize},
	} {
		for how, next := range map[string]func(int) int{"whole": all, "byte by byte": one} {
			s := NewRecords(8)
			recs, err := feed(s, unhex.Octets(t, tc.hex), next)
			if !errors.Is(err, tc.err) || len(recs) != len(tc.want) {
				t.Errorf("%s, %s: %q %v", tc.name, how, recs, err)
				continue
			}
			for i := range recs {
				if string(recs[i]) != tc.want[i] {
					t.Errorf("%s, %s: %q", tc.name, how, recs)
				}
			}
			if err == nil && s.Pending() {
				t.Errorf("%s, %s: pending at the end", tc.name, how)
			}
			if err != nil {
				if _, n, again := s.Feed([]byte{1, 2, 3}); again != err || n != 0 {
					t.Errorf("%s: the fault does not stick: %v", tc.name, again)
				}
			}
		}
	}
}

// TestRecordFragments: a record of fragments without bytes, or with few, ends.
func TestRecordFragments(t *testing.T) {
	for name, fragment := range map[string][]byte{"empty": AppendMark(nil, 0, false), "a byte": append(AppendMark(nil, 1, false), 7)} {
		s := NewRecords(1 << 20)
		n := 0
		var err error
		for ; err == nil && n <= 100; n++ {
			_, _, err = s.Feed(fragment)
		}
		if !errors.Is(err, ErrFragments) || n > 100 {
			t.Errorf("%s: %v after %d", name, err, n)
		}
	}
	// The classic Sun library sends 4000 bytes a fragment.
	s := NewRecords(8 << 20)
	fragment := append(AppendMark(nil, 4000, false), make([]byte, 4000)...)
	grown, size := 0, 0
	for range 2000 {
		if _, _, err := s.Feed(fragment); err != nil {
			t.Fatal(err)
		}
		if cap(s.buf) != size {
			grown, size = grown+1, cap(s.buf)
		}
	}
	if grown > 9 { // from 64 KiB to 8 MiB by doubling
		t.Errorf("copied %d times", grown)
	}
}

// TestRecordMemory: what is allocated follows what came, not what a header announces.
func TestRecordMemory(t *testing.T) {
	s := NewRecords(1 << 30)
	if _, _, err := s.Feed(AppendMark(nil, 1<<30, true)); err != nil {
		t.Fatal(err)
	}
	s.Feed([]byte("a"))
	if cap(s.buf) > firstBuffer {
		t.Errorf("%d bytes for one", cap(s.buf))
	}
	s.Feed(make([]byte, 1<<20))
	if cap(s.buf) > 3<<20 {
		t.Errorf("%d bytes for a mebibyte", cap(s.buf))
	}
}

// TestRecordViews: a record that comes in one piece is not copied, one that does not is put
// together in the caller's memory.
func TestRecordViews(t *testing.T) {
	s := NewRecords(1 << 10)
	p := append(AppendMark(nil, 3, true), "abcdef"...)
	rec, n, err := s.Feed(p)
	if err != nil || n != 7 || string(rec) != "abc" || &rec[0] != &p[4] || cap(rec) != 3 {
		t.Errorf("%q %d %v", rec, n, err)
	}
	mine := make([]byte, 16)
	s.SetBuffer(mine)
	s.Feed(p[:5])
	rec, _, err = s.Feed(p[5:7])
	if err != nil || string(rec) != "abc" || &rec[0] != &mine[0] {
		t.Errorf("%q %v", rec, err)
	}
	// Without another SetBuffer the memory is used again.
	s.Feed(p[:5])
	if again, _, _ := s.Feed(p[5:7]); &again[0] != &mine[0] {
		t.Error("new memory")
	}
	if n := testing.AllocsPerRun(20, func() { s.Feed(p[:5]); s.Feed(p[5:7]); s.Feed(p[:7]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestRecordIdentity: records in any fragments, fed in any pieces.
func TestRecordIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 1, 5).Draw(t, "records")
		var stream []byte
		for _, rec := range want {
			for rest := rec; ; {
				n := rapid.IntRange(0, len(rest)).Draw(t, "fragment")
				last := n == len(rest) && rapid.Bool().Draw(t, "last")
				stream = append(AppendMark(stream, n, last), rest[:n]...)
				rest = rest[n:]
				if last {
					break
				}
				if len(rest) == 0 {
					stream = AppendMark(stream, 0, true)
					break
				}
			}
		}
		s := NewRecords(300)
		next := func(max int) int { return rapid.IntRange(1, max).Draw(t, "piece") }
		recs, err := feed(s, stream, next)
		if errors.Is(err, ErrFragments) {
			t.Skip("too many empty fragments")
		}
		if err != nil || len(recs) != len(want) || s.Pending() {
			t.Fatalf("%d of %d records, %v", len(recs), len(want), err)
		}
		for i := range want {
			if !bytes.Equal(recs[i], want[i]) {
				t.Fatalf("record %d: %x, want %x", i, recs[i], want[i])
			}
		}
	})
}

func TestMark(t *testing.T) {
	if got := AppendMark(nil, 5, true); !bytes.Equal(got, []byte{0x80, 0, 0, 5}) {
		t.Errorf("%x", got)
	}
	if got := AppendMark(nil, MaxFragment, false); !bytes.Equal(got, []byte{0x7f, 0xff, 0xff, 0xff}) {
		t.Errorf("%x", got)
	}
	if n, last := ParseMark(0x80000005); n != 5 || !last {
		t.Error(n, last)
	}
}
