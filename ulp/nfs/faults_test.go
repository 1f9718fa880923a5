//go:build linux

package nfs_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/server3"
)

// meddler stands between client and server and changes what they say to each other.
type meddler struct {
	nfs.Caller
	mu     sync.Mutex
	before func(proc *rpc.Proc, args xdr.Marshaler)
	after  func(proc *rpc.Proc, args xdr.Marshaler, results xdr.Unmarshaler)
}

func (m *meddler) Call(ctx context.Context, proc *rpc.Proc, args xdr.Marshaler, results xdr.Unmarshaler, opts ...rpc.CallOption) error {
	if m.before != nil {
		m.mu.Lock()
		m.before(proc, args)
		m.mu.Unlock()
	}
	err := m.Caller.Call(ctx, proc, args, results, opts...)
	if err == nil && m.after != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.after(proc, args, results)
	}
	return err
}

func meddle(t *testing.T) (*served, *meddler, *nfs.FS) {
	s := serve(t, "loopback://127.0.0.1:0", server3.Options{})
	m := &meddler{Caller: s.c}
	return s, m, nfs.NewFS(nfs.NewClient(m), s.fs.Root(), "/")
}

// The server restarts between WRITE and COMMIT and loses what was not on disk: the verifier
// tells, and all of it is written again (RFC 1813 §3.3.21).
func TestServerLosesData(t *testing.T) {
	for _, times := range []int{1, 3, 100} {
		s, m, f := meddle(t)
		lost, writes := 0, 0
		m.after = func(_ *rpc.Proc, args xdr.Marshaler, results xdr.Unmarshaler) {
			switch r := results.(type) {
			case *nfs3.WriteRes:
				writes++
				r.Verf[0] = byte(lost)
			case *nfs3.CommitRes:
				if lost < times {
					lost++
					parts, _ := filepath.Glob(filepath.Join(s.dir, ".rpcrdma-*"))
					for _, p := range parts {
						os.Truncate(p, 0)
					}
				}
				r.Verf[0] = byte(lost)
			}
		}
		want := pattern(3<<20 + 17)
		err := f.Put(t.Context(), bytes.NewReader(want), int64(len(want)), "/f", nfs.Transfer{})
		if times == 100 {
			if err == nil {
				t.Error("a server that loses everything always is not noticed")
			}
			noParts(t, s.dir)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(filepath.Join(s.dir, "f")); !bytes.Equal(got, want) {
			t.Errorf("lost %d times: %d bytes, want %d", times, len(got), len(want))
		}
		if writes != 4*(times+1) {
			t.Errorf("lost %d times: %d WRITEs", times, writes)
		}
	}
}

// Part of a chunk under one verifier, part under another: it is written again as a whole.
func TestTornChunk(t *testing.T) {
	s, m, f := meddle(t)
	n := 0
	m.before = func(_ *rpc.Proc, args xdr.Marshaler) {
		if a, ok := args.(*nfs3.WriteArgs); ok && n < 3 && len(a.Data) > 1000 {
			a.Data, a.Count = a.Data[:len(a.Data)/2], a.Count/2 // a short write
		}
	}
	m.after = func(_ *rpc.Proc, _ xdr.Marshaler, results xdr.Unmarshaler) {
		switch r := results.(type) {
		case *nfs3.WriteRes:
			if n++; n == 1 {
				r.Verf[0] ^= 1
			}
		}
	}
	want := pattern(100_000)
	if err := f.Put(t.Context(), bytes.NewReader(want), int64(len(want)), "/f", nfs.Transfer{}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(s.dir, "f")); !bytes.Equal(got, want) {
		t.Error("another content")
	}
	if n < 4 {
		t.Errorf("%d WRITEs: the torn chunk was not written again", n)
	}
}

// A server that answers short, or is busy for a while.
func TestShortAndBusy(t *testing.T) {
	s, m, f := meddle(t)
	busy := 2
	m.before = func(_ *rpc.Proc, args xdr.Marshaler) {
		switch a := args.(type) {
		case *nfs3.ReadArgs:
			a.Count = (a.Count + 2) / 3
		case *nfs3.WriteArgs:
			a.Count = (a.Count + 2) / 3
			a.Data = a.Data[:a.Count]
		}
	}
	m.after = func(_ *rpc.Proc, _ xdr.Marshaler, results xdr.Unmarshaler) {
		if r, ok := results.(*nfs3.LookupRes); ok && busy > 0 {
			busy--
			r.Status = nfs3.ErrJukebox
		}
	}
	want := pattern(2<<20 + 3)
	if err := f.Put(t.Context(), bytes.NewReader(want), int64(len(want)), "/f", nfs.Transfer{}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(s.dir, "f")); !bytes.Equal(got, want) {
		t.Error("put: another content")
	}
	got := make(memFile, len(want))
	if _, err := f.Get(t.Context(), "/f", got, nfs.Transfer{}); err != nil || !bytes.Equal(got, want) {
		t.Errorf("get: another content, %v", err)
	}
	if busy != 0 {
		t.Error("the server was not asked again")
	}
	busy = 1 << 30
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := f.Stat(ctx, "/f"); err == nil {
		t.Error("a busy server and a context that ended")
	}
}

// A server that says what cannot be does no harm.
func TestLyingServer(t *testing.T) {
	_, m, f := meddle(t)
	m.after = func(_ *rpc.Proc, args xdr.Marshaler, results xdr.Unmarshaler) {
		switch r := results.(type) {
		case *nfs3.WriteRes:
			r.Count = args.(*nfs3.WriteArgs).Count + 1
		case *nfs3.DirRes:
			r.Entries, r.EOF = nil, false
		}
	}
	if err := f.Put(t.Context(), bytes.NewReader([]byte("x")), 1, "/f", nfs.Transfer{}); !errors.Is(err, nfs3.ErrServerFault) {
		t.Errorf("more written than sent: %v", err)
	}
	for _, err := range f.List(t.Context(), "/") {
		if !errors.Is(err, nfs3.ErrTooSmall) {
			t.Errorf("a listing that does not go on: %v", err)
		}
	}
	m.after = func(_ *rpc.Proc, _ xdr.Marshaler, results xdr.Unmarshaler) {
		if r, ok := results.(*nfs3.WriteRes); ok {
			r.Count = 0
		}
	}
	if err := f.Put(t.Context(), bytes.NewReader([]byte("x")), 1, "/f", nfs.Transfer{}); !errors.Is(err, nfs3.ErrIO) {
		t.Errorf("nothing written: %v", err)
	}
}

// Ctrl-C while the CREATE is under way: it is waited for, so that it cannot come after the REMOVE.
func TestCancelledCreate(t *testing.T) {
	s, m, f := meddle(t)
	for _, when := range []int{nfs3.ProcCreate, nfs3.ProcSetAttr, nfs3.ProcCommit} {
		ctx, cancel := context.WithCancel(t.Context())
		m.before = func(p *rpc.Proc, _ xdr.Marshaler) {
			if p == nfs.NFS3[when] {
				cancel()
			}
		}
		if err := f.Put(ctx, bytes.NewReader([]byte("x")), 1, "/f", nfs.Transfer{}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at %v: %v", nfs.NFS3[when], err)
		}
		if left, _ := os.ReadDir(s.dir); len(left) > 0 {
			t.Errorf("cancelled at %v: left behind %v", nfs.NFS3[when], left)
		}
	}
	// Once the RENAME is under way its outcome is the result.
	ctx, cancel := context.WithCancel(t.Context())
	m.before = func(p *rpc.Proc, _ xdr.Marshaler) {
		if p == nfs.NFS3[nfs3.ProcRename] {
			cancel()
		}
	}
	if err := f.Put(ctx, bytes.NewReader([]byte("x")), 1, "/f", nfs.Transfer{}); err != nil {
		t.Errorf("cancelled at the end: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(s.dir, "f")); string(b) != "x" {
		t.Errorf("cancelled at the end: %q", b)
	}
}

// A RENAME that was carried out, and again after its reply was lost.
func TestRepeatedRename(t *testing.T) {
	s, m, f := meddle(t)
	m.after = func(_ *rpc.Proc, _ xdr.Marshaler, results xdr.Unmarshaler) {
		if r, ok := results.(*nfs3.RenameRes); ok {
			r.Status = nfs3.ErrNoEnt
		}
	}
	if err := f.Put(t.Context(), bytes.NewReader([]byte("x")), 1, "/f", nfs.Transfer{}); err != nil {
		t.Error(err)
	}
	m.before = func(_ *rpc.Proc, args xdr.Marshaler) {
		if a, ok := args.(*nfs3.RenameArgs); ok {
			os.Remove(filepath.Join(s.dir, a.From.Name)) // it really is not there
		}
	}
	if err := f.Put(t.Context(), bytes.NewReader([]byte("y")), 1, "/f", nfs.Transfer{}); !errors.Is(err, nfs3.ErrNoEnt) {
		t.Errorf("a file that somebody took away: %v", err)
	}
}

// A server without EXCLUSIVE and READDIRPLUS.
func TestOldServer(t *testing.T) {
	s, m, f := meddle(t)
	m.before = func(_ *rpc.Proc, args xdr.Marshaler) {
		if a, ok := args.(*nfs3.CreateArgs); ok && a.Mode == nfs3.Exclusive {
			a.Where.Dir = nfs3.Handle{} // nothing is made
		}
	}
	m.after = func(_ *rpc.Proc, args xdr.Marshaler, results xdr.Unmarshaler) {
		switch r := results.(type) {
		case *nfs3.CreateRes:
			if a, ok := args.(*nfs3.CreateArgs); ok && a.Mode == nfs3.Exclusive {
				r.Status = nfs3.ErrNotSupp
			}
			r.Object.Set, r.Attr.Set = false, false
		case *nfs3.DirRes:
			if r.Plus {
				r.Status = nfs3.ErrNotSupp
			}
		case *nfs3.LookupRes:
			r.Attr.Set = false
		}
	}
	if err := f.Put(t.Context(), bytes.NewReader([]byte("xyz")), 3, "/f", nfs.Transfer{}); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(filepath.Join(s.dir, "f")); string(b) != "xyz" {
		t.Errorf("content %q", b)
	}
	n := 0
	for e, err := range f.List(t.Context(), "/") {
		if n++; err != nil || e.Name != "f" || !e.Attr.Set || e.Attr.Attr.Size != 3 {
			t.Errorf("%+v %v", e, err)
		}
	}
	if n != 1 {
		t.Errorf("%d entries", n)
	}
}
