//go:build !linux

package soft

// mapMemory takes from the Go heap where huge pages and mmap differ per system.
func mapMemory(n int) ([]byte, error) {
	mem := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		mem[i] = 0
	}
	return mem, nil
}

func unmapMemory([]byte) error { return nil }
