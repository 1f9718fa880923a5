package server3

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

var testKey = []byte("a key that outlives the server")

// ways are how a server can find a file again.
var ways = []struct {
	name string
	opt  Options
}{
	{"by handle", Options{Squash: SquashNone, Secret: testKey}},
	{"by path, kernel handles", Options{Squash: SquashNone, Secret: testKey, noOpenByHandle: true}},
	{"by path, birth times", Options{Squash: SquashNone, Secret: testKey, noOpenByHandle: true, noKernelHandles: true}},
}

func eachWay(t *testing.T, f func(t *testing.T, r *rig, o Options)) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) { f(t, newRig(t, w.opt), w.opt) })
	}
}

func TestHandlesSurviveRestart(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, o Options) {
		r.mkdir(r.root, "a", 0o755)
		r.mkdir(r.handle("a"), "b", 0o755)
		f := r.create(r.handle("a", "b"), "f", 0o644).Object.Handle
		b := r.handle("a", "b")
		if got := r.lookup(b, "f").Object; got != f {
			t.Errorf("LOOKUP and CREATE give different handles of one file")
		}
		r.restart(o)
		for _, h := range []nfs3.Handle{f, b, r.root} {
			r.want("GETATTR after a restart", r.getattr(h).Status, nfs3.OK)
		}
		if got := r.lookup(b, "f").Object; got != f {
			t.Errorf("the handle changed with the restart")
		}
		// The same handle must mean the same file, whatever was renamed above it.
		if err := os.Rename(filepath.Join(r.dir, "a"), filepath.Join(r.dir, "z")); err != nil {
			t.Fatal(err)
		}
		r.cold()
		if got := r.getattr(f); got.Status != nfs3.OK || got.Attr.FileID != r.getattr(f).Attr.FileID {
			t.Errorf("after a rename above it: %v", got.Status)
		}
		r.want("RENAME by the server", r.rename(r.root, "z", r.root, "y").Status, nfs3.OK)
		r.cold()
		r.want("GETATTR after RENAME above it", r.getattr(f).Status, nfs3.OK)
	})
}

func TestHandleOfRemovedFileIsStale(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, o Options) {
		for _, behind := range []bool{false, true} {
			f := r.create(r.root, "f", 0o644).Object.Handle
			r.write(f, 0, []byte("x"), nfs3.Unstable)
			ino := r.getattr(f).Attr.FileID
			if behind {
				os.Remove(filepath.Join(r.dir, "f"))
			} else {
				r.want("REMOVE", r.remove(r.root, "f").Status, nfs3.OK)
			}
			r.want("GETATTR of a removed file", r.getattr(f).Status, nfs3.ErrStale)
			// Make files until one has the inode again: another generation.
			for i := range 64 {
				g := r.create(r.root, fmt.Sprint("g", i), 0o644)
				if g.Attr.Attr.FileID == ino {
					if g.Object.Handle == f {
						t.Errorf("the new file of inode %d has the old one's handle", ino)
					}
					t.Logf("inode %d was used again", ino)
				}
			}
			r.cold()
			r.want("READ of a removed file", r.read(f, 0, 1).Status, nfs3.ErrStale)
			r.want("WRITE of a removed file", r.write(f, 0, []byte("x"), nfs3.Unstable).Status, nfs3.ErrStale)
			for i := range 64 {
				os.Remove(filepath.Join(r.dir, fmt.Sprint("g", i)))
			}
		}
	})
}

func TestMadeUpHandles(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone})
	outside := t.TempDir()
	other := rigAt(t, outside, Options{Squash: SquashNone})
	foreign := other.create(other.root, "secret", 0o644).Object.Handle
	good := r.create(r.root, "f", 0o644).Object.Handle

	r.want("a handle of another export", r.getattr(foreign).Status, nfs3.ErrStale)
	r.want("an empty handle", r.getattr(nfs3.Handle{}).Status, nfs3.ErrBadHandle)
	for n := 1; n <= nfs3.HandleSize; n++ {
		h, _ := nfs3.NewHandle(make([]byte, n))
		r.want(fmt.Sprintf("%d zeros", n), r.getattr(h).Status, nfs3.ErrBadHandle)
	}
	for i := range good.Bytes() {
		b := append([]byte(nil), good.Bytes()...)
		b[i] ^= 1
		h, _ := nfs3.NewHandle(b)
		r.want(fmt.Sprintf("byte %d changed", i), r.getattr(h).Status, nfs3.ErrBadHandle)
	}
	h, _ := nfs3.NewHandle(good.Bytes()[:len(good.Bytes())-1])
	r.want("one byte short", r.getattr(h).Status, nfs3.ErrBadHandle)

	another := rigAt(t, r.dir, Options{Secret: []byte("another"), Squash: SquashNone})
	another.shared = true
	another.want("a handle made with another secret", another.getattr(good).Status, nfs3.ErrBadHandle)
}

