package server3

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

func TestReadWrite(t *testing.T) {
	for _, how := range []nfs3.StableHow{nfs3.Unstable, nfs3.DataSync, nfs3.FileSync} {
		t.Run(fmt.Sprint("stable ", how), func(t *testing.T) {
			r := newRig(t, Options{Squash: SquashNone})
			f := r.create(r.root, "f", 0o644).Object.Handle
			if got := r.read(f, 0, 100); got.Status != nfs3.OK || !got.EOF || got.Count != 0 {
				t.Errorf("READ of an empty file: %v, eof %v", got.Status, got.EOF)
			}
			big := bytes.Repeat([]byte("0123456789abcdef"), nfs3.MaxData/16)
			for _, c := range []struct {
				off  uint64
				data []byte
			}{{0, nil}, {0, []byte("a")}, {3, []byte("xyz")}, {1 << 20, big}, {5 << 30, []byte("far")}} {
				w := r.write(f, c.off, c.data, how)
				if w.Status != nfs3.OK || int(w.Count) != len(c.data) || w.Committed < how {
					t.Fatalf("WRITE of %d at %d: %v, %d, stable %d", len(c.data), c.off, w.Status, w.Count, w.Committed)
				}
				if got := r.read(f, c.off, uint32(len(c.data))); !bytes.Equal(got.Data, c.data) {
					t.Fatalf("READ of %d at %d gives something else", len(c.data), c.off)
				}
			}
			size := uint64(5<<30 + 3)
			for _, c := range []struct {
				off   uint64
				count uint32
				n     int
				eof   bool
			}{
				{0, 6, 6, false}, {size - 3, 2, 2, false}, {size - 3, 3, 3, true}, {size - 3, 4, 3, true}, {size - 1, 1 << 20, 1, true},
				{size, 1, 0, true}, {size + 1, 1, 0, true}, {math.MaxUint64, 1, 0, true}, {math.MaxInt64, math.MaxUint32, 0, true},
				{size - 1, 0, 0, false}, {size, 0, 0, true}, {0, math.MaxUint32, nfs3.MaxData, false},
			} {
				got := r.read(f, c.off, c.count)
				if got.Status != nfs3.OK || len(got.Data) != c.n || got.EOF != c.eof || got.Attr.Attr.Size != size {
					t.Errorf("READ of %d at %d: %v, %d bytes, eof %v; want %d, %v", c.count, c.off, got.Status, len(got.Data), got.EOF, c.n, c.eof)
				}
			}
			r.want("WRITE across the end of offsets", r.write(f, math.MaxInt64-1, []byte("xyz"), how).Status, nfs3.ErrFBig)
			r.want("WRITE beyond it", r.write(f, math.MaxUint64, []byte("x"), how).Status, nfs3.ErrFBig)
			var c nfs3.CommitRes
			r.do(nfs3.ProcCommit, &nfs3.CommitArgs{File: f, Offset: 7, Count: 9}, &c)
			if c.Status != nfs3.OK || c.Verf != r.write(f, 0, nil, how).Verf {
				t.Errorf("COMMIT: %v", c.Status)
			}
			r.want("READ of a directory", r.read(r.root, 0, 1).Status, nfs3.ErrInval)
			r.want("WRITE to a directory", r.write(r.root, 0, []byte("x"), how).Status, nfs3.ErrInval)
			r.do(nfs3.ProcCommit, &nfs3.CommitArgs{File: r.root}, &c)
			r.want("COMMIT of a directory", c.Status, nfs3.ErrInval)
		})
	}
}

func TestWriteVerifier(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone})
	f := r.create(r.root, "f", 0o644).Object.Handle
	one, two := r.write(f, 0, []byte("a"), nfs3.Unstable).Verf, r.write(f, 1, []byte("b"), nfs3.Unstable).Verf
	if one != two {
		t.Error("the verifier changed without cause")
	}
	r.restart(Options{Squash: SquashNone})
	three := r.write(f, 1, []byte("b"), nfs3.Unstable).Verf
	if three == one {
		t.Error("the verifier did not change with a restart")
	}
	c := call{Server: r.s}
	c.lost(unix.EIO)
	if got := r.write(f, 1, []byte("b"), nfs3.Unstable).Verf; got == three {
		t.Error("the verifier did not change when the disk failed")
	}
}

