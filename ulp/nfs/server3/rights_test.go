package server3

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// Tags of ACL entries (acl(5)).
const (
	aclUserObj, aclUser, aclGroupObj, aclGroup, aclMask, aclOther = 1, 2, 4, 8, 16, 32
)

type entry struct {
	tag, perm uint16
	id        uint32
}

// setACL gives a file below the export an ACL, as setfacl does.
func (r *rig) setACL(path, attr string, entries ...entry) {
	r.Helper()
	b := []byte{2, 0, 0, 0}
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		if e.tag != aclUser && e.tag != aclGroup {
			e.id = noID
		}
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	switch err := unix.Setxattr(filepath.Join(r.dir, path), attr, b, 0); err {
	case nil:
	case unix.EOPNOTSUPP:
		r.Skip("this file system has no ACLs")
	default:
		r.Fatal(err)
	}
}

// An ACL decides: it denies what the mode's group bits, which are its mask, would allow, and allows what they would not say.
func TestACL(t *testing.T) {
	needRoot(t)
	const named = 1003
	for _, way := range []string{"by the object in memory", "for the object itself"} {
		t.Run(way, func(t *testing.T) {
			r := newRig(t, Options{Squash: SquashNone})
			if way == "for the object itself" {
				j := r.s.exp.judge
				r.s.exp.judge = nil
				t.Cleanup(func() { j.close() })
			}
			r.own(".", 0o777, 0)
			r.file("f", 0o600, owner, "data")
			// The owning group has nothing, one user may read and write: the mode says 0660.
			r.setACL("f", aclName, entry{aclUserObj, 6, 0}, entry{aclUser, 6, named}, entry{aclGroupObj, 0, 0}, entry{aclMask, 6, 0}, entry{aclOther, 0, 0})
			r.subdir("d", 0o700, owner)
			r.setACL("d", aclName, entry{aclUserObj, 7, 0}, entry{aclUser, 7, named}, entry{aclGroupObj, 0, 0}, entry{aclMask, 7, 0}, entry{aclOther, 0, 0})
			// Two groups, of which one may write and the other search: neither may do both.
			r.subdir("split", 0o700, owner)
			r.setACL("split", aclName, entry{aclUserObj, 7, 0}, entry{aclGroupObj, 0, 0}, entry{aclGroup, 2, 50}, entry{aclGroup, 1, 51}, entry{aclMask, 7, 0}, entry{aclOther, 0, 0})
			r.file("d/in", 0o644, owner, "")
			f, d, split := r.handle("f"), r.handle("d"), r.handle("split")
			if a := r.getattr(f).Attr; a.Mode != 0o660 {
				t.Fatalf("mode %#o", a.Mode)
			}
			rw := uint32(nfs3.AccessRead | nfs3.AccessModify | nfs3.AccessExtend)
			for range 2 { // what is remembered is the same
				for _, c := range []struct {
					who    uint32
					groups []uint32
					want   nfs3.Status
				}{{owner, nil, nfs3.OK}, {named, nil, nfs3.OK}, {member, []uint32{owner}, nfs3.ErrAcces}, {stranger, nil, nfs3.ErrAcces}} {
					r.as(c.who, c.groups...)
					who := fmt.Sprintf("user %d: ", c.who)
					r.want(who+"READ", r.read(f, 0, 10).Status, c.want)
					r.want(who+"WRITE", r.write(f, 0, []byte("x"), nfs3.Unstable).Status, c.want)
					r.want(who+"truncate", r.setattr(f, nfs3.Sattr{Size: nfs3.U64(4)}).Status, c.want)
					if got := r.access(f, 0x3f); got != rw && c.want == nfs3.OK || got != 0 && c.want != nfs3.OK {
						t.Errorf("%sACCESS %#x", who, got)
					}
					r.want(who+"LOOKUP", r.lookup(d, "in").Status, c.want)
					r.want(who+"READDIRPLUS", r.list(d, true, 4096).status, c.want)
					if st := r.create(d, "new", 0o600).Status; st != c.want {
						t.Errorf("%sCREATE: %v", who, st)
					}
					r.want(who+"REMOVE", func() nfs3.Status {
						os.WriteFile(filepath.Join(r.dir, "d/new"), nil, 0o600)
						defer os.Remove(filepath.Join(r.dir, "d/new"))
						return r.remove(d, "new").Status
					}(), c.want)
				}
			}
			r.as(stranger, 50, 51)
			if got := r.access(split, 0x3f); got != nfs3.AccessLookup {
				t.Errorf("two groups with one right each: ACCESS %#x", got)
			}
			r.want("CREATE with one right of each group", r.create(split, "new", 0o600).Status, nfs3.ErrAcces)

			// An ACL that comes later counts, though the mode stays and it was known that there is none.
			r.file("later", 0o664, owner, "data")
			later := r.handle("later")
			time.Sleep(coarse + coarse/2)
			r.as(named)
			for range 3 {
				r.want("READ without an ACL", r.read(later, 0, 10).Status, nfs3.OK)
			}
			r.setACL("later", aclName, entry{aclUserObj, 6, 0}, entry{aclUser, 0, named}, entry{aclGroupObj, 6, 0}, entry{aclMask, 6, 0}, entry{aclOther, 4, 0})
			r.want("READ with an ACL that denies", r.read(later, 0, 10).Status, nfs3.ErrAcces)
			r.want("and WRITE", r.write(later, 0, []byte("x"), nfs3.Unstable).Status, nfs3.ErrAcces)

			// What is taken away is gone at once.
			r.setACL("f", aclName, entry{aclUserObj, 6, 0}, entry{aclUser, 0, named}, entry{aclGroupObj, 6, 0}, entry{aclMask, 6, 0}, entry{aclOther, 0, 0})
			r.as(named)
			r.want("READ after the ACL has changed", r.read(f, 0, 10).Status, nfs3.ErrAcces)
			r.as(member, owner)
			r.want("READ of the group", r.read(f, 0, 10).Status, nfs3.OK)
			unix.Removexattr(filepath.Join(r.dir, "f"), aclName)
			os.Chmod(filepath.Join(r.dir, "f"), 0o606)
			r.want("READ of the group, without an ACL", r.read(f, 0, 10).Status, nfs3.ErrAcces)
			r.as(named)
			r.want("READ of others, without an ACL", r.read(f, 0, 10).Status, nfs3.OK)
		})
	}
}

