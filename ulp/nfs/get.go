package nfs

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// Get reads a whole regular file into w, in pieces and any order. It returns the file's
// attributes as it found them; w then has Size bytes.
func (f *FS) Get(ctx context.Context, p string, w io.WriterAt, t Transfer) (nfs3.Attr, error) {
	n, err := f.walk(ctx, p, true)
	if err == nil {
		err = f.get(ctx, n, w, t)
	}
	return n.Attr, pathError("get", p, err)
}

func (f *FS) get(ctx context.Context, n Node, w io.WriterAt, t Transfer) error {
	if err := regular(n); err != nil {
		return err
	}
	info, err := f.Info(ctx)
	if err != nil {
		return err
	}
	size := int64(n.Attr.Size)
	window, chunk := t.shape(size, info.RTPref, info.RTMax)
	m := meter{tell: t.Progress, total: size}
	return move(ctx, window, chunks(size, chunk), chunk, nil, func(ctx context.Context, i int64, b *rpc.Buffer) error {
		for off, end := i*chunk, min(i*chunk+chunk, size); off < end; {
			r, err := f.c.ReadBuffer(ctx, n.Handle, uint64(off), b, int(end-off))
			if err != nil {
				return err
			}
			if r.Count == 0 {
				return fmt.Errorf("the file became shorter: %w", io.ErrUnexpectedEOF)
			}
			if _, err := w.WriteAt(r.Data, off); err != nil {
				return err
			}
			off += int64(r.Count)
			m.add(int64(r.Count))
		}
		return nil
	})
}

func regular(n Node) error {
	switch n.Attr.Type {
	case nfs3.TypeReg:
		return nil
	case nfs3.TypeDir:
		return nfs3.ErrIsDir
	}
	return fmt.Errorf("%w: a %v", nfs3.ErrInval, n.Attr.Type)
}

// GetFile reads a whole file into a local one, which appears under its name when it is
// complete and on disk; local may be a directory, and what has the name already a regular
// file. It has the remote file's permissions, less the umask.
func (f *FS) GetFile(ctx context.Context, p, local string, t Transfer) (nfs3.Attr, error) {
	n, err := f.walk(ctx, p, true)
	if err == nil {
		err = regular(n)
	}
	if err != nil {
		return n.Attr, pathError("get", p, err)
	}
	if st, err := os.Stat(local); err == nil && st.IsDir() {
		local = filepath.Join(local, filepath.Base(p))
	}
	if st, err := os.Stat(local); err == nil && !st.Mode().IsRegular() {
		return n.Attr, fmt.Errorf("%s is there and is no regular file; it would be replaced", local)
	}
	var random [8]byte
	rand.Read(random[:])
	part := filepath.Join(filepath.Dir(local), partName(random))
	w, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(n.Attr.Mode&0o777))
	if err != nil {
		return n.Attr, err
	}
	err = f.get(ctx, n, w, t)
	if err != nil {
		err = pathError("get", p, err)
	} else {
		err = w.Sync()
	}
	if e := w.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(part, local)
	}
	if err != nil {
		os.Remove(part)
	}
	return n.Attr, err
}
