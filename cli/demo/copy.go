package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

const (
	slabBytes  = 32 << 20 // of registered memory; a batch is read into it, digested, and written from it
	pieceBytes = 1 << 20
)

// piece is part of a file, or an empty file.
type piece struct {
	n    *node
	file *open3
	off  int64
	len  int
	at   int // in the slab
}

// open3 is a file that is being copied.
type open3 struct {
	sum    hash.Hash
	handle nfs3.Handle // at the target
}

// copier is the state of one pass.
type copier struct {
	from, to side
	back     string
	tell     func(step string, done, total int64)
	result   *passResult

	slab  *rpc.Buffer
	dirs  map[string]nfs3.Handle // at the target, by path in the source
	piece int                    // bytes of a READ and a WRITE
}

func (c *copier) run(ctx context.Context, nodes []node) (err error) {
	c.result.Received = Digest{}
	if c.slab, err = rpc.NewBuffer(slabBytes); err != nil {
		return err
	}
	defer c.slab.Free()
	if err := c.sizes(ctx); err != nil {
		return err
	}
	start := time.Now()
	if err := c.directories(ctx, nodes); err != nil {
		return fmt.Errorf("make directories: %w", err)
	}
	if err := c.links(ctx, nodes); err != nil {
		return fmt.Errorf("symlinks: %w", err)
	}
	c.result.List += time.Since(start)

	var total, done int64
	for i := range nodes {
		total += nodes[i].size
	}
	var batch []piece
	at := 0
	flush := func() error {
		if err := c.batch(ctx, batch); err != nil {
			return err
		}
		done += int64(at)
		c.tell("copy", done, total)
		batch, at = batch[:0], 0
		return nil
	}
	for i := range nodes {
		n := &nodes[i]
		if n.typ != nfs3.TypeReg {
			continue
		}
		file := &open3{sum: sha256.New()}
		for off := int64(0); off == 0 || off < n.size; off += int64(c.piece) {
			p := piece{n: n, file: file, off: off, len: int(min(int64(c.piece), n.size-off)), at: at}
			if at+p.len > slabBytes {
				if err := flush(); err != nil {
					return err
				}
				p.at = 0
			}
			batch = append(batch, p)
			at += p.len
		}
	}
	return flush()
}

// sizes settles how much goes into one call.
func (c *copier) sizes(ctx context.Context) error {
	c.piece = pieceBytes
	for _, s := range []side{c.from, c.to} {
		info, err := s.fs.Info(ctx)
		if err != nil {
			return err
		}
		c.piece = min(c.piece, int(info.RTMax), int(info.WTMax))
	}
	if c.piece <= 0 {
		return errors.New("the server takes no data")
	}
	return nil
}

// directories makes the source's directories at the target; parents come first in nodes.
func (c *copier) directories(ctx context.Context, nodes []node) error {
	made, err := c.mkdir(ctx, c.to.fs.Root(), c.back)
	if err != nil {
		return err
	}
	c.dirs = map[string]nfs3.Handle{".": made}
	for _, n := range nodes {
		if n.typ != nfs3.TypeDir {
			continue
		}
		h, err := c.mkdir(ctx, c.dirs[path.Dir(n.path)], path.Base(n.path))
		if err != nil {
			return fmt.Errorf("%s: %w", n.path, err)
		}
		c.dirs[n.path] = h
		c.result.Received[n.path] = Entry{Kind: "dir"}
	}
	return nil
}

func (c *copier) mkdir(ctx context.Context, in nfs3.Handle, name string) (nfs3.Handle, error) {
	r, err := c.to.fs.Client().Mkdir(ctx, in, name, nfs3.Sattr{Mode: nfs3.U32(0o755)})
	if err == nil && !r.Object.Set {
		l, err := c.to.fs.Client().Lookup(ctx, in, name)
		return l.Object, err
	}
	return r.Object.Handle, err
}

