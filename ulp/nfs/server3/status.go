package server3

import (
	"errors"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// errBadType: no type that MKNOD makes.
var errBadType = errors.New("nfs: not a type to make")

// errRights: the caller's rights could not be taken. It is NFS3ERR_SERVERFAULT.
var errRights = errors.New("nfs: cannot take the caller's rights")

// statusOf maps an errno to nfsstat3 (RFC 1813 §2.6). What the protocol has no word for
// is a server fault; a shortage that passes is JUKEBOX, which makes the client try again.
func statusOf(err error) nfs3.Status {
	if err == nil {
		return nfs3.OK
	}
	if err == errBadType {
		return nfs3.ErrBadType
	}
	var no unix.Errno
	if !errors.As(err, &no) {
		return nfs3.ErrServerFault
	}
	switch no {
	case unix.EPERM:
		return nfs3.ErrPerm
	case unix.ENOENT:
		return nfs3.ErrNoEnt
	case unix.EIO, unix.ETXTBSY, unix.EUCLEAN:
		return nfs3.ErrIO
	case unix.ENXIO:
		return nfs3.ErrNXIO
	case unix.EACCES, unix.EBUSY, unix.ELOOP:
		return nfs3.ErrAcces
	case unix.EEXIST:
		return nfs3.ErrExist
	case unix.EXDEV:
		return nfs3.ErrXDev
	case unix.ENODEV:
		return nfs3.ErrNoDev
	case unix.ENOTDIR:
		return nfs3.ErrNotDir
	case unix.EISDIR:
		return nfs3.ErrIsDir
	case unix.EINVAL:
		return nfs3.ErrInval
	case unix.EFBIG, unix.EOVERFLOW:
		return nfs3.ErrFBig
	case unix.ENOSPC:
		return nfs3.ErrNoSpc
	case unix.EROFS:
		return nfs3.ErrROFS
	case unix.EMLINK:
		return nfs3.ErrMLink
	case unix.ENAMETOOLONG:
		return nfs3.ErrNameTooLong
	case unix.ENOTEMPTY:
		return nfs3.ErrNotEmpty
	case unix.EDQUOT:
		return nfs3.ErrDQuot
	case unix.ESTALE:
		return nfs3.ErrStale
	case unix.EOPNOTSUPP, unix.ENOSYS:
		return nfs3.ErrNotSupp
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EINTR:
		return nfs3.ErrJukebox
	}
	return nfs3.ErrServerFault
}
