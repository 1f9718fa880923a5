//go:build unix

package qp

import (
	"net"
	"syscall"
)

// quiet reports whether nothing has come on sock, and its peer has not ended it. It does not wait.
func quiet(sock net.Conn) (quiet bool) {
	sc, ok := sock.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	return err == nil && raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN
		return true
	}) == nil && quiet
}
