package nfs

import (
	"context"
	"errors"
	"iter"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// dirCount is what one READDIR or READDIRPLUS asks for at most.
const dirCount = 64 << 10

// ReadDir lists the names in a directory, "." and ".." included, with file ids and cookies.
// An error ends the list.
func (c *Client) ReadDir(ctx context.Context, dir nfs3.Handle) iter.Seq2[nfs3.Entry, error] {
	return c.readDir(ctx, dir, false)
}

// ReadDirPlus is ReadDir with the attributes and handles that the server gives with the names.
func (c *Client) ReadDirPlus(ctx context.Context, dir nfs3.Handle) iter.Seq2[nfs3.Entry, error] {
	return c.readDir(ctx, dir, true)
}

func (c *Client) readDir(ctx context.Context, dir nfs3.Handle, plus bool) iter.Seq2[nfs3.Entry, error] {
	return func(yield func(nfs3.Entry, error) bool) {
		var cookie uint64
		var verf nfs3.Verf
		for {
			page, err := c.page(ctx, dir, cookie, verf, plus)
			if err == nil && len(page.Entries) == 0 && !page.EOF {
				err = nfs3.ErrTooSmall // it would say the same for ever
			}
			if err != nil {
				yield(nfs3.Entry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
				cookie = e.Cookie
			}
			if page.EOF {
				return
			}
			verf = page.Verf
		}
	}
}

func (c *Client) page(ctx context.Context, dir nfs3.Handle, cookie uint64, verf nfs3.Verf, plus bool) (nfs3.DirRes, error) {
	r := nfs3.DirRes{Plus: plus}
	if plus {
		args := nfs3.ReadDirPlusArgs{Dir: dir, Cookie: cookie, Verf: verf, DirCount: dirCount, MaxCount: dirCount}
		err := c.call(ctx, nfs3.ProcReadDirPlus, &args, &r, &r.Status)
		return r, err
	}
	args := nfs3.ReadDirArgs{Dir: dir, Cookie: cookie, Verf: verf, Count: dirCount}
	err := c.call(ctx, nfs3.ProcReadDir, &args, &r, &r.Status)
	return r, err
}

// list is ReadDirPlus, or ReadDir of a server without it, less "." and "..". Attributes
// that the server left out are asked for.
func (c *Client) list(ctx context.Context, dir nfs3.Handle) iter.Seq2[nfs3.Entry, error] {
	return func(yield func(nfs3.Entry, error) bool) {
		for _, plus := range [...]bool{true, false} {
			unsupported := false
			for e, err := range c.readDir(ctx, dir, plus) {
				if plus && errors.Is(err, nfs3.ErrNotSupp) {
					unsupported = true
					break
				}
				if err == nil && (e.Name == "." || e.Name == "..") {
					continue
				}
				if err == nil && (!e.Attr.Set || !e.Object.Set) {
					c.complete(ctx, dir, &e)
				}
				if !yield(e, err) {
					return
				}
			}
			if !unsupported {
				return
			}
		}
	}
}

// complete adds attributes and handle, if they are to be had.
func (c *Client) complete(ctx context.Context, dir nfs3.Handle, e *nfs3.Entry) {
	r, err := c.Lookup(ctx, dir, e.Name)
	if err != nil {
		return
	}
	e.Object, e.Attr = nfs3.PostOpHandle{Set: true, Handle: r.Object}, r.Attr
	if !e.Attr.Set {
		a, err := c.GetAttr(ctx, r.Object)
		e.Attr = nfs3.PostOpAttr{Set: err == nil, Attr: a}
	}
}
