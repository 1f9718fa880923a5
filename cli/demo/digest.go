package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// Entry is what a name in a tree stands for: a file by size and digest, a symlink by its target.
type Entry struct {
	Kind string `json:"kind"` // "dir", "file", "link"
	Size int64  `json:"size,omitempty"`
	Sum  string `json:"sum,omitempty"` // SHA-256, hex; of a link its target
}

// Digest is a tree by relative path, with slashes.
type Digest map[string]Entry

// Bytes is the sum of the files' sizes; Files their number.
func (d Digest) Bytes() (n int64) {
	for _, e := range d {
		n += e.Size
	}
	return n
}

// Files counts entries of a kind.
func (d Digest) Files(kind string) (n int) {
	for _, e := range d {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// Diff names the first entries in which d and other differ, at most three, and counts them.
func (d Digest) Diff(other Digest) error {
	var bad []string
	n := 0
	names := maps.Clone(d)
	maps.Copy(names, other)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, inA := d[name]
		b, inB := other[name]
		switch {
		case a == b && inA == inB:
			continue
		case !inA:
			bad = append(bad, fmt.Sprintf("%q is there and should not be", name))
		case !inB:
			bad = append(bad, fmt.Sprintf("%q is missing", name))
		default:
			bad = append(bad, fmt.Sprintf("%q is a %s of %d bytes (%.12s), want a %s of %d (%.12s)", name, b.Kind, b.Size, b.Sum, a.Kind, a.Size, a.Sum))
		}
		n++
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d entries differ: %v", n, len(names), bad[:min(len(bad), 3)])
}

// digestDir digests a directory of this machine. Names for which skip is true are left out.
func digestDir(ctx context.Context, dir string, skip func(rel string) bool) (Digest, error) {
	d := Digest{}
	var mu sync.Mutex
	var first error
	files := make(chan string)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for rel := range files {
				e, err := digestFile(filepath.Join(dir, rel))
				mu.Lock()
				d[filepath.ToSlash(rel)] = e
				if err != nil && first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	err := filepath.WalkDir(dir, func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		if skip != nil && skip(filepath.ToSlash(rel)) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		put := func(e Entry) {
			mu.Lock()
			d[filepath.ToSlash(rel)] = e
			mu.Unlock()
		}
		switch t := entry.Type(); {
		case t.IsDir():
			put(Entry{Kind: "dir"})
		case t.IsRegular():
			files <- rel
		case t&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			put(Entry{Kind: "link", Sum: to})
		}
		return ctx.Err()
	})
	close(files)
	wg.Wait()
	if err == nil {
		err = first
	}
	return d, err
}

func digestFile(name string) (Entry, error) {
	f, err := os.Open(name)
	if err != nil {
		return Entry{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return Entry{Kind: "file", Size: n, Sum: hex.EncodeToString(h.Sum(nil))}, err
}
