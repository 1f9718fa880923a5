//go:build linux

package nfs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/server3"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// transports are the ways between client and server that are tried.
var transports = []struct {
	name string
	url  string
	opts []rpc.ConnOption
}{
	{"v2", "loopback://127.0.0.1:0", nil},
	{"v1", "loopback://127.0.0.1:0", []rpc.ConnOption{rpc.WithVersions(1, 1)}},
	{"v1, all moved", "loopback://127.0.0.1:0", []rpc.ConnOption{rpc.WithVersions(1, 1), rpc.WithMoveAbove(1), rpc.WithSegmentLength(65536)}},
	{"iwarp v2", "iwarp://127.0.0.1:0", nil},
	{"iwarp v1", "iwarp://127.0.0.1:0", []rpc.ConnOption{rpc.WithVersions(1, 1)}},
	{"tcp", "tcp://127.0.0.1:0", nil},
}

// served is a server of a temporary directory and a client of it.
type served struct {
	dir string
	url string
	c   *rpc.Client
	fs  *nfs.FS
}

func serve(t testing.TB, url string, so server3.Options, opts ...rpc.ConnOption) *served {
	t.Helper()
	dir := t.TempDir()
	so.Async = true
	if os.Geteuid() == 0 && so.Squash == server3.SquashDefault {
		so.Squash = server3.SquashNone
	}
	s, err := server3.New(dir, so)
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer()
	s.Register(srv)
	l := listen(t, srv, url, rpc.ConnOptions(opts...))
	t.Cleanup(func() { s.Close() })
	sv := &served{dir: dir, url: l}
	sv.c = dial(t, l, rpc.ConnOptions(opts...))
	if sv.fs, _, err = nfs.Mount(t.Context(), sv.c, "/", nil); err != nil {
		t.Fatal(err)
	}
	return sv
}

func listen(t testing.TB, srv *rpc.Server, url string, opts ...rpc.ListenOption) string {
	t.Helper()
	l, err := rpc.Listen(context.Background(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return l.URL()
}

func dial(t testing.TB, url string, opts ...rpc.ClientOption) *rpc.Client {
	t.Helper()
	opts = append(slices.Clone(opts), rpc.WithAuthSys(rpcmsg.Sys{Machine: "test"}))
	c, err := rpc.NewClient(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(n) + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// sizes lie around every threshold: nothing, round-up, inline, the receive size, a
// page, a chunk, the window.
var sizes = []int{0, 1, 3, 4, 1000, 1021, 3800, 4000, 4096, 5000, 65539, 1 << 20, 1<<20 + 1, 8<<20 + 1}

func TestPutGet(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			s := serve(t, tr.url, server3.Options{}, tr.opts...)
			for _, n := range sizes {
				want := pattern(n)
				name := fmt.Sprintf("/f%d", n)
				var told atomic.Int64
				tf := nfs.Transfer{Progress: func(done, total int64) { told.Store(done) }}
				if err := s.fs.Put(t.Context(), bytes.NewReader(want), int64(n), name, tf); err != nil {
					t.Fatalf("put %d: %v", n, err)
				}
				if told.Load() != int64(n) {
					t.Errorf("progress of put %d ended at %d", n, told.Load())
				}
				got, err := os.ReadFile(filepath.Join(s.dir, name))
				if err != nil || sha256.Sum256(got) != sha256.Sum256(want) {
					t.Fatalf("put %d: %d bytes at the server, %v", n, len(got), err)
				}
				local := filepath.Join(t.TempDir(), "local")
				a, err := s.fs.GetFile(t.Context(), name, local, nfs.Transfer{Window: 3})
				if err != nil || a.Size != uint64(n) {
					t.Fatalf("get %d: %v", n, err)
				}
				if got, _ = os.ReadFile(local); sha256.Sum256(got) != sha256.Sum256(want) {
					t.Fatalf("get %d: another content, %d bytes", n, len(got))
				}
			}
			noParts(t, s.dir)
		})
	}
}

// Pieces that fit inline, and whose results do, on each transport.
func TestSmallChunks(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			s := serve(t, tr.url, server3.Options{}, tr.opts...)
			want := pattern(100_003)
			for _, chunk := range []int{512, 1021, 4096, 20001} {
				if err := s.fs.Put(t.Context(), bytes.NewReader(want), int64(len(want)), "/f", nfs.Transfer{Chunk: chunk, Window: 16}); err != nil {
					t.Fatal(err)
				}
				got := make(memFile, len(want))
				if _, err := s.fs.Get(t.Context(), "/f", got, nfs.Transfer{Chunk: chunk, Window: 16}); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("chunks of %d: another content", chunk)
				}
			}
		})
	}
}

