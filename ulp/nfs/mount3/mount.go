package mount3

import (
	"strconv"

	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

const (
	Program = 100005
	Version = 3
)

// Procedure numbers (RFC 1813 §5.2).
const (
	ProcNull = iota
	ProcMnt
	ProcDump
	ProcUmnt
	ProcUmntAll
	ProcExport
	NumProcs
)

const (
	MaxPath = 1024 // MNTPATHLEN
	MaxName = 255  // MNTNAMLEN

	// The RFC bounds neither lists nor flavors; these are ours.
	MaxFlavors = 32
	MaxList    = 4096

	// MntReply bounds the results of MNT.
	MntReply = 4 + 4 + nfs3.HandleSize + 4 + 4*MaxFlavors
	// ListReply bounds what is asked for of DUMP and EXPORT.
	ListReply = 64 << 10
)

// Status is mountstat3; all but OK are errors.
type Status uint32

const (
	OK             Status = 0
	ErrPerm        Status = 1
	ErrNoEnt       Status = 2
	ErrIO          Status = 5
	ErrAcces       Status = 13
	ErrNotDir      Status = 20
	ErrInval       Status = 22
	ErrNameTooLong Status = 63
	ErrNotSupp     Status = 10004
	ErrServerFault Status = 10006
)

var statusText = map[Status][2]string{
	OK:             {"MNT3_OK", "ok"},
	ErrPerm:        {"MNT3ERR_PERM", "not owner"},
	ErrNoEnt:       {"MNT3ERR_NOENT", "no such export"},
	ErrIO:          {"MNT3ERR_IO", "input/output error"},
	ErrAcces:       {"MNT3ERR_ACCES", "the server does not export this to us"},
	ErrNotDir:      {"MNT3ERR_NOTDIR", "not a directory"},
	ErrInval:       {"MNT3ERR_INVAL", "invalid argument"},
	ErrNameTooLong: {"MNT3ERR_NAMETOOLONG", "path too long"},
	ErrNotSupp:     {"MNT3ERR_NOTSUPP", "operation not supported"},
	ErrServerFault: {"MNT3ERR_SERVERFAULT", "server fault"},
}

// String is the name the RFC gives it.
func (s Status) String() string {
	if t, ok := statusText[s]; ok {
		return t[0]
	}
	return "mountstat3 " + strconv.FormatUint(uint64(s), 10)
}

func (s Status) Error() string {
	if t, ok := statusText[s]; ok {
		return t[1] + " (" + t[0] + ")"
	}
	return s.String()
}

// Is answers for the errors of package fs as nfs3.Status does: the numbers are the same.
func (s Status) Is(target error) bool { return nfs3.Status(s).Is(target) }

// Path is dirpath, the argument of MNT and UMNT.
type Path struct{ Dir string }

func (p *Path) MarshalXDR(w *xdr.Writer)   { w.String(p.Dir) }
func (p *Path) UnmarshalXDR(r *xdr.Reader) { p.Dir = r.String(MaxPath) }

// MntRes is mountres3.
type MntRes struct {
	Status  Status
	Handle  nfs3.Handle
	Flavors []uint32
}

func (s *MntRes) MarshalXDR(w *xdr.Writer) {
	w.Uint32(uint32(s.Status))
	if s.Status != OK {
		return
	}
	s.Handle.MarshalXDR(w)
	w.Uint32(uint32(len(s.Flavors)))
	for _, f := range s.Flavors {
		w.Uint32(f)
	}
}

func (s *MntRes) UnmarshalXDR(r *xdr.Reader) {
	s.Flavors = nil
	if s.Status = Status(r.Uint32()); s.Status != OK {
		return
	}
	s.Handle.UnmarshalXDR(r)
	for range r.Count(MaxFlavors, 4) {
		s.Flavors = append(s.Flavors, r.Uint32())
	}
}

// Mounted is one mountbody of DUMP.
type Mounted struct{ Host, Dir string }

// Mounts is mountlist.
type Mounts []Mounted

func (l *Mounts) MarshalXDR(w *xdr.Writer) {
	for i := range *l {
		w.Bool(true)
		w.String((*l)[i].Host)
		w.String((*l)[i].Dir)
	}
	w.Bool(false)
}

func (l *Mounts) UnmarshalXDR(r *xdr.Reader) {
	*l = nil
	for r.Bool() {
		if len(*l) == MaxList {
			r.Fail(xdr.ErrBounds)
			return
		}
		m := Mounted{Host: r.String(MaxName)}
		m.Dir = r.String(MaxPath)
		if r.Err() != nil {
			return
		}
		*l = append(*l, m)
	}
}

// Export is one exportnode: Groups empty means everybody.
type Export struct {
	Dir    string
	Groups []string
}

// Exports is the list that EXPORT returns.
type Exports []Export

func (l *Exports) MarshalXDR(w *xdr.Writer) {
	for i := range *l {
		w.Bool(true)
		w.String((*l)[i].Dir)
		for _, g := range (*l)[i].Groups {
			w.Bool(true)
			w.String(g)
		}
		w.Bool(false)
	}
	w.Bool(false)
}

func (l *Exports) UnmarshalXDR(r *xdr.Reader) {
	*l = nil
	items := 0
	more := func() bool {
		if items++; items > MaxList {
			r.Fail(xdr.ErrBounds)
			return false
		}
		return r.Bool()
	}
	for more() {
		e := Export{Dir: r.String(MaxPath)}
		for more() {
			e.Groups = append(e.Groups, r.String(MaxName))
		}
		if r.Err() != nil {
			return
		}
		*l = append(*l, e)
	}
}