func TestCreate(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone})
	create := func(name string, mode nfs3.CreateMode, a nfs3.Sattr, v nfs3.Verf) nfs3.CreateRes {
		t.Helper()
		var res nfs3.CreateRes
		r.do(nfs3.ProcCreate, &nfs3.CreateArgs{Where: nfs3.DirOp{Dir: r.root, Name: name}, Mode: mode, Attr: a, Verf: v}, &res)
		return res
	}
	mode := nfs3.Sattr{Mode: nfs3.U32(0o751), Mtime: nfs3.SetTo(nfs3.Time{Sec: 1e9, Nsec: 5})}
	got := create("g", nfs3.Guarded, mode, nfs3.Verf{})
	if a := got.Attr.Attr; got.Status != nfs3.OK || a.Mode != 0o751 || a.Mtime != (nfs3.Time{Sec: 1e9, Nsec: 5}) || !got.Object.Set {
		t.Errorf("GUARDED: %+v", got)
	}
	r.want("GUARDED again", create("g", nfs3.Guarded, mode, nfs3.Verf{}).Status, nfs3.ErrExist)
	r.write(got.Object.Handle, 0, []byte("content"), nfs3.Unstable)
	again := create("g", nfs3.Unchecked, nfs3.Sattr{Mode: nfs3.U32(0)}, nfs3.Verf{})
	if again.Status != nfs3.OK || again.Object != got.Object || again.Attr.Attr.Size != 7 || again.Attr.Attr.Mode != 0o751 {
		t.Errorf("UNCHECKED of what exists: %+v", again)
	}
	again = create("g", nfs3.Unchecked, nfs3.Sattr{Size: nfs3.U64(0)}, nfs3.Verf{})
	if again.Status != nfs3.OK || again.Attr.Attr.Size != 0 {
		t.Errorf("UNCHECKED with size 0: %+v", again)
	}
	big := create("big", nfs3.Unchecked, nfs3.Sattr{Size: nfs3.U64(1 << 33)}, nfs3.Verf{})
	if big.Status != nfs3.OK || big.Attr.Attr.Size != 1<<33 {
		t.Errorf("UNCHECKED with a size: %+v", big)
	}

	// EXCLUSIVE: the same request twice is one creation; another's is refused (RFC 1813 §3.3.8).
	v := nfs3.Verf{0xff, 1, 2, 3, 0xfe, 5, 6, 7}
	x := create("x", nfs3.Exclusive, nfs3.Sattr{}, v)
	r.want("EXCLUSIVE", x.Status, nfs3.OK)
	r.cold()
	if y := create("x", nfs3.Exclusive, nfs3.Sattr{}, v); y.Status != nfs3.OK || y.Object != x.Object {
		t.Errorf("EXCLUSIVE again: %v", y.Status)
	}
	r.want("EXCLUSIVE by another", create("x", nfs3.Exclusive, nfs3.Sattr{}, nfs3.Verf{9}).Status, nfs3.ErrExist)
	r.want("EXCLUSIVE of a directory", create("..", nfs3.Exclusive, nfs3.Sattr{}, v).Status, nfs3.ErrExist)
	r.setattr(x.Object.Handle, nfs3.Sattr{Mode: nfs3.U32(0o600), Mtime: nfs3.SetTime{How: nfs3.ServerTime}})
	r.want("EXCLUSIVE once it is in use", create("x", nfs3.Exclusive, nfs3.Sattr{}, v).Status, nfs3.ErrExist)

	for name, want := range map[string]nfs3.Status{".": nfs3.ErrExist, "..": nfs3.ErrExist, "": nfs3.ErrAcces, "a/b": nfs3.ErrAcces,
		strings.Repeat("n", 256): nfs3.ErrNameTooLong} {
		r.want(fmt.Sprintf("CREATE %.5q", name), create(name, nfs3.Guarded, mode, v).Status, want)
		r.want(fmt.Sprintf("MKDIR %.5q", name), r.mkdir(r.root, name, 0o700).Status, want)
	}
	bad := create("bad", nfs3.Guarded, nfs3.Sattr{Mtime: nfs3.SetTo(nfs3.Time{Nsec: unix.UTIME_NOW})}, v)
	r.want("a time that is none", bad.Status, nfs3.ErrInval)
	if _, err := os.Lstat(filepath.Join(r.dir, "bad")); err == nil {
		t.Error("a failed CREATE left its file behind")
	}
}

