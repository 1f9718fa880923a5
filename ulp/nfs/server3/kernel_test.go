package server3

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// stableTmpfs: directory positions of tmpfs belong to entries since Linux 6.6.
func stableTmpfs() bool {
	var u unix.Utsname
	var major, minor int
	unix.Uname(&u)
	fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return major > 6 || major == 6 && minor >= 6
}
