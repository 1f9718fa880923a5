package nfs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

const (
	// putMode is that of a file that replaces none.
	putMode = 0o644
	// putRounds is how often data is written again when the server lost it before it was
	// committed.
	putRounds = 5
	// cleanupTime is what removing an unfinished file may take, after its context has ended.
	cleanupTime = 10 * time.Second
)

// Put writes size bytes of r to a file, which appears under its name, or replaces what
// has it, when it is complete and on the server's stable storage. Until then it has
// another name in the same directory; if it fails, or ctx ends, that is removed. A file that is
// replaced leaves its permissions to the new one.
func (f *FS) Put(ctx context.Context, r io.ReaderAt, size int64, p string, t Transfer) error {
	return pathError("put", p, f.put(ctx, r, size, p, nil, t))
}

// PutFile is Put of a local file, with its permissions where it replaces none; p may be a
// directory.
func (f *FS) PutFile(ctx context.Context, local, p string, t Transfer) error {
	r, err := os.Open(local)
	if err != nil {
		return err
	}
	defer r.Close()
	st, err := r.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return &os.PathError{Op: "put", Path: local, Err: errors.New("not a regular file")}
	}
	if n, err := f.walk(ctx, p, true); err == nil && n.Attr.Type == nfs3.TypeDir {
		p = path.Join(p, filepath.Base(local))
	}
	mode := uint32(st.Mode().Perm())
	return pathError("put", p, f.put(ctx, r, st.Size(), p, &mode, t))
}

func (f *FS) put(ctx context.Context, r io.ReaderAt, size int64, p string, mode *uint32, t Transfer) (err error) {
	info, err := f.Info(ctx)
	if err != nil {
		return err
	}
	dir, name, err := f.parent(ctx, p)
	if err != nil {
		return err
	}
	final := uint32(putMode)
	if mode != nil {
		final = *mode
	}
	switch old, err := f.child(ctx, dir, name); {
	case errors.Is(err, nfs3.ErrNoEnt):
	case err != nil:
		return err
	case old.Attr.Type == nfs3.TypeDir:
		return nfs3.ErrIsDir
	case old.Attr.Type == nfs3.TypeReg:
		final = old.Attr.Mode
	}
	var random [8]byte
	rand.Read(random[:])
	part := partName(random)
	defer func() {
		if err != nil {
			f.discard(ctx, dir, part)
		}
	}()
	sure, release := graced(ctx)
	defer release()
	h, err := f.begin(sure, dir, part, random)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	window, chunk := t.shape(size, info.WTPref, info.WTMax)
	u := &upload{f: f, h: h, r: r, size: size, chunk: chunk, done: make([]written, chunks(size, chunk)),
		m: meter{tell: t.Progress, total: size}}
	if err := u.run(ctx, window); err != nil {
		return err
	}
	// The verifier of an exclusive CREATE may lie in the times.
	now := nfs3.SetTime{How: nfs3.ServerTime}
	if _, err := f.c.SetAttr(ctx, h, nfs3.Sattr{Mode: nfs3.U32(final & 0o777), Atime: now, Mtime: now}, nil); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	err = f.c.Rename(sure, dir, part, dir, name)
	if errors.Is(err, nfs3.ErrNoEnt) {
		// Carried out, the reply lost with its connection, and carried out again by a server
		// that does not know the call any more?
		if n, e := f.child(sure, dir, name); e == nil && n.Handle == h {
			return nil
		}
	}
	return err
}

// graced outlives ctx by cleanupTime. It is for calls whose outcome must be known: a CREATE that
// was given up could still be carried out, after the REMOVE that is to undo it.
func graced(ctx context.Context) (context.Context, func()) {
	sure, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(cleanupTime, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(sure, func() { t.Stop() })
	})
	return sure, func() {
		stop()
		cancel(nil)
	}
}

// begin makes the file to write to: exclusively, so that a call that is repeated after a
// lost connection finds its own file; plainly on servers that cannot.
func (f *FS) begin(ctx context.Context, dir nfs3.Handle, part string, verf nfs3.Verf) (nfs3.Handle, error) {
	c, err := f.c.CreateExclusive(ctx, dir, part, verf)
	if errors.Is(err, nfs3.ErrNotSupp) {
		c, err = f.c.Create(ctx, dir, part, nfs3.Guarded, nfs3.Sattr{Mode: nfs3.U32(0o600)})
	}
	if err != nil || c.Object.Set {
		return c.Object.Handle, err
	}
	n, err := f.child(ctx, dir, part)
	return n.Handle, err
}

// discard removes an unfinished file, also when ctx has ended.
func (f *FS) discard(ctx context.Context, dir nfs3.Handle, part string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	f.c.Remove(ctx, dir, part)
}

// upload writes a file without waiting for the disk at each WRITE, then commits, and
// writes again what the server says it may have lost meanwhile (RFC 1813 §3.3.7, §3.3.21).
type upload struct {
	f     *FS
	h     nfs3.Handle
	r     io.ReaderAt
	size  int64
	chunk int64
	m     meter

	done []written // by chunk; each is one worker's at a time
}

// written is under which verifier a chunk was.
type written struct {
	verf   nfs3.Verf
	stable bool // no commit needed
	torn   bool // its parts were written under several verifiers
	told   bool // to the meter
}

func (u *upload) run(ctx context.Context, window int) error {
	var pending func(i int64) bool // nil: all
	for range putRounds {
		if err := move(ctx, window, int64(len(u.done)), u.chunk, pending, u.write); err != nil {
			return err
		}
		unstable := false
		for i := range u.done {
			unstable = unstable || !u.done[i].stable
		}
		if !unstable {
			return nil
		}
		verf, err := u.f.c.Commit(ctx, u.h, 0, 0)
		if err != nil {
			return err
		}
		pending = func(i int64) bool { return !u.done[i].stable && (u.done[i].torn || u.done[i].verf != verf) }
		lost := false
		for i := range u.done {
			lost = lost || pending(int64(i))
		}
		if !lost {
			return nil
		}
	}
	return fmt.Errorf("the server lost uncommitted data %d times", putRounds)
}

func (u *upload) write(ctx context.Context, i int64, b *rpc.Buffer) error {
	off := i * u.chunk
	n := int(min(u.chunk, u.size-off))
	if k, err := u.r.ReadAt(b.Bytes()[:n], off); k < n {
		if err == nil || err == io.EOF {
			err = fmt.Errorf("the source became shorter: %w", io.ErrUnexpectedEOF)
		}
		return err
	}
	w := written{stable: true, told: u.done[i].told}
	for at := 0; at < n; {
		r, err := u.f.c.WriteBuffer(ctx, u.h, uint64(off)+uint64(at), b, at, n-at, nfs3.Unstable)
		if err != nil {
			return err
		}
		if r.Count == 0 {
			return fmt.Errorf("%w: the server writes nothing", nfs3.ErrIO)
		}
		w.torn = w.torn || at > 0 && r.Verf != w.verf
		w.verf = r.Verf
		w.stable = w.stable && r.Committed >= nfs3.DataSync
		at += int(r.Count)
	}
	if !w.told {
		w.told = true
		u.m.add(int64(n))
	}
	u.done[i] = w
	return nil
}
