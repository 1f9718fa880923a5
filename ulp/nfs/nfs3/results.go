package nfs3

import "github.com/rpcrdma/rpcrdma/core/xdr"

// Every results type begins with its Status; the rest is that of the arm it selects.

func (s *Status) put(w *xdr.Writer) bool {
	w.Uint32(uint32(*s))
	return *s == OK
}

func (s *Status) get(r *xdr.Reader) bool {
	*s = Status(r.Uint32())
	return *s == OK
}

// GetAttrRes is GETATTR3res.
type GetAttrRes struct {
	Status Status
	Attr   Attr
}

func (s *GetAttrRes) MarshalXDR(w *xdr.Writer) {
	if s.Status.put(w) {
		s.Attr.MarshalXDR(w)
	}
}

func (s *GetAttrRes) UnmarshalXDR(r *xdr.Reader) {
	if s.Status.get(r) {
		s.Attr.UnmarshalXDR(r)
	}
}

// WccRes is SETATTR3res, REMOVE3res and RMDIR3res: the same data in both arms.
type WccRes struct {
	Status Status
	Wcc    WccData
}

func (s *WccRes) MarshalXDR(w *xdr.Writer) {
	s.Status.put(w)
	s.Wcc.MarshalXDR(w)
}

func (s *WccRes) UnmarshalXDR(r *xdr.Reader) {
	s.Status.get(r)
	s.Wcc.UnmarshalXDR(r)
}

// LookupRes is LOOKUP3res.
type LookupRes struct {
	Status Status
	Object Handle
	Attr   PostOpAttr
	Dir    PostOpAttr // in both arms
}

func (s *LookupRes) MarshalXDR(w *xdr.Writer) {
	if s.Status.put(w) {
		s.Object.MarshalXDR(w)
		s.Attr.MarshalXDR(w)
	}
	s.Dir.MarshalXDR(w)
}

func (s *LookupRes) UnmarshalXDR(r *xdr.Reader) {
	if s.Status.get(r) {
		s.Object.UnmarshalXDR(r)
		s.Attr.UnmarshalXDR(r)
	}
	s.Dir.UnmarshalXDR(r)
}

// AccessRes is ACCESS3res.
type AccessRes struct {
	Status Status
	Attr   PostOpAttr // in both arms
	Access uint32
}

func (s *AccessRes) MarshalXDR(w *xdr.Writer) {
	ok := s.Status.put(w)
	s.Attr.MarshalXDR(w)
	if ok {
		w.Uint32(s.Access)
	}
}

func (s *AccessRes) UnmarshalXDR(r *xdr.Reader) {
	ok := s.Status.get(r)
	s.Attr.UnmarshalXDR(r)
	if ok {
		s.Access = r.Uint32()
	}
}

// ReadLinkRes is READLINK3res.
type ReadLinkRes struct {
	Status Status
	Attr   PostOpAttr // in both arms
	Target []byte
}

func (s *ReadLinkRes) MarshalXDR(w *xdr.Writer) {
	ok := s.Status.put(w)
	s.Attr.MarshalXDR(w)
	if ok {
		w.BulkOpaque(s.Target)
	}
}

func (s *ReadLinkRes) UnmarshalXDR(r *xdr.Reader) {
	ok := s.Status.get(r)
	s.Attr.UnmarshalXDR(r)
	if ok {
		s.Target = append([]byte(nil), r.Bulk(MaxPath)...)
	}
}

// ReadRes is READ3res. Reading one, Data is a slice of Dst, where the data is placed or
// copied to; more than len(Dst) is a fault.
type ReadRes struct {
	Status Status
	Attr   PostOpAttr // in both arms
	Count  uint32
	EOF    bool
	Data   []byte

	Dst []byte
}

// MarshalHead writes all that stands before the data.
func (s *ReadRes) MarshalHead(w *xdr.Writer) {
	ok := s.Status.put(w)
	s.Attr.MarshalXDR(w)
	if ok {
		w.Uint32(s.Count)
		w.Bool(s.EOF)
	}
}

func (s *ReadRes) MarshalXDR(w *xdr.Writer) {
	s.MarshalHead(w)
	if s.Status == OK {
		w.BulkOpaque(s.Data)
	}
}

