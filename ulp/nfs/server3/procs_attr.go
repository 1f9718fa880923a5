package server3

import (
	"math"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

func (c *call) getattr() error {
	var a nfs3.HandleArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.GetAttrRes
	_, st, status := c.object(&a.Object)
	r.Status, r.Attr = status, c.exp.attrOf(&st)
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) setattr() error {
	var a nfs3.SetAttrArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.WccRes
	r.Status = c.doSetattr(&a, &r.Wcc)
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) doSetattr(a *nfs3.SetAttrArgs, wcc *nfs3.WccData) nfs3.Status {
	n, _, status := c.object(&a.Object)
	if status != nfs3.OK {
		return status
	}
	defer c.lock(n, n)()
	var st stat
	if err := unix.Fstat(n.path, &st); err != nil {
		return statusOf(err)
	}
	wcc.Before = preOp(&st)
	defer func() { wcc.After = c.after(n) }()
	switch {
	case c.opt.ReadOnly:
		return nfs3.ErrROFS
	case a.Guard && a.Ctime != timeOf(st.Ctim):
		return nfs3.ErrNotSync
	}
	if status := c.setAttr(n, &st, &a.Attr); status != nfs3.OK {
		return status
	}
	return c.synced(n)
}

// setAttr sets attributes in the order in which Linux's server does: what is refused leaves what came before.
func (c *call) setAttr(n *node, st *stat, a *nfs3.Sattr) nfs3.Status {
	ids(a)
	ts, err := times(a)
	if err != nil {
		return statusOf(err)
	}
	wr := -1
	if a.Size.Set {
		if wr, err = c.resizable(n, a.Size.V); err != nil {
			return statusOf(err)
		}
		if status := c.mayWriteData(n, st); status != nfs3.OK {
			return status
		}
	}
	touch := touches(a)
	if touch && !c.owns(st) {
		if status := c.may(n, st, mayWrite); status != nfs3.OK {
			return status
		}
	}
	if status := c.enter(); status != nfs3.OK {
		return status
	}
	err = c.apply(n, st, wr, a, ts)
	c.leave()
	if err == nil && touch {
		err = n.utimes(ts)
	}
	return statusOf(err)
}

// resizable is a descriptor by which the size can be set.
func (c *call) resizable(n *node, size uint64) (int, error) {
	if !n.isReg() {
		return -1, unix.EINVAL
	}
	if size > math.MaxInt64 {
		return -1, unix.EFBIG
	}
	return n.writer()
}

// apply is what of setAttr the kernel judges; within enter. Size comes first, because it changes the
// times, and the owner before the mode, because it clears set-id bits. That it does even where the owner stays
// the same, and those of a mode given with it, too.
func (c *call) apply(n *node, st *stat, wr int, a *nfs3.Sattr, ts [2]unix.Timespec) error {
	if a.Size.Set {
		if err := unix.Ftruncate(wr, int64(a.Size.V)); err != nil {
			return err
		}
	}
	if a.UID.Set || a.GID.Set {
		uid, gid := -1, -1
		if a.UID.Set {
			uid = int(a.UID.V)
		}
		if a.GID.Set {
			gid = int(a.GID.V)
		}
		if err := unix.Fchownat(n.path, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if a.Mode.Set {
		mode := a.Mode.V & 0o7777
		if (a.UID.Set || a.GID.Set) && !n.isDir() {
			mode = withoutSetIDs(mode)
		}
		if err := n.chmod(mode); err != nil {
			return err
		}
	}
	if (a.Atime.How != nfs3.DontChange || a.Mtime.How != nfs3.DontChange) && !touches(a) {
		return n.utimes(ts)
	}
	return nil
}

// withoutSetIDs is what a change of the owner leaves of a mode. Set-group-id without the right to execute for the
// group is none (mandatory locking had it).
func withoutSetIDs(mode uint32) uint32 {
	mode &^= unix.S_ISUID
	if mode&unix.S_IXGRP != 0 {
		mode &^= unix.S_ISGID
	}
	return mode
}

func (n *node) utimes(ts [2]unix.Timespec) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, procFD(n.path), ts[:], 0)
}

// chmod changes the mode of any object but a symlink, which has none on Linux.
func (n *node) chmod(mode uint32) error {
	if n.typ == unix.S_IFLNK {
		return unix.EOPNOTSUPP
	}
	return unix.Chmod(procFD(n.path), mode)
}

func times(a *nfs3.Sattr) (ts [2]unix.Timespec, err error) {
	if ts[0], err = timespec(a.Atime); err == nil {
		ts[1], err = timespec(a.Mtime)
	}
	return ts, err
}

// timespec is a time to set. The values of utimensat(2) for now and unchanged lie among the
// nanoseconds that a client could send.
func timespec(t nfs3.SetTime) (unix.Timespec, error) {
	switch t.How {
	case nfs3.ServerTime:
		return unix.Timespec{Nsec: unix.UTIME_NOW}, nil
	case nfs3.ClientTime:
		if t.Time.Nsec >= 1e9 {
			return unix.Timespec{}, unix.EINVAL
		}
		return unix.Timespec{Sec: int64(t.Time.Sec), Nsec: int64(t.Time.Nsec)}, nil
	}
	return unix.Timespec{Nsec: unix.UTIME_OMIT}, nil
}

func (c *call) access3() error {
	var a nfs3.AccessArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.AccessRes
	n, st, status := c.object(&a.Object)
	if r.Status = status; n != nil {
		r.Attr = c.exp.postOp(&st)
		r.Access, r.Status = c.access(n, &st, a.Access)
	}
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) fsstat() error {
	var a nfs3.HandleArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.FSStatRes
	n, st, status := c.object(&a.Object)
	if r.Status = status; n != nil {
		r.Attr = c.exp.postOp(&st)
		var fs unix.Statfs_t
		if err := unix.Fstatfs(n.path, &fs); err != nil {
			r.Status = statusOf(err)
		}
		unit := uint64(fs.Bsize)
		r.Tbytes, r.Fbytes, r.Abytes = fs.Blocks*unit, fs.Bfree*unit, fs.Bavail*unit
		r.Tfiles, r.Ffiles, r.Afiles = fs.Files, fs.Ffree, fs.Ffree
	}
	r.MarshalXDR(c.res)
	return nil
}

// dirPref is what we like a READDIR to ask for, and the most we answer.
const dirPref = 64 << 10

func (c *call) fsinfo() error {
	var a nfs3.HandleArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.FSInfoRes
	n, st, status := c.object(&a.Object)
	if r.Status = status; n != nil {
		r.Attr = c.exp.postOp(&st)
	}
	r.RTMax, r.RTPref, r.RTMult = nfs3.MaxData, nfs3.MaxData, 4096
	r.WTMax, r.WTPref, r.WTMult = nfs3.MaxData, nfs3.MaxData, 4096
	r.DTPref = dirPref
	r.MaxFileSize = math.MaxInt64
	r.TimeDelta = nfs3.Time{Nsec: 1}
	r.Properties = nfs3.FSFLink | nfs3.FSFSymlink | nfs3.FSFHomogeneous | nfs3.FSFCanSetTime
	r.MarshalXDR(c.res)
	return nil
}

// linkMax is how many names a file can have; other file systems: at least this (POSIX's
// _POSIX_LINK_MAX would be 8).
var linkMax = map[int64]uint32{
	unix.EXT4_SUPER_MAGIC:  65000,
	unix.XFS_SUPER_MAGIC:   math.MaxInt32,
	unix.BTRFS_SUPER_MAGIC: 65535,
	unix.TMPFS_MAGIC:       math.MaxInt32,
}

func (c *call) pathconf() error {
	var a nfs3.HandleArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.PathConfRes
	n, st, status := c.object(&a.Object)
	if r.Status = status; n != nil {
		r.Attr = c.exp.postOp(&st)
		var fs unix.Statfs_t
		if err := unix.Fstatfs(n.path, &fs); err != nil {
			r.Status = statusOf(err)
		}
		r.LinkMax, r.NameMax = 255, uint32(fs.Namelen)
		if m, ok := linkMax[fs.Type]; ok {
			r.LinkMax = m
		}
		r.NoTrunc, r.ChownRestricted, r.CasePreserving = true, true, true
	}
	r.MarshalXDR(c.res)
	return nil
}
