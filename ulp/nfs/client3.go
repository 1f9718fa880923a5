package nfs

import (
	"context"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// Caller makes calls: an *rpc.Client.
type Caller interface {
	Call(ctx context.Context, proc *rpc.Proc, args xdr.Marshaler, results xdr.Unmarshaler, opts ...rpc.CallOption) error
}

// Client calls the procedures of NFSv3, by handles. A refusal by the server is an
// nfs3.Status; other errors are those of core/rpc. It is safe for many goroutines.
type Client struct{ c Caller }

// NewClient uses c, which stays the caller's.
func NewClient(c Caller) *Client { return &Client{c} }

// A server that is busy says so (NFS3ERR_JUKEBOX, RFC 1813 §2.6) and is asked again, as a new
// call, after pauses that double up to jukeboxMax, until ctx ends.
const (
	jukeboxMin = 100 * time.Millisecond
	jukeboxMax = 5 * time.Second
)

func (c *Client) call(ctx context.Context, proc int, args xdr.Marshaler, res xdr.Unmarshaler, status *nfs3.Status, opts ...rpc.CallOption) error {
	for pause := jukeboxMin; ; pause = min(2*pause, jukeboxMax) {
		if err := c.c.Call(ctx, NFS3[proc], args, res, opts...); err != nil {
			return err
		}
		switch *status {
		case nfs3.OK:
			return nil
		case nfs3.ErrJukebox:
		default:
			return *status
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Null does nothing at the server.
func (c *Client) Null(ctx context.Context) error {
	return c.c.Call(ctx, NFS3[nfs3.ProcNull], nil, nil)
}

// GetAttr returns the attributes of an object.
func (c *Client) GetAttr(ctx context.Context, h nfs3.Handle) (nfs3.Attr, error) {
	var r nfs3.GetAttrRes
	err := c.call(ctx, nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: h}, &r, &r.Status)
	return r.Attr, err
}

// SetAttr changes attributes; with a guard only if the object's ctime is still that.
func (c *Client) SetAttr(ctx context.Context, h nfs3.Handle, a nfs3.Sattr, guard *nfs3.Time) (nfs3.WccData, error) {
	args := nfs3.SetAttrArgs{Object: h, Attr: a}
	if guard != nil {
		args.Guard, args.Ctime = true, *guard
	}
	var r nfs3.WccRes
	err := c.call(ctx, nfs3.ProcSetAttr, &args, &r, &r.Status)
	return r.Wcc, err
}

// Lookup finds a name in a directory. It does not follow symlinks.
func (c *Client) Lookup(ctx context.Context, dir nfs3.Handle, name string) (nfs3.LookupRes, error) {
	var r nfs3.LookupRes
	err := c.call(ctx, nfs3.ProcLookup, &nfs3.DirOpArgs{What: nfs3.DirOp{Dir: dir, Name: name}}, &r, &r.Status)
	return r, err
}

// Access returns those bits of want (nfs3.AccessRead and so on) that the server would allow.
func (c *Client) Access(ctx context.Context, h nfs3.Handle, want uint32) (uint32, error) {
	var r nfs3.AccessRes
	err := c.call(ctx, nfs3.ProcAccess, &nfs3.AccessArgs{Object: h, Access: want}, &r, &r.Status)
	return r.Access, err
}

// ReadLink returns what a symlink points to.
func (c *Client) ReadLink(ctx context.Context, h nfs3.Handle) (string, error) {
	var r nfs3.ReadLinkRes
	args := nfs3.ReadLinkArgs{HandleArgs: nfs3.HandleArgs{Object: h}}
	err := c.call(ctx, nfs3.ProcReadLink, &args, &r, &r.Status)
	return string(r.Target), err
}

// Read reads up to len(buf) bytes at off, at most nfs3.MaxData; over RDMA the server places
// them in buf. The result's Data is a slice of buf; fewer than asked for is not the end
// unless EOF says so.
func (c *Client) Read(ctx context.Context, h nfs3.Handle, off uint64, buf []byte) (nfs3.ReadRes, error) {
	buf = buf[:min(len(buf), nfs3.MaxData)]
	return c.read(ctx, h, off, buf, rpc.Into(buf))
}

// ReadBuffer is Read into the first n bytes of memory that is registered already.
func (c *Client) ReadBuffer(ctx context.Context, h nfs3.Handle, off uint64, b *rpc.Buffer, n int) (nfs3.ReadRes, error) {
	n = min(n, nfs3.MaxData)
	return c.read(ctx, h, off, b.Bytes()[:n], rpc.IntoBuffer(b, 0, n))
}

func (c *Client) read(ctx context.Context, h nfs3.Handle, off uint64, buf []byte, into rpc.CallOption) (nfs3.ReadRes, error) {
	r := nfs3.ReadRes{Dst: buf}
	args := nfs3.ReadArgs{File: h, Offset: off, Count: uint32(len(buf))}
	err := c.call(ctx, nfs3.ProcRead, &args, &r, &r.Status, into)
	return r, err
}

// Write writes data at off; the result says how much of it and how stable.
func (c *Client) Write(ctx context.Context, h nfs3.Handle, off uint64, data []byte, stable nfs3.StableHow) (nfs3.WriteRes, error) {
	return c.write(ctx, &nfs3.WriteArgs{File: h, Offset: off, Stable: stable, Data: data})
}

// WriteBuffer is Write of n bytes at from in memory that is registered already.
func (c *Client) WriteBuffer(ctx context.Context, h nfs3.Handle, off uint64, b *rpc.Buffer, from, n int, stable nfs3.StableHow) (nfs3.WriteRes, error) {
	return c.write(ctx, &nfs3.WriteArgs{File: h, Offset: off, Stable: stable, Data: b.Bytes()[from : from+n], Mem: b})
}

func (c *Client) write(ctx context.Context, args *nfs3.WriteArgs) (nfs3.WriteRes, error) {
	args.Count = uint32(len(args.Data))
	var r nfs3.WriteRes
	err := c.call(ctx, nfs3.ProcWrite, args, &r, &r.Status)
	if err == nil && r.Count > args.Count {
		r.Count, err = 0, nfs3.ErrServerFault // wrote more than it was given
	}
	return r, err
}

// Create makes a regular file, with attributes: Guarded, or Unchecked, which takes one
// that exists.
func (c *Client) Create(ctx context.Context, dir nfs3.Handle, name string, mode nfs3.CreateMode, a nfs3.Sattr) (nfs3.CreateRes, error) {
	return c.create(ctx, &nfs3.CreateArgs{Where: nfs3.DirOp{Dir: dir, Name: name}, Mode: mode, Attr: a})
}

// CreateExclusive makes a regular file exactly once, however often the call is repeated with
// this verifier. Its attributes must be set afterwards (RFC 1813 §3.3.8).
func (c *Client) CreateExclusive(ctx context.Context, dir nfs3.Handle, name string, v nfs3.Verf) (nfs3.CreateRes, error) {
	return c.create(ctx, &nfs3.CreateArgs{Where: nfs3.DirOp{Dir: dir, Name: name}, Mode: nfs3.Exclusive, Verf: v})
}

func (c *Client) create(ctx context.Context, args *nfs3.CreateArgs) (nfs3.CreateRes, error) {
	var r nfs3.CreateRes
	err := c.call(ctx, nfs3.ProcCreate, args, &r, &r.Status)
	return r, err
}

// Mkdir makes a directory.
func (c *Client) Mkdir(ctx context.Context, dir nfs3.Handle, name string, a nfs3.Sattr) (nfs3.CreateRes, error) {
	var r nfs3.CreateRes
	err := c.call(ctx, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: nfs3.DirOp{Dir: dir, Name: name}, Attr: a}, &r, &r.Status)
	return r, err
}

// Symlink makes a symlink that points to target, which nobody looks at.
func (c *Client) Symlink(ctx context.Context, dir nfs3.Handle, name, target string, a nfs3.Sattr) (nfs3.CreateRes, error) {
	var r nfs3.CreateRes
	args := nfs3.SymlinkArgs{Where: nfs3.DirOp{Dir: dir, Name: name}, Attr: a, Target: []byte(target)}
	err := c.call(ctx, nfs3.ProcSymlink, &args, &r, &r.Status)
	return r, err
}

// Mknod makes a device, a socket or a fifo.
func (c *Client) Mknod(ctx context.Context, dir nfs3.Handle, name string, typ nfs3.FileType, spec nfs3.SpecData, a nfs3.Sattr) (nfs3.CreateRes, error) {
	var r nfs3.CreateRes
	args := nfs3.MknodArgs{Where: nfs3.DirOp{Dir: dir, Name: name}, Type: typ, Attr: a, Spec: spec}
	err := c.call(ctx, nfs3.ProcMknod, &args, &r, &r.Status)
	return r, err
}

// Remove removes a name that is not a directory's.
func (c *Client) Remove(ctx context.Context, dir nfs3.Handle, name string) error {
	return c.unlink(ctx, nfs3.ProcRemove, dir, name)
}

// Rmdir removes an empty directory.
func (c *Client) Rmdir(ctx context.Context, dir nfs3.Handle, name string) error {
	return c.unlink(ctx, nfs3.ProcRmdir, dir, name)
}

func (c *Client) unlink(ctx context.Context, proc int, dir nfs3.Handle, name string) error {
	var r nfs3.WccRes
	return c.call(ctx, proc, &nfs3.DirOpArgs{What: nfs3.DirOp{Dir: dir, Name: name}}, &r, &r.Status)
}

// Rename gives an object another name; what had that is replaced.
func (c *Client) Rename(ctx context.Context, fromDir nfs3.Handle, from string, toDir nfs3.Handle, to string) error {
	var r nfs3.RenameRes
	args := nfs3.RenameArgs{From: nfs3.DirOp{Dir: fromDir, Name: from}, To: nfs3.DirOp{Dir: toDir, Name: to}}
	return c.call(ctx, nfs3.ProcRename, &args, &r, &r.Status)
}

// Link gives a file one more name.
func (c *Client) Link(ctx context.Context, file, dir nfs3.Handle, name string) error {
	var r nfs3.LinkRes
	args := nfs3.LinkArgs{File: file, Link: nfs3.DirOp{Dir: dir, Name: name}}
	return c.call(ctx, nfs3.ProcLink, &args, &r, &r.Status)
}

// FSStat returns how full the file system is.
func (c *Client) FSStat(ctx context.Context, h nfs3.Handle) (nfs3.FSStatRes, error) {
	var r nfs3.FSStatRes
	err := c.call(ctx, nfs3.ProcFSStat, &nfs3.HandleArgs{Object: h}, &r, &r.Status)
	return r, err
}

// FSInfo returns the server's sizes and what it can.
func (c *Client) FSInfo(ctx context.Context, h nfs3.Handle) (nfs3.FSInfoRes, error) {
	var r nfs3.FSInfoRes
	err := c.call(ctx, nfs3.ProcFSInfo, &nfs3.HandleArgs{Object: h}, &r, &r.Status)
	return r, err
}

// PathConf returns limits of names and links.
func (c *Client) PathConf(ctx context.Context, h nfs3.Handle) (nfs3.PathConfRes, error) {
	var r nfs3.PathConfRes
	err := c.call(ctx, nfs3.ProcPathConf, &nfs3.HandleArgs{Object: h}, &r, &r.Status)
	return r, err
}

// Commit puts unstable data on stable storage; count 0 is to the end. Data written under
// another verifier than it returns may be lost and must be written again.
func (c *Client) Commit(ctx context.Context, h nfs3.Handle, off uint64, count uint32) (nfs3.Verf, error) {
	var r nfs3.CommitRes
	err := c.call(ctx, nfs3.ProcCommit, &nfs3.CommitArgs{File: h, Offset: off, Count: count}, &r, &r.Status)
	return r.Verf, err
}
