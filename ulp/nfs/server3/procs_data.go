package server3

import (
	"fmt"
	"math"

	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

func (c *call) readlink() error {
	var a nfs3.HandleArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.ReadLinkRes
	n, st, status := c.object(&a.Object)
	r.Status = status
	switch {
	case n == nil:
	case n.typ != unix.S_IFLNK:
		r.Status = nfs3.ErrInval
	default:
		buf := make([]byte, nfs3.MaxPath)
		k, err := unix.Readlinkat(n.path, "", buf)
		if r.Status = statusOf(err); err == nil {
			r.Target = buf[:k]
		}
	}
	if n != nil {
		r.Attr = c.exp.postOp(&st)
	}
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) read() error {
	var a nfs3.ReadArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.ReadRes
	var buf buffer
	n, st, status := c.file(&a.File)
	if status == nfs3.OK {
		status = c.mayReadData(n, &st)
	}
	if status == nfs3.OK {
		buf, status = c.pread(n, &st, &a, &r)
	}
	r.Status = status
	if n != nil {
		r.Attr = c.after(n)
	}
	if status == nfs3.OK {
		size := uint64(st.Size)
		if r.Attr.Set {
			size = r.Attr.Attr.Size // the client compares with what this reply says
		}
		r.EOF = a.Offset >= size || a.Offset+uint64(r.Count) >= size
	}
	r.MarshalHead(c.res)
	switch {
	case status != nfs3.OK:
	case buf == nil:
		c.res.BulkItem(xdr.Bulk{})
	default:
		c.res.BulkItem(buf.Bulk(int(r.Count)))
	}
	return nil
}

// pread reads what the file has of what is asked for into memory that is sent from.
func (c *call) pread(n *node, st *stat, a *nfs3.ReadArgs, r *nfs3.ReadRes) (buffer, nfs3.Status) {
	size := uint64(st.Size)
	if a.Offset >= size || a.Count == 0 {
		return nil, nfs3.OK
	}
	want := int(min(uint64(a.Count), nfs3.MaxData, size-a.Offset))
	fd, err := n.reader()
	if err != nil {
		return nil, statusOf(err)
	}
	buf, err := c.mem.buffer(want)
	if err != nil {
		return nil, nfs3.ErrJukebox
	}
	b, got := buf.Bytes()[:want], 0
	for got < want {
		k, err := unix.Pread(fd, b[got:], int64(a.Offset)+int64(got))
		if err == unix.EINTR {
			continue
		}
		if err != nil && got == 0 {
			buf.Free()
			return nil, statusOf(err)
		}
		if err != nil || k == 0 {
			break // short; the client asks again for the rest and gets the error
		}
		got += k
	}
	if got == 0 {
		buf.Free()
		return nil, nfs3.OK
	}
	r.Count = uint32(got)
	return buf, nfs3.OK
}

func (c *call) write() error {
	var a nfs3.WriteArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	if int(a.Count) != len(a.Data) {
		return fmt.Errorf("%w: WRITE of %d bytes with %d", errGarbage, a.Count, len(a.Data))
	}
	r := nfs3.WriteRes{Committed: a.Stable, Verf: c.writeVerf()}
	n, st, status := c.file(&a.File)
	if n != nil {
		r.Wcc.Before = preOp(&st)
	}
	switch {
	case status != nfs3.OK:
	case c.opt.ReadOnly:
		status = nfs3.ErrROFS
	default:
		if status = c.mayWriteData(n, &st); status == nfs3.OK {
			r.Count, status = c.pwrite(n, &st, &a)
		}
	}
	r.Status = status
	if n != nil {
		r.Wcc.After = c.after(n)
	}
	r.MarshalXDR(c.res)
	return nil
}

func (c *call) pwrite(n *node, st *stat, a *nfs3.WriteArgs) (uint32, nfs3.Status) {
	if a.Offset > math.MaxInt64-uint64(len(a.Data)) {
		return 0, nfs3.ErrFBig
	}
	if len(a.Data) == 0 {
		return 0, nfs3.OK
	}
	fd, err := n.writer()
	if err != nil {
		return 0, statusOf(err)
	}
	// Whose write it is decides about reserved blocks, quotas and set-id bits.
	if as := c.writesAs(fd, st); as != asServer {
		status := nfs3.OK
		if as == asUser {
			status = c.enterAs(&cred{c.uid, c.rights.own.gid, c.rights.own.groups})
		} else {
			status = c.enter()
		}
		if status != nfs3.OK {
			return 0, status
		}
		defer c.leave()
	}
	var flags int
	switch a.Stable {
	case nfs3.DataSync:
		flags = unix.RWF_DSYNC
	case nfs3.FileSync:
		flags = unix.RWF_SYNC
	}
	done := 0
	for done < len(a.Data) {
		k, err := pwriteSync(fd, a.Data[done:], int64(a.Offset)+int64(done), flags)
		if err == unix.EINTR {
			continue
		}
		if err != nil && done == 0 {
			if a.Stable != nfs3.Unstable {
				c.lost(err)
			}
			return 0, statusOf(err)
		}
		if err != nil || k == 0 {
			break // short; the client sends the rest again and gets the error
		}
		done += k
	}
	return uint32(done), nfs3.OK
}

// pwriteSync writes and, with flags, syncs just that; file systems that do not know how
// sync the whole file.
func pwriteSync(fd int, b []byte, off int64, flags int) (int, error) {
	if flags == 0 {
		return unix.Pwrite(fd, b, off)
	}
	k, err := unix.Pwritev2(fd, [][]byte{b}, off, flags)
	if err != unix.EOPNOTSUPP && err != unix.ENOSYS {
		return k, err
	}
	if k, err = unix.Pwrite(fd, b, off); err != nil {
		return k, err
	}
	if flags == unix.RWF_DSYNC {
		return k, unix.Fdatasync(fd)
	}
	return k, unix.Fsync(fd)
}

// lost changes the write verifier when the kernel could not bring data to the disk: it
// drops it then and reports it once, so clients must send again what they have not committed.
func (c *call) lost(err error) {
	switch err {
	case unix.EIO, unix.ENOSPC, unix.EDQUOT:
		c.newVerf()
	}
}

func (c *call) commit() error {
	var a nfs3.CommitArgs
	if err := c.decode(&a); err != nil {
		return err
	}
	var r nfs3.CommitRes
	r.Verf = c.writeVerf() // before: what changes it during fsync may have been ours
	n, st, status := c.file(&a.File)
	if n != nil {
		r.Wcc.Before = preOp(&st)
	}
	switch {
	case status != nfs3.OK:
	case c.mayWriteData(n, &st) != nfs3.OK && c.mayReadData(n, &st) != nfs3.OK:
		status = nfs3.ErrAcces
	default:
		// The range is a hint: metadata must go for all of the file, and fsync has no range.
		if err := n.sync(); err != nil {
			c.lost(err)
			status = statusOf(err)
		}
	}
	r.Status = status
	if n != nil {
		r.Wcc.After = c.after(n)
	}
	r.MarshalXDR(c.res)
	return nil
}
