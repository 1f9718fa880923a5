package server3

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// The main thread is kept out of the tests: the runtime parks it where it would end another.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig calls the procedures of a server over no transport.
type rig struct {
	*testing.T
	s    *Server
	dir  string
	cred rpcmsg.Auth
	peer netip.AddrPort
	mem  *testMemory
	root nfs3.Handle

	shared bool // another rig serves the same directory
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	return rigAt(t, t.TempDir(), o)
}

func rigAt(t *testing.T, dir string, o Options) *rig {
	t.Helper()
	o.Async = true // the disk's own slowness is no part of most tests
	if o.Secret == nil {
		o.Secret = testKey
	}
	s, err := New(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, s: s, dir: dir, mem: &testMemory{}, peer: netip.MustParseAddrPort("192.0.2.7:700")}
	t.Cleanup(func() {
		r.s.Close()
		if !r.shared {
			r.noDescriptors()
		}
		if n := r.mem.out.Load(); n != 0 {
			t.Errorf("%d buffers were not freed", n)
		}
	})
	r.root = r.mount("/")
	r.as(0)
	return r
}

// needRoot skips where the server could not act for others.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: files of several owners")
	}
}

// as makes further calls those of uid, with its own group and these.
func (r *rig) as(uid uint32, groups ...uint32) {
	a, err := (&rpcmsg.Sys{Machine: "test", UID: uid, GID: uid, GIDs: groups}).Auth()
	if err != nil {
		r.Fatal(err)
	}
	r.cred = a
}

// testMemory counts what is out.
type testMemory struct{ out atomic.Int64 }

type testBuffer struct {
	m *testMemory
	b []byte
}

func (m *testMemory) buffer(n int) (buffer, error) {
	m.out.Add(1)
	return &testBuffer{m, make([]byte, n)}, nil
}

func (b *testBuffer) Bytes() []byte       { return b.b }
func (b *testBuffer) Free()               { b.m.out.Add(-1) }
func (b *testBuffer) Bulk(n int) xdr.Bulk { return xdr.Bulk{Data: b.b[:n], Release: b.Free} }

// try runs one procedure on encoded arguments.
func (r *rig) try(run func(*call) error, args []byte, res xdr.Unmarshaler) error {
	r.Helper()
	var w xdr.Writer
	c := &call{Server: r.s, args: xdr.NewReader(args), res: &w, mem: r.mem, peer: r.peer}
	defer c.done()
	defer w.DropBulk()
	var err error
	if c.cred, err = r.s.identify(r.cred, &c.sys); err != nil {
		return err
	}
	if err := run(c); err != nil {
		return err
	}
	rd := xdr.NewReader(w.AppendUnreduced(nil))
	if res != nil {
		res.UnmarshalXDR(rd)
	}
	if err := rd.Done(); err != nil {
		r.Fatalf("results do not decode: %v", err)
	}
	return nil
}

func encode(args xdr.Marshaler) []byte {
	var w xdr.Writer
	if args != nil {
		args.MarshalXDR(&w)
	}
	return w.AppendUnreduced(nil)
}

func (r *rig) do(proc int, args xdr.Marshaler, res xdr.Unmarshaler) {
	r.Helper()
	if err := r.try(procs[proc], encode(args), res); err != nil {
		r.Fatalf("procedure %d: %v", proc, err)
	}
}

func (r *rig) mount(dir string) nfs3.Handle {
	r.Helper()
	res := r.mnt(dir)
	if res.Status != mount3.OK {
		r.Fatalf("MNT %s: %v", dir, res.Status)
	}
	return res.Handle
}

func (r *rig) mnt(dir string) mount3.MntRes {
	r.Helper()
	var res mount3.MntRes
	if err := r.try(mountProcs[mount3.ProcMnt], encode(&mount3.Path{Dir: dir}), &res); err != nil {
		r.Fatal(err)
	}
	return res
}

func (r *rig) lookup(dir nfs3.Handle, name string) nfs3.LookupRes {
	r.Helper()
	var res nfs3.LookupRes
	r.do(nfs3.ProcLookup, &nfs3.DirOpArgs{What: nfs3.DirOp{Dir: dir, Name: name}}, &res)
	return res
}

// handle walks names from the root.
func (r *rig) handle(names ...string) nfs3.Handle {
	r.Helper()
	h := r.root
	for _, n := range names {
		res := r.lookup(h, n)
		if res.Status != nfs3.OK {
			r.Fatalf("LOOKUP %s: %v", n, res.Status)
		}
		h = res.Object
	}
	return h
}

