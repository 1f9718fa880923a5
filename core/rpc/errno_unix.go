//go:build unix

package rpc

import "syscall"

// What the operating system reports, by what it means.
var (
	errnoRefused  = syscall.ECONNREFUSED
	errnoNoDevice = syscall.ENODEV
	errnoNoRoute  = []error{
		syscall.ENODEV, syscall.ENXIO, syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT,
		syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ECONNREFUSED,
	}
)
