package pages

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func alloc(n int) ([]byte, error) {
	addr, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, os.NewSyscallError("VirtualAlloc", err)
	}
	// The address is no pointer into the Go heap, so vet's rule on uintptr does not concern it.
	b := unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n)
	populate(b)
	return b, nil
}

func free(b []byte) error {
	return os.NewSyscallError("VirtualFree", windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(b))), 0, windows.MEM_RELEASE))
}
