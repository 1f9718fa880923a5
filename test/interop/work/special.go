package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// special goes through what connectathon's special tests go through, and some more.
func special(args []string) {
	dir := args[0]
	p := func(s string) string { return filepath.Join(dir, s) }

	// A file that is removed while open goes on (the client renames it meanwhile).
	f := get(os.Create(p("gone")))
	get(f.WriteString("still here"))
	must(os.Remove(p("gone")))
	get(f.WriteString(", really"))
	must(f.Sync())
	b := make([]byte, 64)
	n, err := f.ReadAt(b, 0)
	expect(errors.Is(err, io.EOF) && string(b[:n]) == "still here, really", "an unlinked file holds %q, %v", b[:n], err)
	must(f.Close())
	expect(len(get(os.ReadDir(dir))) == 0, "something is left of a removed file")

	// The same, replaced by a rename.
	must(os.WriteFile(p("old"), []byte("old"), 0o600))
	f = get(os.Open(p("old")))
	must(os.WriteFile(p("new"), []byte("new"), 0o600))
	must(os.Rename(p("new"), p("old")))
	expect(string(get(io.ReadAll(f))) == "old", "the file that was replaced is not readable")
	must(f.Close())
	expect(string(get(os.ReadFile(p("old")))) == "new", "rename did not replace")

	// Whoever creates a file may write to it, whatever its mode.
	f = get(os.OpenFile(p("mode0"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0))
	get(f.WriteString("written"))
	must(f.Sync())
	must(f.Close())
	expect(get(os.Stat(p("mode0"))).Size() == 7, "a file of mode 0 was not written")

	// Exclusive creation: exactly one of many succeeds.
	won := make(chan bool)
	for range 8 {
		go func() {
			f, err := os.OpenFile(p("excl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err == nil {
				f.Close()
			} else if !errors.Is(err, os.ErrExist) {
				fail("exclusive creation: %v", err)
			}
			won <- err == nil
		}()
	}
	winners := 0
	for range 8 {
		if <-won {
			winners++
		}
	}
	expect(winners == 1, "%d of 8 created a file exclusively", winners)

	// Holes, and offsets beyond 32 bits.
	f = get(os.Create(p("sparse")))
	for _, at := range []int64{0, 1 << 20, 1<<31 - 3, 1<<32 - 3, 1<<32 + 5<<20} {
		get(f.WriteAt([]byte("mark at a far place"), at))
	}
	must(f.Sync())
	must(f.Close())
	dropCaches()
	f = get(os.Open(p("sparse")))
	b = make([]byte, 19)
	for _, at := range []int64{0, 1 << 20, 1<<31 - 3, 1<<32 - 3, 1<<32 + 5<<20} {
		get(f.ReadAt(b, at))
		expect(string(b) == "mark at a far place", "at %d: %q", at, b)
	}
	get(f.ReadAt(b, 5000))
	expect(bytes.Equal(b, make([]byte, 19)), "a hole holds %q", b)
	must(f.Close())
	var st syscall.Stat_t
	must(syscall.Stat(p("sparse"), &st))
	expect(st.Size == 1<<32+5<<20+19, "size %d", st.Size)
	must(os.Remove(p("sparse")))

	// Cut off and extended: what comes back is zeros.
	must(os.WriteFile(p("cut"), bytes.Repeat([]byte{7}, 10000), 0o600))
	must(os.Truncate(p("cut"), 3))
	must(os.Truncate(p("cut"), 10000))
	dropCaches()
	want := append([]byte{7, 7, 7}, make([]byte, 9997)...)
	expect(bytes.Equal(get(os.ReadFile(p("cut"))), want), "a file cut off and extended holds old bytes")

	// Two descriptors that append, one after the other.
	a1 := get(os.OpenFile(p("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	a2 := get(os.OpenFile(p("log"), os.O_APPEND|os.O_WRONLY, 0o600))
	for i := range 20 {
		fmt.Fprintf(a1, "%02d one\n", i)
		fmt.Fprintf(a2, "%02d two\n", i)
	}
	must(a1.Close())
	must(a2.Close())
	expect(get(os.Stat(p("log"))).Size() == 20*14, "appended %d bytes", get(os.Stat(p("log"))).Size())

	// Rewritten in place, read through another descriptor.
	f = get(os.OpenFile(p("again"), os.O_CREATE|os.O_RDWR, 0o600))
	for i := range 20 {
		get(f.WriteAt(bytes.Repeat([]byte{byte(i)}, 8192), 100))
		must(f.Sync())
		c := get(os.ReadFile(p("again")))
		expect(len(c) == 8292 && c[100] == byte(i) && c[8291] == byte(i), "round %d: old content", i)
	}
	must(f.Close())

	// A mapping, written and read (nothing else goes by pages only).
	f = get(os.OpenFile(p("map"), os.O_CREATE|os.O_RDWR, 0o600))
	must(f.Truncate(3 * 4096))
	m := get(syscall.Mmap(int(f.Fd()), 0, 3*4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED))
	copy(m[5000:], "through a mapping")
	must(syscall.Munmap(m))
	must(f.Sync())
	must(f.Close())
	dropCaches()
	expect(bytes.Contains(get(os.ReadFile(p("map"))), []byte("\x00through a mapping\x00")), "a mapping's change is lost")

	// A directory that is open while it is removed, and locks that the client keeps itself (nolock).
	must(os.Mkdir(p("d"), 0o700))
	d := get(os.Open(p("d")))
	must(os.Remove(p("d")))
	_, err = d.Readdirnames(-1)
	expect(err == nil || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESTALE), "reading a removed directory: %v", err)
	d.Close()
	f = get(os.Open(p("log")))
	must(syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	must(f.Close())
	// Set-group-id, sticky bits and a program that is run from the mount.
	must(os.Chmod(p("log"), 0o6755|os.ModeSetuid|os.ModeSetgid))
	expect(get(os.Stat(p("log"))).Mode()&(os.ModeSetuid|os.ModeSetgid) == os.ModeSetuid|os.ModeSetgid, "set-id bits are lost")
}
