package nfs3

import "github.com/rpcrdma/rpcrdma/core/xdr"

// HandleArgs are the arguments of GETATTR, READLINK, FSSTAT, FSINFO and PATHCONF.
type HandleArgs struct{ Object Handle }

func (a *HandleArgs) MarshalXDR(w *xdr.Writer)   { a.Object.MarshalXDR(w) }
func (a *HandleArgs) UnmarshalXDR(r *xdr.Reader) { a.Object.UnmarshalXDR(r) }

// ReadLinkArgs are HandleArgs that bound the reply, whose target RFC 8267 lets be moved.
type ReadLinkArgs struct{ HandleArgs }

// MaxReply makes them a binding.ReplySizer.
func (a *ReadLinkArgs) MaxReply() (reduced, whole int) {
	return ReadLinkHead, ReadLinkHead + MaxPath
}

// SetAttrArgs are SETATTR3args.
type SetAttrArgs struct {
	Object Handle
	Attr   Sattr
	Guard  bool // Ctime must be the object's ctime
	Ctime  Time
}

func (a *SetAttrArgs) MarshalXDR(w *xdr.Writer) {
	a.Object.MarshalXDR(w)
	a.Attr.MarshalXDR(w)
	w.Bool(a.Guard)
	if a.Guard {
		a.Ctime.MarshalXDR(w)
	}
}

func (a *SetAttrArgs) UnmarshalXDR(r *xdr.Reader) {
	a.Object.UnmarshalXDR(r)
	a.Attr.UnmarshalXDR(r)
	if a.Guard = r.Bool(); a.Guard {
		a.Ctime.UnmarshalXDR(r)
	}
}

// DirOpArgs are the arguments of LOOKUP, REMOVE and RMDIR.
type DirOpArgs struct{ What DirOp }

func (a *DirOpArgs) MarshalXDR(w *xdr.Writer)   { a.What.MarshalXDR(w) }
func (a *DirOpArgs) UnmarshalXDR(r *xdr.Reader) { a.What.UnmarshalXDR(r) }

// Bits of ACCESS (RFC 1813 §3.3.4).
const (
	AccessRead    = 0x01
	AccessLookup  = 0x02
	AccessModify  = 0x04
	AccessExtend  = 0x08
	AccessDelete  = 0x10
	AccessExecute = 0x20
)

// AccessArgs are ACCESS3args.
type AccessArgs struct {
	Object Handle
	Access uint32
}

func (a *AccessArgs) MarshalXDR(w *xdr.Writer) {
	a.Object.MarshalXDR(w)
	w.Uint32(a.Access)
}

func (a *AccessArgs) UnmarshalXDR(r *xdr.Reader) {
	a.Object.UnmarshalXDR(r)
	a.Access = r.Uint32()
}

// ReadArgs are READ3args.
type ReadArgs struct {
	File   Handle
	Offset uint64
	Count  uint32
}

func (a *ReadArgs) MarshalXDR(w *xdr.Writer) {
	a.File.MarshalXDR(w)
	w.Uint64(a.Offset)
	w.Uint32(a.Count)
}

func (a *ReadArgs) UnmarshalXDR(r *xdr.Reader) {
	a.File.UnmarshalXDR(r)
	a.Offset = r.Uint64()
	a.Count = r.Uint32()
}

// MaxReply makes them a binding.ReplySizer.
func (a *ReadArgs) MaxReply() (reduced, whole int) {
	return ReadHead, ReadHead + int(a.Count) + int(-a.Count&3)
}

// StableHow is stable_how: what has to be on stable storage before the reply.
type StableHow uint32

const (
	Unstable StableHow = 0
	DataSync StableHow = 1
	FileSync StableHow = 2
)

// WriteArgs are WRITE3args. Data is not copied when written, and a view when read: it may
// lie in memory that the peer's Read chunk was pulled into.
type WriteArgs struct {
	File   Handle
	Offset uint64
	Count  uint32
	Stable StableHow
	Data   []byte

	Mem any // what the transport knows Data's memory by (xdr.Bulk), or nil; not sent
}

