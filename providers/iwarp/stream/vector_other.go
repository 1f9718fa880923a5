//go:build unix && !linux

package stream

import (
	"os"

	"golang.org/x/sys/unix"
)

// maxVector is how many elements one Writev is given.
const maxVector = 1024

// vector is one plain call per element where readv and writev are not in reach.
type vector struct{}

func (x *vector) read(fd uintptr, v [][]byte) (int, error) {
	for _, b := range v {
		if len(b) > 0 {
			return result("read", func() (int, error) { return unix.Read(int(fd), b) })
		}
	}
	return 0, nil
}

func (x *vector) write(fd uintptr, v [][]byte) (int, error) {
	sum := 0
	for _, b := range v {
		if len(b) == 0 {
			continue
		}
		n, err := result("write", func() (int, error) { return unix.Write(int(fd), b) })
		sum += n
		if err != nil && sum > 0 {
			return sum, nil
		}
		if err != nil || n < len(b) {
			return sum, err
		}
	}
	return sum, nil
}

func result(name string, call func() (int, error)) (int, error) {
	for {
		n, err := call()
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, ErrAgain
		default:
			return 0, os.NewSyscallError(name, err)
		}
	}
}
