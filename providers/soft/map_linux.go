package soft

import (
	"os"

	"golang.org/x/sys/unix"
)

// hugeFrom is where huge pages begin to pay: a copy of a MiB then misses the TLB less.
const hugeFrom = 2 << 20

// mapMemory gives n zeroed bytes outside the Go heap. A fault costs microseconds, so
// all are taken here.
func mapMemory(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if n >= hugeFrom {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // without it only speed is lost
	}
	if unix.Madvise(mem, unix.MADV_POPULATE_WRITE) != nil { // since Linux 5.14: all faults in one call
		for i := 0; i < n; i += os.Getpagesize() {
			mem[i] = 0
		}
	}
	return mem, nil
}

func unmapMemory(mem []byte) error { return unix.Munmap(mem) }
