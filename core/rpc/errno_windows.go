package rpc

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// What the operating system reports, by what it means. Sockets report other numbers than those of package syscall, which
// Go programs use all the same.
var (
	errnoRefused  = windows.WSAECONNREFUSED
	errnoNoDevice = syscall.ENODEV
	errnoNoRoute  = []error{
		windows.WSAEADDRNOTAVAIL, windows.WSAEAFNOSUPPORT, windows.WSAEPROTONOSUPPORT, windows.WSAENETDOWN,
		windows.WSAENETUNREACH, windows.WSAEHOSTDOWN, windows.WSAEHOSTUNREACH, windows.WSAECONNREFUSED,
		syscall.ENODEV, syscall.ENXIO, syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT,
		syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ECONNREFUSED,
	}
)
