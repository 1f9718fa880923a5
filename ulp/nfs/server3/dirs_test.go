package server3

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

type listed struct {
	status  nfs3.Status
	entries []nfs3.Entry
	calls   int
	verf    nfs3.Verf
}

func (r *rig) page(dir nfs3.Handle, plus bool, cookie uint64, verf nfs3.Verf, count uint32) nfs3.DirRes {
	r.Helper()
	res := nfs3.DirRes{Plus: plus}
	if plus {
		r.do(nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: dir, Cookie: cookie, Verf: verf, DirCount: count, MaxCount: count}, &res)
	} else {
		r.do(nfs3.ProcReadDir, &nfs3.ReadDirArgs{Dir: dir, Cookie: cookie, Verf: verf, Count: count}, &res)
	}
	if n := len(encode(&res)) - 4; res.Status == nfs3.OK && n > int(count) {
		r.Errorf("results of %d bytes, asked for at most %d", n, count)
	}
	return res
}

// list reads a whole directory in pages of count bytes.
func (r *rig) list(dir nfs3.Handle, plus bool, count uint32) (l listed) {
	r.Helper()
	var cookie uint64
	for {
		res := r.page(dir, plus, cookie, l.verf, count)
		l.calls++
		if l.status = res.Status; l.status != nfs3.OK {
			return l
		}
		l.verf = res.Verf
		l.entries = append(l.entries, res.Entries...)
		if res.EOF {
			return l
		}
		cookie = res.Entries[len(res.Entries)-1].Cookie
	}
}

// tempDirs are directories on the file systems that this machine has.
func tempDirs(t *testing.T) map[string]string {
	dirs := map[string]string{"temp": t.TempDir()}
	if d, err := os.MkdirTemp("/dev/shm", "nfs"); err == nil {
		t.Cleanup(func() { os.RemoveAll(d) })
		dirs["tmpfs"] = d
	}
	return dirs
}

func TestReadDir(t *testing.T) {
	for fs, dir := range tempDirs(t) {
		for _, n := range []int{0, 1, 5, 3000} {
			t.Run(fmt.Sprint(fs, " ", n), func(t *testing.T) {
				d := filepath.Join(dir, fmt.Sprint(n))
				os.Mkdir(d, 0o755)
				for i := range n {
					os.WriteFile(filepath.Join(d, fmt.Sprintf("file-%0*d", 1+i%40, i)), nil, 0o644)
				}
				r := rigAt(t, d, Options{Squash: SquashNone})
				for _, plus := range []bool{false, true} {
					for _, count := range []uint32{512, 4096, 65536} {
						l := r.list(r.root, plus, count)
						if l.status != nfs3.OK || len(l.entries) != n+2 {
							t.Fatalf("plus %v, %d bytes: %v, %d entries", plus, count, l.status, len(l.entries))
						}
						seen := map[string]bool{}
						for _, e := range l.entries {
							if seen[e.Name] {
								t.Fatalf("%s twice", e.Name)
							}
							seen[e.Name] = true
							if plus && (!e.Attr.Set || !e.Object.Set || e.Attr.Attr.FileID != e.FileID) {
								t.Fatalf("%s without attributes and handle", e.Name)
							}
						}
					}
				}
				if n == 5 {
					for _, e := range r.list(r.root, true, 4096).entries {
						if strings.HasPrefix(e.Name, "file") && e.Object.Handle != r.handle(e.Name) {
							t.Errorf("%s: READDIRPLUS and LOOKUP give different handles", e.Name)
						}
						if isDots(e.Name) && e.Object.Handle != r.root {
							t.Errorf("%q of the root is not the root", e.Name)
						}
					}
				}
				r.s.streams.mu.Lock() // the server sweeps them
				n := len(r.s.streams.idle)
				r.s.streams.mu.Unlock()
				if n > 0 {
					t.Errorf("%d streams left", n)
				}
			})
		}
	}
}

func TestReadDirBounds(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone})
	r.create(r.root, strings.Repeat("n", 200), 0o644)
	for _, plus := range []bool{false, true} {
		for _, count := range []uint32{0, 1, 100, 110} {
			r.want(fmt.Sprint("READDIR of ", count), r.page(r.root, plus, 0, nfs3.Verf{}, count).Status, nfs3.ErrTooSmall)
		}
		first := r.page(r.root, plus, 0, nfs3.Verf{}, 300)
		r.want("READDIR of 300", first.Status, nfs3.OK)
		if len(first.Entries) == 0 {
			t.Fatal("no entries")
		}
		cookie := first.Entries[0].Cookie
		r.want("another verifier", r.page(r.root, plus, cookie, nfs3.Verf{1}, 4096).Status, nfs3.ErrBadCookie)
		r.want("a made-up cookie", r.page(r.root, plus, 1<<63+5, first.Verf, 4096).Status, nfs3.ErrBadCookie)
		if got := r.page(r.root, plus, 0, nfs3.Verf{}, 1<<31); got.Status != nfs3.OK || !got.EOF {
			t.Errorf("READDIR of 2 GiB: %v", got.Status)
		}
	}
	// dircount bounds the names, but one entry always goes.
	var res nfs3.DirRes
	res.Plus = true
	r.do(nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: r.root, DirCount: 1, MaxCount: 4096}, &res)
	if res.Status != nfs3.OK || len(res.Entries) != 1 {
		t.Errorf("dircount 1: %v, %d entries", res.Status, len(res.Entries))
	}
	f := r.create(r.root, "f", 0o644).Object.Handle
	r.want("READDIR of a file", r.page(f, false, 0, nfs3.Verf{}, 4096).Status, nfs3.ErrNotDir)
}

