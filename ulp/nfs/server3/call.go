package server3

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// errGarbage: arguments that do not decode.
var errGarbage = errors.New("nfs: arguments do not decode")

// buffer is memory that the transport can send from without a copy.
type buffer interface {
	Bytes() []byte
	Bulk(n int) xdr.Bulk // of the first n bytes; frees itself when sent
	Free()
}

// memory hands out buffers.
type memory interface{ buffer(n int) (buffer, error) }

// call is one request. Its procedures decode args, act, and write results; their error is
// one of RPC, for which nothing was done.
type call struct {
	*Server
	cred
	args *xdr.Reader
	res  *xdr.Writer
	mem  memory
	peer netip.AddrPort

	sys     rpcmsg.Sys // keeps the groups' memory
	entered bool       // the thread has the caller's rights
	set     uint8      // what of them had to be set
	stuck   bool       // the thread could not be restored
	held    [3]*node   // in use until done
	n       int
}

func (c *call) done() {
	c.leave() // after a panic
	for i := range c.n {
		c.nodes.put(c.held[i])
		c.held[i] = nil
	}
	c.n = 0
}

func (c *call) hold(n *node) *node {
	c.held[c.n] = n
	c.n++
	return n
}

func (c *call) decode(a xdr.Unmarshaler) error {
	a.UnmarshalXDR(c.args)
	if err := c.args.Done(); err != nil {
		return fmt.Errorf("%w: %w", errGarbage, err)
	}
	return nil
}

// object finds what a handle names and its attributes now.
func (c *call) object(h *nfs3.Handle) (*node, stat, nfs3.Status) {
	var st stat
	n := c.nodes.get(h)
	if n == nil {
		fd, st, status := c.exp.open(h)
		if status != nfs3.OK {
			return nil, st, status
		}
		return c.hold(c.nodes.add(h, &st, fd, -1, -1)), st, nfs3.OK
	}
	c.hold(n)
	if err := unix.Fstat(n.path, &st); err != nil {
		return nil, st, statusOf(err)
	}
	// Removed behind our back, so that our descriptor is all that is left of it; or moved out of the export.
	if st.Nlink == 0 || !c.here(n, &st) {
		c.nodes.drop(n.ino)
		return nil, st, nfs3.ErrStale
	}
	return n, st, nfs3.OK
}

// trusted is how long what is no directory is taken to lie still where it was found. Files that are in use are asked for thousands of
// times in that.
const trusted = 50 * time.Millisecond

var started = time.Now()

// clock is nanoseconds that no setting of the machine's clock changes.
func clock() int64 { return int64(time.Since(started)) }

// here tells whether what is open lies in the export still.
func (c *call) here(n *node, st *stat) bool {
	if c.exp.whole {
		return true
	}
	now := clock()
	if !n.isDir() && now-n.checked.Load() < int64(trusted) {
		return true
	}
	if !c.exp.stillInside(n.path, st) {
		return false
	}
	n.checked.Store(now)
	return true
}

// dir is object for a directory.
func (c *call) dir(h *nfs3.Handle) (*node, stat, nfs3.Status) {
	n, st, status := c.object(h)
	if status == nfs3.OK && !n.isDir() {
		status = nfs3.ErrNotDir
	}
	return n, st, status
}

// file is object for a regular file; what is none gets INVAL (RFC 1813 §3.3.6).
func (c *call) file(h *nfs3.Handle) (*node, stat, nfs3.Status) {
	n, st, status := c.object(h)
	if status == nfs3.OK && !n.isReg() {
		status = nfs3.ErrInval
	}
	return n, st, status
}

// adopt makes a node of a descriptor just opened, found as name in dir.
func (c *call) adopt(fd, wr int, dir *node, name string) (*node, stat, nfs3.Status) {
	var st stat
	if err := unix.Fstat(fd, &st); err != nil {
		closeBoth(fd, wr)
		return nil, st, statusOf(err)
	}
	h, err := c.exp.handleIn(fd, &st)
	if err != nil {
		closeBoth(fd, wr)
		return nil, st, statusOf(err)
	}
	c.exp.remember(st.Ino, dir.ino, name)
	return c.hold(c.nodes.add(&h, &st, fd, -1, wr)), st, nfs3.OK
}

func closeBoth(path, wr int) {
	unix.Close(path)
	if wr >= 0 {
		unix.Close(wr)
	}
}

// checkName refuses what is not one component of a path (RFC 1813 §3.2).
func checkName(name string) nfs3.Status {
	switch {
	case name == "" || strings.ContainsAny(name, "/\x00"):
		return nfs3.ErrAcces
	case len(name) > 255:
		return nfs3.ErrNameTooLong
	}
	return nfs3.OK
}

func isDots(name string) bool { return name == "." || name == ".." }

// synced puts names and attributes on stable storage before the reply (RFC 1813 §4.7). File
// systems without such storage say EINVAL.
func (c *call) synced(ns ...*node) nfs3.Status {
	if c.opt.Async {
		return nfs3.OK
	}
	for _, n := range ns {
		if !n.isDir() && !n.isReg() {
			continue // has no data; its inode is in its directory's transaction
		}
		if err := n.sync(); err != nil && err != unix.EINVAL {
			return statusOf(err)
		}
	}
	return nfs3.OK
}

// procs are the procedures by number; NULL is the transport's.
var procs = [nfs3.NumProcs]func(*call) error{
	nfs3.ProcGetAttr:     (*call).getattr,
	nfs3.ProcSetAttr:     (*call).setattr,
	nfs3.ProcLookup:      (*call).lookup,
	nfs3.ProcAccess:      (*call).access3,
	nfs3.ProcReadLink:    (*call).readlink,
	nfs3.ProcRead:        (*call).read,
	nfs3.ProcWrite:       (*call).write,
	nfs3.ProcCreate:      (*call).create,
	nfs3.ProcMkdir:       (*call).mkdir,
	nfs3.ProcSymlink:     (*call).symlink,
	nfs3.ProcMknod:       (*call).mknod,
	nfs3.ProcRemove:      (*call).remove,
	nfs3.ProcRmdir:       (*call).rmdir,
	nfs3.ProcRename:      (*call).rename,
	nfs3.ProcLink:        (*call).link,
	nfs3.ProcReadDir:     (*call).readdir,
	nfs3.ProcReadDirPlus: (*call).readdirplus,
	nfs3.ProcFSStat:      (*call).fsstat,
	nfs3.ProcFSInfo:      (*call).fsinfo,
	nfs3.ProcPathConf:    (*call).pathconf,
	nfs3.ProcCommit:      (*call).commit,
}
