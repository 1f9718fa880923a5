package tcp

import "golang.org/x/sys/windows"

// What sockets report, by what it means. The numbers of package syscall are its own on Windows.
var (
	portTaken   = []error{windows.WSAEADDRINUSE, windows.WSAEADDRNOTAVAIL}
	portDenied  = []error{windows.WSAEACCES}
	acceptLater = []error{windows.WSAEMFILE, windows.WSAENOBUFS, windows.WSAECONNRESET, windows.WSAECONNABORTED}
)
