package kit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrite: what is written builds and passes its test, outside of the tree, without a network; and it is short.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := Write(dir, "my-first", "../.."); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"vet", "./..."}, {"test", "./..."}, {"build"}} {
		goTool(t, dir, args...)
	}
	if _, err := os.Stat(filepath.Join(dir, "rpcrdma-ext-my-first")); err != nil {
		t.Error(err)
	}
	main, err := os.ReadFile(filepath.Join(dir, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(main, []byte("\n")); n >= 80 {
		t.Errorf("main.go has %d lines", n)
	}
	if out, err := exec.Command("gofmt", "-l", dir).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt: %v %s", err, out)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "was built from a source tree and is no released version") {
		t.Errorf("go.mod does not say why it replaces:\n%s", mod)
	}
	if err := Write(dir, "my-first", "../.."); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("over an author's work: %v", err)
	}
}

func goTool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRefused(t *testing.T) {
	for _, tt := range []struct{ name, source, want string }{
		{"Upper", "../..", "cannot be called"},
		{"", "../..", "cannot be called"},
		{"../x", "../..", "cannot be called"},
		{strings.Repeat("x", 33), "../..", "cannot be called"},
		{"x", "/", "is not the source tree"},
		{"x", "", "not a released version"},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		if err := Write(dir, tt.name, tt.source); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q from %q: %v", tt.name, tt.source, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q from %q leaves a folder", tt.name, tt.source)
		}
	}
}
