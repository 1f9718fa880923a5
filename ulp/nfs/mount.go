package nfs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// DialMount connects to a server's MOUNT service by other means than the NFS connection; close
// ends that connection.
type DialMount func(ctx context.Context) (c Caller, close func() error, err error)

// DialMountTCP dials "host:port", from a reserved port where the process may: exports of Linux
// want one unless they are "insecure".
func DialMountTCP(address string, opts ...rpc.ClientOption) DialMount {
	return func(ctx context.Context) (Caller, func() error, error) {
		c, err := rpc.NewClient("tcp://"+address, append([]rpc.ClientOption{rpc.WithReservedPort()}, opts...)...)
		if err != nil {
			return nil, nil, err
		}
		if err := c.Connect(ctx); err != nil {
			c.Close()
			return nil, nil, err
		}
		return c, c.Close, nil
	}
}

// Exports asks a MOUNT service what it exports.
func Exports(ctx context.Context, c Caller) (mount3.Exports, error) {
	var l mount3.Exports
	err := c.Call(ctx, Mount3[mount3.ProcExport], nil, &l)
	return l, err
}

// Mount finds the export that p, a path on the server, lies in: the longest that is a prefix
// of it. rest is p within that. MOUNT is asked by c itself; where c's server has no such
// program (Linux offers it on TCP and UDP only), by dial, which may be nil.
func Mount(ctx context.Context, c Caller, p string, dial DialMount) (f *FS, rest string, err error) {
	p = path.Clean("/" + p)
	m := &mounter{c: c, close: func() error { return nil }}
	list, err := Exports(ctx, c)
	if refused(err) && dial != nil {
		if m.c, m.close, err = dial(ctx); err != nil {
			return nil, "", fmt.Errorf("mount: %w", err)
		}
		list, err = Exports(ctx, m.c)
	}
	candidates := prefixes(p)
	switch {
	case err == nil:
		if candidates = matching(list, p); len(candidates) == 0 {
			m.close()
			return nil, "", fmt.Errorf("mount %s: %w; the server exports %s", p, mount3.ErrNoEnt, names(list))
		}
	case !refused(err) || m.c == c:
		m.close()
		return nil, "", fmt.Errorf("mount: %w", err)
	}
	h, dir, err := m.mnt(ctx, candidates)
	if err != nil {
		m.close()
		return nil, "", fmt.Errorf("mount %s: %w", p, err)
	}
	m.dir = dir
	f = &FS{c: NewClient(c), root: h, export: dir, mounter: m}
	return f, "/" + strings.TrimPrefix(strings.TrimPrefix(p, dir), "/"), nil
}

// refused tells whether err is the server's RPC layer saying that it will not serve
// this, as opposed to a connection that failed.
func refused(err error) bool {
	var accept *rpcmsg.AcceptError
	var reject *rpcmsg.RejectError
	var auth *rpcmsg.AuthError
	return errors.As(err, &accept) || errors.As(err, &reject) || errors.As(err, &auth)
}

// mounter is the MOUNT service that a handle is from.
type mounter struct {
	c     Caller
	close func() error
	dir   string
}

// mnt tries the directories in turn. The first refusal is what is told: it is of the best match.
func (m *mounter) mnt(ctx context.Context, dirs []string) (nfs3.Handle, string, error) {
	var first error
	for _, dir := range dirs {
		var r mount3.MntRes
		if err := m.c.Call(ctx, Mount3[mount3.ProcMnt], &mount3.Path{Dir: dir}, &r); err != nil {
			return nfs3.Handle{}, "", err
		}
		if r.Status == mount3.OK {
			return r.Handle, dir, nil
		}
		if first == nil {
			first = fmt.Errorf("%s: %w", dir, r.Status)
			if r.Status == mount3.ErrAcces {
				first = fmt.Errorf("%w; exports of Linux that are not \"insecure\" also want a source port below 1024", first)
			}
		}
	}
	return nfs3.Handle{}, "", first
}

// unmount tells the server that the handle is not used any more. Nothing hangs on it.
func (m *mounter) unmount(ctx context.Context) error {
	err := m.c.Call(ctx, Mount3[mount3.ProcUmnt], &mount3.Path{Dir: m.dir}, nil)
	return errors.Join(err, m.close())
}

// matching are the exports that p lies in, the longest first.
func matching(l mount3.Exports, p string) []string {
	var dirs []string
	for _, e := range l {
		if within(e.Dir, p) {
			dirs = append(dirs, e.Dir)
		}
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return len(b) - len(a) })
	return dirs
}

func within(dir, p string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// prefixes are all directories that p lies in, the longest first: for servers that do not
// tell what they export.
func prefixes(p string) []string {
	dirs := []string{p}
	for p != "/" {
		p = path.Dir(p)
		dirs = append(dirs, p)
	}
	return dirs
}

func names(l mount3.Exports) string {
	if len(l) == 0 {
		return "nothing"
	}
	var s []string
	for _, e := range l {
		s = append(s, e.Dir)
	}
	return strings.Join(s, ", ")
}
