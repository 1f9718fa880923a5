//go:build unix

package tcp

import "syscall"

// What sockets report, by what it means.
var (
	portTaken   = []error{syscall.EADDRINUSE, syscall.EADDRNOTAVAIL}
	portDenied  = []error{syscall.EACCES, syscall.EPERM}
	acceptLater = []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED}
)
