package pages

import "golang.org/x/sys/unix"

// hugeFrom is where huge pages begin to pay: a copy of a MiB then misses the TLB less.
const hugeFrom = 2 << 20

// populate makes all pages resident.
func populate(b []byte) {
	if len(b) >= hugeFrom {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // without it only speed is lost
	}
	if unix.Madvise(b, unix.MADV_POPULATE_WRITE) != nil { // since Linux 5.14: all faults in one call
		touch(b)
	}
}