func (a *WriteArgs) MarshalXDR(w *xdr.Writer) {
	a.File.MarshalXDR(w)
	w.Uint64(a.Offset)
	w.Uint32(a.Count)
	w.Uint32(uint32(a.Stable))
	w.BulkItem(xdr.Bulk{Data: a.Data, Mem: a.Mem})
}

func (a *WriteArgs) UnmarshalXDR(r *xdr.Reader) {
	a.File.UnmarshalXDR(r)
	a.Offset = r.Uint64()
	a.Count = r.Uint32()
	if a.Stable = StableHow(r.Uint32()); a.Stable > FileSync {
		r.Fail(xdr.ErrValue)
	}
	a.Data = r.Bulk(MaxData)
}

// CreateMode is createmode3.
type CreateMode uint32

const (
	Unchecked CreateMode = 0
	Guarded   CreateMode = 1
	Exclusive CreateMode = 2
)

// CreateArgs are CREATE3args.
type CreateArgs struct {
	Where DirOp
	Mode  CreateMode
	Attr  Sattr // not with Exclusive
	Verf  Verf  // with Exclusive
}

func (a *CreateArgs) MarshalXDR(w *xdr.Writer) {
	a.Where.MarshalXDR(w)
	w.Uint32(uint32(a.Mode))
	if a.Mode == Exclusive {
		a.Verf.MarshalXDR(w)
	} else {
		a.Attr.MarshalXDR(w)
	}
}

func (a *CreateArgs) UnmarshalXDR(r *xdr.Reader) {
	a.Where.UnmarshalXDR(r)
	switch a.Mode = CreateMode(r.Uint32()); a.Mode {
	case Unchecked, Guarded:
		a.Attr.UnmarshalXDR(r)
	case Exclusive:
		a.Verf.UnmarshalXDR(r)
	default:
		r.Fail(xdr.ErrValue)
	}
}

// MkdirArgs are MKDIR3args.
type MkdirArgs struct {
	Where DirOp
	Attr  Sattr
}

func (a *MkdirArgs) MarshalXDR(w *xdr.Writer) {
	a.Where.MarshalXDR(w)
	a.Attr.MarshalXDR(w)
}

func (a *MkdirArgs) UnmarshalXDR(r *xdr.Reader) {
	a.Where.UnmarshalXDR(r)
	a.Attr.UnmarshalXDR(r)
}

// SymlinkArgs are SYMLINK3args. Target is a view, like WriteArgs.Data.
type SymlinkArgs struct {
	Where  DirOp
	Attr   Sattr
	Target []byte
}

func (a *SymlinkArgs) MarshalXDR(w *xdr.Writer) {
	a.Where.MarshalXDR(w)
	a.Attr.MarshalXDR(w)
	w.BulkOpaque(a.Target)
}

func (a *SymlinkArgs) UnmarshalXDR(r *xdr.Reader) {
	a.Where.UnmarshalXDR(r)
	a.Attr.UnmarshalXDR(r)
	a.Target = r.Bulk(MaxPath)
}

// MknodArgs are MKNOD3args. For types that have no arm in the union only Type is sent.
type MknodArgs struct {
	Where DirOp
	Type  FileType
	Attr  Sattr
	Spec  SpecData // of devices
}

func (a *MknodArgs) MarshalXDR(w *xdr.Writer) {
	a.Where.MarshalXDR(w)
	w.Uint32(uint32(a.Type))
	switch a.Type {
	case TypeChr, TypeBlk:
		a.Attr.MarshalXDR(w)
		a.Spec.MarshalXDR(w)
	case TypeSock, TypeFifo:
		a.Attr.MarshalXDR(w)
	}
}

