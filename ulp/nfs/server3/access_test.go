package server3

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// Users of the tests: the owner's files belong to user and group 1000.
const (
	owner    = 1000
	member   = 1001 // of group 1000
	stranger = 1002
)

// The matrix of all modes and users against the rule as POSIX has it: exactly one
// class applies. And the kernel's answers are the same by way of the object in memory and for the object itself.
func TestModeBits(t *testing.T) {
	needRoot(t)
	r := newRig(t, Options{Squash: SquashNone})
	r.file("f", 0, owner, "")
	r.subdir("d", 0, owner)
	for _, name := range []string{"f", "d"} {
		r.as(0)
		h := r.handle(name)
		for mode := uint32(0); mode <= 0o777; mode++ {
			if err := unix.Chmod(filepath.Join(r.dir, name), mode); err != nil {
				t.Fatal(err)
			}
			for who, shift := range map[uint32]uint{owner: 6, member: 3, stranger: 0} {
				groups := []uint32{7}
				if who == member {
					groups = append(groups, owner)
				}
				c := &call{Server: r.s, cred: cred{uid: who, gid: who, groups: groups}}
				n, st, status := c.object(&h)
				if status != nfs3.OK {
					t.Fatal(status)
				}
				for want := uint32(1); want <= 7; want++ {
					rule := nfs3.ErrAcces
					if (mode>>shift)&want == want {
						rule = nfs3.OK
					}
					if got := c.may(n, &st, want); got != rule {
						t.Fatalf("%s: user %d, mode %#o, want %o: %v", name, who, mode, want, got)
					}
					if got := c.ask(n.path, want); got != rule {
						t.Fatalf("%s: user %d, mode %#o, want %o: the kernel says %v", name, who, mode, want, got)
					}
				}
				c.done()
			}
		}
	}
	if n := len(r.s.exp.judge.known); n == 0 {
		t.Error("nothing was judged by the object in memory")
	}
}

func TestAccess(t *testing.T) {
	needRoot(t)
	const all = 0x3f
	r, l, m, e, d, x := uint32(nfs3.AccessRead), uint32(nfs3.AccessLookup), uint32(nfs3.AccessModify),
		uint32(nfs3.AccessExtend), uint32(nfs3.AccessDelete), uint32(nfs3.AccessExecute)
	g := newRig(t, Options{Squash: SquashNone})
	ro := rigAt(t, g.dir, Options{Squash: SquashNone, ReadOnly: true})
	ro.shared = true
	g.file("f", 0, owner, "")
	g.subdir("d", 0, owner)
	h := map[uint32]nfs3.Handle{unix.S_IFREG: g.handle("f"), unix.S_IFDIR: g.handle("d")}
	names := map[uint32]string{unix.S_IFREG: "f", unix.S_IFDIR: "d"}
	for _, c := range []struct {
		who  uint32
		mode uint32
		ro   bool
		want uint32
	}{
		{owner, unix.S_IFREG | 0o600, false, r | m | e},
		{owner, unix.S_IFREG | 0o600, true, r},
		{owner, unix.S_IFREG | 0o177, false, x},
		{member, unix.S_IFREG | 0o640, false, r},
		{member, unix.S_IFREG | 0o607, false, 0},
		{stranger, unix.S_IFREG | 0o755, false, r | x},
		{0, unix.S_IFREG, false, r | m | e},
		{0, unix.S_IFREG | 0o100, false, r | m | e | x},
		{owner, unix.S_IFDIR | 0o700, false, r | l | m | e | d},
		{owner, unix.S_IFDIR | 0o700, true, r | l},
		{owner, unix.S_IFDIR | 0o600, false, r},
		{owner, unix.S_IFDIR | 0o300, false, l | m | e | d},
		{stranger, unix.S_IFDIR | 0o711, false, l},
		{0, unix.S_IFDIR, false, r | l | m | e | d},
	} {
		typ := c.mode & unix.S_IFMT
		if err := unix.Chmod(filepath.Join(g.dir, names[typ]), c.mode&0o777); err != nil {
			t.Fatal(err)
		}
		via := g
		if c.ro {
			via = ro
		}
		via.as(c.who)
		if c.who == member {
			via.as(member, 7, owner)
		}
		if got := via.access(h[typ], all); got != c.want {
			t.Errorf("user %d, mode %#o, read-only %v: %#x, want %#x", c.who, c.mode, c.ro, got, c.want)
		}
		if got := via.access(h[typ], r); got != c.want&r {
			t.Errorf("user %d, mode %#o: bits that were not asked for", c.who, c.mode)
		}
	}
}

