package nfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// Get reads a whole regular file into w, in pieces and any order. It returns the file's
// attributes as it found them; w then has Size bytes.
func (f *FS) Get(ctx context.Context, p string, w io.WriterAt, t Transfer) (nfs3.Attr, error) {
	n, err := f.walk(ctx, p, true)
	if err == nil {
		err = f.get(ctx, n, placeAt(w), t)
	}
	return n.Attr, pathError("get", p, err)
}

// GetTo is Get for what takes bytes in their order only, such as a pipe. What w has when GetTo fails is
// the beginning of the file.
func (f *FS) GetTo(ctx context.Context, p string, w io.Writer, t Transfer) (nfs3.Attr, error) {
	n, err := f.walk(ctx, p, true)
	if err == nil {
		err = f.get(ctx, n, newQueue(w).place, t)
	}
	return n.Attr, pathError("get", p, err)
}

// queue lets pieces wait for their turn. They are begun in order, so the one whose turn it is never
// waits for another.
type queue struct {
	w io.Writer

	mu    sync.Mutex // guards what follows, and writing
	at    int64
	moved chan struct{} // closed when at has changed
	err   error         // w's
}

func newQueue(w io.Writer) *queue { return &queue{w: w, moved: make(chan struct{})} }

func (q *queue) place(ctx context.Context, b []byte, off int64) error {
	for {
		q.mu.Lock()
		if q.at == off && q.err == nil {
			defer q.mu.Unlock()
			var n int
			n, q.err = q.w.Write(b)
			q.at += int64(n)
			close(q.moved)
			q.moved = make(chan struct{})
			return q.err
		}
		moved, err := q.moved, q.err
		q.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// placeAt is for what takes pieces in any order.
func placeAt(w io.WriterAt) func(context.Context, []byte, int64) error {
	return func(_ context.Context, b []byte, off int64) error {
		_, err := w.WriteAt(b, off)
		return err
	}
}

func (f *FS) get(ctx context.Context, n Node, place func(ctx context.Context, b []byte, off int64) error, t Transfer) error {
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
			if err := place(ctx, r.Data, off); err != nil {
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
		return n.Attr, pathError("get", local, errors.New("is there and no regular file, and would be replaced"))
	}
	var random [8]byte
	rand.Read(random[:])
	part := filepath.Join(filepath.Dir(local), partName(random))
	w, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, os.FileMode(n.Attr.Mode&0o777))
	if err != nil {
		return n.Attr, err
	}
	err = f.get(ctx, n, placeAt(w), t)
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
