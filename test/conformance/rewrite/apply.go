package rewrite

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// What keeps a rule from its place.
var (
	// ErrGone: the fragment, or the declaration, does not occur.
	ErrGone = errors.New("its place is gone")
	// ErrAmbiguous: the fragment occurs more than once.
	ErrAmbiguous = errors.New("its place is ambiguous")
	// ErrLocal: the fragment or the replacement names a local.
	ErrLocal = errors.New("it names a local")
)

// Rule replaces what a fragment matches.
type Rule struct{ from, to *fragment }

// Parse reads a fragment and its replacement.
func Parse(from, to string) (*Rule, error) {
	f, err := parseFragment(from)
	if err != nil {
		return nil, err
	}
	if err := f.anchored(); err != nil {
		return nil, fmt.Errorf("%q: %w", from, err)
	}
	r, err := parseFragment(to)
	if err != nil {
		return nil, err
	}
	bound := make(map[string]bool)
	f.variables(func(_ *ast.Ident, name string, _ bool) { bound[name] = name != "_" })
	r.variables(func(_ *ast.Ident, name string, _ bool) {
		if !bound[name] {
			err = fmt.Errorf("%q: $%s stands for nothing", to, name)
		}
	})
	return &Rule{f, r}, err
}

// Change is a file with the replacement in place.
type Change struct {
	Path   string // below the root of the tree
	Line   int    // of the replacement
	Source []byte
}

// Apply replaces the one place where the fragment occurs in the declarations of that name.
func (t *Tree) Apply(where string, r *Rule) (*Change, error) {
	ds := t.named(where)
	var found []match
	for _, d := range ds {
		found = append(found, r.from.matches(d)...)
	}
	switch {
	case len(ds) == 0:
		return nil, fmt.Errorf("%w: %s is not declared%s", ErrGone, where, t.elsewhere(r.from))
	case len(found) == 0:
		return nil, fmt.Errorf("%w: it does not occur in %s (%s)%s", ErrGone, where, t.position(ds[0].node.Pos()), t.elsewhere(r.from))
	case len(found) > 1:
		return nil, fmt.Errorf("%w: it occurs %d times: %s", ErrAmbiguous, len(found), t.places(found))
	}
	m := found[0]
	if name := m.local(r.to); name != "" {
		return nil, fmt.Errorf("%w of %s: %s must be a variable, as in $%s", ErrLocal, m.d, name, name)
	}
	start, end := t.offset(m.from), t.offset(m.to)
	src := m.d.file.source
	text := t.fill(m, r.to)
	if r.from.kind == kindExpressions && len(r.to.nodes) == 1 && isOperation(r.to.nodes[0]) {
		text = "(" + text + ")" // for what surrounds it
	}
	source := slices.Concat(src[:start], []byte(text), src[end:])
	source, err := t.blankImports(m.d.file, source)
	if err != nil {
		return nil, fmt.Errorf("with its replacement: %w", err)
	}
	return &Change{Path: m.d.file.path, Line: t.fset.Position(m.from).Line, Source: source}, nil
}

// blankImports makes an import that f uses, and its new source no longer does, a blank one, so that it compiles.
func (t *Tree) blankImports(f *file, source []byte) ([]byte, error) {
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, f.path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	before, after := qualifiers(f.syntax), qualifiers(syntax)
	for _, i := range slices.Backward(syntax.Imports) {
		for as, imported := range f.imports {
			if strconv.Quote(imported) == i.Path.Value && before[as] && !after[as] {
				start, end := fset.Position(i.Pos()).Offset, fset.Position(i.Path.Pos()).Offset
				source = slices.Concat(source[:start], []byte("_ "), source[end:])
			}
		}
	}
	return source, nil
}

// qualifiers are the names before a dot.
func qualifiers(f *ast.File) map[string]bool {
	names := make(map[string]bool)
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok {
				names[id.Name] = true
			}
		}
		return true
	})
	return names
}

// most is how many places an error lists.
const most = 4

// elsewhere lists the other declarations in which a fragment occurs, unless they are many.
func (t *Tree) elsewhere(f *fragment) string {
	var found []match
	for _, ds := range t.decls {
		for _, d := range ds {
			found = append(found, f.matches(d)...)
		}
	}
	if len(found) == 0 || len(found) > most {
		return ""
	}
	return "; it occurs in " + t.places(found)
}

func (t *Tree) places(found []match) string {
	slices.SortFunc(found, func(a, b match) int { return cmp.Compare(a.from, b.from) })
	var places []string
	for i, m := range found {
		if i == most {
			places = append(places, "...")
			break
		}
		places = append(places, fmt.Sprintf("%s (%s)", m.d, t.position(m.from)))
	}
	return strings.Join(places, ", ")
}

func (t *Tree) position(p token.Pos) string {
	at := t.fset.Position(p)
	return fmt.Sprintf("%s:%d", at.Filename, at.Line)
}

func (t *Tree) offset(p token.Pos) int { return t.fset.Position(p).Offset }

// local returns a local that the fragment or the replacement names, if any.
func (m *match) local(to *fragment) (name string) {
	for _, id := range m.named {
		if m.d.locals[id.Name] {
			return id.Name
		}
	}
	for _, n := range to.nodes {
		references(n, func(_ ast.Expr, qualifier, id string) {
			if id = cmp.Or(qualifier, id); m.d.locals[id] {
				name = id
			}
		})
	}
	return name
}

// edit replaces a part of the text of a replacement.
type edit struct {
	from, to token.Pos
	text     string
}

// fill returns the replacement with its variables and packages filled in.
func (t *Tree) fill(m match, to *fragment) string {
	var edits []edit
	to.variables(func(id *ast.Ident, name string, _ bool) {
		edits = append(edits, edit{id.Pos(), id.End(), t.captured(m, name)})
	})
	for _, n := range to.nodes {
		references(n, func(e ast.Expr, qualifier, name string) {
			if text := t.reference(m.d.file, qualifier, name); text != "" {
				edits = append(edits, edit{e.Pos(), e.End(), text})
			}
		})
	}
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	at := to.base
	for _, e := range edits {
		b.WriteString(to.text[at-to.base : e.from-to.base])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(to.text[max(at-to.base, 0):])
	return b.String()
}

// captured is the source text that a variable stands for, an operation in parentheses.
func (t *Tree) captured(m match, name string) string {
	nodes := m.bound[name]
	if len(nodes) == 0 {
		return ""
	}
	text := string(m.d.file.source[t.offset(nodes[0].Pos()):t.offset(nodes[len(nodes)-1].End())])
	if len(nodes) == 1 && isOperation(nodes[0]) {
		return "(" + text + ")"
	}
	return text
}

func isOperation(n ast.Node) bool {
	switch n.(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr, *ast.StarExpr:
		return true
	}
	return false
}

// reference returns how a file writes an exported name, which the replacement has with the name of a package before
// it or without; "": as it stands.
func (t *Tree) reference(f *file, qualifier, name string) string {
	if !ast.IsExported(name) {
		return ""
	}
	if qualifier != "" {
		if f.pkg == qualifier {
			return name
		}
		for as, imported := range f.imports {
			if as != qualifier && t.packageName(imported) == qualifier {
				return as + "." + name
			}
		}
		return ""
	}
	var from []string
	for _, d := range t.decls[name] {
		if d.receiver != "" {
			continue
		}
		if d.file.dir() == f.dir() {
			return ""
		}
		for as, imported := range f.imports {
			if t.folder(imported) == d.file.dir() {
				from = append(from, as+"."+name)
			}
		}
	}
	if len(from) == 1 {
		return from[0]
	}
	return ""
}