// A handle that was right when it was made must not reach what was moved out since.
func TestMovedOutOfTheExport(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, o Options) {
		top := r.dir
		in, out := filepath.Join(top, "in"), filepath.Join(top, "out")
		for _, d := range []string{in, out} {
			if err := os.Mkdir(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		e := rigAt(t, in, o)
		d := e.mkdir(e.root, "d", 0o755).Object.Handle
		sub := e.mkdir(d, "sub", 0o755).Object.Handle
		f := e.create(d, "f", 0o644).Object.Handle
		g := e.create(e.root, "g", 0o644).Object.Handle
		for _, n := range []string{"d", "g"} {
			if err := os.Rename(filepath.Join(in, n), filepath.Join(out, n)); err != nil {
				t.Fatal(err)
			}
		}
		// Directories are asked for each time, what is open, too; files that are in use, from time to time.
		stale := nfs3.ErrStale
		for what, h := range map[string]nfs3.Handle{"d": d, "sub": sub} {
			e.want("GETATTR of "+what+" moved out", e.getattr(h).Status, stale)
			e.want("LOOKUP in "+what+" moved out", e.lookup(h, "..").Status, stale)
			e.want("CREATE in "+what+" moved out", e.create(h, "new", 0o600).Status, stale)
			e.want("READDIR of "+what+" moved out", e.list(h, true, 4096).status, stale)
		}
		time.Sleep(trusted)
		for what, h := range map[string]nfs3.Handle{"f": f, "g": g} {
			e.want("GETATTR of "+what+" moved out", e.getattr(h).Status, stale)
			e.want("READ of "+what+" moved out", e.read(h, 0, 1).Status, stale)
		}
		e.cold()
		for what, h := range map[string]nfs3.Handle{"d": d, "sub": sub, "f": f, "g": g} {
			e.want(what+" moved out, not open", e.getattr(h).Status, stale)
		}
		for _, n := range []string{"d", "g"} { // and back
			if err := os.Rename(filepath.Join(out, n), filepath.Join(in, n)); err != nil {
				t.Fatal(err)
			}
		}
		if e.s.exp.byHandle { // by path they are searched for again some seconds later
			for what, h := range map[string]nfs3.Handle{"d": d, "sub": sub, "f": f, "g": g} {
				e.want(what+" moved back", e.getattr(h).Status, nfs3.OK)
			}
		}
	})
}

// The export itself may be moved.
func TestExportIsMoved(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, o Options) {
		in := filepath.Join(r.dir, "in")
		if err := os.Mkdir(in, 0o755); err != nil {
			t.Fatal(err)
		}
		e := rigAt(t, in, o)
		d := e.mkdir(e.root, "d", 0o755).Object.Handle
		f := e.create(d, "f", 0o644).Object.Handle
		if err := os.Rename(in, in+"2"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(trusted)
		for _, h := range []nfs3.Handle{e.root, d, f} {
			e.want("GETATTR in a moved export", e.getattr(h).Status, nfs3.OK)
		}
		// Another directory in its old place is not it.
		if err := errors.Join(os.Mkdir(in, 0o755), os.Rename(filepath.Join(in+"2", "d"), filepath.Join(in, "d"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(moved)
		e.want("what was moved to where the export was", e.getattr(d).Status, nfs3.ErrStale)
	})
}

func TestNoWayOut(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, o Options) {
		outside := t.TempDir()
		os.WriteFile(filepath.Join(outside, "secret"), []byte("no"), 0o644)
		if err := os.Symlink(outside, filepath.Join(r.dir, "link")); err != nil {
			t.Fatal(err)
		}
		os.Symlink("/proc/self/root", filepath.Join(r.dir, "magic"))
		os.Symlink("..", filepath.Join(r.dir, "up"))
		d := r.mkdir(r.root, "d", 0o755).Object.Handle

		if got := r.lookup(r.root, ".."); got.Status != nfs3.OK || got.Object != r.root {
			t.Errorf("LOOKUP .. of the root: %v", got.Status)
		}
		if got := r.lookup(d, ".."); got.Status != nfs3.OK || got.Object != r.root {
			t.Errorf("LOOKUP .. of a directory in the root: %v", got.Status)
		}
		if got := r.lookup(d, "."); got.Status != nfs3.OK || got.Object != d {
			t.Errorf("LOOKUP .: %v", got.Status)
		}
		for name, want := range map[string]nfs3.Status{
			"":                       nfs3.ErrAcces,
			"a/b":                    nfs3.ErrAcces,
			"../" + "x":              nfs3.ErrAcces,
			"/etc/passwd":            nfs3.ErrAcces,
			"a\x00b":                 nfs3.ErrAcces,
			string(make([]byte, 3)):  nfs3.ErrAcces,
			fmt.Sprintf("%0256d", 1): nfs3.ErrNameTooLong,
			fmt.Sprintf("%0255d", 1): nfs3.ErrNoEnt,
		} {
			r.want(fmt.Sprintf("LOOKUP %.20q", name), r.lookup(r.root, name).Status, want)
		}
		for _, name := range []string{"link", "magic", "up"} {
			got := r.lookup(r.root, name)
			if got.Status != nfs3.OK || got.Attr.Attr.Type != nfs3.TypeLnk {
				t.Errorf("LOOKUP %s: %v, %v", name, got.Status, got.Attr.Attr.Type)
			}
			h := got.Object
			r.want("LOOKUP through "+name, r.lookup(h, "secret").Status, nfs3.ErrNotDir)
			r.want("READ of "+name, r.read(h, 0, 10).Status, nfs3.ErrInval)
			r.want("WRITE to "+name, r.write(h, 0, []byte("x"), nfs3.Unstable).Status, nfs3.ErrInval)
			r.want("CREATE in "+name, r.create(h, "x", 0o644).Status, nfs3.ErrNotDir)
			r.want("CREATE over "+name, r.create(r.root, name, 0o644).Status, nfs3.ErrExist)
			var res nfs3.CreateRes
			r.do(nfs3.ProcCreate, &nfs3.CreateArgs{Where: nfs3.DirOp{Dir: r.root, Name: name}, Mode: nfs3.Unchecked,
				Attr: nfs3.Sattr{Size: nfs3.U64(0)}}, &res)
			r.want("CREATE UNCHECKED over "+name, res.Status, nfs3.ErrExist)
			r.want("SETATTR mode of "+name, r.setattr(h, nfs3.Sattr{Mode: nfs3.U32(0)}).Status, nfs3.ErrNotSupp)
			r.want("SETATTR times of "+name, r.setattr(h, nfs3.Sattr{Mtime: nfs3.SetTo(nfs3.Time{Sec: 5})}).Status, nfs3.OK)
			if os.Geteuid() == 0 {
				r.want("SETATTR owner of "+name, r.setattr(h, nfs3.Sattr{UID: nfs3.U32(9)}).Status, nfs3.OK)
			}
		}
		var st unix.Stat_t
		if unix.Stat(outside, &st); st.Uid == 9 || st.Mtim.Sec == 5 {
			t.Errorf("SETATTR of a symlink changed what it points to")
		}
		for path, want := range map[string]mount3.Status{
			"/link": mount3.ErrNotDir, "/link/": mount3.ErrNotDir, "/magic/etc": mount3.ErrAcces,
			"/..": mount3.OK, "/../..": mount3.OK, "/d/../..": mount3.OK, "/d": mount3.OK, "/none": mount3.ErrNoEnt, "": mount3.OK,
		} {
			got := r.mnt(path).Status
			if path == "/magic/etc" && (got == mount3.ErrNotDir || got == mount3.ErrAcces) {
				continue // the kernel's choice
			}
			if got != want {
				t.Errorf("MNT %q: %v, want %v", path, got, want)
			}
		}
	})
}