func (s *ReadRes) UnmarshalXDR(r *xdr.Reader) {
	s.Data = nil
	ok := s.Status.get(r)
	s.Attr.UnmarshalXDR(r)
	if !ok {
		return
	}
	s.Count = r.Uint32()
	s.EOF = r.Bool()
	b := r.Bulk(uint32(min(len(s.Dst), MaxData)))
	if r.Err() != nil {
		return
	}
	if int(s.Count) != len(b) {
		r.Fail(xdr.ErrValue)
		return
	}
	if len(b) > 0 && &b[0] != &s.Dst[0] {
		copy(s.Dst, b)
	}
	s.Data = s.Dst[:len(b):len(b)]
}

// WriteRes is WRITE3res.
type WriteRes struct {
	Status    Status
	Wcc       WccData // in both arms
	Count     uint32
	Committed StableHow
	Verf      Verf
}

func (s *WriteRes) MarshalXDR(w *xdr.Writer) {
	ok := s.Status.put(w)
	s.Wcc.MarshalXDR(w)
	if ok {
		w.Uint32(s.Count)
		w.Uint32(uint32(s.Committed))
		s.Verf.MarshalXDR(w)
	}
}

func (s *WriteRes) UnmarshalXDR(r *xdr.Reader) {
	ok := s.Status.get(r)
	s.Wcc.UnmarshalXDR(r)
	if ok {
		s.Count = r.Uint32()
		if s.Committed = StableHow(r.Uint32()); s.Committed > FileSync {
			r.Fail(xdr.ErrValue)
		}
		s.Verf.UnmarshalXDR(r)
	}
}

// CreateRes is CREATE3res, MKDIR3res, SYMLINK3res and MKNOD3res.
type CreateRes struct {
	Status Status
	Object PostOpHandle
	Attr   PostOpAttr
	Dir    WccData // in both arms
}

func (s *CreateRes) MarshalXDR(w *xdr.Writer) {
	if s.Status.put(w) {
		s.Object.MarshalXDR(w)
		s.Attr.MarshalXDR(w)
	}
	s.Dir.MarshalXDR(w)
}

func (s *CreateRes) UnmarshalXDR(r *xdr.Reader) {
	if s.Status.get(r) {
		s.Object.UnmarshalXDR(r)
		s.Attr.UnmarshalXDR(r)
	}
	s.Dir.UnmarshalXDR(r)
}

// RenameRes is RENAME3res: the same data in both arms.
type RenameRes struct {
	Status   Status
	From, To WccData
}

func (s *RenameRes) MarshalXDR(w *xdr.Writer) {
	s.Status.put(w)
	s.From.MarshalXDR(w)
	s.To.MarshalXDR(w)
}

func (s *RenameRes) UnmarshalXDR(r *xdr.Reader) {
	s.Status.get(r)
	s.From.UnmarshalXDR(r)
	s.To.UnmarshalXDR(r)
}

// LinkRes is LINK3res: the same data in both arms.
type LinkRes struct {
	Status Status
	Attr   PostOpAttr
	Dir    WccData
}

func (s *LinkRes) MarshalXDR(w *xdr.Writer) {
	s.Status.put(w)
	s.Attr.MarshalXDR(w)
	s.Dir.MarshalXDR(w)
}

func (s *LinkRes) UnmarshalXDR(r *xdr.Reader) {
	s.Status.get(r)
	s.Attr.UnmarshalXDR(r)
	s.Dir.UnmarshalXDR(r)
}

// FSStatRes is FSSTAT3res.
type FSStatRes struct {
	Status                 Status
	Attr                   PostOpAttr // in both arms
	Tbytes, Fbytes, Abytes uint64
	Tfiles, Ffiles, Afiles uint64
	Invarsec               uint32
}

func (s *FSStatRes) MarshalXDR(w *xdr.Writer) {
	ok := s.Status.put(w)
	s.Attr.MarshalXDR(w)
	if !ok {
		return
	}
	for _, v := range [...]uint64{s.Tbytes, s.Fbytes, s.Abytes, s.Tfiles, s.Ffiles, s.Afiles} {
		w.Uint64(v)
	}
	w.Uint32(s.Invarsec)
}

