package arch

import (
	"bytes"
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// maxLines is where a file has become two ideas.
const maxLines = 800

func TestFileLength(t *testing.T) {
	for _, f := range goFiles(t) {
		if n := bytes.Count(f.source, []byte("\n")); n > maxLines && !ast.IsGenerated(f.syntax) {
			t.Errorf("%s has %d lines; more than %d are hard to see whole: split it", f.path, n, maxLines)
		}
	}
}

func TestPackageDocs(t *testing.T) {
	doc := map[string]string{} // folder to the first file of a package without a doc
	documented := map[string]bool{}
	for _, f := range goFiles(t) {
		name := f.syntax.Name.Name
		if strings.HasSuffix(name, "_test") {
			continue
		}
		if f.syntax.Doc != nil {
			text := f.syntax.Doc.Text()
			documented[f.dir] = true
			if name != "main" && !strings.HasPrefix(text, "Package "+name+" ") {
				t.Errorf("%s: the package comment starts with %q, not with \"Package %s\"", f.path, firstLine(text), name)
			}
		}
		if doc[f.dir] == "" {
			doc[f.dir] = f.path
		}
	}
	for dir, file := range doc {
		if !documented[dir] {
			t.Errorf("%s: package without a doc comment (doc.go: what lives here, what may not enter)", file)
		}
	}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// workplace are words that belong to no file of a product. mayName lists the files that
// may say them: tests that use what lies beside a checkout and skip without it.
var (
	workplace = []string{"../" + "shared", "/work" + "/"}
	mayName   = map[string]bool{}
)

func TestNoWorkplace(t *testing.T) {
	walk(t, func(path string, _ bool) {
		if mayName[path] {
			return
		}
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return // it went away meanwhile
		}
		if bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 {
			return // not text
		}
		for i, line := range bytes.Split(b, []byte("\n")) {
			for _, w := range workplace {
				if bytes.Contains(line, []byte(w)) {
					t.Errorf("%s:%d mentions %s", path, i+1, w)
				}
			}
		}
	})
}
