package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/rpcrdma/rpcrdma/test/conformance/rewrite"
)

// TestDefectsSurviveMoving: each defect that has its place now also has it where all locals have other names and each
// file has another folder, another name, another layout, and its declarations in another order. A defect that has no
// place now is left to "make conformance".
func TestDefectsSurviveMoving(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	module := os.DirFS(root)
	now, err := parseModule(module)
	if err != nil {
		t.Fatal(err)
	}
	places := make(map[string]string) // paths by the names of defects
	dirs := make(map[string]bool)
	for _, d := range allDefects() {
		c, err := d.apply(now)
		if err != nil {
			t.Log(d.fault(err))
			continue
		}
		places[d.Name] = c.Path
		dirs[path.Dir(c.Path)] = true
	}
	if len(places) == 0 {
		t.Fatal("no defect has a place")
	}
	then := fstest.MapFS{"go.mod": &fstest.MapFile{Data: []byte("module example.com/moved\n")}}
	names := 0
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		names += rearrange(t, module, dir, then)
	}
	moved, err := rewrite.Load(then)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range allDefects() {
		if places[d.Name] == "" {
			continue
		}
		if c, err := d.apply(moved); err != nil {
			t.Errorf("%s: %s", places[d.Name], d.fault(err))
		} else if c.Path != movedTo(places[d.Name]) {
			t.Errorf("defect %q was in %s and is found in %s", d.Name, places[d.Name], c.Path)
		}
	}
	t.Logf("%d defects, %d files, %d identifiers renamed", len(places), len(then)-1, names)
}

// movedTo is where rearrange puts a file.
func movedTo(p string) string {
	dir, base := path.Split(p)
	return "elsewhere/" + path.Base(dir) + "s" + path.Dir(p) + "/in_" + base
}

// rearrange adds the files of a package to another module, as TestDefectsSurviveMoving says, and returns how many
// identifiers have another name.
func rearrange(t *testing.T, module fs.FS, dir string, to fstest.MapFS) (renamed int) {
	t.Helper()
	paths, err := fs.Glob(module, dir+"/*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	files := make(map[string]*ast.File)
	for _, p := range paths {
		source, err := fs.ReadFile(module, p)
		if err != nil {
			t.Fatal(err)
		}
		if files[p], err = parser.ParseFile(fset, p, source, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
	}
	renamed = renameLocals(fset, files)
	for p, f := range files {
		to[movedTo(p)] = &fstest.MapFile{Data: relaid(t, fset, f)}
	}
	return renamed
}

// renameLocals gives all that is local to a function another name. The type checker finds what is local. It works
// without the imported packages, and its complaints about them are ignored.
func renameLocals(fset *token.FileSet, files map[string]*ast.File) (renamed int) {
	info := types.Info{Defs: make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object)}
	conf := types.Config{Error: func(error) {}}
	pkg, _ := conf.Check("p", fset, slices.Collect(maps.Values(files)), &info)
	local := func(o types.Object) bool {
		if v, ok := o.(*types.Var); ok && v.IsField() {
			return false
		}
		if _, ok := o.(*types.Func); ok {
			return false
		}
		_, imported := o.(*types.PkgName)
		return !imported && o.Pkg() == pkg && o.Parent() != pkg.Scope()
	}
	rename := func(id *ast.Ident) {
		if id.Name != "_" {
			id.Name = "other" + id.Name
			renamed++
		}
	}
	for _, f := range files {
		delete(info.Defs, f.Name)
	}
	for id, o := range info.Defs {
		if o == nil || local(o) { // nil: the variable of a type switch, which is another one in each case
			rename(id)
		}
	}
	for id, o := range info.Uses {
		if local(o) {
			rename(id)
		}
	}
	return renamed
}

// relaid prints a file with its declarations, but for the imports, in reverse order, and without the layout of gofmt.
func relaid(t *testing.T, fset *token.FileSet, f *ast.File) []byte {
	t.Helper()
	var b bytes.Buffer
	layout := printer.Config{Mode: printer.RawFormat}
	print := func(n any) {
		if err := layout.Fprint(&b, fset, n); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n\n")
	}
	for _, c := range f.Comments { // build constraints among them
		if c.Pos() < f.Package {
			for _, line := range c.List {
				b.WriteString(line.Text + "\n")
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "package %s\n\n", f.Name.Name)
	n := 0
	for ; n < len(f.Decls); n++ {
		if d, ok := f.Decls[n].(*ast.GenDecl); !ok || d.Tok != token.IMPORT {
			break
		}
		print(f.Decls[n])
	}
	rest := slices.Clone(f.Decls[n:])
	slices.Reverse(rest)
	for _, d := range rest {
		print(d)
	}
	return b.Bytes()
}