// What is made in a directory with a default ACL gets that ACL, and the mode given narrows it; elsewhere the mode holds, whatever
// the server's umask.
func TestModeOfNew(t *testing.T) {
	needRoot(t)
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	r := newRig(t, Options{Squash: SquashNone})
	r.own(".", 0o777, 0)
	r.subdir("plain", 0o777, 0)
	r.subdir("acl", 0o777, 0)
	unix.Chmod(filepath.Join(r.dir, "plain"), 0o777)
	r.setACL("acl", defaultACLName, entry{aclUserObj, 7, 0}, entry{aclUser, 7, 1003}, entry{aclGroupObj, 5, 0}, entry{aclMask, 5, 0}, entry{aclOther, 0, 0})
	plain, acl := r.handle("plain"), r.handle("acl")
	r.as(owner)
	for _, c := range []struct {
		dir       nfs3.Handle
		file, sub uint32
	}{{plain, 0o666, 0o777}, {acl, 0o640, 0o750}} {
		if got := r.create(c.dir, "f", 0o666); got.Status != nfs3.OK || got.Attr.Attr.Mode != c.file || got.Attr.Attr.UID != owner {
			t.Errorf("CREATE: %v, mode %#o of %d, want %#o", got.Status, got.Attr.Attr.Mode, got.Attr.Attr.UID, c.file)
		}
		if got := r.mkdir(c.dir, "d", 0o777); got.Status != nfs3.OK || got.Attr.Attr.Mode != c.sub {
			t.Errorf("MKDIR: %v, mode %#o, want %#o", got.Status, got.Attr.Attr.Mode, c.sub)
		}
		var res nfs3.CreateRes
		r.do(nfs3.ProcMknod, &nfs3.MknodArgs{Where: nfs3.DirOp{Dir: c.dir, Name: "p"}, Type: nfs3.TypeFifo, Attr: nfs3.Sattr{Mode: nfs3.U32(0o666)}}, &res)
		if res.Status != nfs3.OK || res.Attr.Attr.Mode != c.file {
			t.Errorf("MKNOD: %v, mode %#o, want %#o", res.Status, res.Attr.Attr.Mode, c.file)
		}
	}
	// Set-group-id comes from the directory, also for who is no member.
	r.subdir("shared", 0o777, owner)
	unix.Chmod(filepath.Join(r.dir, "shared"), 0o2777)
	r.as(stranger)
	if got := r.mkdir(r.handle("shared"), "d", 0o777); got.Status != nfs3.OK || got.Attr.Attr.Mode != 0o2777 || got.Attr.Attr.GID != owner {
		t.Errorf("MKDIR in a set-group-id directory: %v, mode %#o, group %d", got.Status, got.Attr.Attr.Mode, got.Attr.Attr.GID)
	}
	r.as(1003)
	r.want("CREATE by the user of the ACL", r.create(r.handle("acl", "d"), "f", 0o600).Status, nfs3.ErrAcces) // the mask has no w
}

