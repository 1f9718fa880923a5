package server3

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

func TestHandleKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	key, err := HandleKey(dir)
	if err != nil || len(key) != keySize || bytes.Equal(key, make([]byte, keySize)) {
		t.Fatalf("%x, %v", key, err)
	}
	again, err := HandleKey(dir)
	if err != nil || !bytes.Equal(again, key) {
		t.Errorf("another key: %x, %v", again, err)
	}
	for path, mode := range map[string]os.FileMode{dir: os.ModeDir | 0o700, filepath.Join(dir, keyFile): 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode() != mode {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
	if l, _ := os.ReadDir(dir); len(l) != 1 {
		t.Errorf("%d files in the directory", len(l))
	}
}

// Servers that start at once agree on one key.
func TestHandleKeyRace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	var wg sync.WaitGroup
	var keys [16][]byte
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = HandleKey(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if !bytes.Equal(k, keys[0]) {
			t.Error("two keys")
		}
	}
	if l, _ := os.ReadDir(dir); len(l) != 1 {
		t.Errorf("%d files in the directory", len(l))
	}
}

// A key that others may know, or that is none, is refused, and stays as it is.
func TestHandleKeyRefused(t *testing.T) {
	good := bytes.Repeat([]byte{7}, keySize)
	for what, c := range map[string]struct {
		spoil func(dir, file string) error
		says  string
		root  bool
	}{
		"readable by the group":        {func(_, f string) error { return os.Chmod(f, 0o640) }, "chmod 0600", false},
		"readable by all":              {func(_, f string) error { return os.Chmod(f, 0o604) }, "chmod 0600", false},
		"a directory open to others":   {func(d, _ string) error { return os.Chmod(d, 0o755) }, "chmod 0700", false},
		"short":                        {func(_, f string) error { return os.Truncate(f, keySize-1) }, "not a file of 32 bytes", false},
		"empty":                        {func(_, f string) error { return os.Truncate(f, 0) }, "not a file of 32 bytes", false},
		"long":                         {func(_, f string) error { return os.Truncate(f, keySize+1) }, "not a file of 32 bytes", false},
		"another's":                    {func(_, f string) error { return os.Chown(f, owner, owner) }, "belongs to user 1000", true},
		"in another's directory":       {func(d, _ string) error { return os.Chown(d, owner, owner) }, "belongs to user 1000", true},
		"a symbolic link to a key":     {func(_, f string) error { return errors.Join(os.Rename(f, f+"2"), os.Symlink(f+"2", f)) }, "symbolic link", false},
		"a directory in the key's way": {func(_, f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) }, "not a file of 32 bytes", false},
	} {
		if c.root && os.Geteuid() != 0 {
			continue
		}
		dir := filepath.Join(t.TempDir(), "state")
		file := filepath.Join(dir, keyFile)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(file, good, 0o600), c.spoil(dir, file)); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(file)
		_, err := HandleKey(dir)
		var ke *KeyError
		if !errors.As(err, &ke) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
		if after, _ := os.ReadFile(file); !bytes.Equal(after, before) {
			t.Errorf("%s: the key has changed", what)
		}
	}
	// No place for one at all is another matter.
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	var pe *fs.PathError
	if _, err := HandleKey(filepath.Join(file, "state")); !errors.As(err, &pe) {
		t.Errorf("below a file: %v", err)
	}
}

// What anybody can read makes no handles: two servers of one directory with keys of their own refuse each other's, and those
// made with the machine's id.
func TestHandlesNeedTheKey(t *testing.T) {
	dir := t.TempDir()
	open := func(o Options) (*Server, nfs3.Handle) {
		t.Helper()
		s, err := New(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		st := s.exp.st
		h, err := s.exp.handle(s.exp.root, &st)
		if err != nil {
			t.Fatal(err)
		}
		return s, h
	}
	s, own := open(Options{})
	if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "die with this process") {
		t.Errorf("notes: %s", notes)
	}
	kept, _ := open(Options{Secret: testKey})
	if notes := strings.Join(kept.Notes(), "\n"); strings.Contains(notes, "die with") {
		t.Errorf("notes: %s", notes)
	}
	if _, status := s.exp.check(&own); status != nfs3.OK {
		t.Errorf("its own: %v", status)
	}
	for _, f := range []string{"/etc/machine-id", "/proc/sys/kernel/random/boot_id", "/proc/version"} {
		id, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		_, forged := open(Options{Secret: id})
		if _, status := s.exp.check(&forged); status != nfs3.ErrBadHandle {
			t.Errorf("made with %s: %v", f, status)
		}
	}
	_, other := open(Options{})
	if _, status := s.exp.check(&other); status != nfs3.ErrBadHandle {
		t.Errorf("another server's: %v", status)
	}
}

func TestStateDir(t *testing.T) {
	got, err := StateDir()
	if os.Geteuid() == 0 {
		if got != "/var/lib/rpcrdma" {
			t.Errorf("root: %s, %v", got, err)
		}
		return
	}
	t.Setenv("XDG_STATE_HOME", "/x")
	if got, err := StateDir(); got != "/x/rpcrdma" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	t.Setenv("XDG_STATE_HOME", "relative") // the specification has it ignored
	t.Setenv("HOME", "/h")
	if got, err := StateDir(); got != "/h/.local/state/rpcrdma" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}
