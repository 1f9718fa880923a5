package server3

import (
	"encoding/binary"
	"math"

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
	// create makes the object and opens it: a descriptor for writing, or -1.
	create func(dir int, name string, mode uint32) (wr int, err error)
	// exists decides about a name that is there already; nil: that is an error.
	exists func(n *node, st *stat) nfs3.Status
	// For CREATE it counts first whether there is the name; for others, whether there may be.
	named bool
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
	if !m.named {
		if c.opt.ReadOnly {
			return nfs3.ErrROFS
		}
		if status := c.may(d, &dst, mayWrite|mayExec); status != nfs3.OK {
			return status
		}
	}
	if isDots(where.Name) {
		if status := c.may(d, &dst, mayExec); status != nfs3.OK {
			return status
		}
		return nfs3.ErrExist
	}
	ts, err := c.initial(m)
	if err != nil {
		return statusOf(err)
	}
	if status := c.enter(); status != nfs3.OK {
		return status
	}
	fd, wr, fresh, err := c.openOrMake(d, where.Name, m, ts)
	c.leave()
	if err != nil {
		return statusOf(err)
	}
	n, st, status := c.adopt(fd, wr, d, where.Name)
	switch {
	case status != nfs3.OK:
	case fresh:
		if status = statusOf(c.unmask(n, &st, d, m)); status == nfs3.OK {
			status = c.synced(n, d)
		}
	case m.exists == nil:
		status = nfs3.ErrExist
	default:
		status = m.exists(n, &st)
	}
	if status != nfs3.OK {
		return status
	}
	c.made(n, r)
	return nfs3.OK
}

// initial prepares the attributes of a new object. Only root gives away what it makes; of others' ids no notice is taken, as Linux's server does.
func (c *call) initial(m *making) ([2]unix.Timespec, error) {
	ids(&m.attr)
	if c.uid != 0 {
		m.attr.UID, m.attr.GID = nfs3.SetU32{}, nfs3.SetU32{}
	}
	if m.attr.Mode.Set {
		m.mode = m.attr.Mode.V & 0o7777
	}
	if m.typ != unix.S_IFREG {
		m.attr.Size = nfs3.SetU64{}
	}
	if m.attr.Size.Set && m.attr.Size.V > math.MaxInt64 {
		return [2]unix.Timespec{}, unix.EFBIG
	}
	return times(&m.attr)
}

// openOrMake opens what has the name, or makes it; within enter.
func (c *call) openOrMake(d *node, name string, m *making, ts [2]unix.Timespec) (fd, wr int, fresh bool, err error) {
	switch fd, err = c.exp.openChild(d.path, name); {
	case err == unix.EXDEV:
		return -1, -1, false, unix.EEXIST
	case err != unix.ENOENT:
		return fd, -1, false, err
	case c.opt.ReadOnly:
		return -1, -1, false, unix.EROFS
	}
	var since unix.Timespec // no inode is made with an earlier time than this clock shows
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &since); err != nil {
		return -1, -1, false, err
	}
	if wr, err = m.create(d.path, name, m.mode); err != nil {
		return -1, -1, false, err
	}
	if wr >= 0 {
		fd, err = unix.Open(procFD(wr), unix.O_PATH|unix.O_CLOEXEC, 0)
	} else if fd, err = c.exp.openChild(d.path, name); err == nil && !c.ours(fd, m.typ, since) {
		// Whoever may rename in the directory has put something else under the name: that is not for us to change.
		unix.Close(fd)
		return -1, -1, false, unix.ESTALE
	}
	if err == nil {
		if err = c.initialize(fd, wr, m, ts); err == nil {
			return fd, wr, true, nil
		}
		unix.Close(fd)
		// It must not stay behind with attributes that were not asked for.
		if unix.Unlinkat(d.path, name, 0) == unix.EISDIR {
			unix.Unlinkat(d.path, name, unix.AT_REMOVEDIR)
		}
	}
	if wr >= 0 {
		unix.Close(wr)
	}
	return -1, -1, false, err
}

// ours tells whether fd is what this caller has made since.
func (c *call) ours(fd int, typ uint32, since unix.Timespec) bool {
	var x unix.Statx_t
	if unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &x) != nil ||
		uint32(x.Mode)&unix.S_IFMT != typ || x.Uid != c.uid {
		return false
	}
	if x.Mask&unix.STATX_BTIME == 0 {
		return true
	}
	return x.Btime.Sec > since.Sec || x.Btime.Sec == since.Sec && int64(x.Btime.Nsec) >= since.Nsec
}

