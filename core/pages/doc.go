// Package pages allocates zeroed memory outside the Go heap: whole pages, all of them resident, which the
// garbage collector neither scans nor moves and a fabric can pin. Memory that is not freed is lost.
//
// It belongs here what differs between operating systems in that, and nothing else: pooling, registration
// and ownership are those of package engine and of the providers.
// Imports: golang.org/x/sys.
package pages

import (
	"errors"
	"os"
)

var errSize = errors.New("pages: the size is not positive")

// Alloc returns n > 0 zeroed bytes that begin at a page boundary. What the system refuses is an *os.SyscallError.
func Alloc(n int) ([]byte, error) {
	if n <= 0 {
		return nil, errSize
	}
	return alloc(n)
}

// Free returns what Alloc returned, the same slice, to the system. A second Free of it is an error as long
// as nothing else has been mapped there.
func Free(b []byte) error { return free(b) }

// touch writes to each page: a fault costs microseconds, which are spent here and not during a call.
func touch(b []byte) {
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 0
	}
}
