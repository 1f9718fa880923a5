package server3

import (
	"encoding/binary"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// Modes of what is created without one.
const (
	fileMode = 0o600
	dirMode  = 0o700
)

// making is the creation of one object in a directory.
type making struct {
	attr nfs3.Sattr
	typ  uint32 // S_IFMT bits of what create makes
	mode uint32 // when attr has none
	// create makes the object, with no rights for anybody but the server, and opens it: a
	// descriptor for writing, or -1.
	create func(dir int, name string) (wr int, err error)
	// exists decides about a name that is there already; nil: that is an error.
	exists func(n *node, st *stat) nfs3.Status
}

// make does what CREATE, MKDIR, SYMLINK and MKNOD have in common.
func (c *call) make(where *nfs3.DirOp, m *making) (r nfs3.CreateRes) {
	r.Status = c.doMake(where, m, &r)
	return r
}

func (c *call) doMake(where *nfs3.DirOp, m *making, r *nfs3.CreateRes) nfs3.Status {
	d, _, status := c.dir(&where.Dir)
	if d == nil {
		return status
	}
	defer c.lock(d, d)()
	var dst stat
	if err := unix.Fstat(d.path, &dst); err != nil {
		return statusOf(err)
	}
	r.Dir.Before = preOp(&dst)
	defer func() { r.Dir.After = c.after(d) }()
	if status != nfs3.OK {
		return status
	}
	if status := checkName(where.Name); status != nfs3.OK {
		return status
	}
	switch {
	case !c.may(&dst, mayExec):
		return nfs3.ErrAcces
	case isDots(where.Name):
		return nfs3.ErrExist
	}
	if fd, err := c.exp.openChild(d.path, where.Name); err == nil {
		n, st, status := c.adopt(fd, -1, d, where.Name)
		switch {
		case status != nfs3.OK:
			return status
		case m.exists == nil:
			return nfs3.ErrExist
		}
		if status := m.exists(n, &st); status != nfs3.OK {
			return status
		}
		c.made(n, r)
		return nfs3.OK
	} else if err == unix.EXDEV {
		return nfs3.ErrExist
	} else if err != unix.ENOENT {
		return statusOf(err)
	}
	switch {
	case c.opt.ReadOnly:
		return nfs3.ErrROFS
	case !c.may(&dst, mayWrite):
		return nfs3.ErrAcces
	}
	n, status := c.fresh(d, &dst, where.Name, m)
	if status != nfs3.OK {
		return status
	}
	if status := c.synced(n, d); status != nfs3.OK {
		return status
	}
	c.made(n, r)
	return nfs3.OK
}

// fresh creates the object and gives it its owner and attributes.
func (c *call) fresh(d *node, dst *stat, name string, m *making) (*node, nfs3.Status) {
	wr, err := m.create(d.path, name)
	if err != nil {
		return nil, statusOf(err)
	}
	// Whoever may rename in the directory can have put something of another's under the name
	// since: that must not get the caller's owner and mode.
	var fd int
	if wr >= 0 {
		fd, err = unix.Open(procFD(wr), unix.O_PATH|unix.O_CLOEXEC, 0)
	} else {
		fd, err = c.exp.openChild(d.path, name)
	}
	if err != nil {
		if wr >= 0 {
			unix.Close(wr)
		}
		return nil, statusOf(err) // somebody took it away again
	}
	n, st, status := c.adopt(fd, wr, d, name)
	if status == nfs3.OK && n.typ != m.typ {
		return nil, nfs3.ErrExist
	}
	if status == nfs3.OK {
		status = statusOf(c.initialize(n, &st, dst, m))
	}
	if status != nfs3.OK {
		// It must not stay behind with an owner or a mode that was not asked for.
		if unix.Unlinkat(d.path, name, 0) == unix.EISDIR {
			unix.Unlinkat(d.path, name, unix.AT_REMOVEDIR)
		}
		c.nodes.drop(st.Ino)
		return nil, status
	}
	return n, nfs3.OK
}

func (c *call) initialize(n *node, st, dst *stat, m *making) error {
	uid, gid := c.uid, c.gid
	if dst.Mode&unix.S_ISGID != 0 {
		gid = dst.Gid // as in any directory with this bit
	}
	if c.root && (st.Uid != uid || st.Gid != gid) {
		if err := unix.Fchownat(n.path, "", int(uid), int(gid), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	st.Uid, st.Gid = uid, gid // for the checks; a server that is not root owns it itself
	a := m.attr
	if status := c.maySet(st, &a); status != nfs3.OK {
		return errnoOf(status)
	}
	if !a.Mode.Set {
		a.Mode = nfs3.U32(m.mode)
	}
	a.Mode.V = c.modeFor(a.Mode.V, gid)
	if n.isDir() {
		a.Mode.V |= st.Mode & unix.S_ISGID // inherited, whoever makes it
	}
	if n.typ == unix.S_IFLNK {
		a.Mode = nfs3.SetU32{}
	}
	if !n.isReg() {
		a.Size = nfs3.SetU64{}
	}
	return c.apply(n, st, &a)
}

// errnoOf turns the refusals of maySet back.
func errnoOf(s nfs3.Status) error { return unix.Errno(s) }

func (c *call) made(n *node, r *nfs3.CreateRes) {
	r.Object = nfs3.PostOpHandle{Set: true, Handle: n.h}
	r.Attr = c.after(n)
}

func (c *call) create() error {
	var a nfs3.CreateArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	m := making{attr: a.Attr, typ: unix.S_IFREG, mode: fileMode, create: createFile}
	switch a.Mode {
	case nfs3.Unchecked:
		m.exists = func(n *node, st *stat) nfs3.Status { return c.recreate(n, st, &a.Attr) }
	case nfs3.Exclusive:
		// The verifier is kept in the times (RFC 1813 §3.3.8), 31 bits each as Linux does, because
		// file systems exist that keep no more. The client sets the attributes afterwards.
		at, mt := verfTimes(a.Verf)
		m.attr = nfs3.Sattr{Atime: nfs3.SetTo(at), Mtime: nfs3.SetTo(mt)}
		m.mode = 0
		if !c.root {
			m.mode = fileMode // else the server itself could not open it again
		}
		m.exists = func(n *node, st *stat) nfs3.Status {
			if n.isReg() && st.Size == 0 && timeOf(st.Atim) == at && timeOf(st.Mtim) == mt {
				return nfs3.OK // the same request, again
			}
			return nfs3.ErrExist
		}
	}
	r := c.make(&a.Where, &m)
	r.MarshalXDR(c.res)
	return nil
}

func verfTimes(v nfs3.Verf) (atime, mtime nfs3.Time) {
	mtime.Sec = binary.BigEndian.Uint32(v[:4]) & 0x7fffffff
	atime.Sec = binary.BigEndian.Uint32(v[4:]) & 0x7fffffff
	return atime, mtime
}

func createFile(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// recreate is UNCHECKED on a file that exists: of the attributes only the size counts.
func (c *call) recreate(n *node, st *stat, a *nfs3.Sattr) nfs3.Status {
	if !n.isReg() {
		return nfs3.ErrExist
	}
	if !a.Size.Set {
		return nfs3.OK
	}
	switch {
	case c.opt.ReadOnly:
		return nfs3.ErrROFS
	case !c.mayWriteData(st):
		return nfs3.ErrAcces
	}
	if err := c.truncate(n, st, a.Size.V); err != nil {
		return statusOf(err)
	}
	return c.synced(n)
}

func (c *call) mkdir() error {
	var a nfs3.MkdirArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	r := c.make(&a.Where, &making{attr: a.Attr, typ: unix.S_IFDIR, mode: dirMode, create: func(dir int, name string) (int, error) {
		return -1, unix.Mkdirat(dir, name, dirMode)
	}})
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) symlink() error {
	var a nfs3.SymlinkArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	r := c.make(&a.Where, &making{attr: a.Attr, typ: unix.S_IFLNK, create: func(dir int, name string) (int, error) {
		return -1, unix.Symlinkat(string(a.Target), dir, name)
	}})
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) mknod() error {
	var a nfs3.MknodArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var typ uint32
	dev, device := 0, false
	switch a.Type {
	case nfs3.TypeChr, nfs3.TypeBlk:
		typ, dev, device = unix.S_IFCHR, int(unix.Mkdev(a.Spec.Major, a.Spec.Minor)), true
		if a.Type == nfs3.TypeBlk {
			typ = unix.S_IFBLK
		}
	case nfs3.TypeSock:
		typ = unix.S_IFSOCK
	case nfs3.TypeFifo:
		typ = unix.S_IFIFO
	}
	m := making{attr: a.Attr, typ: typ, mode: fileMode, create: func(dir int, name string) (int, error) {
		switch {
		case typ == 0:
			return -1, errBadType // REG, DIR and LNK have procedures of their own
		case device && c.uid != 0:
			return -1, unix.EPERM
		}
		return -1, unix.Mknodat(dir, name, typ, dev)
	}}
	r := c.make(&a.Where, &m)
	r.MarshalXDR(c.res)
	return nil
}
