package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// basic goes through what connectathon's basic tests go through: trees, attributes,
// contents, directories, links and names.
func basic(args []string) {
	dir := args[0]
	// Trees made, listed and taken away.
	n := 0
	var grow func(d string, depth int)
	grow = func(d string, depth int) {
		for i := range 5 {
			must(os.WriteFile(filepath.Join(d, fmt.Sprint("file.", i)), []byte(d), 0o666))
			n++
		}
		for i := 0; i < 2 && depth > 0; i++ {
			sub := filepath.Join(d, fmt.Sprint("dir.", i))
			must(os.Mkdir(sub, 0o777))
			grow(sub, depth-1)
		}
	}
	tree := filepath.Join(dir, "tree")
	must(os.Mkdir(tree, 0o777))
	grow(tree, 3)
	found := 0
	must(filepath.WalkDir(tree, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found++
			if b := string(get(os.ReadFile(p))); b != filepath.Dir(p) {
				fail("%s holds %q", p, b)
			}
		}
		return err
	}))
	expect(found == n, "%d files of %d", found, n)
	var st syscall.Stat_t
	must(syscall.Stat(tree, &st))
	expect(st.Nlink == 4, "a directory with two in it has %d links", st.Nlink)
	must(os.RemoveAll(tree))

	// Attributes.
	f := filepath.Join(dir, "attr")
	must(os.WriteFile(f, make([]byte, 5000), 0o640))
	for _, mode := range []os.FileMode{0, 0o444, 0o777, 0o600} {
		must(os.Chmod(f, mode))
		expect(get(os.Stat(f)).Mode().Perm() == mode, "mode %v after chmod %v", get(os.Stat(f)).Mode(), mode)
	}
	at, mt := time.Unix(1_000_000_000, 123456789), time.Unix(1_100_000_000, 987654321)
	must(os.Chtimes(f, at, mt))
	must(syscall.Stat(f, &st))
	expect(st.Atim.Nano() == at.UnixNano() && st.Mtim.Nano() == mt.UnixNano(), "times %v %v", st.Atim, st.Mtim)
	must(os.Chown(f, 1000, 1001))
	must(syscall.Stat(f, &st))
	expect(st.Uid == 1000 && st.Gid == 1001, "owner %d:%d", st.Uid, st.Gid)
	for _, size := range []int64{0, 70000, 1, 4096, 4095} {
		must(os.Truncate(f, size))
		expect(get(os.Stat(f)).Size() == size, "size %d after truncate", get(os.Stat(f)).Size())
	}

	// Links and renames.
	for i := range 10 {
		must(os.Link(f, filepath.Join(dir, fmt.Sprint("link.", i))))
		must(syscall.Stat(f, &st))
		expect(int(st.Nlink) == i+2, "%d links after %d", st.Nlink, i+1)
	}
	for i := range 10 {
		must(os.Rename(filepath.Join(dir, fmt.Sprint("link.", i)), filepath.Join(dir, fmt.Sprint("moved.", i))))
		must(os.Remove(filepath.Join(dir, fmt.Sprint("moved.", i))))
	}
	must(syscall.Stat(f, &st))
	expect(st.Nlink == 1, "%d links after removing all others", st.Nlink)
	other := filepath.Join(dir, "other")
	must(os.WriteFile(other, []byte("new"), 0o600))
	must(os.Rename(other, f))
	expect(string(get(os.ReadFile(f))) == "new", "rename did not replace")
	must(os.Mkdir(filepath.Join(dir, "d1"), 0o700))
	must(os.Mkdir(filepath.Join(dir, "d2"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "d1/x"), nil, 0o600))
	must(os.Rename(filepath.Join(dir, "d1"), filepath.Join(dir, "d2/inner")))
	get(os.Stat(filepath.Join(dir, "d2/inner/x")))

	// Symbolic links, of the longest length, too.
	for i, to := range []string{"a", "/no/where", strings.Repeat("x/", 400) + "end", strings.Repeat("y", 1023)} {
		l := filepath.Join(dir, fmt.Sprint("sym.", i))
		must(os.Symlink(to, l))
		dropCaches()
		expect(get(os.Readlink(l)) == to, "readlink gives another text")
		expect(get(os.Lstat(l)).Size() == int64(len(to)), "size of a link")
		must(os.Remove(l))
	}
	// Other kinds of nodes.
	must(syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	must(syscall.Mknod(filepath.Join(dir, "null"), syscall.S_IFCHR|0o600, 1<<8|3))
	expect(get(os.Lstat(filepath.Join(dir, "fifo"))).Mode()&os.ModeNamedPipe != 0, "no fifo")
	must(syscall.Lstat(filepath.Join(dir, "null"), &st))
	expect(st.Rdev == 1<<8|3, "device %x", st.Rdev)
	var fs syscall.Statfs_t
	must(syscall.Statfs(dir, &fs))
	expect(fs.Blocks > 0 && fs.Bfree <= fs.Blocks && fs.Namelen == 255, "statfs %+v", fs)
	must(os.RemoveAll(dir))
	must(os.Mkdir(dir, 0o777))
}