func TestMakeOthers(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone})
	at := func(name string) nfs3.DirOp { return nfs3.DirOp{Dir: r.root, Name: name} }
	for _, target := range []string{"x", "../../etc/passwd", strings.Repeat("t", 4095)} {
		var res nfs3.CreateRes
		r.do(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at("l"), Attr: nfs3.Sattr{Mode: nfs3.U32(0o777)}, Target: []byte(target)}, &res)
		if res.Status != nfs3.OK || res.Attr.Attr.Type != nfs3.TypeLnk {
			t.Fatalf("SYMLINK to %.20s: %v", target, res.Status)
		}
		var link nfs3.ReadLinkRes
		r.do(nfs3.ProcReadLink, &nfs3.HandleArgs{Object: res.Object.Handle}, &link)
		if string(link.Target) != target || !link.Attr.Set {
			t.Errorf("READLINK: %v %.20q", link.Status, link.Target)
		}
		r.want("REMOVE of a symlink", r.remove(r.root, "l").Status, nfs3.OK)
	}
	var link nfs3.ReadLinkRes
	r.do(nfs3.ProcReadLink, &nfs3.HandleArgs{Object: r.root}, &link)
	r.want("READLINK of a directory", link.Status, nfs3.ErrInval)
	var res nfs3.CreateRes
	for target, want := range map[string]nfs3.Status{"": nfs3.ErrNoEnt, "a\x00b": nfs3.ErrInval, strings.Repeat("t", 4096): nfs3.ErrNameTooLong} {
		r.do(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at("l"), Target: []byte(target)}, &res)
		r.want(fmt.Sprintf("SYMLINK to %.5q", target), res.Status, want)
	}

	for i, typ := range []nfs3.FileType{nfs3.TypeFifo, nfs3.TypeSock, nfs3.TypeChr, nfs3.TypeBlk} {
		if i >= 2 && os.Geteuid() != 0 {
			continue
		}
		name := typ.String()
		r.do(nfs3.ProcMknod, &nfs3.MknodArgs{Where: at(name), Type: typ, Attr: nfs3.Sattr{Mode: nfs3.U32(0o640)},
			Spec: nfs3.SpecData{Major: 1, Minor: 300}}, &res)
		a := res.Attr.Attr
		if res.Status != nfs3.OK || a.Type != typ || a.Mode != 0o640 {
			t.Fatalf("MKNOD of a %v: %v %v %#o", typ, res.Status, a.Type, a.Mode)
		}
		if i >= 2 && a.Rdev != (nfs3.SpecData{Major: 1, Minor: 300}) {
			t.Errorf("device numbers %v", a.Rdev)
		}
		h := res.Object.Handle
		r.cold()
		r.want("READ of a "+name, r.read(h, 0, 1).Status, nfs3.ErrInval)
		r.want("WRITE to a "+name, r.write(h, 0, []byte("x"), nfs3.Unstable).Status, nfs3.ErrInval)
		r.want("SETATTR size of a "+name, r.setattr(h, nfs3.Sattr{Size: nfs3.U64(0)}).Status, nfs3.ErrInval)
		r.want("SETATTR mode of a "+name, r.setattr(h, nfs3.Sattr{Mode: nfs3.U32(0o600)}).Status, nfs3.OK)
	}
	for _, typ := range []nfs3.FileType{nfs3.TypeReg, nfs3.TypeDir, nfs3.TypeLnk, 0, 99} {
		r.do(nfs3.ProcMknod, &nfs3.MknodArgs{Where: at("no"), Type: typ}, &res)
		r.want(fmt.Sprintf("MKNOD of type %d", typ), res.Status, nfs3.ErrBadType)
	}
}