func (s *FSStatRes) UnmarshalXDR(r *xdr.Reader) {
	ok := s.Status.get(r)
	s.Attr.UnmarshalXDR(r)
	if !ok {
		return
	}
	for _, p := range [...]*uint64{&s.Tbytes, &s.Fbytes, &s.Abytes, &s.Tfiles, &s.Ffiles, &s.Afiles} {
		*p = r.Uint64()
	}
	s.Invarsec = r.Uint32()
}

// Properties of FSINFO (RFC 1813 §3.3.19).
const (
	FSFLink        = 0x01
	FSFSymlink     = 0x02
	FSFHomogeneous = 0x08
	FSFCanSetTime  = 0x10
)

// FSInfoRes is FSINFO3res.
type FSInfoRes struct {
	Status                Status
	Attr                  PostOpAttr // in both arms
	RTMax, RTPref, RTMult uint32
	WTMax, WTPref, WTMult uint32
	DTPref                uint32
	MaxFileSize           uint64
	TimeDelta             Time
	Properties            uint32
}

func (s *FSInfoRes) MarshalXDR(w *xdr.Writer) {
	ok := s.Status.put(w)
	s.Attr.MarshalXDR(w)
	if !ok {
		return
	}
	for _, v := range [...]uint32{s.RTMax, s.RTPref, s.RTMult, s.WTMax, s.WTPref, s.WTMult, s.DTPref} {
		w.Uint32(v)
	}
	w.Uint64(s.MaxFileSize)
	s.TimeDelta.MarshalXDR(w)
	w.Uint32(s.Properties)
}

func (s *FSInfoRes) UnmarshalXDR(r *xdr.Reader) {
	ok := s.Status.get(r)
	s.Attr.UnmarshalXDR(r)
	if !ok {
		return
	}
	for _, p := range [...]*uint32{&s.RTMax, &s.RTPref, &s.RTMult, &s.WTMax, &s.WTPref, &s.WTMult, &s.DTPref} {
		*p = r.Uint32()
	}
	s.MaxFileSize = r.Uint64()
	s.TimeDelta.UnmarshalXDR(r)
	s.Properties = r.Uint32()
}

// PathConfRes is PATHCONF3res.
type PathConfRes struct {
	Status          Status
	Attr            PostOpAttr // in both arms
	LinkMax         uint32
	NameMax         uint32
	NoTrunc         bool
	ChownRestricted bool
	CaseInsensitive bool
	CasePreserving  bool
}

func (s *PathConfRes) MarshalXDR(w *xdr.Writer) {
	ok := s.Status.put(w)
	s.Attr.MarshalXDR(w)
	if !ok {
		return
	}
	w.Uint32(s.LinkMax)
	w.Uint32(s.NameMax)
	w.Bool(s.NoTrunc)
	w.Bool(s.ChownRestricted)
	w.Bool(s.CaseInsensitive)
	w.Bool(s.CasePreserving)
}

func (s *PathConfRes) UnmarshalXDR(r *xdr.Reader) {
	ok := s.Status.get(r)
	s.Attr.UnmarshalXDR(r)
	if !ok {
		return
	}
	s.LinkMax = r.Uint32()
	s.NameMax = r.Uint32()
	s.NoTrunc = r.Bool()
	s.ChownRestricted = r.Bool()
	s.CaseInsensitive = r.Bool()
	s.CasePreserving = r.Bool()
}

// CommitRes is COMMIT3res.
type CommitRes struct {
	Status Status
	Wcc    WccData // in both arms
	Verf   Verf
}

func (s *CommitRes) MarshalXDR(w *xdr.Writer) {
	ok := s.Status.put(w)
	s.Wcc.MarshalXDR(w)
	if ok {
		s.Verf.MarshalXDR(w)
	}
}

func (s *CommitRes) UnmarshalXDR(r *xdr.Reader) {
	ok := s.Status.get(r)
	s.Wcc.UnmarshalXDR(r)
	if ok {
		s.Verf.UnmarshalXDR(r)
	}
}
