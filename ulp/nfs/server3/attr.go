package server3

import (
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

type stat = unix.Stat_t

var fileTypes = map[uint32]nfs3.FileType{
	unix.S_IFREG:  nfs3.TypeReg,
	unix.S_IFDIR:  nfs3.TypeDir,
	unix.S_IFBLK:  nfs3.TypeBlk,
	unix.S_IFCHR:  nfs3.TypeChr,
	unix.S_IFLNK:  nfs3.TypeLnk,
	unix.S_IFSOCK: nfs3.TypeSock,
	unix.S_IFIFO:  nfs3.TypeFifo,
}

func timeOf(t unix.Timespec) nfs3.Time { return nfs3.Time{Sec: uint32(t.Sec), Nsec: uint32(t.Nsec)} }

// attrOf is st as fattr3.
func (e *export) attrOf(st *stat) nfs3.Attr {
	a := nfs3.Attr{
		Mode: st.Mode & 0o7777, Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid,
		Size: uint64(st.Size), Used: uint64(st.Blocks) * 512,
		FSID: e.fsid, FileID: st.Ino,
		Atime: timeOf(st.Atim), Mtime: timeOf(st.Mtim), Ctime: timeOf(st.Ctim),
	}
	switch f := st.Mode & unix.S_IFMT; f {
	case unix.S_IFREG: // the common ones without the map
		a.Type = nfs3.TypeReg
	case unix.S_IFDIR:
		a.Type = nfs3.TypeDir
	default:
		a.Type = fileTypes[f]
		if f == unix.S_IFBLK || f == unix.S_IFCHR {
			a.Rdev = nfs3.SpecData{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}
		}
	}
	return a
}

func (e *export) postOp(st *stat) nfs3.PostOpAttr {
	return nfs3.PostOpAttr{Set: true, Attr: e.attrOf(st)}
}

// after is the attributes of an object as they are now.
func (s *Server) after(n *node) nfs3.PostOpAttr {
	var st stat
	if n == nil || unix.Fstat(n.path, &st) != nil {
		return nfs3.PostOpAttr{}
	}
	return s.exp.postOp(&st)
}

func preOp(st *stat) nfs3.PreOpAttr {
	return nfs3.PreOpAttr{Set: true, Size: uint64(st.Size), Mtime: timeOf(st.Mtim), Ctime: timeOf(st.Ctim)}
}
