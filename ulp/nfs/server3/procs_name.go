package server3

import (
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// victim is what a name stands for before it is taken away; within enter.
func (c *call) victim(d *node, name string) (st stat, err error) {
	fd, err := c.exp.openChild(d.path, name)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	return st, unix.Fstat(fd, &st)
}

func (c *call) remove() error { return c.unlink(false) }
func (c *call) rmdir() error  { return c.unlink(true) }

func (c *call) unlink(dir bool) error {
	var a nfs3.DirOpArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.WccRes
	r.Status = c.doUnlink(&a.What, dir, &r.Wcc)
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) doUnlink(what *nfs3.DirOp, dir bool, wcc *nfs3.WccData) nfs3.Status {
	d, _, status := c.dir(&what.Dir)
	if d == nil {
		return status
	}
	defer c.lock(d, d)()
	var dst stat
	if err := unix.Fstat(d.path, &dst); err != nil {
		return statusOf(err)
	}
	wcc.Before = preOp(&dst)
	defer func() { wcc.After = c.after(d) }()
	if status != nfs3.OK {
		return status
	}
	if status := checkName(what.Name); status != nfs3.OK {
		return status
	}
	switch { // RFC 1813 §3.3.13
	case what.Name == ".":
		return nfs3.ErrInval
	case what.Name == "..":
		return nfs3.ErrExist
	case c.opt.ReadOnly:
		return nfs3.ErrROFS
	}
	// First of all, as Linux's server does: whether there is such a name is not for everybody to know.
	if status := c.may(d, &dst, mayWrite|mayExec); status != nfs3.OK {
		return status
	}
	if status := c.enter(); status != nfs3.OK {
		return status
	}
	st, err := c.victim(d, what.Name)
	if err == nil {
		flags := 0
		if dir {
			flags = unix.AT_REMOVEDIR
		}
		err = unix.Unlinkat(d.path, what.Name, flags)
	}
	c.leave()
	if err != nil {
		return statusOf(err)
	}
	c.nodes.drop(st.Ino)
	return c.synced(d)
}

func (c *call) rename() error {
	var a nfs3.RenameArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.RenameRes
	r.Status = c.doRename(&a, &r)
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) doRename(a *nfs3.RenameArgs, r *nfs3.RenameRes) nfs3.Status {
	from, _, status := c.dir(&a.From.Dir)
	to, _, status2 := c.dir(&a.To.Dir)
	if from == nil {
		return status
	}
	if to == nil {
		r.From.After = c.after(from)
		return status2
	}
	defer c.lock(from, to)()
	var fst, tst stat
	if err := unix.Fstat(from.path, &fst); err != nil {
		return statusOf(err)
	}
	if err := unix.Fstat(to.path, &tst); err != nil {
		return statusOf(err)
	}
	r.From.Before, r.To.Before = preOp(&fst), preOp(&tst)
	defer func() { r.From.After, r.To.After = c.after(from), c.after(to) }()
	for _, s := range [...]nfs3.Status{status, status2, checkName(a.From.Name), checkName(a.To.Name)} {
		if s != nfs3.OK {
			return s
		}
	}
	switch {
	case isDots(a.From.Name) || isDots(a.To.Name):
		return nfs3.ErrInval
	case c.opt.ReadOnly:
		return nfs3.ErrROFS
	}
	if status := c.may(from, &fst, mayWrite|mayExec); status != nfs3.OK {
		return status
	}
	if status := c.may(to, &tst, mayWrite|mayExec); status != nfs3.OK {
		return status
	}
	if status := c.enter(); status != nfs3.OK {
		return status
	}
	src, err := c.victim(from, a.From.Name)
	var dst stat
	replaces := false
	if err == nil {
		var missing error
		dst, missing = c.victim(to, a.To.Name)
		if replaces = missing == nil; !replaces && missing != unix.ENOENT {
			err = missing
		}
	}
	if err == nil { // of two names of one file both stay (RFC 1813 §3.3.14)
		err = unix.Renameat(from.path, a.From.Name, to.path, a.To.Name)
	}
	c.leave()
	if err != nil {
		return statusOf(err)
	}
	if replaces && dst.Ino == src.Ino {
		return nfs3.OK
	}
	if replaces {
		c.nodes.drop(dst.Ino)
	}
	c.exp.remember(src.Ino, to.ino, a.To.Name)
	if from == to {
		return c.synced(to)
	}
	return c.synced(to, from)
}

func (c *call) link() error {
	var a nfs3.LinkArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.LinkRes
	r.Status = c.doLink(&a, &r)
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) doLink(a *nfs3.LinkArgs, r *nfs3.LinkRes) nfs3.Status {
	n, _, status := c.object(&a.File)
	d, _, status2 := c.dir(&a.Link.Dir)
	defer func() { r.Attr = c.after(n) }()
	if d == nil {
		if status != nfs3.OK {
			return status
		}
		return status2
	}
	defer c.lock(d, d)()
	var st, dst stat
	if err := unix.Fstat(d.path, &dst); err != nil {
		return statusOf(err)
	}
	r.Dir.Before = preOp(&dst)
	defer func() { r.Dir.After = c.after(d) }()
	for _, s := range [...]nfs3.Status{status, status2, checkName(a.Link.Name)} {
		if s != nfs3.OK {
			return s
		}
	}
	if err := unix.Fstat(n.path, &st); err != nil {
		return statusOf(err)
	}
	switch {
	case isDots(a.Link.Name):
		return nfs3.ErrExist
	case c.opt.ReadOnly:
		return nfs3.ErrROFS
	case n.isDir():
		return nfs3.ErrIsDir
	}
	if status := c.may(d, &dst, mayWrite|mayExec); status != nfs3.OK {
		return status
	}
	if status := c.enter(); status != nfs3.OK {
		return status
	}
	// By path, because AT_EMPTY_PATH wants CAP_DAC_READ_SEARCH.
	err := unix.Linkat(unix.AT_FDCWD, procFD(n.path), d.path, a.Link.Name, unix.AT_SYMLINK_FOLLOW)
	c.leave()
	if err != nil {
		return statusOf(err)
	}
	c.exp.remember(st.Ino, d.ino, a.Link.Name)
	return c.synced(n, d)
}
