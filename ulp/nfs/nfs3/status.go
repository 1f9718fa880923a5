package nfs3

import (
	"io/fs"
	"strconv"
)

// Status is nfsstat3 (RFC 1813 §2.6). All but OK are errors, and answer errors.Is for
// fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and fs.ErrInvalid.
type Status uint32

const (
	OK             Status = 0
	ErrPerm        Status = 1
	ErrNoEnt       Status = 2
	ErrIO          Status = 5
	ErrNXIO        Status = 6
	ErrAcces       Status = 13
	ErrExist       Status = 17
	ErrXDev        Status = 18
	ErrNoDev       Status = 19
	ErrNotDir      Status = 20
	ErrIsDir       Status = 21
	ErrInval       Status = 22
	ErrFBig        Status = 27
	ErrNoSpc       Status = 28
	ErrROFS        Status = 30
	ErrMLink       Status = 31
	ErrNameTooLong Status = 63
	ErrNotEmpty    Status = 66
	ErrDQuot       Status = 69
	ErrStale       Status = 70
	ErrRemote      Status = 71
	ErrBadHandle   Status = 10001
	ErrNotSync     Status = 10002
	ErrBadCookie   Status = 10003
	ErrNotSupp     Status = 10004
	ErrTooSmall    Status = 10005
	ErrServerFault Status = 10006
	ErrBadType     Status = 10007
	ErrJukebox     Status = 10008
)

var statusText = map[Status][2]string{
	OK:             {"NFS3_OK", "ok"},
	ErrPerm:        {"NFS3ERR_PERM", "not owner"},
	ErrNoEnt:       {"NFS3ERR_NOENT", "no such file or directory"},
	ErrIO:          {"NFS3ERR_IO", "input/output error"},
	ErrNXIO:        {"NFS3ERR_NXIO", "no such device or address"},
	ErrAcces:       {"NFS3ERR_ACCES", "permission denied"},
	ErrExist:       {"NFS3ERR_EXIST", "file exists"},
	ErrXDev:        {"NFS3ERR_XDEV", "crosses file systems"},
	ErrNoDev:       {"NFS3ERR_NODEV", "no such device"},
	ErrNotDir:      {"NFS3ERR_NOTDIR", "not a directory"},
	ErrIsDir:       {"NFS3ERR_ISDIR", "is a directory"},
	ErrInval:       {"NFS3ERR_INVAL", "invalid argument"},
	ErrFBig:        {"NFS3ERR_FBIG", "file too large"},
	ErrNoSpc:       {"NFS3ERR_NOSPC", "no space left on the server"},
	ErrROFS:        {"NFS3ERR_ROFS", "read-only file system"},
	ErrMLink:       {"NFS3ERR_MLINK", "too many links"},
	ErrNameTooLong: {"NFS3ERR_NAMETOOLONG", "name too long"},
	ErrNotEmpty:    {"NFS3ERR_NOTEMPTY", "directory not empty"},
	ErrDQuot:       {"NFS3ERR_DQUOT", "quota exceeded"},
	ErrStale:       {"NFS3ERR_STALE", "stale file handle"},
	ErrRemote:      {"NFS3ERR_REMOTE", "file is not local to the server"},
	ErrBadHandle:   {"NFS3ERR_BADHANDLE", "illegal file handle"},
	ErrNotSync:     {"NFS3ERR_NOT_SYNC", "attributes changed meanwhile"},
	ErrBadCookie:   {"NFS3ERR_BAD_COOKIE", "directory cookie is stale"},
	ErrNotSupp:     {"NFS3ERR_NOTSUPP", "operation not supported"},
	ErrTooSmall:    {"NFS3ERR_TOOSMALL", "buffer too small"},
	ErrServerFault: {"NFS3ERR_SERVERFAULT", "server fault"},
	ErrBadType:     {"NFS3ERR_BADTYPE", "type not supported by the server"},
	ErrJukebox:     {"NFS3ERR_JUKEBOX", "server is busy, try later"},
}

// String is the name the RFC gives it.
func (s Status) String() string {
	if t, ok := statusText[s]; ok {
		return t[0]
	}
	return "nfsstat3 " + strconv.FormatUint(uint64(s), 10)
}

func (s Status) Error() string {
	if t, ok := statusText[s]; ok {
		return t[1] + " (" + t[0] + ")"
	}
	return s.String()
}

// Is answers for the errors of package fs.
func (s Status) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return s == ErrNoEnt
	case fs.ErrExist:
		return s == ErrExist || s == ErrNotEmpty
	case fs.ErrPermission:
		return s == ErrPerm || s == ErrAcces
	case fs.ErrInvalid:
		return s == ErrInval
	}
	return false
}