func (c *copier) links(ctx context.Context, nodes []node) error {
	for _, n := range nodes {
		if n.typ != nfs3.TypeLnk {
			continue
		}
		to, err := c.from.fs.Client().ReadLink(ctx, n.handle)
		if err == nil {
			_, err = c.to.fs.Client().Symlink(ctx, c.dirs[path.Dir(n.path)], path.Base(n.path), to, nfs3.Sattr{})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n.path, err)
		}
		c.result.Received[n.path] = Entry{Kind: "link", Sum: to}
	}
	return nil
}

// batch reads pieces into the slab, digests them there, and writes them from there.
func (c *copier) batch(ctx context.Context, batch []piece) error {
	start := time.Now()
	err := each(ctx, len(batch), func(ctx context.Context, i int) error {
		p := &batch[i]
		if err := c.read(ctx, p); err != nil {
			return fmt.Errorf("read %s at %d: %w", p.n.path, p.off, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.result.Read += time.Since(start)
	for i := range batch {
		p := &batch[i]
		p.file.sum.Write(c.slab.Bytes()[p.at : p.at+p.len])
		if p.off+int64(p.len) == p.n.size {
			c.result.Received[p.n.path] = Entry{Kind: "file", Size: p.n.size, Sum: hex.EncodeToString(p.file.sum.Sum(nil))}
		}
	}
	start = time.Now()
	err = each(ctx, len(batch), func(ctx context.Context, i int) error { return c.create(ctx, &batch[i]) })
	if err == nil {
		err = each(ctx, len(batch), func(ctx context.Context, i int) error {
			p := &batch[i]
			if err := c.write(ctx, p); err != nil {
				return fmt.Errorf("write %s at %d: %w", p.n.path, p.off, err)
			}
			return nil
		})
	}
	c.result.Write += time.Since(start)
	return err
}

// read fills a piece by READs into the slab: with a Write chunk, unless all of the reply fits inline.
func (c *copier) read(ctx context.Context, p *piece) error {
	for n := 0; n < p.len; {
		args := nfs3.ReadArgs{File: p.n.handle, Offset: uint64(p.off) + uint64(n), Count: uint32(p.len - n)}
		r := nfs3.ReadRes{Dst: c.slab.Bytes()[p.at+n : p.at+p.len]}
		if err := c.from.rpc.Call(ctx, nfs.NFS3[nfs3.ProcRead], &args, &r, rpc.IntoBuffer(c.slab, p.at+n, p.len-n)); err != nil {
			return err
		}
		if r.Status != nfs3.OK {
			return r.Status
		}
		if r.Count == 0 {
			return io.ErrUnexpectedEOF
		}
		n += int(r.Count)
	}
	return nil
}

// create makes the file that a first piece begins.
func (c *copier) create(ctx context.Context, p *piece) error {
	if p.off != 0 {
		return nil
	}
	client, dir, name := c.to.fs.Client(), c.dirs[path.Dir(p.n.path)], path.Base(p.n.path)
	r, err := client.Create(ctx, dir, name, nfs3.Guarded, nfs3.Sattr{Mode: nfs3.U32(0o644)})
	if err != nil {
		return fmt.Errorf("create %s: %w", p.n.path, err)
	}
	p.file.handle = r.Object.Handle
	if !r.Object.Set {
		l, err := client.Lookup(ctx, dir, name)
		if err != nil {
			return err
		}
		p.file.handle = l.Object
	}
	return nil
}

// write empties a piece by WRITEs with a Read chunk from the slab.
func (c *copier) write(ctx context.Context, p *piece) error {
	for n := 0; n < p.len; {
		r, err := c.to.fs.Client().WriteBuffer(ctx, p.file.handle, uint64(p.off)+uint64(n), c.slab, p.at+n, p.len-n, nfs3.Unstable)
		if err != nil {
			return err
		}
		if r.Count == 0 {
			return io.ErrShortWrite
		}
		n += int(r.Count)
	}
	return nil
}