func TestNames(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone})
	d := r.mkdir(r.root, "d", 0o755).Object.Handle
	e := r.mkdir(r.root, "e", 0o755).Object.Handle
	f := r.create(d, "f", 0o644).Object.Handle
	r.create(e, "g", 0o644)
	rmdir := func(dir nfs3.Handle, name string) nfs3.Status {
		var res nfs3.WccRes
		r.do(nfs3.ProcRmdir, &nfs3.DirOpArgs{What: nfs3.DirOp{Dir: dir, Name: name}}, &res)
		return res.Status
	}
	link := func(file, dir nfs3.Handle, name string) nfs3.LinkRes {
		var res nfs3.LinkRes
		r.do(nfs3.ProcLink, &nfs3.LinkArgs{File: file, Link: nfs3.DirOp{Dir: dir, Name: name}}, &res)
		return res
	}
	for _, c := range []struct {
		what      string
		got, want nfs3.Status
	}{
		{"REMOVE of nothing", r.remove(d, "none").Status, nfs3.ErrNoEnt},
		{"REMOVE of a directory", r.remove(r.root, "d").Status, nfs3.ErrIsDir},
		{"REMOVE .", r.remove(d, ".").Status, nfs3.ErrInval},
		{"REMOVE ..", r.remove(d, "..").Status, nfs3.ErrExist},
		{"REMOVE in a file", r.remove(f, "x").Status, nfs3.ErrNotDir},
		{"RMDIR of a file", rmdir(d, "f"), nfs3.ErrNotDir},
		{"RMDIR of what is not empty", rmdir(r.root, "d"), nfs3.ErrNotEmpty},
		{"RMDIR .", rmdir(r.root, "."), nfs3.ErrInval},
		{"RMDIR ..", rmdir(d, ".."), nfs3.ErrExist},
		{"RENAME of nothing", r.rename(d, "none", e, "x").Status, nfs3.ErrNoEnt},
		{"RENAME of .", r.rename(d, ".", e, "x").Status, nfs3.ErrInval},
		{"RENAME to ..", r.rename(d, "f", e, "..").Status, nfs3.ErrInval},
		{"RENAME of a file over a directory", r.rename(d, "f", r.root, "e").Status, nfs3.ErrIsDir},
		{"RENAME of a directory over a file", r.rename(r.root, "e", d, "f").Status, nfs3.ErrNotDir},
		{"RENAME over a full directory", r.rename(r.root, "d", r.root, "e").Status, nfs3.ErrNotEmpty},
		{"RENAME into itself", r.rename(r.root, "d", d, "x").Status, nfs3.ErrInval},
		{"RENAME from a file", r.rename(f, "x", d, "x").Status, nfs3.ErrNotDir},
		{"RENAME to a file", r.rename(d, "f", f, "x").Status, nfs3.ErrNotDir},
		{"RENAME from a bad handle", r.rename(nfs3.Handle{}, "f", d, "x").Status, nfs3.ErrBadHandle},
		{"RENAME to a bad handle", r.rename(d, "f", nfs3.Handle{}, "x").Status, nfs3.ErrBadHandle},
		{"LINK of a directory", link(d, e, "x").Status, nfs3.ErrIsDir},
		{"LINK over a name", link(f, e, "g").Status, nfs3.ErrExist},
		{"LINK as .", link(f, e, ".").Status, nfs3.ErrExist},
		{"LINK in a file", link(f, f, "x").Status, nfs3.ErrNotDir},
		{"LINK of a bad handle", link(nfs3.Handle{}, e, "x").Status, nfs3.ErrBadHandle},
		{"LINK", link(f, e, "f2").Status, nfs3.OK},
		{"RENAME to another name of the same file", r.rename(d, "f", e, "f2").Status, nfs3.OK},
		{"both are still there", r.lookup(d, "f").Status, nfs3.OK},
		{"RENAME over a file", r.rename(d, "f", e, "g").Status, nfs3.OK},
		{"RENAME of a directory", r.rename(r.root, "d", e, "d").Status, nfs3.OK},
		{"RMDIR", rmdir(e, "d"), nfs3.OK},
		{"what was in it", r.lookup(d, "x").Status, nfs3.ErrStale},
	} {
		r.want(c.what, c.got, c.want)
	}
	if a := r.getattr(f); a.Status != nfs3.OK || a.Attr.Nlink != 2 {
		t.Errorf("the linked file: %v, %d names", a.Status, a.Attr.Nlink)
	}
}

