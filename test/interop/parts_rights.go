package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// asker sends single calls as any user and prints what a server answers, so that two servers' answers can be compared.
type asker struct {
	ctx  context.Context
	c    *rpc.Client
	who  string
	auth rpcmsg.Auth
	root nfs3.Handle
	top  nfs3.Handle // the directory of the objects
}

// rightsUsers are callers; the objects belong to 1000.
var rightsUsers = []struct {
	name     string
	uid, gid uint32
	groups   []uint32
}{
	{"owner", 1000, 1000, nil},
	{"member", 1001, 1001, []uint32{7, 1000}},
	{"stranger", 1002, 1002, []uint32{8}},
	{"named", 1003, 1003, nil},
	{"split", 1004, 1004, []uint32{50, 51}},
	{"root", 0, 0, nil},
	{"wheel", 1005, 0, []uint32{0}},
	{"minus one", 1<<32 - 1, 1<<32 - 1, []uint32{1<<32 - 1}},
}

func newAsker(ctx context.Context, args []string) (*asker, error) {
	c, fs, err := mountRoot(ctx, args[0], args[1], rpc.WithVersions(1, 1)) // which tshark knows
	if err != nil {
		return nil, err
	}
	a := &asker{ctx: ctx, c: c, root: fs.Root()}
	a.as("root", 0, 0, nil)
	if a.top, err = a.find(a.root, args[2]); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", args[2], err)
	}
	return a, nil
}

func (a *asker) as(name string, uid, gid uint32, groups []uint32) {
	a.who = name
	a.auth, _ = (&rpcmsg.Sys{Machine: "interop", UID: uid, GID: gid, GIDs: groups}).Auth()
}

func (a *asker) call(proc int, args xdr.Marshaler, res xdr.Unmarshaler, opts ...rpc.CallOption) error {
	return a.c.Call(a.ctx, nfs.NFS3[proc], args, res, append(opts, rpc.WithCred(&a.auth))...)
}

// say prints one answer. An attribute that is left out says nothing about rights.
func (a *asker) say(what string, status nfs3.Status, err error, more ...any) {
	if err != nil {
		fmt.Printf("%s: %s: %v\n", a.who, what, err)
		return
	}
	fmt.Println(strings.TrimSpace(fmt.Sprint(a.who, ": ", what, ": ", status, " ") + fmt.Sprint(more...)))
}

func (a *asker) find(dir nfs3.Handle, path string) (nfs3.Handle, error) {
	for _, name := range strings.Split(path, "/") {
		var r nfs3.LookupRes
		if err := a.call(nfs3.ProcLookup, &nfs3.DirOpArgs{What: nfs3.DirOp{Dir: dir, Name: name}}, &r); err != nil {
			return dir, err
		}
		if r.Status != nfs3.OK {
			return dir, r.Status
		}
		dir = r.Object
	}
	return dir, nil
}

func (a *asker) attr(h nfs3.Handle) string {
	var r nfs3.GetAttrRes
	if err := a.call(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: h}, &r); err != nil || r.Status != nfs3.OK {
		return fmt.Sprint(r.Status, err)
	}
	return fmt.Sprintf("%d:%d %04o", r.Attr.UID, r.Attr.GID, r.Attr.Mode)
}

func (a *asker) access(what string, h nfs3.Handle) {
	var r nfs3.AccessRes
	err := a.call(nfs3.ProcAccess, &nfs3.AccessArgs{Object: h, Access: 0x3f}, &r)
	a.say("ACCESS "+what, r.Status, err, fmt.Sprintf("%#x", r.Access))
}

func (a *asker) read(what string, h nfs3.Handle) {
	r := nfs3.ReadRes{Dst: make([]byte, 16)}
	err := a.call(nfs3.ProcRead, &nfs3.ReadArgs{File: h, Count: 16}, &r, rpc.Into(r.Dst))
	a.say("READ "+what, r.Status, err)
}

func (a *asker) write(what string, h nfs3.Handle, off uint64, n int) (int, nfs3.Status) {
	var r nfs3.WriteRes
	err := a.call(nfs3.ProcWrite, &nfs3.WriteArgs{File: h, Offset: off, Count: uint32(n), Stable: nfs3.FileSync, Data: make([]byte, n)}, &r)
	if what != "" {
		a.say("WRITE "+what, r.Status, err)
	}
	if err != nil {
		fmt.Println("WRITE:", err)
		return 0, nfs3.ErrIO
	}
	return int(r.Count), r.Status
}

func (a *asker) set(what string, h nfs3.Handle, s nfs3.Sattr) {
	var r nfs3.WccRes
	err := a.call(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Object: h, Attr: s}, &r)
	a.say("SETATTR "+what, r.Status, err)
}

func (a *asker) created(what string, dir nfs3.Handle, name string, proc int, args xdr.Marshaler) {
	var r nfs3.CreateRes
	err := a.call(proc, args, &r)
	got := ""
	if err == nil && r.Status == nfs3.OK {
		if h, err := a.find(dir, name); err == nil {
			got = a.attr(h)
		}
	}
	a.say(what, r.Status, err, got)
}