func (a *MknodArgs) UnmarshalXDR(r *xdr.Reader) {
	a.Where.UnmarshalXDR(r)
	a.Type = FileType(r.Uint32())
	switch a.Type {
	case TypeChr, TypeBlk:
		a.Attr.UnmarshalXDR(r)
		a.Spec.UnmarshalXDR(r)
	case TypeSock, TypeFifo:
		a.Attr.UnmarshalXDR(r)
	}
}

// RenameArgs are RENAME3args.
type RenameArgs struct{ From, To DirOp }

func (a *RenameArgs) MarshalXDR(w *xdr.Writer) {
	a.From.MarshalXDR(w)
	a.To.MarshalXDR(w)
}

func (a *RenameArgs) UnmarshalXDR(r *xdr.Reader) {
	a.From.UnmarshalXDR(r)
	a.To.UnmarshalXDR(r)
}

// LinkArgs are LINK3args.
type LinkArgs struct {
	File Handle
	Link DirOp
}

func (a *LinkArgs) MarshalXDR(w *xdr.Writer) {
	a.File.MarshalXDR(w)
	a.Link.MarshalXDR(w)
}

func (a *LinkArgs) UnmarshalXDR(r *xdr.Reader) {
	a.File.UnmarshalXDR(r)
	a.Link.UnmarshalXDR(r)
}

// ReadDirArgs are READDIR3args. Count bounds the results but for the status.
type ReadDirArgs struct {
	Dir    Handle
	Cookie uint64
	Verf   Verf
	Count  uint32
}

func (a *ReadDirArgs) MarshalXDR(w *xdr.Writer) {
	a.Dir.MarshalXDR(w)
	w.Uint64(a.Cookie)
	a.Verf.MarshalXDR(w)
	w.Uint32(a.Count)
}

func (a *ReadDirArgs) UnmarshalXDR(r *xdr.Reader) {
	a.Dir.UnmarshalXDR(r)
	a.Cookie = r.Uint64()
	a.Verf.UnmarshalXDR(r)
	a.Count = r.Uint32()
}

// MaxReply makes them a binding.ReplySizer: nothing of a directory may be moved by itself.
func (a *ReadDirArgs) MaxReply() (reduced, whole int) { return dirReply(a.Count) }

// ReadDirPlusArgs are READDIRPLUS3args. MaxCount bounds the results but for the status;
// DirCount what they tell of names, file ids and cookies.
type ReadDirPlusArgs struct {
	Dir      Handle
	Cookie   uint64
	Verf     Verf
	DirCount uint32
	MaxCount uint32
}

func (a *ReadDirPlusArgs) MarshalXDR(w *xdr.Writer) {
	a.Dir.MarshalXDR(w)
	w.Uint64(a.Cookie)
	a.Verf.MarshalXDR(w)
	w.Uint32(a.DirCount)
	w.Uint32(a.MaxCount)
}

func (a *ReadDirPlusArgs) UnmarshalXDR(r *xdr.Reader) {
	a.Dir.UnmarshalXDR(r)
	a.Cookie = r.Uint64()
	a.Verf.UnmarshalXDR(r)
	a.DirCount = r.Uint32()
	a.MaxCount = r.Uint32()
}

// MaxReply makes them a binding.ReplySizer.
func (a *ReadDirPlusArgs) MaxReply() (reduced, whole int) { return dirReply(a.MaxCount) }

func dirReply(count uint32) (reduced, whole int) {
	n := 4 + max(int(count), postOpAttrSize)
	return n, n
}

// CommitArgs are COMMIT3args; Count 0 is up to the end.
type CommitArgs struct {
	File   Handle
	Offset uint64
	Count  uint32
}

func (a *CommitArgs) MarshalXDR(w *xdr.Writer) {
	a.File.MarshalXDR(w)
	w.Uint64(a.Offset)
	w.Uint32(a.Count)
}

func (a *CommitArgs) UnmarshalXDR(r *xdr.Reader) {
	a.File.UnmarshalXDR(r)
	a.Offset = r.Uint64()
	a.Count = r.Uint32()
}
