package nfs3

import (
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Entry is entry3 and entryplus3, without the pointer to the next.
type Entry struct {
	FileID uint64
	Name   string
	Cookie uint64
	Attr   PostOpAttr   // READDIRPLUS
	Object PostOpHandle // READDIRPLUS
}

// DirHead and DirTail are what the results of both procedures cost besides their
// entries and the status: attributes and verifier; the end of the list and eof.
const (
	DirHead = postOpAttrSize + VerfSize
	DirTail = 4 + 4
)

// Size is the encoded size of the entry as one of READDIR, with the word that says
// that it follows.
func (e *Entry) Size() int { return entrySize + len(e.Name) + (-len(e.Name) & 3) }

const entrySize = 4 + 8 + 4 + 8

// PlusSize is Size as one of READDIRPLUS.
func (e *Entry) PlusSize() int {
	n := e.Size() + 4 + 4
	if e.Attr.Set {
		n += AttrSize
	}
	if e.Object.Set {
		n += 4 + (len(e.Object.Handle.Bytes())+3)&^3
	}
	return n
}

// Append writes the entry and the word before it.
func (e *Entry) Append(w *xdr.Writer, plus bool) {
	w.Bool(true)
	w.Uint64(e.FileID)
	w.String(e.Name)
	w.Uint64(e.Cookie)
	if plus {
		e.Attr.MarshalXDR(w)
		e.Object.MarshalXDR(w)
	}
}

func (e *Entry) read(r *xdr.Reader, plus bool) {
	e.FileID = r.Uint64()
	e.Name = r.String(MaxName)
	e.Cookie = r.Uint64()
	if plus {
		e.Attr.UnmarshalXDR(r)
		e.Object.UnmarshalXDR(r)
	}
}

// DirRes is READDIR3res, or READDIRPLUS3res when Plus, which whoever reads one sets.
type DirRes struct {
	Plus    bool
	Status  Status
	Attr    PostOpAttr // in both arms
	Verf    Verf
	Entries []Entry
	EOF     bool
}

func (s *DirRes) MarshalXDR(w *xdr.Writer) {
	ok := s.Status.put(w)
	s.Attr.MarshalXDR(w)
	if !ok {
		return
	}
	s.Verf.MarshalXDR(w)
	for i := range s.Entries {
		s.Entries[i].Append(w, s.Plus)
	}
	w.Bool(false)
	w.Bool(s.EOF)
}

func (s *DirRes) UnmarshalXDR(r *xdr.Reader) {
	ok := s.Status.get(r)
	s.Attr.UnmarshalXDR(r)
	s.Entries = s.Entries[:0]
	if !ok {
		return
	}
	s.Verf.UnmarshalXDR(r)
	for r.Bool() {
		var e Entry
		if e.read(r, s.Plus); r.Err() != nil {
			return
		}
		s.Entries = append(s.Entries, e)
	}
	s.EOF = r.Bool()
}
