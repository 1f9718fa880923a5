package server3

import (
	"crypto/sha256"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

func (c *call) lookup() error {
	var a nfs3.DirOpArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.LookupRes
	d, dst, status := c.dir(&a.What.Dir)
	if status == nfs3.OK {
		status = checkName(a.What.Name)
	}
	if status == nfs3.OK {
		status = c.may(d, &dst, mayExec)
	}
	if status == nfs3.OK {
		var n *node
		var st stat
		if n, st, status = c.child(d, dst, a.What.Name); status == nfs3.OK {
			r.Object, r.Attr = n.h, c.exp.postOp(&st)
		}
	}
	r.Status = status
	if d != nil {
		r.Dir = c.exp.postOp(&dst)
	}
	r.MarshalXDR(c.res)
	return nil
}

// child is the object called name in d.
func (c *call) child(d *node, dst stat, name string) (*node, stat, nfs3.Status) {
	var fd int
	var err error
	switch name {
	case ".":
		return d, dst, nfs3.OK
	case "..":
		if c.exp.isRoot(&dst) {
			return d, dst, nfs3.OK
		}
		fd, err = c.parent(d)
	default:
		fd, err = c.exp.openChild(d.path, name)
	}
	if err != nil {
		return nil, stat{}, statusOf(err)
	}
	if name != ".." {
		return c.adopt(fd, -1, d, name)
	}
	var st stat
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, st, statusOf(err)
	}
	h, err := c.exp.handle(fd, &st)
	if err != nil {
		unix.Close(fd)
		return nil, st, statusOf(err)
	}
	return c.hold(c.nodes.add(&h, &st, fd, -1, -1)), st, nfs3.OK
}

// parent opens ".." of a directory that is not the root, if that lies in the export.
func (c *call) parent(d *node) (int, error) {
	fd, err := unix.Openat(d.path, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var st stat
	if err := unix.Fstat(fd, &st); err != nil || !c.exp.contains(fd, &st) {
		unix.Close(fd)
		return -1, unix.ESTALE // d was moved out of the export
	}
	return fd, nil
}

func (c *call) readdir() error {
	var a nfs3.ReadDirArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	return c.list(&listing{dir: &a.Dir, cookie: a.Cookie, verf: a.Verf, most: int(min(a.Count, dirPref)), names: dirPref})
}

func (c *call) readdirplus() error {
	var a nfs3.ReadDirPlusArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	return c.list(&listing{dir: &a.Dir, cookie: a.Cookie, verf: a.Verf, plus: true,
		most: int(min(a.MaxCount, dirPref)), names: int(min(a.DirCount, dirPref))})
}

// listing is a READDIR or READDIRPLUS.
type listing struct {
	dir    *nfs3.Handle
	cookie uint64
	verf   nfs3.Verf
	plus   bool
	most   int  // bytes of the results without the status
	names  int  // bytes of names, file ids and cookies
	search bool // the caller may look entries up
}

// list writes entries straight into the results. A cookie is the file system's own
// position behind an entry (d_off): it stays right when other entries come and go (streams says where not).
func (c *call) list(l *listing) error {
	d, dst, status := c.dir(l.dir)
	verf := c.cookieVerf(l.dir)
	if status == nfs3.OK {
		status = c.may(d, &dst, mayRead)
	}
	if status == nfs3.OK && l.cookie != 0 && l.verf != verf {
		status = nfs3.ErrBadCookie
	}
	if status == nfs3.OK && l.plus {
		l.search = c.may(d, &dst, mayExec) == nfs3.OK
	}
	var s *stream
	if status == nfs3.OK {
		var err error
		if s, err = c.streams.take(d, &dst, l.cookie); err == unix.EINVAL {
			status = nfs3.ErrBadCookie
		} else {
			status = statusOf(err)
		}
	}
	start := len(c.res.Bytes())
	if status == nfs3.OK {
		c.head(nfs3.OK, c.exp.postOp(&dst))
		verf.MarshalXDR(c.res)
		if status = c.entries(l, d, &dst, s); status == nfs3.OK {
			return nil
		}
		c.res.Truncate(start)
	}
	attr := nfs3.PostOpAttr{}
	if d != nil {
		attr = c.exp.postOp(&dst)
	}
	c.head(status, attr)
	return nil
}

func (c *call) head(status nfs3.Status, attr nfs3.PostOpAttr) {
	c.res.Uint32(uint32(status))
	attr.MarshalXDR(c.res)
}

func (c *call) entries(l *listing, d *node, dst *stat, s *stream) nfs3.Status {
	left, names := l.most-nfs3.DirHead-nfs3.DirTail, l.names
	count := 0
	for {
		de, err := s.peek()
		if err != nil {
			s.close()
			return statusOf(err)
		}
		if de == nil {
			break
		}
		e := nfs3.Entry{FileID: de.ino, Name: string(de.name), Cookie: de.off}
		size := e.Size()
		if l.plus && size <= left {
			c.describe(&e, d, dst, l.search)
			size = e.PlusSize()
		} else if de.dot() && len(de.name) == 2 && c.exp.isRoot(dst) {
			e.FileID = dst.Ino // what lies above is nobody's business
		}
		if size > left || count > 0 && e.Size() > names {
			break
		}
		e.Append(c.res, l.plus)
		left -= size
		names -= e.Size()
		count++
		s.next()
	}
	if count == 0 && !s.eof {
		c.streams.give(s)
		return nfs3.ErrTooSmall
	}
	c.res.Bool(false)
	c.res.Bool(s.eof)
	c.streams.give(s)
	return nfs3.OK
}

// describe adds attributes and handle to an entry, where the caller may search the
// directory and the entry is still there and in this file system.
func (c *call) describe(e *nfs3.Entry, d *node, dst *stat, search bool) {
	var fd int
	var err error
	switch {
	case e.Name == "." || e.Name == ".." && c.exp.isRoot(dst):
		e.FileID = dst.Ino
		e.Attr = c.exp.postOp(dst)
		e.Object = nfs3.PostOpHandle{Set: true, Handle: d.h}
		return
	case !search:
		return
	case e.Name == "..":
		fd, err = c.parent(d)
	default:
		fd, err = c.exp.openChild(d.path, e.Name)
	}
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st stat
	if unix.Fstat(fd, &st) != nil {
		return
	}
	h, err := c.exp.handleIn(fd, &st)
	if err != nil {
		return
	}
	if e.Name != ".." {
		c.exp.remember(st.Ino, d.ino, e.Name)
	}
	e.FileID = st.Ino // as in the attributes, also where d_ino differs (overlayfs)
	e.Attr = c.exp.postOp(&st)
	e.Object = nfs3.PostOpHandle{Set: true, Handle: h}
}

// cookieVerf belongs to the directory: a cookie of another one does not pass. It does not
// change when the directory does, because d_off stays right.
func (c *call) cookieVerf(h *nfs3.Handle) nfs3.Verf {
	var sum [sha256.Size]byte
	c.exp.mac.sum(&sum, h.Bytes())
	return nfs3.Verf(sum[macSize : macSize+nfs3.VerfSize])
}
