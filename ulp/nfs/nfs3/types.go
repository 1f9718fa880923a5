package nfs3

import (
	"io/fs"
	"time"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Handle is nfs_fh3: opaque, comparable, of at most 64 bytes.
type Handle struct {
	b [HandleSize]byte
	n uint8
}

// NewHandle copies b; false when it is longer than HandleSize.
func NewHandle(b []byte) (Handle, bool) {
	var h Handle
	if len(b) > HandleSize {
		return h, false
	}
	h.n = uint8(copy(h.b[:], b))
	return h, true
}

// Bytes are the handle's own; not to be written.
func (h *Handle) Bytes() []byte { return h.b[:h.n] }

func (h *Handle) MarshalXDR(w *xdr.Writer) { w.Opaque(h.Bytes()) }

func (h *Handle) UnmarshalXDR(r *xdr.Reader) { *h, _ = NewHandle(r.OpaqueView(HandleSize)) }

// Verf is a cookieverf3, createverf3 or writeverf3.
type Verf [VerfSize]byte

func (v *Verf) MarshalXDR(w *xdr.Writer)   { w.Fixed(v[:]) }
func (v *Verf) UnmarshalXDR(r *xdr.Reader) { copy(v[:], r.FixedView(VerfSize)) }

// FileType is ftype3.
type FileType uint32

const (
	TypeReg  FileType = 1
	TypeDir  FileType = 2
	TypeBlk  FileType = 3
	TypeChr  FileType = 4
	TypeLnk  FileType = 5
	TypeSock FileType = 6
	TypeFifo FileType = 7
)

var typeNames = [...]string{"unknown", "file", "directory", "block device", "character device", "symlink", "socket", "fifo"}

func (t FileType) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return typeNames[0]
}

// SpecData is specdata3: major and minor of a device.
type SpecData struct{ Major, Minor uint32 }

func (d *SpecData) MarshalXDR(w *xdr.Writer) {
	w.Uint32(d.Major)
	w.Uint32(d.Minor)
}

func (d *SpecData) UnmarshalXDR(r *xdr.Reader) { d.Major, d.Minor = r.Uint32(), r.Uint32() }

// Time is nfstime3.
type Time struct{ Sec, Nsec uint32 }

func (t Time) Time() time.Time { return time.Unix(int64(t.Sec), int64(t.Nsec)) }

func (t *Time) MarshalXDR(w *xdr.Writer) {
	w.Uint32(t.Sec)
	w.Uint32(t.Nsec)
}

func (t *Time) UnmarshalXDR(r *xdr.Reader) { t.Sec, t.Nsec = r.Uint32(), r.Uint32() }

// Attr is fattr3.
type Attr struct {
	Type   FileType
	Mode   uint32 // permission, set-id and sticky bits only
	Nlink  uint32
	UID    uint32
	GID    uint32
	Size   uint64
	Used   uint64
	Rdev   SpecData
	FSID   uint64
	FileID uint64
	Atime  Time
	Mtime  Time
	Ctime  Time
}

func (a *Attr) MarshalXDR(w *xdr.Writer) {
	w.Uint32(uint32(a.Type))
	w.Uint32(a.Mode)
	w.Uint32(a.Nlink)
	w.Uint32(a.UID)
	w.Uint32(a.GID)
	w.Uint64(a.Size)
	w.Uint64(a.Used)
	a.Rdev.MarshalXDR(w)
	w.Uint64(a.FSID)
	w.Uint64(a.FileID)
	a.Atime.MarshalXDR(w)
	a.Mtime.MarshalXDR(w)
	a.Ctime.MarshalXDR(w)
}

func (a *Attr) UnmarshalXDR(r *xdr.Reader) {
	a.Type = FileType(r.Uint32())
	a.Mode = r.Uint32()
	a.Nlink = r.Uint32()
	a.UID = r.Uint32()
	a.GID = r.Uint32()
	a.Size = r.Uint64()
	a.Used = r.Uint64()
	a.Rdev.UnmarshalXDR(r)
	a.FSID = r.Uint64()
	a.FileID = r.Uint64()
	a.Atime.UnmarshalXDR(r)
	a.Mtime.UnmarshalXDR(r)
	a.Ctime.UnmarshalXDR(r)
}

// FileMode is type and mode as package fs has them.
func (a *Attr) FileMode() fs.FileMode {
	m := fs.FileMode(a.Mode & 0o777)
	for _, b := range [...]struct {
		bit  uint32
		mode fs.FileMode
	}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}} {
		if a.Mode&b.bit != 0 {
			m |= b.mode
		}
	}
	switch a.Type {
	case TypeDir:
		m |= fs.ModeDir
	case TypeLnk:
		m |= fs.ModeSymlink
	case TypeBlk:
		m |= fs.ModeDevice
	case TypeChr:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case TypeSock:
		m |= fs.ModeSocket
	case TypeFifo:
		m |= fs.ModeNamedPipe
	case TypeReg:
	default:
		m |= fs.ModeIrregular
	}
	return m
}

// PostOpAttr is post_op_attr.
type PostOpAttr struct {
	Set  bool
	Attr Attr
}

func (p *PostOpAttr) MarshalXDR(w *xdr.Writer) {
	w.Bool(p.Set)
	if p.Set {
		p.Attr.MarshalXDR(w)
	}
}

func (p *PostOpAttr) UnmarshalXDR(r *xdr.Reader) {
	if p.Set = r.Bool(); p.Set {
		p.Attr.UnmarshalXDR(r)
	}
}

// PreOpAttr is pre_op_attr with its wcc_attr.
type PreOpAttr struct {
	Set   bool
	Size  uint64
	Mtime Time
	Ctime Time
}

func (p *PreOpAttr) MarshalXDR(w *xdr.Writer) {
	w.Bool(p.Set)
	if p.Set {
		w.Uint64(p.Size)
		p.Mtime.MarshalXDR(w)
		p.Ctime.MarshalXDR(w)
	}
}

func (p *PreOpAttr) UnmarshalXDR(r *xdr.Reader) {
	if p.Set = r.Bool(); p.Set {
		p.Size = r.Uint64()
		p.Mtime.UnmarshalXDR(r)
		p.Ctime.UnmarshalXDR(r)
	}
}

// WccData is wcc_data: weak cache consistency.
type WccData struct {
	Before PreOpAttr
	After  PostOpAttr
}

func (d *WccData) MarshalXDR(w *xdr.Writer) {
	d.Before.MarshalXDR(w)
	d.After.MarshalXDR(w)
}

func (d *WccData) UnmarshalXDR(r *xdr.Reader) {
	d.Before.UnmarshalXDR(r)
	d.After.UnmarshalXDR(r)
}

// PostOpHandle is post_op_fh3.
type PostOpHandle struct {
	Set    bool
	Handle Handle
}

func (p *PostOpHandle) MarshalXDR(w *xdr.Writer) {
	w.Bool(p.Set)
	if p.Set {
		p.Handle.MarshalXDR(w)
	}
}

func (p *PostOpHandle) UnmarshalXDR(r *xdr.Reader) {
	if p.Set = r.Bool(); p.Set {
		p.Handle.UnmarshalXDR(r)
	}
}

// DirOp is diropargs3. Name is a view when read: a server that stores it copies it.
type DirOp struct {
	Dir  Handle
	Name string
}

func (d *DirOp) MarshalXDR(w *xdr.Writer) {
	d.Dir.MarshalXDR(w)
	w.String(d.Name)
}

func (d *DirOp) UnmarshalXDR(r *xdr.Reader) {
	d.Dir.UnmarshalXDR(r)
	d.Name = r.StringView(MaxName)
}