type memFile []byte

func (m memFile) WriteAt(b []byte, off int64) (int, error) { return copy(m[off:], b), nil }

func noParts(t *testing.T, dir string) {
	t.Helper()
	if m, _ := filepath.Glob(filepath.Join(dir, ".rpcrdma-*")); len(m) > 0 {
		t.Errorf("left behind: %v", m)
	}
}

func TestTree(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			ctx := t.Context()
			s := serve(t, tr.url, server3.Options{}, tr.opts...)
			f := s.fs
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			check(f.Mkdir(ctx, "/d", 0o755))
			check(f.Mkdir(ctx, "d/e", 0o700))
			for i := range 500 {
				check(os.WriteFile(filepath.Join(s.dir, "d", fmt.Sprintf("file-with-a-longer-name-%03d", i)), nil, 0o644))
			}
			check(os.Symlink("d/e", filepath.Join(s.dir, "rel")))
			check(os.Symlink("/d", filepath.Join(s.dir, "abs")))
			check(os.Symlink("loop", filepath.Join(s.dir, "loop")))
			check(os.Symlink(strings.Repeat("x/", 2000), filepath.Join(s.dir, "long")))

			seen := 0
			for e, err := range f.List(ctx, "/abs/../d/./") {
				check(err)
				if !e.Attr.Set || !e.Object.Set {
					t.Errorf("%s without attributes", e.Name)
				}
				seen++
			}
			if seen != 501 {
				t.Errorf("%d entries", seen)
			}
			for p, typ := range map[string]nfs3.FileType{"/": nfs3.TypeDir, "": nfs3.TypeDir, "..": nfs3.TypeDir, "/rel": nfs3.TypeDir,
				"/abs/e": nfs3.TypeDir, "/rel/../file-with-a-longer-name-007": nfs3.TypeReg} {
				n, err := f.Stat(ctx, p)
				if err != nil || n.Attr.Type != typ {
					t.Errorf("stat %q: %v, %v", p, n.Attr.Type, err)
				}
			}
			n, err := f.Lstat(ctx, "/long")
			check(err)
			target, err := f.Client().ReadLink(ctx, n.Handle)
			check(err)
			if len(target) != 4000 {
				t.Errorf("target of %d bytes", len(target))
			}
			_, err = f.Stat(ctx, "/loop")
			if err == nil || !strings.Contains(err.Error(), "symlinks") {
				t.Errorf("a loop: %v", err)
			}
			_, err = f.Stat(ctx, "/none")
			var pe *fs.PathError
			if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, nfs3.ErrNoEnt) || !errors.As(err, &pe) || pe.Path != "/none" {
				t.Errorf("a name that is not there: %v", err)
			}
			if err := f.Mkdir(ctx, "/d", 0o755); !errors.Is(err, fs.ErrExist) {
				t.Errorf("mkdir of what exists: %v", err)
			}
			if err := f.Rmdir(ctx, "/d"); !errors.Is(err, nfs3.ErrNotEmpty) {
				t.Errorf("rmdir of what is not empty: %v", err)
			}
			if err := f.Remove(ctx, "/d/e"); !errors.Is(err, nfs3.ErrIsDir) {
				t.Errorf("remove of a directory: %v", err)
			}
			check(f.Rmdir(ctx, "/d/e"))
			check(f.Remove(ctx, "/rel"))
			if err := f.Remove(ctx, "/"); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("remove of the root: %v", err)
			}
			if _, err := f.Get(ctx, "/d", memFile{}, nfs.Transfer{}); !errors.Is(err, nfs3.ErrIsDir) {
				t.Errorf("get of a directory: %v", err)
			}
		})
	}
}

