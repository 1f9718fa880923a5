package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// sizesOf are around what is inline, a page, a chunk and a call.
var sizesOf = []int{0, 1, 3, 4, 1000, 1021, 4096, 5000, 65539, 1 << 20, 8<<20 + 1}

// fill is a file's content: no two places are alike, so that a misplaced byte shows.
func fill(b []byte, seed, at uint64) {
	x := seed*0x9e3779b97f4a7c15 + at/8 + 1
	for len(b) > 0 {
		var w [8]byte
		y := x * 0xbf58476d1ce4e5b9
		y ^= y >> 29
		binary.LittleEndian.PutUint64(w[:], y)
		b = b[copy(b, w[:]):]
		x++
	}
}

// aligned is memory that direct transfers may use.
func aligned(n int) []byte {
	const page = 4096
	b := make([]byte, n+page)
	off := -int(uintptr(unsafe.Pointer(&b[0]))) & (page - 1)
	return b[off : off+n]
}

func writeFile(name string, n int, seed uint64, flags int) [32]byte {
	b := aligned(n)
	fill(b, seed, 0)
	f := get(os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|flags, 0o644))
	get(f.Write(b))
	must(f.Sync())
	must(f.Close())
	return sha256.Sum256(b)
}

func readFile(name string, n, flags int) [32]byte {
	f := get(os.OpenFile(name, os.O_RDONLY|flags, 0))
	defer f.Close()
	b := aligned(n)
	got := 0
	for got < n {
		k, err := f.Read(b[got:])
		if err == io.EOF {
			break
		}
		must(err)
		got += k
	}
	expect(got == n, "%s: %d bytes, not %d", name, got, n)
	expect(get(f.Stat()).Size() == int64(n), "%s: size %d", name, get(f.Stat()).Size())
	return sha256.Sum256(b)
}

func sizes(args []string) {
	dir, flags := args[0], 0
	if args[1] == "direct" {
		flags = syscall.O_DIRECT
	}
	sums := map[int][32]byte{}
	for i, n := range sizesOf {
		sums[n] = writeFile(filepath.Join(dir, "size."+strconv.Itoa(n)), n, uint64(i), flags)
	}
	dropCaches()
	for _, n := range sizesOf {
		got := readFile(filepath.Join(dir, "size."+strconv.Itoa(n)), n, flags)
		expect(got == sums[n], "%d bytes: other content after reading back", n)
		// So that the server's side can be checked, too.
		fmt.Printf("%x  size.%d\n", got, n)
	}
}

func parallel(args []string) {
	var all []*exec.Cmd
	for i := range number(args[1]) {
		c := exec.Command("/proc/self/exe", "one", args[0], strconv.Itoa(i))
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		must(c.Start())
		all = append(all, c)
	}
	for i, c := range all {
		if err := c.Wait(); err != nil {
			fail("process %d: %v", i, err)
		}
	}
}

func one(args []string) {
	id := number(args[1])
	dir := filepath.Join(args[0], "p"+args[1])
	must(os.Mkdir(dir, 0o755))
	for i, n := range []int{700, 30000, 400000} {
		name := filepath.Join(dir, strconv.Itoa(i))
		want := writeFile(name, n, uint64(100*id+i), 0)
		// Direct, so that it is read from the server while the others write.
		expect(readFile(name, n, syscall.O_DIRECT) == want, "%s: other content", name)
		must(os.Rename(name, name+".done"))
	}
	expect(len(get(os.ReadDir(dir))) == 3, "%s: not 3 entries", dir)
}

// streamPause is what a step of stream waits: the whole takes some seconds on any machine.
const streamPause = 50 * time.Millisecond

// stream writes slowly enough to be disturbed: a mark in /tmp tells how far it is.
func stream(args []string) {
	name, total := args[0], number(args[1])
	const step = 256 << 10
	b := make([]byte, step)
	sum := sha256.New()
	f := get(os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644))
	for at := 0; at < total; at += step {
		fill(b, 7, uint64(at))
		get(f.Write(b))
		sum.Write(b)
		if at%(4*step) == 0 {
			must(f.Sync())
		}
		must(os.WriteFile("/host/stream.at", []byte(strconv.Itoa(at+step)), 0o644))
		time.Sleep(streamPause)
	}
	must(f.Sync())
	must(f.Close())
	dropCaches()
	got := sha256.New()
	r := get(os.Open(name))
	get(io.Copy(got, r))
	expect(string(got.Sum(nil)) == string(sum.Sum(nil)), "other content after reading back")
	fmt.Printf("%x\n", got.Sum(nil))
}

// unstable sends one long run of unstable writes and one COMMIT behind them.
func unstable(args []string) {
	b := make([]byte, number(args[1]))
	fill(b, 9, 0)
	f := get(os.OpenFile(args[0], os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644))
	get(f.Write(b))
	must(f.Sync())
	must(f.Close())
	fmt.Printf("%x\n", sha256.Sum256(b))
}

// cached checks that our own changes do not cost us what we have cached: the reply to each
// tells the attributes before and after (weak cache consistency).
func cached(args []string) {
	name := filepath.Join(args[0], "cached")
	want := writeFile(name, 300000, 5, 0)
	before := calls("READ")
	expect(readFile(name, 300000, 0) == want, "other content")
	expect(calls("READ") == before, "what we wrote ourselves was read again: %d READs", calls("READ")-before)
	f := get(os.OpenFile(name, os.O_RDWR, 0))
	b := make([]byte, 1000)
	get(f.WriteAt(b, 5000))
	must(f.Sync())
	must(f.Chmod(0o600))
	get(f.ReadAt(b, 200000))
	must(f.Close())
	expect(calls("READ") == before, "a write and a chmod of our own threw the cache away: %d READs", calls("READ")-before)
}

// calls counts a procedure's calls on all mounts.
func calls(proc string) int {
	b := string(get(os.ReadFile("/proc/self/mountstats")))
	n := 0
	for i := range len(b) {
		var k int
		if m := proc + ": "; i+len(m) < len(b) && b[i:i+len(m)] == m && (b[i-1] == ' ' || b[i-1] == '\t') {
			if _, err := fmt.Sscanf(b[i+len(m):], "%d", &k); err == nil {
				n += k
			}
		}
	}
	return n
}