// rm -r reads a page, removes what it saw and goes on: nothing may be left out.
func TestReadDirWhileRemoving(t *testing.T) {
	for fs, dir := range tempDirs(t) {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(fs, " restart ", restart), func(t *testing.T) {
				if fs == "tmpfs" && restart && !stableTmpfs() {
					t.Skip("tmpfs before Linux 6.6 counts entries")
				}
				d := filepath.Join(dir, fmt.Sprint(restart))
				os.Mkdir(d, 0o755)
				const n = 2000
				for i := range n {
					os.WriteFile(filepath.Join(d, fmt.Sprint("f", i)), nil, 0o644)
				}
				o := Options{Squash: SquashNone}
				r := rigAt(t, d, o)
				seen := map[string]int{}
				var cookie uint64
				var verf nfs3.Verf
				for {
					res := r.page(r.root, true, cookie, verf, 4096)
					if res.Status != nfs3.OK {
						t.Fatal(res.Status)
					}
					verf = res.Verf
					for _, e := range res.Entries {
						cookie = e.Cookie
						if isDots(e.Name) {
							continue
						}
						seen[e.Name]++
						r.want("REMOVE "+e.Name, r.remove(r.root, e.Name).Status, nfs3.OK)
						os.WriteFile(filepath.Join(d, "new-"+e.Name), nil, 0o644)
						os.Remove(filepath.Join(d, "new-"+e.Name))
					}
					if res.EOF {
						break
					}
					if restart {
						r.restart(o)
					}
				}
				for i := range n {
					if name := fmt.Sprint("f", i); seen[name] != 1 {
						t.Fatalf("%s was listed %d times", name, seen[name])
					}
				}
				if left, _ := os.ReadDir(d); len(left) != 0 {
					t.Errorf("%d entries left", len(left))
				}
			})
		}
	}
}

// Entries made and removed between the pages of a listing move nobody's cookie: each entry that is there all the time is
// listed once, whether the server goes on with what it has open or finds the place again.
func TestReadDirWhileChanging(t *testing.T) {
	for fs, dir := range tempDirs(t) {
		for _, plus := range []bool{false, true} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprint(fs, " plus ", plus, " restart ", restart), func(t *testing.T) {
					if fs == "tmpfs" && restart && !stableTmpfs() {
						t.Skip("tmpfs before Linux 6.6 counts entries")
					}
					d := filepath.Join(dir, fmt.Sprint("changing", plus, restart))
					os.Mkdir(d, 0o755)
					const n = 1000
					stays := func(i int) string { return fmt.Sprint("stays-", i) }
					goes := func(i int) string { return fmt.Sprint("goes-", i) }
					for i := range n {
						os.WriteFile(filepath.Join(d, stays(i)), nil, 0o644)
						os.WriteFile(filepath.Join(d, goes(i)), nil, 0o644)
					}
					o := Options{Squash: SquashNone}
					r := rigAt(t, d, o)
					seen := map[string]int{}
					var cookie uint64
					var verf nfs3.Verf
					for page := 0; ; page++ {
						res := r.page(r.root, plus, cookie, verf, 4096)
						r.want("READDIR", res.Status, nfs3.OK)
						verf = res.Verf
						for _, e := range res.Entries {
							cookie = e.Cookie
							seen[e.Name]++
						}
						if res.EOF {
							break
						}
						for i := 20 * page; i < min(20*page+20, n); i++ { // more come than go; both end
							r.remove(r.root, goes(i))
							r.create(r.root, fmt.Sprint("new-", 2*i), 0o644)
							os.WriteFile(filepath.Join(d, fmt.Sprint("new-", 2*i+1)), nil, 0o644)
						}
						if restart {
							r.restart(o)
						}
					}
					for i := range n {
						if seen[stays(i)] != 1 {
							t.Fatalf("%s was listed %d times", stays(i), seen[stays(i)])
						}
					}
					for name, times := range seen {
						if times > 1 {
							t.Errorf("%s was listed %d times", name, times)
						}
					}
				})
			}
		}
	}
}

// A listing that comes to where another one was left has what was made in between, though the
// other one had read ahead.
func TestReadDirAfterAnother(t *testing.T) {
	for fs, dir := range tempDirs(t) {
		t.Run(fs, func(t *testing.T) {
			d := filepath.Join(dir, "after")
			os.Mkdir(d, 0o755)
			for i := range 200 {
				os.WriteFile(filepath.Join(d, fmt.Sprint("old-", i)), nil, 0o644)
			}
			o := Options{Squash: SquashNone}
			r := rigAt(t, d, o)
			first := r.page(r.root, true, 0, nfs3.Verf{}, 1024) // and no more
			for i := range 200 {
				r.create(r.root, fmt.Sprint("new-", i), 0o644)
			}
			behind := func() (names []string) {
				cookie := first.Entries[len(first.Entries)-1].Cookie
				for _, e := range r.page(r.root, false, cookie, first.Verf, 65536).Entries {
					names = append(names, e.Name)
				}
				return names
			}
			got := behind()
			r.restart(o) // which has read nothing ahead
			if want := behind(); !slices.Equal(got, want) {
				t.Errorf("%d entries, a server that starts anew finds %d", len(got), len(want))
			}
		})
	}
}
