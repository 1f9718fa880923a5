package nfs3

import "github.com/rpcrdma/rpcrdma/core/xdr"

// SetU32 is set_mode3, set_uid3 and set_gid3.
type SetU32 struct {
	Set bool
	V   uint32
}

// U32 is v, to be set.
func U32(v uint32) SetU32 { return SetU32{true, v} }

func (s *SetU32) MarshalXDR(w *xdr.Writer) {
	w.Bool(s.Set)
	if s.Set {
		w.Uint32(s.V)
	}
}

func (s *SetU32) UnmarshalXDR(r *xdr.Reader) {
	if s.Set = r.Bool(); s.Set {
		s.V = r.Uint32()
	}
}

// SetU64 is set_size3.
type SetU64 struct {
	Set bool
	V   uint64
}

// U64 is v, to be set.
func U64(v uint64) SetU64 { return SetU64{true, v} }

func (s *SetU64) MarshalXDR(w *xdr.Writer) {
	w.Bool(s.Set)
	if s.Set {
		w.Uint64(s.V)
	}
}

func (s *SetU64) UnmarshalXDR(r *xdr.Reader) {
	if s.Set = r.Bool(); s.Set {
		s.V = r.Uint64()
	}
}

// TimeHow is time_how.
type TimeHow uint32

const (
	DontChange TimeHow = 0
	ServerTime TimeHow = 1
	ClientTime TimeHow = 2
)

// SetTime is set_atime and set_mtime.
type SetTime struct {
	How  TimeHow
	Time Time // with ClientTime
}

// SetTo is t, to be set.
func SetTo(t Time) SetTime { return SetTime{ClientTime, t} }

func (s *SetTime) MarshalXDR(w *xdr.Writer) {
	w.Uint32(uint32(s.How))
	if s.How == ClientTime {
		s.Time.MarshalXDR(w)
	}
}

func (s *SetTime) UnmarshalXDR(r *xdr.Reader) {
	switch s.How = TimeHow(r.Uint32()); s.How {
	case DontChange, ServerTime:
	case ClientTime:
		s.Time.UnmarshalXDR(r)
	default:
		r.Fail(xdr.ErrValue)
	}
}

// Sattr is sattr3.
type Sattr struct {
	Mode  SetU32
	UID   SetU32
	GID   SetU32
	Size  SetU64
	Atime SetTime
	Mtime SetTime
}

func (s *Sattr) MarshalXDR(w *xdr.Writer) {
	s.Mode.MarshalXDR(w)
	s.UID.MarshalXDR(w)
	s.GID.MarshalXDR(w)
	s.Size.MarshalXDR(w)
	s.Atime.MarshalXDR(w)
	s.Mtime.MarshalXDR(w)
}

func (s *Sattr) UnmarshalXDR(r *xdr.Reader) {
	s.Mode.UnmarshalXDR(r)
	s.UID.UnmarshalXDR(r)
	s.GID.UnmarshalXDR(r)
	s.Size.UnmarshalXDR(r)
	s.Atime.UnmarshalXDR(r)
	s.Mtime.UnmarshalXDR(r)
}
