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
	if status := c.maySet(&st, &a.Attr); status != nfs3.OK {
		return status
	}
	gid := st.Gid
	if a.Attr.GID.Set {
		gid = a.Attr.GID.V
	}
	a.Attr.Mode.V = c.modeFor(a.Attr.Mode.V, gid)
	if err := c.apply(n, &st, &a.Attr); err != nil {
		return statusOf(err)
	}
	return c.synced(n)
}

// apply sets attributes that the caller may set. Size comes first, because it changes the
// times, and the owner before the mode, because it clears set-id bits.
func (c *call) apply(n *node, st *stat, a *nfs3.Sattr) error {
	atime, err := timespec(a.Atime)
	if err != nil {
		return err
	}
	mtime, err := timespec(a.Mtime)
	if err != nil {
		return err
	}
	if a.Size.Set {
		if err := c.truncate(n, st, a.Size.V); err != nil {
			return err
		}
	}
	uid, gid := -1, -1
	if a.UID.Set && a.UID.V != st.Uid {
		uid = int(a.UID.V)
	}
	if a.GID.Set && a.GID.V != st.Gid {
		gid = int(a.GID.V)
		st.Gid = a.GID.V
	}
	if uid >= 0 || gid >= 0 {
		if err := unix.Fchownat(n.path, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if a.Mode.Set {
		if err := n.chmod(a.Mode.V & 0o7777); err != nil {
			return err
		}
	}
	if a.Atime.How != nfs3.DontChange || a.Mtime.How != nfs3.DontChange {
		ts := [2]unix.Timespec{atime, mtime}
		return unix.UtimesNanoAt(unix.AT_FDCWD, procFD(n.path), ts[:], 0)
	}
	return nil
}

// modeFor is the mode as this caller may set it: set-group-id only for a group of his own.
func (c *call) modeFor(mode, gid uint32) uint32 {
	if c.uid != 0 && !c.in(gid) {
		mode &^= unix.S_ISGID
	}
	return mode
}

func (c *call) truncate(n *node, st *stat, size uint64) error {
	if !n.isReg() {
		return unix.EINVAL
	}
	if size > math.MaxInt64 {
		return unix.EFBIG
	}
	fd, err := n.writer()
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return err
	}
	return c.dropSetID(fd, st)
}

// dropSetID takes the set-id bits from a file whose data another than root changed. The
// kernel does so for whoever has no right to keep them; this server has it.
func (c *call) dropSetID(fd int, st *stat) error {
	drop := st.Mode & unix.S_ISUID
	if st.Mode&unix.S_IXGRP != 0 {
		drop |= st.Mode & unix.S_ISGID
	}
	if c.uid == 0 || drop == 0 {
		return nil
	}
	st.Mode &^= drop
	return unix.Fchmod(fd, st.Mode&0o7777)
}

// chmod changes the mode of any object but a symlink, which has none on Linux.
func (n *node) chmod(mode uint32) error {
	if n.typ == unix.S_IFLNK {
		return unix.EOPNOTSUPP
	}
	return unix.Chmod(procFD(n.path), mode)
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
		r.Access = c.access(&st, a.Access, c.opt.ReadOnly)
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