func TestSetAttr(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone})
	f := r.create(r.root, "f", 0o644).Object.Handle
	old := r.getattr(f).Attr
	var res nfs3.WccRes
	r.do(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Object: f, Attr: nfs3.Sattr{Mode: nfs3.U32(0)}, Guard: true, Ctime: nfs3.Time{Sec: 1}}, &res)
	r.want("another ctime", res.Status, nfs3.ErrNotSync)
	if got := r.getattr(f).Attr; got != old || res.Wcc.After.Attr != old {
		t.Error("a refused SETATTR changed something")
	}
	r.do(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Object: f, Attr: nfs3.Sattr{Mode: nfs3.U32(0o400)}, Guard: true, Ctime: old.Ctime}, &res)
	r.want("the right ctime", res.Status, nfs3.OK)
	for what, c := range map[string]struct {
		a    nfs3.Sattr
		want nfs3.Status
	}{
		"grow":                   {nfs3.Sattr{Size: nfs3.U64(1 << 40)}, nfs3.OK},
		"shrink":                 {nfs3.Sattr{Size: nfs3.U64(3)}, nfs3.OK},
		"beyond all files":       {nfs3.Sattr{Size: nfs3.U64(math.MaxUint64)}, nfs3.ErrFBig},
		"nanoseconds":            {nfs3.Sattr{Atime: nfs3.SetTo(nfs3.Time{Nsec: 1e9})}, nfs3.ErrInval},
		"utimensat's UTIME_OMIT": {nfs3.Sattr{Atime: nfs3.SetTo(nfs3.Time{Nsec: unix.UTIME_OMIT})}, nfs3.ErrInval},
		"nothing":                {nfs3.Sattr{}, nfs3.OK},
		"both times":             {nfs3.Sattr{Atime: nfs3.SetTo(nfs3.Time{Sec: 7, Nsec: 8}), Mtime: nfs3.SetTo(nfs3.Time{Sec: math.MaxUint32 / 2})}, nfs3.OK},
	} {
		r.want(what, r.setattr(f, c.a).Status, c.want)
	}
	r.setattr(f, nfs3.Sattr{Size: nfs3.U64(5), Mtime: nfs3.SetTo(nfs3.Time{Sec: 9, Nsec: 10})})
	if a := r.getattr(f).Attr; a.Size != 5 || a.Mtime != (nfs3.Time{Sec: 9, Nsec: 10}) {
		t.Errorf("size and time together: %d, %v", a.Size, a.Mtime)
	}
	r.want("SETATTR size of a directory", r.setattr(r.root, nfs3.Sattr{Size: nfs3.U64(0)}).Status, nfs3.ErrInval)
}

// Weak cache consistency: what was before one operation is what was after the one before,
// also when several clients change one directory.
func TestWcc(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone})
	pre := func(a nfs3.Attr) nfs3.PreOpAttr {
		return nfs3.PreOpAttr{Set: true, Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime}
	}
	last := r.getattr(r.root).Attr
	follow := func(what string, d nfs3.WccData) {
		t.Helper()
		if d.Before != pre(last) || !d.After.Set {
			t.Errorf("%s: before %+v, but it was %+v", what, d.Before, last)
		}
		last = d.After.Attr
	}
	c := r.create(r.root, "f", 0o644)
	follow("CREATE", c.Dir)
	follow("CREATE that fails", r.create(r.root, "f", 0o644).Dir)
	follow("MKDIR", r.mkdir(r.root, "d", 0o755).Dir)
	ren := r.rename(r.root, "f", r.root, "g")
	if ren.From != ren.To {
		t.Error("RENAME in one directory tells of two")
	}
	follow("RENAME", ren.To)
	follow("REMOVE that fails", r.remove(r.root, "none").Wcc)
	var l nfs3.LinkRes
	r.do(nfs3.ProcLink, &nfs3.LinkArgs{File: c.Object.Handle, Link: nfs3.DirOp{Dir: r.root, Name: "h"}}, &l)
	follow("LINK", l.Dir)
	follow("REMOVE", r.remove(r.root, "g").Wcc)

	last = r.getattr(c.Object.Handle).Attr
	follow("WRITE", r.write(c.Object.Handle, 0, []byte("x"), nfs3.Unstable).Wcc)
	follow("WRITE that fails", r.write(c.Object.Handle, math.MaxUint64, []byte("x"), nfs3.Unstable).Wcc)
	follow("SETATTR", r.setattr(c.Object.Handle, nfs3.Sattr{Mode: nfs3.U32(0o600)}).Wcc)

	// Each change must see exactly one predecessor: the pairs form one chain.
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := map[nfs3.PreOpAttr]int{}
	start := r.getattr(r.root).Attr
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				var res nfs3.CreateRes
				err := r.run(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: nfs3.DirOp{Dir: r.root, Name: fmt.Sprint(g, "-", i)}}, &res)
				if err != nil || res.Status != nfs3.OK {
					t.Errorf("MKDIR: %v %v", err, res.Status)
					return
				}
				mu.Lock()
				next[res.Dir.Before]++
				next[pre(res.Dir.After.Attr)]--
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	ends := 0
	for _, n := range next {
		if n != 0 {
			ends++
		}
	}
	if next[pre(start)] != 1 || ends != 2 {
		t.Errorf("wcc_data of concurrent changes has %d loose ends, want those of one chain", ends)
	}
}

