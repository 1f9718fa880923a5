package demo

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Spec is a tree to be made.
type Spec struct {
	Seed  uint64 `json:"seed"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// Default is what the demo makes when it is given no tree.
var Default = Spec{Seed: 8166, Files: 2000, Bytes: 200 << 20}

// edges are sizes at which something changes: the round-up to four, a block, the inline
// thresholds (where it happens some bytes below, for the headers), a page, transfer sizes.
func edges() (sizes []int64) {
	for n := int64(0); n <= 9; n++ {
		sizes = append(sizes, n)
	}
	for _, inline := range []int64{1024, 4096} {
		for n := inline - 320; n <= inline+4; n += 3 {
			sizes = append(sizes, n)
		}
	}
	for n := int64(512); n <= 4<<20; n *= 2 {
		sizes = append(sizes, n-1, n, n+1)
	}
	return append(sizes, 60_000, 65_535-28, 100_000, 1_000_000, 3<<20, 1<<20-4, 1<<20+4)
}

// sizes are Files sizes that sum up to Bytes, edges first, as far as they fit; the rest is
// spread evenly over the magnitudes, and one file takes what is left.
func (s Spec) sizes(r *rand.Rand) []int64 {
	var sizes []int64
	left := s.Bytes
	take := func(n int64) {
		if n <= left && len(sizes) < s.Files-1 {
			sizes = append(sizes, n)
			left -= n
		}
	}
	for _, n := range edges() {
		take(n)
	}
	for len(sizes) < s.Files-1 {
		// The mean is kept within what is left, lest the last file be most of the tree.
		top := min(8<<20, max(1, 6*left/int64(s.Files-len(sizes))))
		take(min(left, int64(math.Exp(r.Float64()*math.Log(float64(top)+1)))))
	}
	return append(sizes, left)
}

// Make fills dir, which must be empty, with the tree.
func (s Spec) Make(dir string) error {
	r := rand.New(rand.NewPCG(s.Seed, 5666))
	buf := make([]byte, 1<<20)
	for i, size := range s.sizes(r) {
		name := filepath.Join(dir, filepath.FromSlash(fileName(i, r)))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := writeRandom(name, size, s.Seed, i, buf); err != nil {
			return err
		}
		if i%97 == 5 {
			if err := os.Symlink(filepath.Base(name), name+".link"); err != nil {
				return err
			}
		}
	}
	return os.MkdirAll(filepath.Join(dir, "empty", "within"), 0o755)
}

// fileName spreads files over directories: deep ones, one with very many entries, and
// names that are awkward.
func fileName(i int, r *rand.Rand) string {
	switch {
	case i == 10:
		return "awkward/" + strings.Repeat("n", 255)
	case i == 11:
		return "awkward/Ünïcödé ☂ 文件"
	case i == 12:
		return "awkward/-rf *;$(x) \"quoted\"\n"
	case i == 13:
		return strings.Repeat("deep/", 40) + "file"
	case i%4 == 0:
		return fmt.Sprintf("many/%05d.bin", i)
	}
	return fmt.Sprintf("d%02d/e%d/f%04d.bin", r.IntN(24), r.IntN(4), i)
}

func writeRandom(name string, size int64, seed uint64, i int, buf []byte) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	binary.BigEndian.PutUint64(key[8:], uint64(i))
	src := rand.NewChaCha8(key)
	for size > 0 {
		b := buf[:min(size, int64(len(buf)))]
		if _, err := src.Read(b); err != nil {
			return err
		}
		if _, err := f.Write(b); err != nil {
			return err
		}
		size -= int64(len(b))
	}
	return nil
}