func (r *rig) access(h nfs3.Handle, want uint32) uint32 {
	r.Helper()
	var res nfs3.AccessRes
	r.do(nfs3.ProcAccess, &nfs3.AccessArgs{Object: h, Access: want}, &res)
	if res.Status != nfs3.OK {
		r.Errorf("ACCESS: %v", res.Status)
	}
	return res.Access
}

func TestSquash(t *testing.T) {
	anon := IDs{77, 78}
	sys := func(uid, gid uint32, groups ...uint32) rpcmsg.Auth {
		a, err := (&rpcmsg.Sys{UID: uid, GID: gid, GIDs: groups}).Auth()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, c := range []struct {
		squash Squash
		auth   rpcmsg.Auth
		want   string
	}{
		{SquashRoot, sys(0, 0, 0, 5), "77 78 [5]"},
		{SquashRoot, sys(5, 0, 0), "5 78 []"},
		{SquashRoot, sys(5, 6, 0), "5 6 [78]"},
		{SquashRoot, sys(5, 6, 7, 6), "5 6 [7]"},
		{SquashRoot, rpcmsg.Auth{}, "77 78 []"},
		{SquashNone, sys(0, 0, 0), "0 0 []"},
		// The id -1 means "unchanged" to system calls: it would leave the server's own.
		{SquashRoot, sys(noID, 6), "77 6 []"},
		{SquashRoot, sys(5, noID, noID, 7), "5 78 [7]"},
		{SquashNone, sys(noID, noID, noID, 7), "77 78 [7]"},
		{SquashNone, rpcmsg.Auth{}, "77 78 []"},
		{SquashAll, sys(0, 0, 0), "77 78 []"},
		{SquashAll, sys(5, 6, 7), "77 78 []"},
	} {
		s := &Server{squash: c.squash, anon: anon, rights: rights{acts: true}}
		var buf rpcmsg.Sys
		got, err := s.identify(c.auth, &buf)
		if s := fmt.Sprint(got.uid, got.gid, got.groups); err != nil || s != c.want {
			t.Errorf("squash %d of %v: %s, %v; want %s", c.squash, c.auth, s, err, c.want)
		}
	}
	s := &Server{}
	var buf rpcmsg.Sys
	var auth *rpcmsg.AuthError
	if _, err := s.identify(rpcmsg.Auth{Flavor: rpcmsg.AuthSys, Body: []byte{1, 2}}, &buf); !errors.As(err, &auth) || auth.Stat != rpcmsg.AuthBadCred {
		t.Errorf("a broken AUTH_SYS: %v", err)
	}
	if _, err := s.identify(rpcmsg.Auth{Flavor: rpcmsg.AuthRPCGSS}, &buf); !errors.As(err, &auth) || auth.Stat != rpcmsg.AuthTooWeak {
		t.Errorf("a flavor that is not ours: %v", err)
	}
}

// What each user may do to the same files, through the procedures.
func TestPermissions(t *testing.T) {
	needRoot(t)
	r := newRig(t, Options{Squash: SquashNone})
	r.own(".", 0o777, 0)
	r.subdir("private", 0o700, owner)
	r.subdir("listed", 0o744, owner)  // others read names, and no more
	r.subdir("passed", 0o711, owner)  // others pass, and do not list
	r.subdir("sticky", 0o1777, owner) // others remove only their own
	r.subdir("shared", 0o2777, owner) // what is made gets its group
	for _, d := range []string{"private", "listed", "passed", "sticky"} {
		r.file(d+"/f", 0o644, owner, "data")
	}
	r.file("passed/x", 0o711, owner, "program")
	r.file("passed/w", 0o622, owner, "data")
	r.file("none", 0o000, owner, "data")
	r.file("group", 0o640, owner, "data")

	h := map[string]nfs3.Handle{}
	for _, d := range []string{"private", "listed", "passed", "sticky", "shared", "none", "group"} {
		h[d] = r.handle(d)
	}
	for _, f := range []string{"f", "x", "w"} {
		h["passed/"+f] = r.handle("passed", f)
	}
	h["listed/f"] = r.handle("listed", "f")
	h["sticky/f"] = r.handle("sticky", "f")

	ok, acces, perm := nfs3.OK, nfs3.ErrAcces, nfs3.ErrPerm
	set := func(n string, a nfs3.Sattr) func() nfs3.Status {
		return func() nfs3.Status { return r.setattr(h[n], a).Status }
	}
	readOf := func(n string) func() nfs3.Status { return func() nfs3.Status { return r.read(h[n], 0, 10).Status } }
	writeOf := func(n string) func() nfs3.Status {
		return func() nfs3.Status { return r.write(h[n], 0, []byte("D"), nfs3.Unstable).Status }
	}
	look := func(d, n string) func() nfs3.Status { return func() nfs3.Status { return r.lookup(h[d], n).Status } }
	list := func(d string) func() nfs3.Status {
		return func() nfs3.Status { return r.list(h[d], true, 4096).status }
	}
	for _, c := range []struct {
		what                    string
		do                      func() nfs3.Status
		owner, member, stranger nfs3.Status
	}{
		{"LOOKUP in private", look("private", "f"), ok, acces, acces},
		{"LOOKUP in listed", look("listed", "f"), ok, acces, acces},
		{"LOOKUP in passed", look("passed", "f"), ok, ok, ok},
		{"READDIR of private", list("private"), ok, acces, acces},
		{"READDIR of listed", list("listed"), ok, ok, ok},
		{"READDIR of passed", list("passed"), ok, acces, acces},
		{"READ 0644", readOf("passed/f"), ok, ok, ok},
		{"READ 0711: a program's pages", readOf("passed/x"), ok, ok, ok},
		{"READ 0622", readOf("passed/w"), ok, acces, acces},
		{"READ 0000: the owner's privilege", readOf("none"), ok, acces, acces},
		{"READ 0640", readOf("group"), ok, ok, acces},
		{"WRITE 0644", writeOf("passed/f"), ok, acces, acces},
		{"WRITE 0622", writeOf("passed/w"), ok, ok, ok},
		{"WRITE 0000", writeOf("none"), ok, acces, acces},
		{"WRITE 0640", writeOf("group"), ok, acces, acces},
		{"chmod", set("group", nfs3.Sattr{Mode: nfs3.U32(0o640)}), ok, perm, perm},
		{"chown to oneself", set("group", nfs3.Sattr{UID: nfs3.U32(owner)}), ok, perm, perm},
		{"chown away", set("group", nfs3.Sattr{UID: nfs3.U32(5)}), perm, perm, perm},
		{"chgrp to one's own", set("group", nfs3.Sattr{GID: nfs3.U32(owner)}), ok, perm, perm},
		{"chgrp to another's", set("group", nfs3.Sattr{GID: nfs3.U32(5)}), perm, perm, perm},
		{"truncate 0640", set("group", nfs3.Sattr{Size: nfs3.U64(4)}), ok, acces, acces},
		{"truncate 0622", set("passed/w", nfs3.Sattr{Size: nfs3.U64(4)}), ok, ok, ok},
		{"touch 0622", set("passed/w", nfs3.Sattr{Mtime: nfs3.SetTime{How: nfs3.ServerTime}}), ok, ok, ok},
		{"touch 0644", set("passed/f", nfs3.Sattr{Mtime: nfs3.SetTime{How: nfs3.ServerTime}}), ok, acces, acces},
		{"utimes 0622", set("passed/w", nfs3.Sattr{Mtime: nfs3.SetTo(nfs3.Time{Sec: 1})}), ok, perm, perm},
		{"CREATE in passed", func() nfs3.Status {
			st := r.create(h["passed"], "new", 0o600).Status
			unix.Unlink(r.dir + "/passed/new")
			return st
		}, ok, acces, acces},
		{"REMOVE in passed", func() nfs3.Status {
			r.file("passed/new", 0o666, owner, "")
			st := r.remove(h["passed"], "new").Status
			unix.Unlink(r.dir + "/passed/new")
			return st
		}, ok, acces, acces},
		{"LINK to another's file", func() nfs3.Status {
			var res nfs3.LinkRes
			r.do(nfs3.ProcLink, &nfs3.LinkArgs{File: h["passed/f"], Link: nfs3.DirOp{Dir: r.root, Name: "link"}}, &res)
			r.remove(r.root, "link")
			return res.Status
		}, ok, perm, perm},
		{"MKNOD of a device", func() nfs3.Status {
			var res nfs3.CreateRes
			r.do(nfs3.ProcMknod, &nfs3.MknodArgs{Where: nfs3.DirOp{Dir: r.root, Name: "dev"}, Type: nfs3.TypeChr,
				Spec: nfs3.SpecData{Major: 1, Minor: 3}}, &res)
			return res.Status
		}, perm, perm, perm},
		{"RENAME in sticky", func() nfs3.Status {
			st := r.rename(h["sticky"], "f", h["sticky"], "g").Status
			r.rename(h["sticky"], "g", h["sticky"], "f")
			return st
		}, ok, perm, perm},
	} {
		for who, want := range map[uint32]nfs3.Status{owner: c.owner, member: c.member, stranger: c.stranger, 0: ok} {
			if who == 0 && want != c.owner {
				continue // may, and would change what follows
			}
			r.as(who)
			if who == member {
				r.as(member, owner)
			}
			r.want(fmt.Sprintf("user %d: %s", who, c.what), c.do(), want)
		}
	}

	// Without the right to search, READDIRPLUS gives names alone: handles would be a way in.
	r.as(stranger)
	for _, e := range r.list(h["listed"], true, 4096).entries {
		if !isDots(e.Name) && (e.Attr.Set || e.Object.Set) {
			t.Errorf("READDIRPLUS gives the handle of %s", e.Name)
		}
	}
	r.want("REMOVE of another's file in sticky", r.remove(h["sticky"], "f").Status, perm)
	r.want("CREATE in sticky", r.create(h["sticky"], "mine", 0o600).Status, ok)
	r.want("RENAME over another's file in sticky", r.rename(h["sticky"], "mine", h["sticky"], "f").Status, perm)
	r.want("REMOVE of one's own in sticky", r.remove(h["sticky"], "mine").Status, ok)

	got := r.create(h["shared"], "f", 0o6755)
	if a := got.Attr.Attr; got.Status != ok || a.UID != stranger || a.GID != owner || a.Mode != 0o4755 {
		t.Errorf("CREATE in a set-group-id directory: %v, %d:%d %#o", got.Status, a.UID, a.GID, a.Mode)
	}
	dir := r.mkdir(h["shared"], "d", 0o755)
	if a := dir.Attr.Attr; dir.Status != ok || a.GID != owner || a.Mode != 0o2755 {
		t.Errorf("MKDIR in a set-group-id directory: %v, group %d, %#o", dir.Status, a.GID, a.Mode)
	}
	// A directory that changes its parent must be writable itself: ".." changes.
	r.as(0)
	r.subdir("shared/moving", 0o555, owner)
	r.as(owner)
	r.want("RENAME of a directory without write permission", r.rename(h["shared"], "moving", h["private"], "moving").Status, acces)
	r.want("RENAME of it in place", r.rename(h["shared"], "moving", h["shared"], "moved").Status, ok)

	// Data changed by another than root takes the set-id bits away, whoever the server is.
	r.file("suid", 0o6777, owner, "data")
	f := r.lookup(r.root, "suid").Object
	r.as(stranger)
	r.want("WRITE to a set-id file", r.write(f, 0, []byte("x"), nfs3.Unstable).Status, ok)
	if m := r.getattr(f).Attr.Mode; m != 0o777 {
		t.Errorf("mode after WRITE: %#o", m)
	}
	r.as(owner)
	r.want("chmod +s", r.setattr(f, nfs3.Sattr{Mode: nfs3.U32(0o6777)}).Status, ok)
	r.want("truncate", r.setattr(f, nfs3.Sattr{Size: nfs3.U64(0)}).Status, ok)
	if m := r.getattr(f).Attr.Mode; m != 0o777 {
		t.Errorf("mode after truncation: %#o", m)
	}
	r.as(0)
	r.want("chown", r.setattr(f, nfs3.Sattr{UID: nfs3.U32(5), GID: nfs3.U32(6), Mode: nfs3.U32(0o4711)}).Status, ok)
	// As Linux's server does: who gives a file away does not give his rights with it.
	if a := r.getattr(f).Attr; a.UID != 5 || a.GID != 6 || a.Mode != 0o711 {
		t.Errorf("owner and mode together: %d:%d %#o", a.UID, a.GID, a.Mode)
	}
}

func TestReadOnly(t *testing.T) {
	r := newRig(t, Options{Squash: SquashNone, ReadOnly: true})
	r.file("f", 0o666, 0, "data")
	r.subdir("d", 0o777, 0)
	f := r.handle("f")
	rofs := nfs3.ErrROFS
	at := func(name string) nfs3.DirOp { return nfs3.DirOp{Dir: r.root, Name: name} }
	var made nfs3.CreateRes
	r.want("CREATE", r.create(r.root, "g", 0o644).Status, rofs)
	r.want("CREATE of what exists", r.create(r.root, "f", 0o644).Status, nfs3.ErrExist)
	r.do(nfs3.ProcCreate, &nfs3.CreateArgs{Where: at("f"), Attr: nfs3.Sattr{Size: nfs3.U64(0)}}, &made)
	r.want("CREATE that truncates", made.Status, rofs)
	r.want("MKDIR", r.mkdir(r.root, "g", 0o644).Status, rofs)
	r.do(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at("g"), Target: []byte("x")}, &made)
	r.want("SYMLINK", made.Status, rofs)
	r.do(nfs3.ProcMknod, &nfs3.MknodArgs{Where: at("g"), Type: nfs3.TypeFifo}, &made)
	r.want("MKNOD", made.Status, rofs)
	r.want("WRITE", r.write(f, 0, []byte("x"), nfs3.Unstable).Status, rofs)
	r.want("SETATTR", r.setattr(f, nfs3.Sattr{Mode: nfs3.U32(0)}).Status, rofs)
	r.want("REMOVE", r.remove(r.root, "f").Status, rofs)
	var wcc nfs3.WccRes
	r.do(nfs3.ProcRmdir, &nfs3.DirOpArgs{What: at("d")}, &wcc)
	r.want("RMDIR", wcc.Status, rofs)
	r.want("RENAME", r.rename(r.root, "f", r.root, "g").Status, rofs)
	var link nfs3.LinkRes
	r.do(nfs3.ProcLink, &nfs3.LinkArgs{File: f, Link: at("g")}, &link)
	r.want("LINK", link.Status, rofs)
	r.want("READ", r.read(f, 0, 10).Status, nfs3.OK)
	var commit nfs3.CommitRes
	r.do(nfs3.ProcCommit, &nfs3.CommitArgs{File: f}, &commit)
	r.want("COMMIT", commit.Status, nfs3.OK)
}

