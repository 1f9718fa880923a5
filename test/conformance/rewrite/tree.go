package rewrite

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tree is the declarations of a module, without its tests and its nested modules. It does not change, and may be
// used by several goroutines.
type Tree struct {
	module string
	fset   *token.FileSet
	decls  map[string][]*decl // by name
	names  map[string]string  // of packages, by folder
}

// file is one that is compiled on this system.
type file struct {
	path, pkg string
	source    []byte
	syntax    *ast.File
	imports   map[string]string // paths by the name that the file uses
}

func (f *file) dir() string { return path.Dir(f.path) }

// decl is a declaration at the top of a file: a *ast.FuncDecl, *ast.TypeSpec or *ast.ValueSpec.
type decl struct {
	file           *file
	receiver, name string
	node           ast.Node
	locals         map[string]bool // see localsOf
}

var moduleLine = regexp.MustCompile(`(?m)^module[ \t]+(\S+)`)

// Load parses the module whose go.mod lies at the root of fsys. It leaves out the folders that are named.
func Load(fsys fs.FS, without ...string) (*Tree, error) {
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, err
	}
	line := moduleLine.FindSubmatch(mod)
	if line == nil {
		return nil, errors.New("go.mod: no module line")
	}
	t := &Tree{module: string(line[1]), fset: token.NewFileSet(), decls: make(map[string][]*decl), names: make(map[string]string)}
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch base := path.Base(p); {
		case err != nil:
			return err
		case !d.IsDir():
			if path.Ext(p) == ".go" && !strings.HasSuffix(p, "_test.go") {
				return t.parse(fsys, p)
			}
			return nil
		case p == ".":
			return nil
		case base == "testdata", base == "vendor", base[0] == '.', base[0] == '_', slices.Contains(without, p):
			return fs.SkipDir
		}
		if _, err := fs.Stat(fsys, path.Join(p, "go.mod")); err == nil {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t.nameImports()
	return t, nil
}

// parse adds a file, unless its name or its build constraints keep it out of a build on this system.
func (t *Tree) parse(fsys fs.FS, p string) error {
	source, err := fs.ReadFile(fsys, p)
	if err != nil {
		return err
	}
	ctxt := build.Default
	ctxt.JoinPath = path.Join
	ctxt.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(source)), nil }
	if match, err := ctxt.MatchFile(path.Dir(p), path.Base(p)); err != nil || !match {
		return err
	}
	syntax, err := parser.ParseFile(t.fset, p, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := &file{path: p, pkg: syntax.Name.Name, source: source, syntax: syntax, imports: make(map[string]string)}
	t.names[f.dir()] = f.pkg
	for _, i := range syntax.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		name := imported // until nameImports
		if i.Name != nil {
			name = i.Name.Name
		}
		f.imports[name] = imported
	}
	for _, d := range syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			t.add(&decl{file: f, receiver: receiver(d), name: d.Name.Name, node: d})
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					t.add(&decl{file: f, name: s.Name.Name, node: s})
				case *ast.ValueSpec:
					for _, id := range s.Names {
						t.add(&decl{file: f, name: id.Name, node: s})
					}
				}
			}
		}
	}
	return nil
}

func (t *Tree) add(d *decl) {
	d.locals = localsOf(d.node)
	t.decls[d.name] = append(t.decls[d.name], d)
}

// receiver is the name of a method's receiver type.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	e := d.Recv.List[0].Type
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// nameImports gives the imports without a name of their own the name of the package: that of the module's own
// packages is known, that of others is taken from their path.
func (t *Tree) nameImports() {
	seen := make(map[*file]bool)
	for _, ds := range t.decls {
		for _, d := range ds {
			if seen[d.file] {
				continue
			}
			seen[d.file] = true
			for name, p := range d.file.imports {
				if name == p {
					delete(d.file.imports, name)
					d.file.imports[t.packageName(p)] = p
				}
			}
		}
	}
}

var version = regexp.MustCompile(`^v[0-9]+$`)

func (t *Tree) packageName(imported string) string {
	if name := t.names[t.folder(imported)]; name != "" {
		return name
	}
	dir, base := path.Split(imported)
	if version.MatchString(base) && dir != "" {
		base = path.Base(dir)
	}
	return strings.TrimPrefix(base, "go-")
}

// folder is where the module has a package, or "" if it is not the module's.
func (t *Tree) folder(imported string) string {
	if dir, ok := strings.CutPrefix(imported, t.module+"/"); ok {
		return dir
	}
	return ""
}

// named returns the declarations that a name means: see the package's documentation.
func (t *Tree) named(where string) (ds []*decl) {
	pkg, name, ok := strings.Cut(where, " ")
	if !ok {
		pkg, name = "", where
	}
	recv, name, ok := strings.Cut(name, ".")
	if !ok {
		recv, name = "", recv
	}
	for _, d := range t.decls[name] {
		if d.receiver == recv && (pkg == "" || pkg == d.file.pkg) {
			ds = append(ds, d)
		}
	}
	return ds
}

// String names a declaration with its package.
func (d *decl) String() string {
	if d.receiver != "" {
		return d.file.pkg + " " + d.receiver + "." + d.name
	}
	return d.file.pkg + " " + d.name
}

// roots are the parts of a declaration in which fragments occur.
func (d *decl) roots() []ast.Node {
	fn, ok := d.node.(*ast.FuncDecl)
	switch {
	case !ok:
		return []ast.Node{d.node}
	case fn.Body == nil:
		return []ast.Node{fn.Type}
	}
	return []ast.Node{fn.Type, fn.Body}
}

// localsOf returns the names that a declaration has for itself alone: receivers, parameters, results, variables,
// constants and types of its body, and labels. It does not look at scopes.
func localsOf(root ast.Node) map[string]bool {
	own := make(map[string]bool)
	names := func(list ...ast.Expr) {
		for _, e := range list {
			if id, ok := e.(*ast.Ident); ok && id.Name != "_" {
				own[id.Name] = true
			}
		}
	}
	fields := func(l *ast.FieldList) {
		if l == nil {
			return
		}
		for _, f := range l.List {
			for _, id := range f.Names {
				names(id)
			}
		}
	}
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			fields(n.Recv)
		case *ast.FuncType:
			fields(n.TypeParams)
			fields(n.Params)
			fields(n.Results)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				names(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				names(n.Key, n.Value)
			}
		case *ast.ValueSpec:
			if n != root {
				for _, id := range n.Names {
					names(id)
				}
			}
		case *ast.TypeSpec:
			if n != root {
				names(n.Name)
			}
		case *ast.LabeledStmt:
			names(n.Label)
		}
		return true
	})
	return own
}
