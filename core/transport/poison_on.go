//go:build invariants

package transport

// Poison overwrites memory whose views have ended, so that a test fails that still uses one. Without -tags invariants it
// does nothing.
func Poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