func TestAllow(t *testing.T) {
	r := newRig(t, Options{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}})
	for addr, want := range map[string]bool{
		"192.0.2.1:1": true, "192.0.3.1:1": false, "[::ffff:192.0.2.9]:1": true, "[2001:db8::7]:1": true, "[2001:db9::7]:1": false,
	} {
		peer := netip.MustParseAddrPort(addr)
		if got := r.s.allowed(peer); got != want {
			t.Errorf("%s: %v", addr, got)
		}
		r.peer = peer
		st := mount3.ErrAcces
		if want {
			st = mount3.OK
		}
		if got := r.mnt("/").Status; got != st {
			t.Errorf("MNT from %s: %v", addr, got)
		}
	}
	var l mount3.Exports
	if err := r.try(mountProcs[mount3.ProcExport], nil, &l); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(l); got != "[{/ [192.0.2.0/24 2001:db8::/32]}]" {
		t.Errorf("EXPORT: %s", got)
	}
}

func TestMountList(t *testing.T) {
	r := newRig(t, Options{})
	r.subdir("d", 0o755, 0)
	for i := range 2 * maxMounts {
		r.peer = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1)
		r.mount("/d/")
		r.mount("/d")
	}
	dump := func() mount3.Mounts {
		var l mount3.Mounts
		if err := r.try(mountProcs[mount3.ProcDump], nil, &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if n := len(dump()); n != maxMounts {
		t.Errorf("%d entries", n)
	}
	r.mount("/")
	if err := r.try(mountProcs[mount3.ProcUmnt], encode(&mount3.Path{Dir: "/d"}), nil); err != nil {
		t.Fatal(err)
	}
	l := dump()
	if last := l[len(l)-1]; last.Dir != "/" || last.Host != r.peer.Addr().String() {
		t.Errorf("last entry %v", last)
	}
	if err := r.try(mountProcs[mount3.ProcUmntAll], nil, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(dump()); n != len(l)-1 {
		t.Errorf("%d entries after UMNTALL, %d before", n, len(l))
	}
}