// The id -1 is nobody's: it neither leaves the server its own rights nor changes an owner.
func TestNobodysID(t *testing.T) {
	needRoot(t)
	r := newRig(t, Options{})
	r.own(".", 0o777, 0)
	r.file("root", 0o600, 0, "secret")
	f := r.lookup(r.root, "root").Object
	r.as(noID)
	r.want("READ of root's file", r.read(f, 0, 10).Status, nfs3.ErrAcces)
	got := r.create(r.root, "f", 0o4777)
	if a := got.Attr.Attr; got.Status != nfs3.OK || a.UID != 65534 || a.GID != 65534 {
		t.Errorf("CREATE: %v, it belongs to %d:%d", got.Status, a.UID, a.GID)
	}
	if got := r.mkdir(r.root, "d", 0o755); got.Attr.Attr.UID != 65534 {
		t.Errorf("MKDIR: %v, it belongs to %d", got.Status, got.Attr.Attr.UID)
	}
	r.as(stranger, noID, noID)
	if got := r.create(r.root, "g", 0o600); got.Attr.Attr.UID != stranger {
		t.Errorf("CREATE with groups that are nobody's: %v, it belongs to %d", got.Status, got.Attr.Attr.UID)
	}
	g := r.handle("g")
	r.want("chown to nobody", r.setattr(g, nfs3.Sattr{UID: nfs3.U32(noID), GID: nfs3.U32(noID), Mode: nfs3.U32(0o640)}).Status, nfs3.OK)
	if a := r.getattr(g).Attr; a.UID != stranger || a.Mode != 0o640 {
		t.Errorf("after it: %d, %#o", a.UID, a.Mode)
	}
	if _, err := New(r.dir, Options{Anon: &IDs{noID, 5}}); err == nil {
		t.Error("an anonymous user that is nobody")
	}
}