func (r *rig) getattr(h nfs3.Handle) nfs3.GetAttrRes {
	r.Helper()
	var res nfs3.GetAttrRes
	r.do(nfs3.ProcGetAttr, &nfs3.HandleArgs{Object: h}, &res)
	return res
}

func (r *rig) create(dir nfs3.Handle, name string, mode uint32) nfs3.CreateRes {
	r.Helper()
	var res nfs3.CreateRes
	r.do(nfs3.ProcCreate, &nfs3.CreateArgs{Where: nfs3.DirOp{Dir: dir, Name: name}, Mode: nfs3.Guarded,
		Attr: nfs3.Sattr{Mode: nfs3.U32(mode)}}, &res)
	return res
}

func (r *rig) mkdir(dir nfs3.Handle, name string, mode uint32) nfs3.CreateRes {
	r.Helper()
	var res nfs3.CreateRes
	r.do(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: nfs3.DirOp{Dir: dir, Name: name},
		Attr: nfs3.Sattr{Mode: nfs3.U32(mode)}}, &res)
	return res
}

func (r *rig) remove(dir nfs3.Handle, name string) nfs3.WccRes {
	r.Helper()
	var res nfs3.WccRes
	r.do(nfs3.ProcRemove, &nfs3.DirOpArgs{What: nfs3.DirOp{Dir: dir, Name: name}}, &res)
	return res
}

func (r *rig) rename(fromDir nfs3.Handle, from string, toDir nfs3.Handle, to string) nfs3.RenameRes {
	r.Helper()
	var res nfs3.RenameRes
	r.do(nfs3.ProcRename, &nfs3.RenameArgs{From: nfs3.DirOp{Dir: fromDir, Name: from}, To: nfs3.DirOp{Dir: toDir, Name: to}}, &res)
	return res
}

func (r *rig) read(h nfs3.Handle, off uint64, n uint32) nfs3.ReadRes {
	r.Helper()
	res := nfs3.ReadRes{Dst: make([]byte, min(n, nfs3.MaxData))}
	r.do(nfs3.ProcRead, &nfs3.ReadArgs{File: h, Offset: off, Count: n}, &res)
	return res
}

func (r *rig) write(h nfs3.Handle, off uint64, b []byte, how nfs3.StableHow) nfs3.WriteRes {
	r.Helper()
	var res nfs3.WriteRes
	r.do(nfs3.ProcWrite, &nfs3.WriteArgs{File: h, Offset: off, Count: uint32(len(b)), Stable: how, Data: b}, &res)
	return res
}

func (r *rig) setattr(h nfs3.Handle, a nfs3.Sattr) nfs3.WccRes {
	r.Helper()
	var res nfs3.WccRes
	r.do(nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Object: h, Attr: a}, &res)
	return res
}

// want fails unless a status is the one expected.
func (r *rig) want(what string, got, want nfs3.Status) {
	r.Helper()
	if got != want {
		r.Errorf("%s: %v, want %v", what, got, want)
	}
}

// file makes a file below the export, behind the server's back.
func (r *rig) file(path string, mode uint32, uid int, data string) {
	r.Helper()
	p := filepath.Join(r.dir, path)
	if err := os.WriteFile(p, []byte(data), 0o600); err != nil {
		r.Fatal(err)
	}
	r.own(path, mode, uid)
}

func (r *rig) subdir(path string, mode uint32, uid int) {
	r.Helper()
	if err := os.Mkdir(filepath.Join(r.dir, path), 0o700); err != nil {
		r.Fatal(err)
	}
	r.own(path, mode, uid)
}

func (r *rig) own(path string, mode uint32, uid int) {
	r.Helper()
	p := filepath.Join(r.dir, path)
	if os.Geteuid() == 0 {
		if err := unix.Chown(p, uid, uid); err != nil {
			r.Fatal(err)
		}
	}
	if err := unix.Chmod(p, mode); err != nil {
		r.Fatal(err)
	}
}

// cold makes the server forget what it has open.
func (r *rig) cold() { r.s.nodes.close() }

// noDescriptors fails if anything below the export is still open.
func (r *rig) noDescriptors() {
	r.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		r.Fatal(err)
	}
	for _, fd := range fds {
		if p, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(p, r.dir) {
			r.Errorf("still open: %s", p)
		}
	}
}

// restart replaces the server by a new one on the same directory.
func (r *rig) restart(o Options) {
	r.Helper()
	r.s.Close()
	o.Async = true
	if o.Secret == nil {
		o.Secret = testKey
	}
	s, err := New(r.dir, o)
	if err != nil {
		r.Fatal(err)
	}
	r.s = s
}