// bigDir makes n entries, then reads the directory in pieces while, in three goes, every third entry is
// removed and as many others are made: none of those that stay may be missed, none seen twice.
func bigDir(args []string) {
	dir, n := args[0], number(args[1])
	name := func(i int) string { return fmt.Sprintf("an-entry-with-a-name-of-some-length-%06d", i) }
	for i := range n {
		f := get(os.OpenFile(filepath.Join(dir, name(i)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644))
		f.Close()
	}
	dropCaches()
	expect(len(get(os.ReadDir(dir))) == n, "not %d entries", n)
	dropCaches()
	d := get(os.Open(dir))
	seen := map[string]int{}
	for goes := 0; ; {
		l, err := d.Readdirnames(50)
		for _, s := range l {
			seen[s]++
		}
		if len(l) == 0 || err != nil {
			expect(goes == 3, "the directory was read to its end in %d goes", goes)
			break
		}
		if goes < 3 && len(seen) >= (goes+1)*n/5 {
			for i := 3 * goes; i < n; i += 9 {
				must(os.Remove(filepath.Join(dir, name(i))))
				must(os.WriteFile(filepath.Join(dir, name(n+i)), nil, 0o644))
			}
			goes++
			// What the client has cached of the directory is gone: it goes on with old cookies.
			dropCaches()
		}
	}
	d.Close()
	for i := range n {
		if c := seen[name(i)]; c > 1 || c == 0 && i%3 != 0 {
			fail("%s was listed %d times", name(i), c)
		}
		if c := seen[name(n+i)]; c > 1 {
			fail("%s, made meanwhile, was listed %d times", name(n+i), c)
		}
	}
	left := get(os.ReadDir(dir))
	expect(len(left) == n, "%d entries are left", len(left))
	for _, e := range left {
		must(os.Remove(filepath.Join(dir, e.Name())))
	}
	must(os.Remove(dir))
}

func errnos(args []string) {
	dir := args[0]
	p := func(s string) string { return filepath.Join(dir, s) }
	must(os.WriteFile(p("file"), []byte("x"), 0o600))
	must(os.MkdirAll(p("full/inner"), 0o700))
	must(os.WriteFile(p("noexec"), []byte("x"), 0o600))
	for _, c := range []struct {
		what string
		err  error
		want syscall.Errno
	}{
		{"stat nothing", second(os.Stat(p("nothing"))), syscall.ENOENT},
		{"mkdir over a file", os.Mkdir(p("file"), 0o700), syscall.EEXIST},
		{"create exclusively over a file", second(os.OpenFile(p("file"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)), syscall.EEXIST},
		{"rmdir of a full directory", syscall.Rmdir(p("full")), syscall.ENOTEMPTY},
		{"rmdir of a file", syscall.Rmdir(p("file")), syscall.ENOTDIR},
		{"unlink of a directory", syscall.Unlink(p("full")), syscall.EISDIR},
		{"a path through a file", second(os.Stat(p("file/x"))), syscall.ENOTDIR},
		{"write to a directory", second(os.OpenFile(p("full"), os.O_WRONLY, 0)), syscall.EISDIR},
		{"a name of 256 bytes", second(os.Create(p(strings.Repeat("n", 256)))), syscall.ENAMETOOLONG},
		{"rename of a directory into itself", syscall.Rename(p("full"), p("full/inner/x")), syscall.EINVAL},
		{"rename of a file over a directory", syscall.Rename(p("file"), p("full")), syscall.EISDIR},
		{"rename of a directory over a file", syscall.Rename(p("full"), p("file")), syscall.ENOTDIR},
		{"rename over a full directory", syscall.Rename(p("full/inner"), p("full")), syscall.ENOTEMPTY},
		{"hard link to a directory", syscall.Link(p("full"), p("hard")), syscall.EPERM},
		{"hard link over a file", syscall.Link(p("file"), p("noexec")), syscall.EEXIST},
		{"symlink over a file", os.Symlink("x", p("file")), syscall.EEXIST},
		{"readlink of a file", second(os.Readlink(p("file"))), syscall.EINVAL},
		{"a negative size", syscall.Truncate(p("file"), -1), syscall.EINVAL},
	} {
		if !errors.Is(c.err, c.want) {
			fail("%s: %v, want %v", c.what, c.err, c.want)
		}
	}
	// A name of 255 bytes is fine, and so are bytes that are no letters.
	for _, n := range []string{strings.Repeat("n", 255), "a\nb", "\xff\xfe", "..."} {
		must(os.WriteFile(p(n), nil, 0o600))
		l := get(os.ReadDir(dir))
		expect(slices.ContainsFunc(l, func(e os.DirEntry) bool { return e.Name() == n }), "%q is not listed", n)
	}
}

func second[T any](_ T, err error) error { return err }