// initialize gives a new object what create could not: the kernel has set owner, group and mode.
func (c *call) initialize(fd, wr int, m *making, ts [2]unix.Timespec) error {
	n := &node{path: fd, typ: m.typ, rd: -1, wr: wr}
	a := m.attr
	a.Mode = nfs3.SetU32{}
	return c.apply(n, nil, wr, &a, ts)
}

// unmask gives a new object the permissions that the umask of this process took away. The rights are the server's: the caller
// could lose the set-group-id bit by it that the directory has passed on.
func (c *call) unmask(n *node, st *stat, d *node, m *making) error {
	if m.typ == unix.S_IFLNK || m.mode&0o777&c.rights.umask == 0 || inherits(d.path) {
		return nil
	}
	return n.chmod(st.Mode&0o7000 | m.mode&0o777)
}

func (c *call) made(n *node, r *nfs3.CreateRes) {
	r.Object = nfs3.PostOpHandle{Set: true, Handle: n.h}
	r.Attr = c.after(n)
}

func (c *call) create() error {
	var a nfs3.CreateArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	m := making{attr: a.Attr, typ: unix.S_IFREG, mode: fileMode, create: createFile, named: true}
	switch a.Mode {
	case nfs3.Unchecked:
		m.exists = func(n *node, st *stat) nfs3.Status { return c.recreate(n, st, &a.Attr) }
	case nfs3.Exclusive:
		// The verifier is kept in the times (RFC 1813 §3.3.8), 31 bits each as Linux does, because
		// file systems exist that keep no more. The client sets the attributes afterwards.
		at, mt := verfTimes(a.Verf)
		m.attr = nfs3.Sattr{Atime: nfs3.SetTo(at), Mtime: nfs3.SetTo(mt)}
		m.mode = 0
		if !c.rights.acts {
			m.mode = fileMode // else the server itself could not open it again
		}
		m.exists = func(n *node, st *stat) nfs3.Status {
			// The same request, again. Verifiers can be guessed: another's file is not what this caller made.
			if n.isReg() && st.Size == 0 && timeOf(st.Atim) == at && timeOf(st.Mtim) == mt && c.owns(st) {
				return nfs3.OK
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

func createFile(dir int, name string, mode uint32) (int, error) {
	return unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
}

// recreate is UNCHECKED on a file that exists: of the attributes only the size counts.
func (c *call) recreate(n *node, st *stat, a *nfs3.Sattr) nfs3.Status {
	if !n.isReg() {
		return nfs3.ErrExist
	}
	if !a.Size.Set {
		return nfs3.OK
	}
	if c.opt.ReadOnly {
		return nfs3.ErrROFS
	}
	if status := c.setAttr(n, st, &nfs3.Sattr{Size: a.Size}); status != nfs3.OK {
		return status
	}
	return c.synced(n)
}

func (c *call) mkdir() error {
	var a nfs3.MkdirArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	r := c.make(&a.Where, &making{attr: a.Attr, typ: unix.S_IFDIR, mode: dirMode, create: func(dir int, name string, mode uint32) (int, error) {
		return -1, unix.Mkdirat(dir, name, mode)
	}})
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) symlink() error {
	var a nfs3.SymlinkArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	r := c.make(&a.Where, &making{attr: a.Attr, typ: unix.S_IFLNK, create: func(dir int, name string, _ uint32) (int, error) {
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
	dev := 0
	switch a.Type {
	case nfs3.TypeChr, nfs3.TypeBlk:
		typ, dev = unix.S_IFCHR, int(unix.Mkdev(a.Spec.Major, a.Spec.Minor))
		if a.Type == nfs3.TypeBlk {
			typ = unix.S_IFBLK
		}
	case nfs3.TypeSock:
		typ = unix.S_IFSOCK
	case nfs3.TypeFifo:
		typ = unix.S_IFIFO
	}
	m := making{attr: a.Attr, typ: typ, mode: fileMode, create: func(dir int, name string, mode uint32) (int, error) {
		if typ == 0 {
			return -1, errBadType // REG, DIR and LNK have procedures of their own
		}
		return -1, unix.Mknodat(dir, name, typ|mode, dev)
	}}
	r := c.make(&a.Where, &m)
	r.MarshalXDR(c.res)
	return nil
}
