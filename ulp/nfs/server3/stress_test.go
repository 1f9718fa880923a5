package server3

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// run calls a procedure from any goroutine.
func (r *rig) run(proc int, args xdr.Marshaler, res xdr.Unmarshaler) error {
	return r.runAs(cred{}, proc, args, res)
}

// Many clients on few names, with hardly any room for open files: no descriptor may
// be closed under somebody's hands, and none kept.
func TestConcurrentUse(t *testing.T) {
	eachWay(t, func(t *testing.T, r *rig, o Options) {
		o.MaxOpen = 3
		r.restart(o)
		d := [2]nfs3.Handle{r.mkdir(r.root, "0", 0o755).Object.Handle, r.mkdir(r.root, "1", 0o755).Object.Handle}
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 3))
				at := func() nfs3.DirOp { return nfs3.DirOp{Dir: d[rng.IntN(2)], Name: fmt.Sprint(rng.IntN(4))} }
				data := bytes.Repeat([]byte{byte('a' + g)}, 3000)
				for range 150 {
					var err error
					switch rng.IntN(6) {
					case 0:
						err = r.run(nfs3.ProcRemove, &nfs3.DirOpArgs{What: at()}, new(nfs3.WccRes))
					case 1:
						err = r.run(nfs3.ProcRename, &nfs3.RenameArgs{From: at(), To: at()}, new(nfs3.RenameRes))
					case 2:
						err = r.run(nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: at().Dir, DirCount: 4096, MaxCount: 4096}, &nfs3.DirRes{Plus: true})
					default:
						var made nfs3.CreateRes
						err = r.run(nfs3.ProcCreate, &nfs3.CreateArgs{Where: at()}, &made)
						if err != nil || made.Status != nfs3.OK {
							break
						}
						h := made.Object.Handle
						err = r.run(nfs3.ProcWrite, &nfs3.WriteArgs{File: h, Count: 3000, Data: data}, new(nfs3.WriteRes))
						res := nfs3.ReadRes{Dst: make([]byte, 3000)}
						if err == nil {
							err = r.run(nfs3.ProcRead, &nfs3.ReadArgs{File: h, Count: 3000}, &res)
						}
						// A READ may meet two WRITEs half-way (file systems differ), but nothing else.
						if n := len(res.Data); n > 3000 || len(bytes.Trim(res.Data, "abcdef")) > 0 {
							t.Errorf("READ of %d bytes that nobody wrote", n)
						}
					}
					if err != nil {
						t.Errorf("client %d: %v", g, err)
						return
					}
				}
			})
		}
		wg.Wait()
		if n := r.s.nodes.lru.Len(); n > 3+6*3 {
			t.Errorf("%d objects open", n)
		}
		for _, n := range r.s.nodes.byHandle {
			if n.refs != 0 {
				t.Errorf("%d uses left", n.refs)
			}
		}
	})
}

// On overlayfs a file keeps its handle when it is copied up by the first change.
func TestOverlay(t *testing.T) {
	needRoot(t)
	top := t.TempDir()
	for _, d := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(top, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(top, "lower", "f"), []byte("lower"), 0o644)
	merged := filepath.Join(top, "merged")
	if err := unix.Mount("overlay", merged, "overlay", 0,
		fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", top, top, top)); err != nil {
		t.Skip("no overlayfs here: ", err)
	}
	t.Cleanup(func() { unix.Unmount(merged, unix.MNT_DETACH) })
	r := rigAt(t, merged, Options{Squash: SquashNone})
	h := r.handle("f")
	if got := r.read(h, 0, 10); string(got.Data) != "lower" {
		t.Fatalf("READ: %v %q", got.Status, got.Data)
	}
	r.want("WRITE", r.write(h, 0, []byte("UPPER"), nfs3.FileSync).Status, nfs3.OK)
	if got := r.read(h, 0, 10); string(got.Data) != "UPPER" {
		t.Errorf("READ after WRITE: %v %q", got.Status, got.Data)
	}
	if got := r.lookup(r.root, "f"); got.Object != h {
		t.Error("the handle changed")
	}
	for range 2 {
		r.restart(Options{Squash: SquashNone})
		if got := r.read(h, 0, 10); string(got.Data) != "UPPER" {
			t.Errorf("READ after a restart: %v %q", got.Status, got.Data)
		}
	}
	l := r.list(r.root, true, 4096)
	if len(l.entries) != 3 {
		t.Errorf("%d entries", len(l.entries))
	}
	for _, e := range l.entries {
		if !e.Attr.Set {
			t.Errorf("%s without attributes", e.Name)
		}
	}
	g := r.create(r.root, "g", 0o644)
	r.want("CREATE", g.Status, nfs3.OK)
	r.want("RENAME", r.rename(r.root, "g", r.root, "f").Status, nfs3.OK)
	r.want("READ of what was replaced", r.read(h, 0, 10).Status, nfs3.ErrStale)
}

// runAs is run for another caller, where the server can act for others.
func (r *rig) runAs(who cred, proc int, args xdr.Marshaler, res xdr.Unmarshaler) error {
	if !r.s.rights.acts {
		who = r.s.rights.own
	}
	var w xdr.Writer
	c := &call{Server: r.s, cred: who, args: xdr.NewReader(encode(args)), res: &w, mem: r.mem, peer: r.peer}
	defer c.done()
	defer w.DropBulk()
	if err := procs[proc](c); err != nil {
		return err
	}
	rd := xdr.NewReader(w.AppendUnreduced(nil))
	res.UnmarshalXDR(rd)
	return rd.Done()
}
