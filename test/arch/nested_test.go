package arch

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ours is what a provider outside the main module needs of it.
var ours = []string{"core/verbs", "providers/soft"}

// TestNested: every module below the main one is checked by make, and an example imports no more of the main
// one than a provider's author needs; its main function may import what it likes.
func TestNested(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(string(regexp.MustCompile(`(?m)^NESTED *:= *(.*)$`).FindSubmatch(makefile)[1]))
	walk(t, func(path string, nested bool) {
		dir := filepath.ToSlash(filepath.Dir(path))
		if nested && filepath.Base(path) == "go.mod" && dir != "tools/lint" && !slices.Contains(listed, dir) {
			t.Errorf("%s is a module that NESTED in the Makefile does not list", dir)
		}
		if !under(path, "examples") || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, i := range f.Imports {
			to, inside := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module)
			if inside && !underAny(to, ours) && f.Name.Name != "main" {
				t.Errorf("%s imports %s: an example may import %s", path, to, list(ours))
			}
		}
	})
}
