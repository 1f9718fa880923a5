package demo

import (
	"cmp"
	"context"
	"path"
	"slices"
	"sync"

	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// node is an object of the source.
type node struct {
	path   string // relative
	typ    nfs3.FileType
	size   int64
	handle nfs3.Handle
}

// callers is how many calls a pass has in flight.
const callers = 16

// list walks the export, several directories at a time; the result is sorted by path,
// so that a directory comes before what is in it.
func list(ctx context.Context, f *nfs.FS) ([]node, error) {
	var (
		mu    sync.Mutex
		nodes []node
	)
	level := []node{{handle: f.Root()}}
	for len(level) > 0 {
		var next []node
		err := each(ctx, len(level), func(ctx context.Context, i int) error {
			found, err := listDir(ctx, f.Client(), level[i])
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, found...)
			for _, n := range found {
				if n.typ == nfs3.TypeDir {
					next = append(next, n)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		level = next
	}
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.path, b.path) })
	return nodes, nil
}

func listDir(ctx context.Context, c *nfs.Client, dir node) (found []node, err error) {
	for e, err := range c.ReadDirPlus(ctx, dir.handle) {
		if err != nil {
			return nil, err
		}
		if e.Name == "." || e.Name == ".." {
			continue
		}
		n := node{path: path.Join(dir.path, e.Name), handle: e.Object.Handle}
		attr := e.Attr
		if !e.Object.Set { // RFC 1813 §3.3.17: a server may leave both out
			r, err := c.Lookup(ctx, dir.handle, e.Name)
			if err != nil {
				return nil, err
			}
			n.handle, attr = r.Object, r.Attr
		}
		if !attr.Set {
			if attr.Attr, err = c.GetAttr(ctx, n.handle); err != nil {
				return nil, err
			}
		}
		n.typ, n.size = attr.Attr.Type, int64(attr.Attr.Size)
		if n.typ == nfs3.TypeDir || n.typ == nfs3.TypeReg || n.typ == nfs3.TypeLnk {
			found = append(found, n)
		}
	}
	return found, nil
}

// each runs work for 0…n-1 on as many goroutines as there are callers. The first error ends it.
func each(ctx context.Context, n int, work func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := 0
	for range min(callers, n) {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				if err := work(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