func (a *asker) removes(what string, proc int, dir nfs3.Handle, name string) {
	var r nfs3.WccRes
	err := a.call(proc, &nfs3.DirOpArgs{What: nfs3.DirOp{Dir: dir, Name: name}}, &r)
	if what != "" {
		a.say(what, r.Status, err)
	}
}

func (a *asker) rename(what string, from nfs3.Handle, name string, to nfs3.Handle, new string) {
	var r nfs3.RenameRes
	err := a.call(nfs3.ProcRename, &nfs3.RenameArgs{From: nfs3.DirOp{Dir: from, Name: name}, To: nfs3.DirOp{Dir: to, Name: new}}, &r)
	a.say("RENAME "+what, r.Status, err)
}

// rightsPart asks URL MOUNT DIR: what may whom with the files that the case has made in DIR.
func rightsPart(ctx context.Context, args []string) error {
	a, err := newAsker(ctx, args)
	if err != nil {
		return err
	}
	defer a.c.Close()
	files := []string{"plain", "group", "none", "exec", "acl", "aclgroup", "suid", "sgid", "sgidx", "immutable"}
	dirs := []string{"open", "closed", "listed", "passed", "sticky", "shared", "acldir", "aclsplit", "acldefault"}
	h := map[string]nfs3.Handle{}
	for _, n := range slices.Concat(files, dirs) {
		if h[n], err = a.find(a.top, n); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	for i, u := range rightsUsers {
		// Of another's file with the same verifier knfsd takes it that the caller has made it; ours does not.
		verf := nfs3.Verf{1, 2, 3, 4, 5, 6, 7, byte(i)}
		user := func() { a.as(u.name, u.uid, u.gid, u.groups) }
		user()
		for _, n := range files {
			a.access(n, h[n])
			a.read(n, h[n])
			a.write(n, h[n], 0, 5)
			fmt.Println("  then", n, "is", a.attr(h[n]))
			a.set(n+" touch", h[n], nfs3.Sattr{Atime: nfs3.SetTime{How: nfs3.ServerTime}, Mtime: nfs3.SetTime{How: nfs3.ServerTime}})
			a.set(n+" touch one", h[n], nfs3.Sattr{Mtime: nfs3.SetTime{How: nfs3.ServerTime}})
			a.set(n+" times", h[n], nfs3.Sattr{Mtime: nfs3.SetTo(nfs3.Time{Sec: 1e9})})
			a.set(n+" size", h[n], nfs3.Sattr{Size: nfs3.U64(7)})
			fmt.Println("  then", n, "is", a.attr(h[n]))
		}
		for _, n := range dirs {
			a.access(n, h[n])
			var l nfs3.LookupRes
			err := a.call(nfs3.ProcLookup, &nfs3.DirOpArgs{What: nfs3.DirOp{Dir: h[n], Name: "in"}}, &l)
			a.say("LOOKUP in "+n, l.Status, err)
			d := nfs3.DirRes{Plus: true}
			err = a.call(nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: h[n], DirCount: 4096, MaxCount: 16384}, &d)
			told := 0
			for _, e := range d.Entries {
				if e.Name == "in" && e.Object.Set {
					told++
				}
			}
			a.say("READDIRPLUS of "+n, d.Status, err, len(d.Entries) > 0, " ", told)
			at := func(name string) nfs3.DirOp { return nfs3.DirOp{Dir: h[n], Name: name} }
			mode := nfs3.Sattr{Mode: nfs3.U32(0o666)}
			a.created("CREATE in "+n, h[n], "f", nfs3.ProcCreate, &nfs3.CreateArgs{Where: at("f"), Mode: nfs3.Guarded, Attr: mode})
			a.created("CREATE set-id in "+n, h[n], "s", nfs3.ProcCreate, &nfs3.CreateArgs{Where: at("s"), Mode: nfs3.Guarded, Attr: nfs3.Sattr{Mode: nfs3.U32(0o6777)}})
			a.created("CREATE EXCLUSIVE in "+n, h[n], "x", nfs3.ProcCreate, &nfs3.CreateArgs{Where: at("x"), Mode: nfs3.Exclusive, Verf: verf})
			a.created("CREATE for another in "+n, h[n], "g", nfs3.ProcCreate, &nfs3.CreateArgs{Where: at("g"), Mode: nfs3.Guarded,
				Attr: nfs3.Sattr{Mode: nfs3.U32(0o644), UID: nfs3.U32(1000), GID: nfs3.U32(1000)}})
			a.created("MKDIR in "+n, h[n], "d", nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at("d"), Attr: nfs3.Sattr{Mode: nfs3.U32(0o777)}})
			a.created("SYMLINK in "+n, h[n], "l", nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at("l"), Attr: nfs3.Sattr{Mode: nfs3.U32(0o777)}, Target: []byte("x")})
			a.created("MKNOD fifo in "+n, h[n], "p", nfs3.ProcMknod, &nfs3.MknodArgs{Where: at("p"), Type: nfs3.TypeFifo, Attr: mode})
			a.created("MKNOD device in "+n, h[n], "c", nfs3.ProcMknod, &nfs3.MknodArgs{Where: at("c"), Type: nfs3.TypeChr, Attr: mode, Spec: nfs3.SpecData{Major: 1, Minor: 3}})
			var link nfs3.LinkRes
			err = a.call(nfs3.ProcLink, &nfs3.LinkArgs{File: h["plain"], Link: at("h")}, &link)
			a.say("LINK to another's in "+n, link.Status, err)
			a.rename("of another's in "+n, h[n], "in", h[n], "in2")
			a.rename("back in "+n, h[n], "in2", h[n], "in")
			a.rename("of a directory from "+n, h[n], "sub", h["open"], "sub-"+n)
			a.rename("of a directory back to "+n, h["open"], "sub-"+n, h[n], "sub")
			a.removes("REMOVE in "+n, nfs3.ProcRemove, h[n], "victim")
			a.removes("RMDIR in "+n, nfs3.ProcRmdir, h[n], "empty")
			// For the next user all is as it was.
			a.as("root", 0, 0, nil)
			for _, name := range []string{"f", "s", "x", "g", "l", "p", "c", "h"} {
				a.removes("", nfs3.ProcRemove, h[n], name)
			}
			a.removes("", nfs3.ProcRmdir, h[n], "d")
			user()
		}
		f := h["group"]
		a.set("chmod", f, nfs3.Sattr{Mode: nfs3.U32(0o640)})
		a.set("chmod g+s", h["sgid"], nfs3.Sattr{Mode: nfs3.U32(0o2767)})
		fmt.Println("  then it is", a.attr(h["sgid"]))
		for _, c := range []struct {
			what string
			s    nfs3.Sattr
		}{
			{"chown to the same", nfs3.Sattr{UID: nfs3.U32(1000)}},
			{"chgrp to the same", nfs3.Sattr{GID: nfs3.U32(1000)}},
			{"chown to oneself", nfs3.Sattr{UID: nfs3.U32(u.uid)}},
			{"chgrp to one's own", nfs3.Sattr{GID: nfs3.U32(u.gid)}},
			{"chgrp to another's", nfs3.Sattr{GID: nfs3.U32(4711)}},
			{"chown to -1", nfs3.Sattr{UID: nfs3.U32(1<<32 - 1), GID: nfs3.U32(1<<32 - 1)}},
			{"chown and chmod", nfs3.Sattr{UID: nfs3.U32(1000), Mode: nfs3.U32(0o6755)}},
		} {
			a.set(c.what, h["suid"], c.s)
			fmt.Println("  then it is", a.attr(h["suid"]))
			a.as("root", 0, 0, nil)
			a.set("as it was", h["suid"], nfs3.Sattr{UID: nfs3.U32(1000), GID: nfs3.U32(1000)})
			a.set("as it was", h["suid"], nfs3.Sattr{Mode: nfs3.U32(0o6777)})
			a.set("as it was", h["sgid"], nfs3.Sattr{Mode: nfs3.U32(0o2767)})
			a.set("as it was", h["sgidx"], nfs3.Sattr{Mode: nfs3.U32(0o2777)})
			user()
		}
	}
	return nil
}