// Set-id bits go as the kernel takes them, whoever the server is.
func TestSetIDBits(t *testing.T) {
	needRoot(t)
	r := newRig(t, Options{Squash: SquashNone})
	r.own(".", 0o777, 0)
	write := func(f nfs3.Handle) nfs3.Status { return r.write(f, 0, []byte("x"), nfs3.Unstable).Status }
	cut := func(f nfs3.Handle) nfs3.Status { return r.setattr(f, nfs3.Sattr{Size: nfs3.U64(0)}).Status }
	chown := func(f nfs3.Handle) nfs3.Status { return r.setattr(f, nfs3.Sattr{UID: nfs3.U32(owner)}).Status }
	chgrp := func(f nfs3.Handle) nfs3.Status { return r.setattr(f, nfs3.Sattr{GID: nfs3.U32(owner)}).Status }
	for _, c := range []struct {
		what         string
		mode         uint32
		who          uint32
		group        uint32
		do           func(nfs3.Handle) nfs3.Status
		then, orThen uint32 // kernels differ about set-group-id without the group's right to execute
	}{
		{"a stranger writes", 0o6777, stranger, 0, write, 0o777, 0o777},
		{"a stranger writes, no group-exec", 0o2767, stranger, 0, write, 0o767, 0o767},
		{"a member writes, no group-exec", 0o2767, member, owner, write, 0o2767, 0o2767},
		{"a stranger cuts off, no group-exec", 0o2767, stranger, 0, cut, 0o767, 0o767},
		{"the owner writes", 0o6755, owner, 0, write, 0o755, 0o755},
		{"root writes", 0o6777, 0, 0, write, 0o6777, 0o6777},
		{"chown to the same owner", 0o6755, owner, 0, chown, 0o755, 0o755},
		{"chgrp to the same group", 0o6755, owner, 0, chgrp, 0o755, 0o755},
		{"root's chown to the same owner", 0o6755, 0, 0, chown, 0o755, 0o755},
	} {
		r.as(0)
		r.file("f", c.mode, owner, "data")
		f := r.handle("f")
		r.as(c.who, c.group)
		r.want(c.what, c.do(f), nfs3.OK)
		if m := r.getattr(f).Attr.Mode; m != c.then && m != c.orThen {
			t.Errorf("%s: mode %#o, want %#o", c.what, m, c.then)
		}
		os.Remove(filepath.Join(r.dir, "f"))
	}
	r.file("f", 0o644, owner, "")
	f := r.handle("f")
	r.as(owner)
	r.want("chmod g+s of a group that is not one's own", func() nfs3.Status {
		unix.Chown(filepath.Join(r.dir, "f"), owner, 7)
		return r.setattr(f, nfs3.Sattr{Mode: nfs3.U32(0o2755)}).Status
	}(), nfs3.OK)
	if m := r.getattr(f).Attr.Mode; m != 0o755 {
		t.Errorf("mode %#o", m)
	}
}

// smallExt4 is an ext4 file system of its own, of which a part is reserved for root.
func smallExt4(t *testing.T, options ...string) string {
	needRoot(t)
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Skip("no mkfs.ext4: ", err)
	}
	img, dir := filepath.Join(t.TempDir(), "img"), t.TempDir()
	if err := os.WriteFile(img, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(img, 16<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, append(append([]string{"-q", "-m", "20"}, options...), img)...).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", img, dir).CombinedOutput(); err != nil {
		t.Skipf("it cannot be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("umount: %v", err)
			unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	return dir
}

// Blocks reserved for root are not for others, by whatever operation.
func TestReservedBlocks(t *testing.T) {
	r := rigAt(t, smallExt4(t), Options{Squash: SquashNone})
	r.own(".", 0o777, 0)
	block := make([]byte, 64<<10)
	fill := func(name string) (written int, status nfs3.Status) {
		f := r.create(r.root, name, 0o666)
		if f.Status != nfs3.OK {
			return 0, f.Status
		}
		for status == nfs3.OK {
			w := r.write(f.Object.Handle, uint64(written), block, nfs3.FileSync)
			if status = w.Status; status == nfs3.OK && w.Count == 0 {
				status = nfs3.ErrIO
			}
			written += int(w.Count)
		}
		return written, status
	}
	free := func() (all, others uint64) {
		var res nfs3.FSStatRes
		r.do(nfs3.ProcFSStat, &nfs3.HandleArgs{Object: r.root}, &res)
		return res.Fbytes, res.Abytes
	}
	r.as(stranger)
	n, status := fill("mine")
	r.want("a stranger's WRITE at the end of the space", status, nfs3.ErrNoSpc)
	all, others := free()
	if n == 0 || all < 2<<20 || others > 128<<10 {
		t.Errorf("a stranger wrote %d bytes; %d are left, %d for others than root", n, all, others)
	}
	for i := range 100 { // directories need blocks
		if st := r.mkdir(r.root, fmt.Sprint("d", i), 0o755).Status; st == nfs3.ErrNoSpc {
			break
		} else if i == 99 {
			t.Errorf("MKDIR without space: %v", st)
		}
	}
	r.as(0)
	if n, status := fill("root"); status != nfs3.ErrNoSpc || n < 1<<20 {
		t.Errorf("root wrote %d bytes, %v", n, status)
	}
	for _, n := range []string{"mine", "root"} {
		r.want("REMOVE", r.remove(r.root, n).Status, nfs3.OK)
	}
}

// Quotas bind: the server's right to exceed them is not the caller's.
func TestQuota(t *testing.T) {
	dir := smallExt4(t, "-O", "quota", "-E", "quotatype=usrquota")
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	limit := make([]byte, 72)                      // struct if_dqblk (quotactl(2))
	binary.NativeEndian.PutUint64(limit, 1024)     // hard limit, KiB
	binary.NativeEndian.PutUint64(limit[8:], 1024) // soft limit
	binary.NativeEndian.PutUint32(limit[64:], 1)   // QIF_BLIMITS
	_, _, no := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), 0x800008<<8, stranger, uintptr(unsafe.Pointer(&limit[0])), 0, 0)
	unix.Close(fd)
	if no != 0 {
		t.Skip("no quotas in this kernel: ", no)
	}
	r := rigAt(t, dir, Options{Squash: SquashNone})
	r.own(".", 0o777, 0)
	r.as(stranger)
	f := r.create(r.root, "f", 0o666).Object.Handle
	block, status, n := make([]byte, 64<<10), nfs3.OK, 0
	for n < 4<<20 && status == nfs3.OK {
		w := r.write(f, uint64(n), block, nfs3.FileSync)
		status = w.Status
		n += int(w.Count)
	}
	if status != nfs3.ErrDQuot || n > 1<<20 {
		t.Errorf("WRITE beyond the quota: %v after %d bytes", status, n)
	}
}

