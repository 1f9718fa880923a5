package stream

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/windows"
)

// Go's sockets on Windows are read and written by overlapped operations, which own the memory until they
// complete; there is no poller for a caller's own reads.
func (t TCP) stream(c *net.TCPConn) (Stream, error) {
	if t.Thread {
		return nil, errors.ErrUnsupported
	}
	rc, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	mss := anyMSS
	_ = rc.Control(func(fd uintptr) {
		if n, err := windows.GetsockoptInt(windows.Handle(fd), windows.IPPROTO_TCP, windows.TCP_MAXSEG); err == nil && n > 0 {
			mss = n
		}
	})
	return newBuffered(c, mss, t.Spin), nil
}

func setBuffers(fd uintptr, send, recv int) error {
	if send > 0 {
		if err := windows.SetsockoptInt(windows.Handle(fd), windows.SOL_SOCKET, windows.SO_SNDBUF, send); err != nil {
			return err
		}
	}
	if recv > 0 {
		return windows.SetsockoptInt(windows.Handle(fd), windows.SOL_SOCKET, windows.SO_RCVBUF, recv)
	}
	return nil
}

// sameErrors are those of Winsock that other systems' programs compare with; the numbers of package syscall
// are its own on Windows.
var sameErrors = map[syscall.Errno]syscall.Errno{
	windows.WSAECONNREFUSED:  syscall.ECONNREFUSED,
	windows.WSAECONNRESET:    syscall.ECONNRESET,
	windows.WSAECONNABORTED:  syscall.ECONNABORTED,
	windows.WSAEADDRINUSE:    syscall.EADDRINUSE,
	windows.WSAEADDRNOTAVAIL: syscall.EADDRNOTAVAIL,
	windows.WSAEACCES:        syscall.EACCES,
}

// winsockError is an error of Winsock that is also the one of package syscall.
type winsockError struct {
	error
	same syscall.Errno
}

func (e winsockError) Is(target error) bool { return target == e.same }
func (e winsockError) Unwrap() error        { return e.error }

// sameError is err as other systems report it.
func sameError(err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		if same, ok := sameErrors[no]; ok {
			return winsockError{err, same}
		}
	}
	return err
}
