//go:build linux

package nfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/server3"
)

type raw []byte

func (b raw) MarshalXDR(w *xdr.Writer) { w.Raw(b) }

// What the server refuses at the level of RPC.
func TestRefusals(t *testing.T) {
	s := serve(t, "tcp://127.0.0.1:0", server3.Options{})
	var res nfs3.GetAttrRes
	if err := s.c.Call(t.Context(), nfs.NFS3[nfs3.ProcGetAttr], raw{0, 0, 0, 99}, &res); !errors.Is(err, rpcmsg.ErrGarbageArgs) {
		t.Errorf("arguments that do not decode: %v", err)
	}
	proc := *nfs.NFS3[nfs3.ProcGetAttr]
	proc.Number = 22
	if err := s.c.Call(t.Context(), &proc, nil, nil); !errors.Is(err, rpcmsg.ErrProcUnavail) {
		t.Errorf("procedure 22: %v", err)
	}
	proc.Version = 2
	var accept *rpcmsg.AcceptError
	if err := s.c.Call(t.Context(), &proc, nil, nil); !errors.As(err, &accept) || accept.Low != 3 || accept.High != 3 {
		t.Errorf("version 2: %v", err)
	}
}

// Whom the export is not for is refused by MOUNT in its own words, and by NFS as a caller whose word is not
// enough, though it has a handle that is good.
func TestNotAllowed(t *testing.T) {
	for _, url := range []string{"tcp://127.0.0.1:0", "loopback://127.0.0.1:0", "iwarp://127.0.0.1:0"} {
		t.Run(url[:strings.Index(url, ":")], func(t *testing.T) {
			dir := t.TempDir()
			start := func(allow string) *rpc.Client {
				s, err := server3.New(dir, server3.Options{Allow: []netip.Prefix{netip.MustParsePrefix(allow)}, Squash: server3.SquashNone})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				srv := rpc.NewServer()
				s.Register(srv)
				return dial(t, listen(t, srv, url))
			}
			friend := start("127.0.0.0/8")
			f, _, err := nfs.Mount(t.Context(), friend, "/", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Client().GetAttr(t.Context(), f.Root()); err != nil {
				t.Fatal(err)
			}
			c := start("192.0.2.0/24")
			if _, _, err := nfs.Mount(t.Context(), c, "/", nil); !errors.Is(err, mount3.ErrAcces) || !errors.Is(err, fs.ErrPermission) {
				t.Errorf("a mount from elsewhere: %v", err)
			}
			for number, proc := range nfs.NFS3 {
				var auth *rpcmsg.AuthError
				err := c.Call(t.Context(), proc, &nfs3.HandleArgs{Object: f.Root()}, nil)
				switch {
				case number == nfs3.ProcNull && err != nil:
					t.Errorf("NULL is for everybody: %v", err)
				case number != nfs3.ProcNull && (!errors.As(err, &auth) || auth.Stat != rpcmsg.AuthTooWeak):
					t.Errorf("%s from elsewhere: %v", proc.Name, err)
				}
			}
		})
	}
}

// taker takes bytes in their order, and calls between after each piece.
type taker struct {
	bytes.Buffer
	between func() error
}

func (w *taker) Write(b []byte) (int, error) {
	w.Buffer.Write(b)
	return len(b), w.between()
}

// A file for what takes it in order only; and whatever fails, none waits for a turn that does not come.
func TestGetTo(t *testing.T) {
	s := serve(t, "loopback://127.0.0.1:0", server3.Options{})
	name, want := filepath.Join(s.dir, "f"), pattern(1_000_001)
	write := func() error { return os.WriteFile(name, want, 0o644) }
	shrink := func() error { return os.Truncate(name, 100_000) }
	full := func() error { return unix.ENOSPC }
	for what, c := range map[string]struct {
		between func() error
		err     error
	}{"all of it": {func() error { return nil }, nil}, "a file that becomes shorter": {shrink, io.ErrUnexpectedEOF}, "a taker that fails": {full, unix.ENOSPC}} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		w := &taker{between: c.between}
		_, err := s.fs.GetTo(t.Context(), "/f", w, nfs.Transfer{Chunk: 4096, Window: 16})
		if !errors.Is(err, c.err) || err == nil && w.Len() != len(want) || !bytes.HasPrefix(want, w.Bytes()) {
			t.Errorf("%s: %v, %d bytes", what, err, w.Len())
		}
	}
}

// The server's disk is full: the client is told, and nothing is left behind.
func TestDiskFull(t *testing.T) {
	small := t.TempDir()
	if err := unix.Mount("none", small, "tmpfs", 0, "size=3m"); err != nil {
		t.Skip("needs a file system of its own: ", err)
	}
	t.Cleanup(func() { unix.Unmount(small, unix.MNT_DETACH) })
	s, err := server3.New(small, server3.Options{Squash: server3.SquashNone})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	srv := rpc.NewServer()
	s.Register(srv)
	c := dial(t, listen(t, srv, "loopback://127.0.0.1:0"))
	f, _, err := nfs.Mount(t.Context(), c, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	big := pattern(8 << 20)
	for range 3 { // the space must be there again each time
		if err := f.Put(t.Context(), bytes.NewReader(big), int64(len(big)), "/f", nfs.Transfer{}); !errors.Is(err, nfs3.ErrNoSpc) {
			t.Fatalf("a full disk: %v", err)
		}
		if left, _ := os.ReadDir(small); len(left) > 0 {
			t.Fatalf("left behind: %v", left)
		}
		// WRITEs that were given up may still be under way and hold the file: a moment.
		for try := 0; ; try++ {
			err := f.Put(t.Context(), bytes.NewReader(big), 2<<20, "/g", nfs.Transfer{})
			if err == nil {
				break
			}
			if try == 100 {
				t.Fatalf("after that: %v", err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err := f.Remove(t.Context(), "/g"); err != nil {
			t.Fatal(err)
		}
	}
	// The client's own disk.
	if err := f.Put(t.Context(), bytes.NewReader(big), 2<<20, "/g", nfs.Transfer{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.GetFile(t.Context(), "/g", filepath.Join(small, "h"), nfs.Transfer{}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("get to a full disk: %v", err)
	}
	if left, _ := os.ReadDir(small); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func BenchmarkRead(b *testing.B)  { bench(b, false) }
func BenchmarkWrite(b *testing.B) { bench(b, true) }

// bench moves 1 MiB by one call after the other, over loopback.
func bench(b *testing.B, write bool) {
	s := serve(b, "loopback://127.0.0.1:0", server3.Options{})
	if err := os.WriteFile(filepath.Join(s.dir, "f"), pattern(1<<20), 0o644); err != nil {
		b.Fatal(err)
	}
	n, err := s.fs.Stat(b.Context(), "/f")
	if err != nil {
		b.Fatal(err)
	}
	buf, err := rpc.NewBuffer(1 << 20)
	if err != nil {
		b.Fatal(err)
	}
	defer buf.Free()
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		if write {
			_, err = s.fs.Client().WriteBuffer(b.Context(), n.Handle, 0, buf, 0, 1<<20, nfs3.Unstable)
		} else {
			_, err = s.fs.Client().ReadBuffer(b.Context(), n.Handle, 0, buf, 1<<20)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetAttr(b *testing.B) {
	s := serve(b, "loopback://127.0.0.1:0", server3.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.fs.Client().GetAttr(b.Context(), s.fs.Root()); err != nil {
			b.Fatal(err)
		}
	}
}
