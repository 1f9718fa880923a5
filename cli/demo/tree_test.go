package demo

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSizesAddUp(t *testing.T) {
	for _, s := range []Spec{Default, {1, 300, 5 << 20}, {2, 1, 1000}, {3, 50, 0}, {4, 5000, 1 << 20}} {
		sizes := s.sizes(rand.New(rand.NewPCG(s.Seed, 1)))
		var sum, most int64
		for _, n := range sizes {
			if n < 0 {
				t.Errorf("%+v: a size of %d", s, n)
			}
			sum, most = sum+n, max(most, n)
		}
		if len(sizes) != s.Files || sum != s.Bytes {
			t.Errorf("%+v: %d files, %d bytes", s, len(sizes), sum)
		}
		if s == Default && most > s.Bytes/4 {
			t.Errorf("one file has %d of %d bytes", most, sum)
		}
	}
}

func TestMakeAndDigest(t *testing.T) {
	s := Spec{Seed: 7, Files: 420, Bytes: 20 << 20}
	a, b := t.TempDir(), t.TempDir()
	var sums [2]Digest
	for i, dir := range []string{a, b} {
		if err := s.Make(dir); err != nil {
			t.Fatal(err)
		}
		var err error
		if sums[i], err = digestDir(t.Context(), dir, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := sums[0].Diff(sums[1]); err != nil {
		t.Errorf("the same seed makes different trees: %v", err)
	}
	if n := sums[0].Files("file"); n != s.Files || sums[0].Bytes() != s.Bytes || sums[0].Files("link") == 0 {
		t.Errorf("%d files, %d bytes, %d links", n, sums[0].Bytes(), sums[0].Files("link"))
	}

	// One bit, one name, one link: each must show.
	victim := filepath.Join(b, "many", "00100.bin")
	data, err := os.ReadFile(victim)
	if err != nil || len(data) == 0 {
		t.Fatalf("%v, %d bytes", err, len(data))
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(victim, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(b, "many", "00104.bin")); err != nil {
		t.Fatal(err)
	}
	changed, err := digestDir(t.Context(), b, nil)
	if err != nil {
		t.Fatal(err)
	}
	diff := sums[0].Diff(changed)
	if diff == nil || !strings.Contains(diff.Error(), "00100.bin") || !strings.Contains(diff.Error(), `"many/00104.bin" is missing`) || !strings.HasPrefix(diff.Error(), "2 of ") {
		t.Errorf("diff says %v", diff)
	}
}
