package nfs

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// The bounds of replies are exact: the largest results reach them.
func TestReplySizes(t *testing.T) {
	h, _ := nfs3.NewHandle(make([]byte, nfs3.HandleSize))
	attr := nfs3.PostOpAttr{Set: true}
	wcc := nfs3.WccData{Before: nfs3.PreOpAttr{Set: true}, After: attr}
	made := &nfs3.CreateRes{Object: nfs3.PostOpHandle{Set: true, Handle: h}, Attr: attr, Dir: wcc}
	largest := [nfs3.NumProcs]xdr.Marshaler{
		nfs3.ProcGetAttr:  &nfs3.GetAttrRes{},
		nfs3.ProcSetAttr:  &nfs3.WccRes{Wcc: wcc},
		nfs3.ProcLookup:   &nfs3.LookupRes{Object: h, Attr: attr, Dir: attr},
		nfs3.ProcAccess:   &nfs3.AccessRes{Attr: attr},
		nfs3.ProcReadLink: &nfs3.ReadLinkRes{Attr: attr, Target: make([]byte, nfs3.MaxPath)},
		nfs3.ProcRead:     &nfs3.ReadRes{Attr: attr, Data: make([]byte, 1001)},
		nfs3.ProcWrite:    &nfs3.WriteRes{Wcc: wcc},
		nfs3.ProcCreate:   made,
		nfs3.ProcMkdir:    made,
		nfs3.ProcSymlink:  made,
		nfs3.ProcMknod:    made,
		nfs3.ProcRemove:   &nfs3.WccRes{Wcc: wcc},
		nfs3.ProcRmdir:    &nfs3.WccRes{Wcc: wcc},
		nfs3.ProcRename:   &nfs3.RenameRes{From: wcc, To: wcc},
		nfs3.ProcLink:     &nfs3.LinkRes{Attr: attr, Dir: wcc},
		nfs3.ProcFSStat:   &nfs3.FSStatRes{Attr: attr},
		nfs3.ProcFSInfo:   &nfs3.FSInfoRes{Attr: attr},
		nfs3.ProcPathConf: &nfs3.PathConfRes{Attr: attr},
		nfs3.ProcCommit:   &nfs3.CommitRes{Wcc: wcc},
	}
	whole := map[int]binding.ReplySizer{
		nfs3.ProcReadLink: &nfs3.ReadLinkArgs{},
		nfs3.ProcRead:     &nfs3.ReadArgs{Count: 1001},
	}
	for i, res := range largest {
		if res == nil {
			continue
		}
		var w xdr.Writer
		res.MarshalXDR(&w)
		b := NFS3[i].Binding
		if got := len(w.Bytes()); got != b.MaxReply {
			t.Errorf("%v: %d bytes, bound %d", NFS3[i], got, b.MaxReply)
		}
		if moves := len(w.Bulk()) > 0; moves != b.Results {
			t.Errorf("%v: bulk results %v, binding %v", NFS3[i], moves, b.Results)
		}
		if s := whole[i]; (s != nil) != b.Results {
			t.Errorf("%v: its arguments must bound its reply", NFS3[i])
		} else if s != nil {
			if reduced, whole := s.MaxReply(); reduced != len(w.Bytes()) || whole != w.Len() {
				t.Errorf("%v: %d and %d bytes, said to be %d and %d", NFS3[i], len(w.Bytes()), w.Len(), reduced, whole)
			}
		}
	}
	for _, count := range []uint32{0, 100, 4096, 1 << 20} {
		for _, s := range []binding.ReplySizer{&nfs3.ReadDirArgs{Count: count}, &nfs3.ReadDirPlusArgs{MaxCount: count}} {
			if reduced, whole := s.MaxReply(); reduced != whole || whole < 4+int(count) || whole < 4+4+nfs3.AttrSize {
				t.Errorf("%T of %d: %d, %d", s, count, reduced, whole)
			}
		}
	}
}

// What RFC 8267 §2 allows to be moved, and nothing else.
func TestEligible(t *testing.T) {
	for i, p := range NFS3 {
		if p.Number != uint32(i) || p.Program != nfs3.Program || p.Version != nfs3.Version {
			t.Errorf("%v has number %d", p, p.Number)
		}
		args := i == nfs3.ProcWrite || i == nfs3.ProcSymlink
		results := i == nfs3.ProcRead || i == nfs3.ProcReadLink
		if p.Binding.Args != args || p.Binding.Results != results {
			t.Errorf("%v: %+v", p, p.Binding)
		}
	}
	for i, p := range Mount3 {
		if p.Number != uint32(i) || p.Program != mount3.Program || p.Binding.Args || p.Binding.Results {
			t.Errorf("%v: %+v", p, p.Binding)
		}
	}
}

func TestMatching(t *testing.T) {
	list := mount3.Exports{{Dir: "/srv"}, {Dir: "/srv/data"}, {Dir: "/home"}}
	for p, want := range map[string]string{
		"/srv": "/srv", "/srv/x": "/srv", "/srv/data": "/srv/data", "/srv/data/y/z": "/srv/data", "/srv/database": "/srv", "/": "", "/srvx": "",
	} {
		got := matching(list, p)
		if len(got) == 0 && want != "" || len(got) > 0 && got[0] != want {
			t.Errorf("%s: %v, want %q", p, got, want)
		}
	}
	if got := matching(append(list, mount3.Export{Dir: "/"}), "/x"); len(got) != 1 || got[0] != "/" {
		t.Errorf("the root exported: %v", got)
	}
	if got := prefixes("/a/b"); len(got) != 3 || got[0] != "/a/b" || got[2] != "/" {
		t.Errorf("prefixes: %v", got)
	}
}