// Another file system mounted below the export is not entered.
func TestNoMountCrossing(t *testing.T) {
	needRoot(t)
	r := newRig(t, Options{Squash: SquashNone})
	r.subdir("m", 0o755, 0)
	m := filepath.Join(r.dir, "m")
	if err := unix.Mount("none", m, "tmpfs", 0, ""); err != nil {
		t.Skip("cannot mount here: ", err)
	}
	defer unix.Unmount(m, unix.MNT_DETACH)
	r.want("LOOKUP of a mount point", r.lookup(r.root, "m").Status, nfs3.ErrXDev)
	for _, e := range r.list(r.root, true, 4096).entries {
		if e.Name == "m" && (e.Attr.Set || e.Object.Set) {
			t.Errorf("READDIRPLUS tells about what is mounted")
		}
	}
	if got := r.mnt("/m").Status; got != mount3.ErrAcces {
		t.Errorf("MNT of a mount point: %v", got)
	}
}

func TestSearchIsBounded(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone, noOpenByHandle: true, searchLimit: 50})
	d := r.mkdir(r.root, "d", 0o755).Object.Handle
	for i := range 60 {
		r.create(d, fmt.Sprint("f", i), 0o644)
	}
	last := r.create(d, "last", 0o644).Object.Handle
	first := r.mkdir(r.root, "first", 0o755).Object.Handle
	r.restart(Options{Squash: SquashNone, noOpenByHandle: true, searchLimit: 50})
	r.want("found within the bound", r.getattr(first).Status, nfs3.OK)
	r.want("d", r.getattr(d).Status, nfs3.OK)
	found := r.getattr(last).Status
	if found != nfs3.OK && found != nfs3.ErrStale {
		t.Error(found)
	}
	if n := len(r.s.exp.places.byIno); n > 60 {
		t.Errorf("%d places", n)
	}
}

func TestOpenFilesAreBounded(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone, MaxOpen: 16})
	var hs []nfs3.Handle
	for i := range 100 {
		h := r.create(r.root, fmt.Sprint(i), 0o644).Object.Handle
		r.write(h, 0, []byte{byte(i)}, nfs3.Unstable)
		hs = append(hs, h)
	}
	if n := r.s.nodes.lru.Len(); n > 16 || n != len(r.s.nodes.byHandle) {
		t.Errorf("%d objects open", n)
	}
	for i, h := range hs {
		if got := r.read(h, 0, 10); len(got.Data) != 1 || got.Data[0] != byte(i) {
			t.Fatalf("file %d: %v %v", i, got.Status, got.Data)
		}
	}
}
