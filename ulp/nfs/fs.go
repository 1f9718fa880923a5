package nfs

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strings"
	"sync"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// FS is a mounted export: NFSv3 by paths, which begin at its root. Errors are
// *fs.PathError; errors.Is knows fs.ErrNotExist and the like, and each nfs3.Status. It
// keeps no attributes and no names: every method asks the server. It is safe for many
// goroutines.
type FS struct {
	c       *Client
	root    nfs3.Handle
	export  string
	mounter *mounter

	infoMu sync.Mutex
	info   *nfs3.FSInfoRes
}

// Node is an object with its attributes.
type Node struct {
	Handle nfs3.Handle
	Attr   nfs3.Attr
}

// NewFS is an export whose root handle is known; dir is its path on the server, which
// absolute symlinks are measured by.
func NewFS(c *Client, root nfs3.Handle, dir string) *FS {
	return &FS{c: c, root: root, export: dir}
}

// Client calls the procedures by handles.
func (f *FS) Client() *Client { return f.c }

// Root is the handle of the export's directory.
func (f *FS) Root() nfs3.Handle { return f.root }

// Export is the export's path on the server.
func (f *FS) Export() string { return f.export }

// Unmount ends the use of the export.
func (f *FS) Unmount(ctx context.Context) error {
	if f.mounter == nil {
		return nil
	}
	return f.mounter.unmount(ctx)
}

// Info is FSINFO of the root, asked for once.
func (f *FS) Info(ctx context.Context) (nfs3.FSInfoRes, error) {
	f.infoMu.Lock()
	defer f.infoMu.Unlock()
	if f.info == nil {
		r, err := f.c.FSInfo(ctx, f.root)
		if err != nil {
			return r, err
		}
		f.info = &r
	}
	return *f.info, nil
}

// maxLinks is how many symlinks one path may go through, as on Linux.
const maxLinks = 40

// walk resolves a path. Symlinks are the client's to follow (RFC 1813 §3.3.3); one that leads
// out of the export is an error, and ".." of the root is the root.
func (f *FS) walk(ctx context.Context, p string, follow bool) (Node, error) {
	stack := []Node{{Handle: f.root}}
	todo := components(p)
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if name == ".." {
			stack = stack[:max(len(stack)-1, 1)]
			continue
		}
		n, err := f.child(ctx, stack[len(stack)-1].Handle, name)
		if err != nil {
			return Node{}, err
		}
		if n.Attr.Type != nfs3.TypeLnk || len(todo) == 0 && !follow {
			stack = append(stack, n)
			continue
		}
		if links++; links > maxLinks {
			return Node{}, fmt.Errorf("more than %d symlinks", maxLinks)
		}
		target, err := f.c.ReadLink(ctx, n.Handle)
		if err != nil {
			return Node{}, err
		}
		if path.IsAbs(target) {
			if !within(f.export, target) {
				return Node{}, fmt.Errorf("symlink to %s leads out of the export %s", target, f.export)
			}
			target = strings.TrimPrefix(target, f.export)
			stack = stack[:1]
		}
		todo = append(components(target), todo...)
	}
	if len(stack) > 1 {
		return stack[len(stack)-1], nil
	}
	a, err := f.c.GetAttr(ctx, f.root)
	return Node{f.root, a}, err
}

func components(p string) []string {
	var cs []string
	for c := range strings.SplitSeq(p, "/") {
		if c != "" && c != "." {
			cs = append(cs, c)
		}
	}
	return cs
}

func (f *FS) child(ctx context.Context, dir nfs3.Handle, name string) (Node, error) {
	r, err := f.c.Lookup(ctx, dir, name)
	if err != nil {
		return Node{}, err
	}
	n := Node{r.Object, r.Attr.Attr}
	if !r.Attr.Set {
		n.Attr, err = f.c.GetAttr(ctx, n.Handle)
	}
	return n, err
}

// parent resolves the directory that a path ends in, and gives the last name.
func (f *FS) parent(ctx context.Context, p string) (nfs3.Handle, string, error) {
	dir, name := path.Split(path.Clean("/" + p))
	if name == "" {
		return nfs3.Handle{}, "", fmt.Errorf("the export's root: %w", fs.ErrInvalid)
	}
	n, err := f.walk(ctx, dir, true)
	return n.Handle, name, err
}

func pathError(op, p string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: p, Err: err}
}

// Stat finds an object; symlinks are followed.
func (f *FS) Stat(ctx context.Context, p string) (Node, error) {
	n, err := f.walk(ctx, p, true)
	return n, pathError("stat", p, err)
}

// Lstat finds an object; a symlink at the end is not followed.
func (f *FS) Lstat(ctx context.Context, p string) (Node, error) {
	n, err := f.walk(ctx, p, false)
	return n, pathError("lstat", p, err)
}

// List lists a directory with attributes and handles, in the server's order, or what is no
// directory as itself. An error ends the list.
func (f *FS) List(ctx context.Context, p string) iter.Seq2[nfs3.Entry, error] {
	return func(yield func(nfs3.Entry, error) bool) {
		n, err := f.walk(ctx, p, true)
		if err != nil {
			yield(nfs3.Entry{}, pathError("list", p, err))
			return
		}
		if n.Attr.Type != nfs3.TypeDir {
			yield(nfs3.Entry{FileID: n.Attr.FileID, Name: path.Base(p), Attr: nfs3.PostOpAttr{Set: true, Attr: n.Attr},
				Object: nfs3.PostOpHandle{Set: true, Handle: n.Handle}}, nil)
			return
		}
		for e, err := range f.c.list(ctx, n.Handle) {
			if !yield(e, pathError("list", p, err)) {
				return
			}
		}
	}
}

// Mkdir makes a directory.
func (f *FS) Mkdir(ctx context.Context, p string, mode fs.FileMode) error {
	dir, name, err := f.parent(ctx, p)
	if err == nil {
		_, err = f.c.Mkdir(ctx, dir, name, nfs3.Sattr{Mode: nfs3.U32(uint32(mode.Perm()))})
	}
	return pathError("mkdir", p, err)
}

// Remove removes a file, symlink or other name that is not a directory's.
func (f *FS) Remove(ctx context.Context, p string) error {
	dir, name, err := f.parent(ctx, p)
	if err == nil {
		err = f.c.Remove(ctx, dir, name)
	}
	return pathError("remove", p, err)
}

// Rmdir removes an empty directory.
func (f *FS) Rmdir(ctx context.Context, p string) error {
	dir, name, err := f.parent(ctx, p)
	if err == nil {
		err = f.c.Rmdir(ctx, dir, name)
	}
	return pathError("rmdir", p, err)
}
