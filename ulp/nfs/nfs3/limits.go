package nfs3

const (
	Program = 100003
	Version = 3
)

// Procedure numbers (RFC 1813 §3).
const (
	ProcNull = iota
	ProcGetAttr
	ProcSetAttr
	ProcLookup
	ProcAccess
	ProcReadLink
	ProcRead
	ProcWrite
	ProcCreate
	ProcMkdir
	ProcSymlink
	ProcMknod
	ProcRemove
	ProcRmdir
	ProcRename
	ProcLink
	ProcReadDir
	ProcReadDirPlus
	ProcFSStat
	ProcFSInfo
	ProcPathConf
	ProcCommit
	NumProcs
)

// Sizes of RFC 1813 §2.4.
const (
	HandleSize = 64
	VerfSize   = 8
)

// RFC 1813 leaves names, paths and data without a bound (§2.5). These are ours for what
// a peer sends; they bound what it can make us allocate.
const (
	// MaxName is above every file system's own (255 bytes), so that a long name gets
	// NFS3ERR_NAMETOOLONG, which names the fault, and not GARBAGE_ARGS.
	MaxName = 1024
	// MaxPath is PATH_MAX of Linux.
	MaxPath = 4096
	// MaxData is the most bytes of one READ or WRITE, our rtmax and wtmax.
	MaxData = 1 << 20
	// MaxDirReply is the most bytes of one READDIR or READDIRPLUS reply that is accepted.
	MaxDirReply = 1 << 20
)

// Encoded sizes; where an item can be absent, with it.
const (
	AttrSize       = 84
	postOpAttrSize = 4 + AttrSize
	wccSize        = 4 + 24 + postOpAttrSize
	handleSize     = 4 + HandleSize

	// ReadHead is the results of READ without the data, its length word included.
	ReadHead = 4 + postOpAttrSize + 4 + 4 + 4
	// ReadLinkHead is the results of READLINK without the target, its length word included.
	ReadLinkHead = 4 + postOpAttrSize + 4

	GetAttrReply  = 4 + AttrSize
	SetAttrReply  = 4 + wccSize
	LookupReply   = 4 + handleSize + 2*postOpAttrSize
	AccessReply   = 4 + postOpAttrSize + 4
	WriteReply    = 4 + wccSize + 4 + 4 + VerfSize
	CreateReply   = 4 + 4 + handleSize + postOpAttrSize + wccSize
	RemoveReply   = 4 + wccSize
	RenameReply   = 4 + 2*wccSize
	LinkReply     = 4 + postOpAttrSize + wccSize
	FSStatReply   = 4 + postOpAttrSize + 6*8 + 4
	FSInfoReply   = 4 + postOpAttrSize + 7*4 + 8 + 8 + 4
	PathConfReply = 4 + postOpAttrSize + 6*4
	CommitReply   = 4 + wccSize + VerfSize
)
