package stream

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxVector is the kernel's UIO_MAXIOV.
const maxVector = 1024

// vector is one direction's iovecs, kept between calls.
type vector struct {
	iov []unix.Iovec
}

func (x *vector) read(fd uintptr, v [][]byte) (int, error) {
	return x.call(unix.SYS_READ, unix.SYS_READV, "readv", fd, v)
}

func (x *vector) write(fd uintptr, v [][]byte) (int, error) {
	return x.call(unix.SYS_WRITE, unix.SYS_WRITEV, "writev", fd, v)
}

// call is one system call: one, where there is a single element, which the kernel has less
// to do for, else many. What v points to is kept alive by x.iov.
//
// The socket does not wait, so the scheduler is not told of the call: it would take a call
// that copies a MiB for one that waits, and wake another thread to go on in its place,
// which then competes with the peer for the processor. Bulk cost a tenth more so.
func (x *vector) call(one, many uintptr, name string, fd uintptr, v [][]byte) (int, error) {
	iov := x.iov[:0]
	for _, b := range v {
		if len(b) > 0 && len(iov) < maxVector {
			iov = append(iov, unix.Iovec{Base: unsafe.SliceData(b)})
			iov[len(iov)-1].SetLen(len(b))
		}
	}
	x.iov = iov
	if len(iov) == 0 {
		return 0, nil
	}
	for {
		var n uintptr
		var e unix.Errno
		if len(iov) == 1 {
			n, _, e = unix.RawSyscall(one, fd, uintptr(unsafe.Pointer(iov[0].Base)), uintptr(iov[0].Len))
		} else {
			n, _, e = unix.RawSyscall(many, fd, uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
		}
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, ErrAgain
		default:
			return 0, os.NewSyscallError(name, e)
		}
	}
}
