//go:build !linux

package loopback

func mapMemory(n int) ([]byte, error) { return make([]byte, n), nil }

func unmap([]byte) error { return nil }