// What somebody who may rename in the directory puts in the place of a new object keeps its owner, mode and times, and root's caller
// gets no handle of it.
func TestSwappedWhileMade(t *testing.T) {
	needRoot(t)
	for _, who := range []uint32{0, owner} {
		for name, m := range map[string]making{
			"file": {typ: unix.S_IFREG, mode: 0o777, create: createFile},
			"directory": {typ: unix.S_IFDIR, mode: 0o777, create: func(dir int, name string, mode uint32) (int, error) {
				return -1, unix.Mkdirat(dir, name, mode)
			}},
			"fifo": {typ: unix.S_IFIFO, mode: 0o777, create: func(dir int, name string, mode uint32) (int, error) {
				return -1, unix.Mknodat(dir, name, unix.S_IFIFO|mode, 0)
			}},
		} {
			t.Run(fmt.Sprint(name, " by ", who), func(t *testing.T) {
				r := newRig(t, Options{Squash: SquashNone})
				r.own(".", 0o777, 0)
				secret := filepath.Join(r.dir, "secret")
				var err error
				switch m.typ {
				case unix.S_IFREG:
					err = os.WriteFile(secret, nil, 0o600)
				case unix.S_IFDIR:
					err = os.Mkdir(secret, 0o700)
				default:
					err = unix.Mkfifo(secret, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				var before, st unix.Stat_t
				unix.Lstat(secret, &before)
				time.Sleep(2 * coarse / 5) // files made in one tick of the clock look alike
				create := m.create
				m.create = func(dir int, name string, mode uint32) (int, error) {
					wr, err := create(dir, name, mode)
					if err == nil {
						err = unix.Renameat(dir, name, dir, "elsewhere")
					}
					if err == nil {
						err = unix.Renameat(dir, "secret", dir, name)
					}
					return wr, err
				}
				m.attr = nfs3.Sattr{UID: nfs3.U32(stranger), Mtime: nfs3.SetTo(nfs3.Time{Sec: 5})}
				c := &call{Server: r.s, cred: cred{uid: who, gid: who}}
				res := c.make(&nfs3.DirOp{Dir: r.root, Name: "new"}, &m)
				c.done()
				if err := unix.Lstat(filepath.Join(r.dir, "new"), &st); err != nil {
					t.Fatal(err)
				}
				if st.Uid != 0 || st.Mode != before.Mode || st.Mtim != before.Mtim {
					t.Errorf("root's has become uid %d's, mode %o, time %v", st.Uid, st.Mode, st.Mtim)
				}
				if m.typ != unix.S_IFREG && res.Status != nfs3.ErrStale {
					t.Errorf("%v", res.Status)
				}
			})
		}
	}
}

// An exclusive creation that finds a file with its verifier is the same one again only if that file is the caller's: verifiers can be
// guessed.
func TestExclusiveByAnother(t *testing.T) {
	needRoot(t)
	r := newRig(t, Options{Squash: SquashNone})
	r.own(".", 0o777, 0)
	v := nfs3.Verf{1, 2, 3, 4, 5, 6, 7, 8}
	create := func() nfs3.CreateRes {
		var res nfs3.CreateRes
		r.do(nfs3.ProcCreate, &nfs3.CreateArgs{Where: nfs3.DirOp{Dir: r.root, Name: "x"}, Mode: nfs3.Exclusive, Verf: v}, &res)
		return res
	}
	r.as(stranger)
	r.want("EXCLUSIVE", create().Status, nfs3.OK)
	r.want("EXCLUSIVE again", create().Status, nfs3.OK)
	r.as(owner)
	r.want("EXCLUSIVE of another with the same verifier", create().Status, nfs3.ErrExist)
}

// Who may not change a directory is told that, whether there is the name or not, as Linux's server does; CREATE alone says which there are.
func TestChangesAreRefusedFirst(t *testing.T) {
	needRoot(t)
	r := newRig(t, Options{Squash: SquashNone})
	r.own(".", 0o755, 0)
	r.subdir("d", 0o711, owner)
	r.file("d/f", 0o644, owner, "")
	d, f := r.handle("d"), r.handle("d", "f")
	r.as(stranger)
	acces := nfs3.ErrAcces
	for _, name := range []string{"f", "none"} {
		at := nfs3.DirOp{Dir: d, Name: name}
		var made nfs3.CreateRes
		var link nfs3.LinkRes
		r.want("MKDIR "+name, r.mkdir(d, name, 0o755).Status, acces)
		r.do(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at, Target: []byte("x")}, &made)
		r.want("SYMLINK "+name, made.Status, acces)
		r.do(nfs3.ProcMknod, &nfs3.MknodArgs{Where: at, Type: nfs3.TypeFifo}, &made)
		r.want("MKNOD "+name, made.Status, acces)
		r.do(nfs3.ProcLink, &nfs3.LinkArgs{File: f, Link: at}, &link)
		r.want("LINK "+name, link.Status, acces)
		r.want("REMOVE "+name, r.remove(d, name).Status, acces)
		r.want("RENAME of "+name, r.rename(d, name, d, "new").Status, acces)
		r.want("RENAME to "+name, r.rename(d, "f", d, name).Status, acces)
	}
	r.want("CREATE f", r.create(d, "f", 0o644).Status, nfs3.ErrExist)
	r.want("CREATE none", r.create(d, "none", 0o644).Status, acces)
}

// MOUNT gives no handle of what lies below a directory that the caller may not search.
func TestMountBelowClosed(t *testing.T) {
	needRoot(t)
	r := newRig(t, Options{})
	r.own(".", 0o755, 0)
	r.subdir("closed", 0o700, owner)
	r.subdir("closed/in", 0o777, owner)
	r.subdir("open", 0o711, owner)
	r.subdir("open/in", 0o700, owner)
	for _, c := range []struct {
		who  uint32
		path string
		want mount3.Status
	}{
		{0, "/closed/in", mount3.ErrAcces}, {stranger, "/closed/in", mount3.ErrAcces}, {owner, "/closed/in", mount3.OK},
		{0, "/closed", mount3.OK}, {stranger, "/open/in", mount3.OK}, {0, "/closed/none", mount3.ErrAcces},
	} {
		r.as(c.who)
		if got := r.mnt(c.path).Status; got != c.want {
			t.Errorf("user %d, MNT %s: %v, want %v", c.who, c.path, got, c.want)
		}
	}
}

// threads are the user, group and capability lines of all threads.
func threads(t *testing.T) (lines []string) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if err != nil {
			continue // ended
		}
		var l []string
		for line := range strings.Lines(string(b)) {
			if strings.HasPrefix(line, "Uid:") || strings.HasPrefix(line, "Gid:") || strings.HasPrefix(line, "Groups:") || strings.HasPrefix(line, "CapEff:") {
				l = append(l, strings.Join(strings.Fields(line), " "))
			}
		}
		lines = append(lines, strings.Join(l, "; "))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// After any number of operations of many users at once, each with its own rights, all threads have the server's.
func TestThreadsAreRestored(t *testing.T) {
	needRoot(t)
	r := newRig(t, Options{Squash: SquashNone})
	r.own(".", 0o777, 0)
	before := threads(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			user := uint32(3000 + i)
			for k := range 40 {
				var made nfs3.CreateRes
				name := fmt.Sprint(user, "-", k)
				err := r.runAs(cred{uid: user, gid: user + 1, groups: []uint32{user + 2, user + 3}}, nfs3.ProcMkdir,
					&nfs3.MkdirArgs{Where: nfs3.DirOp{Dir: r.root, Name: name}, Attr: nfs3.Sattr{Mode: nfs3.U32(0o700)}}, &made)
				if a := made.Attr.Attr; err != nil || made.Status != nfs3.OK || a.UID != user || a.GID != user+1 {
					t.Errorf("MKDIR by %d: %v, %v, it belongs to %d:%d", user, err, made.Status, a.UID, a.GID)
				}
				var look nfs3.LookupRes
				if err := r.runAs(cred{uid: user + 100, gid: user}, nfs3.ProcLookup, &nfs3.DirOpArgs{What: nfs3.DirOp{Dir: made.Object.Handle, Name: "x"}}, &look); err != nil ||
					look.Status != nfs3.ErrAcces {
					t.Errorf("LOOKUP by another: %v, %v", err, look.Status)
				}
				runtime.Gosched()
			}
		})
	}
	wg.Wait()
	if after := threads(t); !slices.Equal(after, before) || len(after) != 1 {
		t.Errorf("threads have\n%s\nbefore it was\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
}

// A switch that fails is answered SERVERFAULT, and nothing is done with the server's rights, whichever step fails.
func TestSwitchFails(t *testing.T) {
	needRoot(t)
	for _, fails := range []uintptr{unix.SYS_SETGROUPS, unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		r := newRig(t, Options{Squash: SquashNone})
		r.own(".", 0o777, 0)
		r.file("f", 0o600, owner, "data")
		f := r.handle("f")
		before := threads(t)
		r.s.rights.raw = func(trap, a, b, c uintptr) unix.Errno {
			// The first change fails; what it undoes does not.
			if trap == fails && (trap == unix.SYS_SETGROUPS && a != 0 || trap != unix.SYS_SETGROUPS && b != 0) {
				return unix.ENOMEM
			}
			return rawSyscall(trap, a, b, c)
		}
		r.as(stranger, 5, 6)
		fault := nfs3.ErrServerFault
		r.want("CREATE", r.create(r.root, "g", 0o600).Status, fault)
		r.want("MKDIR", r.mkdir(r.root, "g", 0o600).Status, fault)
		r.want("REMOVE", r.remove(r.root, "f").Status, fault)
		r.want("RENAME", r.rename(r.root, "f", r.root, "g").Status, fault)
		r.want("SETATTR", r.setattr(f, nfs3.Sattr{Mode: nfs3.U32(0o777)}).Status, fault)
		r.want("READ", r.read(f, 0, 4).Status, fault)
		r.want("LOOKUP", r.lookup(r.root, "f").Status, fault)
		if got := r.mnt("/f").Status; got != mount3.ErrServerFault {
			t.Errorf("MNT: %v", got)
		}
		if after := threads(t); !slices.Equal(after, before) {
			t.Errorf("threads have %s", after)
		}
		if left, _ := os.ReadDir(r.dir); len(left) != 1 || r.s.Stuck() != 0 {
			t.Errorf("%d entries, %d threads given up", len(left), r.s.Stuck())
		}
	}
}

// A server that runs as root and cannot act for others does not start, unless nobody is squashed: then only root is served.
func TestCannotAct(t *testing.T) {
	needRoot(t)
	anon := cred{uid: nobody.UID, gid: nobody.GID}
	refuse := func(trap, a, b, c uintptr) unix.Errno { return unix.EPERM }
	if err := (&rights{raw: refuse}).init(anon, true); err == nil || !strings.Contains(err.Error(), "CAP_SETUID") {
		t.Errorf("%v", err)
	}
	r := &rights{raw: refuse}
	if err := r.init(anon, false); err != nil || !r.acts {
		t.Errorf("nobody squashed: %v, acts %v", err, r.acts)
	}
}

// A thread that does not get its rights back ends with its goroutine; it runs nothing else.
func TestThreadIsGivenUp(t *testing.T) {
	needRoot(t)
	r := newRig(t, Options{Squash: SquashNone})
	r.own(".", 0o777, 0)
	before := threads(t)
	tid := make(chan int, 1)
	r.s.rights.raw = func(trap, a, b, c uintptr) unix.Errno {
		if trap == unix.SYS_SETRESUID && b == 0 {
			select {
			case tid <- unix.Gettid():
			default:
			}
			return unix.ENOMEM
		}
		return rawSyscall(trap, a, b, c)
	}
	ended, returned := make(chan struct{}), false
	go func() {
		defer close(ended)
		c := calls.Get().(*call)
		defer c.recycle()
		c.Server, c.cred = r.s, cred{uid: stranger, gid: stranger}
		c.make(&nfs3.DirOp{Dir: r.root, Name: "new"}, &making{typ: unix.S_IFREG, create: createFile})
		c.done()
		func() { defer c.recycle() }()
		returned = true
	}()
	<-ended
	if returned {
		t.Error("the goroutine went on")
	}
	if r.s.Stuck() != 1 {
		t.Errorf("%d threads counted", r.s.Stuck())
	}
	r.s.rights.raw = rawSyscall
	task := fmt.Sprint("/proc/self/task/", <-tid)
	for try := 0; ; try++ {
		if _, err := os.Stat(task); err != nil {
			break
		}
		if try == 200 {
			t.Fatal("the thread is still there")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if after := threads(t); !slices.Equal(after, before) {
		t.Errorf("threads have %s", after)
	}
	r.as(stranger)
	r.want("CREATE afterwards", r.create(r.root, "f", 0o600).Status, nfs3.OK)
}

// A panic in the middle of an operation leaves no thread with a caller's rights.
func TestPanicRestores(t *testing.T) {
	needRoot(t)
	r := newRig(t, Options{Squash: SquashNone})
	r.own(".", 0o777, 0)
	before := threads(t)
	func() {
		c := &call{Server: r.s, cred: cred{uid: stranger, gid: stranger}}
		defer func() { recover() }()
		defer c.done()
		c.make(&nfs3.DirOp{Dir: r.root, Name: "new"}, &making{typ: unix.S_IFREG, create: func(int, string, uint32) (int, error) { panic("on purpose") }})
	}()
	if after := threads(t); !slices.Equal(after, before) {
		t.Errorf("threads have %s", after)
	}
}

// A server that does not act for others has one user.
func TestOneIdentity(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone, alone: true})
	me := uint32(os.Geteuid())
	for _, who := range []uint32{0, owner, noID} {
		r.as(who)
		if got := r.create(r.root, fmt.Sprint(who), 0o600); got.Status != nfs3.OK || got.Attr.Attr.UID != me {
			t.Errorf("CREATE by %d: %v, it belongs to %d", who, got.Status, got.Attr.Attr.UID)
		}
		if got := r.mkdir(r.root, fmt.Sprint("d", who), 0o700); got.Status != nfs3.OK || got.Attr.Attr.UID != me {
			t.Errorf("MKDIR by %d: %v, it belongs to %d", who, got.Status, got.Attr.Attr.UID)
		}
	}
	notes := fmt.Sprint(r.s.Notes())
	if !strings.Contains(notes, fmt.Sprintf("every caller acts as user %d", me)) {
		t.Errorf("notes: %s", notes)
	}
}

// Whose directory is busy keeps nobody else waiting, whatever the inode numbers.
func TestLocksAreNotShared(t *testing.T) {
	var l locks
	unlock := l.lock(&node{ino: 7}, &node{ino: 7})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ino := uint64(8); ino < 8+1<<12; ino++ {
			l.lock(&node{ino: ino}, &node{ino: ino + 1})()
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a lock of another object is waited for")
	}
	var wg sync.WaitGroup
	held := 0
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				u := l.lock(&node{ino: uint64(7 + i%2)}, &node{ino: uint64(8 - i%2)})
				held++
				u()
			}
		})
	}
	time.Sleep(10 * time.Millisecond)
	if held != 0 {
		t.Error("a lock that is held was taken")
	}
	unlock()
	wg.Wait()
	if held != 1600 || len(l.byIno) != 0 {
		t.Errorf("%d times held, %d locks left", held, len(l.byIno))
	}
}