// Every procedure by itself, through a transport.
func TestProcedures(t *testing.T) {
	s := serve(t, "loopback://127.0.0.1:0", server3.Options{})
	ctx, c, root := t.Context(), s.fs.Client(), s.fs.Root()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(c.Null(ctx))
	cr, err := c.Create(ctx, root, "f", nfs3.Guarded, nfs3.Sattr{Mode: nfs3.U32(0o640)})
	check(err)
	h := cr.Object.Handle
	w, err := c.Write(ctx, h, 10, []byte("hello"), nfs3.FileSync)
	check(err)
	if w.Count != 5 || w.Committed != nfs3.FileSync {
		t.Errorf("WRITE: %+v", w)
	}
	v, err := c.Commit(ctx, h, 0, 0)
	check(err)
	if v != w.Verf {
		t.Error("verifiers differ")
	}
	r, err := c.Read(ctx, h, 8, make([]byte, 100))
	check(err)
	if string(r.Data) != "\x00\x00hello" || !r.EOF {
		t.Errorf("READ: %q %v", r.Data, r.EOF)
	}
	acc, err := c.Access(ctx, h, 0x3f)
	check(err)
	if acc&nfs3.AccessRead == 0 {
		t.Errorf("ACCESS: %#x", acc)
	}
	_, err = c.SetAttr(ctx, h, nfs3.Sattr{Size: nfs3.U64(3)}, &nfs3.Time{Sec: 1})
	if !errors.Is(err, nfs3.ErrNotSync) {
		t.Errorf("SETATTR with a wrong guard: %v", err)
	}
	_, err = c.Symlink(ctx, root, "l", strings.Repeat("t", 3000), nfs3.Sattr{})
	check(err)
	_, err = c.Mknod(ctx, root, "p", nfs3.TypeFifo, nfs3.SpecData{}, nfs3.Sattr{Mode: nfs3.U32(0o600)})
	check(err)
	_, err = c.Mkdir(ctx, root, "d", nfs3.Sattr{Mode: nfs3.U32(0o755)})
	check(err)
	check(c.Link(ctx, h, root, "g"))
	check(c.Rename(ctx, root, "g", root, "h"))
	check(c.Remove(ctx, root, "h"))
	check(c.Rmdir(ctx, root, "d"))
	a, err := c.GetAttr(ctx, h)
	check(err)
	if a.Nlink != 1 || a.Size != 15 || a.FileMode() != 0o640 {
		t.Errorf("GETATTR: %+v", a)
	}
	_, err = c.FSStat(ctx, root)
	check(err)
	_, err = c.PathConf(ctx, root)
	check(err)
	var names []string
	for e, err := range c.ReadDir(ctx, root) {
		check(err)
		names = append(names, e.Name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != ". .. f l p" {
		t.Errorf("READDIR: %s", got)
	}
	var l mount3.Mounts
	check(s.c.Call(ctx, nfs.Mount3[mount3.ProcDump], nil, &l))
	if len(l) != 1 || l[0].Dir != "/" {
		t.Errorf("DUMP: %v", l)
	}
	check(s.fs.Unmount(ctx))
	check(s.c.Call(ctx, nfs.Mount3[mount3.ProcDump], nil, &l))
	if len(l) != 0 {
		t.Errorf("DUMP after UMNT: %v", l)
	}
	check(s.c.Call(ctx, nfs.Mount3[mount3.ProcUmntAll], nil, nil))
}

// Where the connection's server has no MOUNT, it is asked elsewhere.
func TestMountElsewhere(t *testing.T) {
	dir := t.TempDir()
	s, err := server3.New(dir, server3.Options{Async: true, Squash: server3.SquashNone})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	data, mnt := rpc.NewServer(), rpc.NewServer()
	s.RegisterNFS(data)
	s.RegisterMount(mnt)
	c := dial(t, listen(t, data, "loopback://127.0.0.1:0"))
	if _, _, err := nfs.Mount(t.Context(), c, "/", nil); !errors.Is(err, rpcmsg.ErrProgUnavail) {
		t.Errorf("without a way to MOUNT: %v", err)
	}
	addr := strings.TrimPrefix(listen(t, mnt, "tcp://127.0.0.1:0"), "tcp://")
	f, rest, err := nfs.Mount(t.Context(), c, "/a/b", nfs.DialMountTCP(addr))
	if err != nil || rest != "/a/b" || f.Export() != "/" {
		t.Fatalf("%q in %v: %v", rest, f, err)
	}
	if _, err := f.Stat(t.Context(), "/"); err != nil {
		t.Error(err)
	}
	if err := f.Unmount(t.Context()); err != nil {
		t.Error(err)
	}
}

// An unfinished file never has the final name, and goes away.
func TestPutFails(t *testing.T) {
	s := serve(t, "loopback://127.0.0.1:0", server3.Options{})
	old := []byte("what was there")
	os.WriteFile(filepath.Join(s.dir, "f"), old, 0o604)
	unchanged := func() {
		t.Helper()
		if got, _ := os.ReadFile(filepath.Join(s.dir, "f")); !bytes.Equal(got, old) {
			t.Errorf("the old file is gone: %d bytes", len(got))
		}
		noParts(t, s.dir)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := s.fs.Put(ctx, readerFunc(func(b []byte, off int64) (int, error) {
		if off > 4<<20 {
			cancel()
		}
		return len(b), nil
	}), 64<<20, "/f", nfs.Transfer{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	unchanged()
	err = s.fs.Put(t.Context(), bytes.NewReader(old), 5<<20, "/f", nfs.Transfer{})
	if err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a source that is too short: %v", err)
	}
	unchanged()
	if err := s.fs.Put(t.Context(), bytes.NewReader(old), 3, "/none/f", nfs.Transfer{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into no directory: %v", err)
	}
	if err := s.fs.Put(t.Context(), bytes.NewReader(old), 3, "/f", nfs.Transfer{}); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Join(s.dir, "f"))
	if err != nil || st.Size() != 3 || st.Mode().Perm() != 0o604 || time.Since(st.ModTime()) > time.Minute {
		t.Errorf("replaced: %v %v", st, err)
	}
}

type readerFunc func(b []byte, off int64) (int, error)

func (f readerFunc) ReadAt(b []byte, off int64) (int, error) { return f(b, off) }

func TestGetFails(t *testing.T) {
	s := serve(t, "loopback://127.0.0.1:0", server3.Options{})
	os.WriteFile(filepath.Join(s.dir, "f"), pattern(32<<20), 0o644)
	local := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.fs.GetFile(ctx, "/f", filepath.Join(local, "f"), nfs.Transfer{Progress: func(done, total int64) {
		if done > total/2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if left, _ := os.ReadDir(local); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := s.fs.GetFile(t.Context(), "/f", local, nfs.Transfer{}); err != nil {
		t.Error(err)
	}
	if st, err := os.Stat(filepath.Join(local, "f")); err != nil || st.Size() != 32<<20 {
		t.Errorf("get into a directory: %v", err)
	}
	pipe := filepath.Join(local, "pipe") // as a device would be
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.fs.GetFile(t.Context(), "/f", pipe, nfs.Transfer{}); err == nil {
		t.Error("get over a pipe")
	}
	if st, err := os.Lstat(pipe); err != nil || st.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe has become %v, %v", st, err)
	}
}