// fillPart writes to URL MOUNT DIR as UID until it is refused, and prints how that ended and how much fitted, in MiB.
func fillPart(ctx context.Context, args []string) error {
	a, err := newAsker(ctx, args)
	if err != nil {
		return err
	}
	defer a.c.Close()
	uid, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	a.as("filler", uint32(uid), uint32(uid), nil)
	var r nfs3.CreateRes
	err = a.call(nfs3.ProcCreate, &nfs3.CreateArgs{Where: nfs3.DirOp{Dir: a.top, Name: "filled"}, Attr: nfs3.Sattr{Mode: nfs3.U32(0o644)}}, &r)
	if err != nil || r.Status != nfs3.OK {
		return errors.Join(err, r.Status)
	}
	n, status := 0, nfs3.OK
	for status == nfs3.OK && n < 64<<20 {
		var k int
		k, status = a.write("", r.Object.Handle, uint64(n), 32<<10)
		n += k
	}
	for status2 := nfs3.OK; status2 == nfs3.OK && n < 64<<20; { // what is left beside whole pieces
		var k int
		k, status2 = a.write("", r.Object.Handle, uint64(n), 4096)
		n += k
	}
	fmt.Printf("%v after %.1f MiB\n", status, float64(n)/(1<<20))
	a.created("MKDIR", a.top, "dir", nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: nfs3.DirOp{Dir: a.top, Name: "dir"}, Attr: nfs3.Sattr{Mode: nfs3.U32(0o755)}})
	a.removes("REMOVE", nfs3.ProcRemove, a.top, "filled")
	a.removes("", nfs3.ProcRmdir, a.top, "dir")
	return nil
}
