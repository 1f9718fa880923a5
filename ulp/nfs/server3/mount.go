package server3

import (
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// mounts is what DUMP tells: who asked for a handle. It is a courtesy and bounded; the
// oldest goes.
type mounts struct {
	mu   sync.Mutex
	list mount3.Mounts
}

const maxMounts = 512

func (m *mounts) add(e mount3.Mounted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.list, e) {
		return
	}
	if len(m.list) >= maxMounts {
		m.list = slices.Delete(m.list, 0, 1)
	}
	m.list = append(m.list, e)
}

// remove forgets the mounts of a host: of one directory, or all when dir is empty.
func (m *mounts) remove(host, dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(e mount3.Mounted) bool {
		return e.Host == host && (dir == "" || e.Dir == dir)
	})
}

// allowed tells whether a peer is one that the export is for.
func (s *Server) allowed(peer netip.AddrPort) bool {
	if len(s.opt.Allow) == 0 {
		return true
	}
	a := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(s.opt.Allow, func(p netip.Prefix) bool { return p.Contains(a) })
}

// mountDir is the path of a request in the export's own view: DIR is "/".
func mountDir(p string) string { return path.Clean("/" + p) }

func (c *call) mnt() error {
	var a mount3.Path
	if err := c.decode(&a); err != nil {
		return err
	}
	var r mount3.MntRes
	dir := mountDir(a.Dir)
	switch {
	case !c.allowed(c.peer):
		r.Status = mount3.ErrAcces
	default:
		r = c.mntDir(dir)
	}
	if r.Status == mount3.OK {
		c.mounts.add(mount3.Mounted{Host: c.peer.Addr().Unmap().String(), Dir: dir})
	}
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) mntDir(dir string) (r mount3.MntRes) {
	rel := dir[1:]
	if rel == "" {
		rel = "."
	}
	fd, err := c.walk(rel)
	if err != nil {
		r.Status = mountStatus(err)
		return r
	}
	defer unix.Close(fd)
	var st stat
	if err := unix.Fstat(fd, &st); err != nil {
		r.Status = mountStatus(err)
		return r
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		r.Status = mount3.ErrNotDir
		return r
	}
	h, err := c.exp.handle(fd, &st)
	if err != nil {
		r.Status = mountStatus(err)
		return r
	}
	c.rememberPath(dir)
	r.Handle = h
	r.Flavors = []uint32{uint32(rpcmsg.AuthSys)}
	return r
}

// walk opens a path below the root as the caller: who may not search a directory gets no handle of what lies in it.
// The root itself anybody may have.
func (c *call) walk(rel string) (int, error) {
	if rel == "." {
		return c.exp.openPath(rel)
	}
	if c.enter() != nfs3.OK {
		return -1, errRights
	}
	defer c.leave()
	return c.exp.openPath(rel)
}

// rememberPath notes the directories of a path that a client begins at, for servers that
// find by path.
func (c *call) rememberPath(dir string) {
	if c.exp.byHandle || dir == "/" {
		return
	}
	parent, at := c.exp.st.Ino, ""
	for name := range strings.SplitSeq(dir[1:], "/") {
		at = path.Join(at, name)
		fd, err := c.exp.openPath(at)
		if err != nil {
			return
		}
		var st stat
		err = unix.Fstat(fd, &st)
		unix.Close(fd)
		if err != nil {
			return
		}
		c.exp.remember(st.Ino, parent, name)
		parent = st.Ino
	}
}

// mountStatus maps an errno to mountstat3.
func mountStatus(err error) mount3.Status {
	switch err {
	case unix.ENOENT:
		return mount3.ErrNoEnt
	case unix.EPERM:
		return mount3.ErrPerm
	case unix.EIO:
		return mount3.ErrIO
	case unix.EACCES, unix.EXDEV, unix.ELOOP:
		return mount3.ErrAcces
	case unix.ENOTDIR:
		return mount3.ErrNotDir
	case unix.EINVAL:
		return mount3.ErrInval
	case unix.ENAMETOOLONG:
		return mount3.ErrNameTooLong
	}
	return mount3.ErrServerFault
}

func (c *call) dump() error {
	if err := c.noArgs(); err != nil {
		return err
	}
	c.mounts.mu.Lock()
	list := slices.Clone(c.mounts.list)
	c.mounts.mu.Unlock()
	list.MarshalXDR(c.res)
	return nil
}

func (c *call) umnt() error {
	var a mount3.Path
	if err := c.decode(&a); err != nil {
		return err
	}
	c.mounts.remove(c.peer.Addr().Unmap().String(), mountDir(a.Dir))
	return nil
}

func (c *call) umntall() error {
	if err := c.noArgs(); err != nil {
		return err
	}
	c.mounts.remove(c.peer.Addr().Unmap().String(), "")
	return nil
}

func (c *call) exports() error {
	if err := c.noArgs(); err != nil {
		return err
	}
	e := mount3.Export{Dir: "/"}
	for _, p := range c.opt.Allow {
		e.Groups = append(e.Groups, p.String())
	}
	l := mount3.Exports{e}
	l.MarshalXDR(c.res)
	return nil
}

// noArgs refuses arguments where there are none.
func (c *call) noArgs() error { return c.decode(void{}) }

type void struct{}

func (void) UnmarshalXDR(*xdr.Reader) {}

var mountProcs = [mount3.NumProcs]func(*call) error{
	mount3.ProcMnt:     (*call).mnt,
	mount3.ProcDump:    (*call).dump,
	mount3.ProcUmnt:    (*call).umnt,
	mount3.ProcUmntAll: (*call).umntall,
	mount3.ProcExport:  (*call).exports,
}