func TestGarbage(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone})
	for i, p := range procs {
		if p == nil {
			continue
		}
		for _, b := range [][]byte{nil, {0, 0, 0}, {0, 0, 0, 65}, {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}} {
			if err := r.try(p, b, nil); !errors.Is(err, errGarbage) {
				t.Errorf("procedure %d with %x: %v", i, b, err)
			}
		}
	}
	f := r.create(r.root, "f", 0o644).Object.Handle
	w := nfs3.WriteArgs{File: f, Count: 4, Data: []byte("abc")}
	if err := r.try(procs[nfs3.ProcWrite], encode(&w), nil); !errors.Is(err, errGarbage) {
		t.Errorf("WRITE whose count is not its data's: %v", err)
	}
	for i, p := range mountProcs {
		if p != nil {
			if err := r.try(p, []byte{0xff, 0xff, 0xff, 0xff}, nil); !errors.Is(err, errGarbage) {
				t.Errorf("MOUNT procedure %d: %v", i, err)
			}
		}
	}
}

func TestStatics(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone})
	var info nfs3.FSInfoRes
	r.do(nfs3.ProcFSInfo, &nfs3.HandleArgs{Object: r.root}, &info)
	if info.Status != nfs3.OK || info.RTMax != 1<<20 || info.WTMax != 1<<20 || info.DTPref == 0 || !info.Attr.Set {
		t.Errorf("FSINFO: %+v", info)
	}
	var fs nfs3.FSStatRes
	r.do(nfs3.ProcFSStat, &nfs3.HandleArgs{Object: r.root}, &fs)
	if fs.Status != nfs3.OK || fs.Tbytes == 0 || fs.Abytes > fs.Fbytes || fs.Fbytes > fs.Tbytes {
		t.Errorf("FSSTAT: %+v", fs)
	}
	var pc nfs3.PathConfRes
	r.do(nfs3.ProcPathConf, &nfs3.HandleArgs{Object: r.root}, &pc)
	if pc.Status != nfs3.OK || pc.NameMax < 255 || !pc.NoTrunc || !pc.CasePreserving {
		t.Errorf("PATHCONF: %+v", pc)
	}
	var bad nfs3.HandleArgs
	r.do(nfs3.ProcFSInfo, &bad, &info)
	r.do(nfs3.ProcFSStat, &bad, &fs)
	r.do(nfs3.ProcPathConf, &bad, &pc)
	for _, st := range []nfs3.Status{info.Status, fs.Status, pc.Status} {
		r.want("a bad handle", st, nfs3.ErrBadHandle)
	}
}

func TestErrno(t *testing.T) {
	for no, want := range map[error]nfs3.Status{
		nil: nfs3.OK, unix.EPERM: nfs3.ErrPerm, unix.ENOENT: nfs3.ErrNoEnt, unix.EIO: nfs3.ErrIO, unix.ENXIO: nfs3.ErrNXIO,
		unix.EACCES: nfs3.ErrAcces, unix.EEXIST: nfs3.ErrExist, unix.EXDEV: nfs3.ErrXDev, unix.ENODEV: nfs3.ErrNoDev,
		unix.ENOTDIR: nfs3.ErrNotDir, unix.EISDIR: nfs3.ErrIsDir, unix.EINVAL: nfs3.ErrInval, unix.EFBIG: nfs3.ErrFBig,
		unix.ENOSPC: nfs3.ErrNoSpc, unix.EROFS: nfs3.ErrROFS, unix.EMLINK: nfs3.ErrMLink, unix.ENAMETOOLONG: nfs3.ErrNameTooLong,
		unix.ENOTEMPTY: nfs3.ErrNotEmpty, unix.EDQUOT: nfs3.ErrDQuot, unix.ESTALE: nfs3.ErrStale, unix.ENOSYS: nfs3.ErrNotSupp,
		unix.EMFILE: nfs3.ErrJukebox, unix.ECHILD: nfs3.ErrServerFault, errors.New("x"): nfs3.ErrServerFault,
		fmt.Errorf("wrapped: %w", unix.ENOSPC): nfs3.ErrNoSpc,
	} {
		if got := statusOf(no); got != want {
			t.Errorf("%v: %v, want %v", no, got, want)
		}
	}
}
