// Package self makes programs of the test that runs: one whose TestMain looks at its name can be what it tests.
//
// Imports: the standard library.
package self

import (
	"os"
	"path/filepath"
	"testing"
)

// As is the path of an executable of that name, in a folder of its own, which is the running test.
func As(t testing.TB, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if os.Link(self, path) == nil {
		return path
	}
	b, err := os.ReadFile(self) // the folder is on another file system
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
