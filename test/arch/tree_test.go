package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	module = "github.com/rpcrdma/rpcrdma/"
	root   = "../.."
)

// goFile is one Go source of the main module, parsed as far as its imports.
type goFile struct {
	path    string // from the root, with slashes
	dir     string // of path; "." for the root
	test    bool
	imports []string
	syntax  *ast.File
	source  []byte
}

// walk calls f for every file of the repository that is not the version control's, a
// build's or a tool's. Directories with a go.mod of their own are modules apart: nested
// tells.
func walk(t *testing.T, f func(path string, nested bool)) {
	t.Helper()
	var modules []string
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			switch rel {
			case ".git", "bin", ".tools":
				return filepath.SkipDir
			case ".":
				return nil
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
				modules = append(modules, rel+"/")
			}
			return nil
		}
		nested := false
		for _, m := range modules {
			nested = nested || strings.HasPrefix(rel, m)
		}
		if d.Type().IsRegular() && rel != ".git" { // a file, in a linked work tree
			f(rel, nested)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goFiles parses the Go files of the main module.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	var files []goFile
	fset := token.NewFileSet()
	walk(t, func(path string, nested bool) {
		if nested || !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata/") {
			return
		}
		src, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		syntax, err := parser.ParseFile(fset, path, src, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
		g := goFile{path: path, dir: filepath.ToSlash(filepath.Dir(path)), syntax: syntax, source: src,
			test: strings.HasSuffix(path, "_test.go")}
		for _, i := range syntax.Imports {
			g.imports = append(g.imports, strings.Trim(i.Path.Value, `"`))
		}
		files = append(files, g)
	})
	if len(files) == 0 {
		t.Fatal("no Go files found: is the test run from its own directory?")
	}
	return files
}
