//go:build unix

package pages

import (
	"os"

	"golang.org/x/sys/unix"
)

func alloc(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	populate(b)
	return b, nil
}

func free(b []byte) error { return os.NewSyscallError("munmap", unix.Munmap(b)) }
