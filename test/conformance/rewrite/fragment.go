package rewrite

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// kind is what a fragment is.
type kind uint8

const (
	kindNone        kind = iota // no source at all
	kindExpressions             // one, or several that follow each other in a list
	kindStatements
	kindClause // of a switch or a select
)

// fragment is a piece of Go with variables.
type fragment struct {
	text  string // with the variables as identifiers
	base  token.Pos
	kind  kind
	nodes []ast.Node // expressions or statements, or one clause
}

// The variables are parsed as identifiers that begin with a letter that no source uses.
const (
	oneMark  = "ǂ"
	manyMark = "ǂǂ"
)

var variables = regexp.MustCompile(`\$(\*?)([A-Za-z_][A-Za-z_0-9]*)`)

// variable reports the name of a variable, and whether it stands for many nodes. Expression statements that are
// nothing but a variable count as one.
func variable(n ast.Node) (name string, many, ok bool) {
	if s, is := n.(*ast.ExprStmt); is {
		n = s.X
	}
	id, is := n.(*ast.Ident)
	if !is {
		return "", false, false
	}
	if name, ok = strings.CutPrefix(id.Name, manyMark); ok {
		return name, true, true
	}
	name, ok = strings.CutPrefix(id.Name, oneMark)
	return name, false, ok
}

// contexts are the surroundings in which a fragment may be Go, and what it is in them.
var contexts = []struct {
	before, after string
	kind          kind
}{
	{"package p; var _ = T{", "}", kindExpressions},
	{"package p; func _() {\n", "\n}", kindStatements},
	{"package p; func _() { switch {\n", "\n} }", kindClause},
	{"package p; func _() { select {\n", "\n} }", kindClause},
}

// parseFragment reads a fragment.
func parseFragment(source string) (*fragment, error) {
	f := &fragment{text: variables.ReplaceAllStringFunc(source, func(v string) string {
		if name, many := strings.CutPrefix(v, "$*"); many {
			return manyMark + name
		}
		return oneMark + v[1:]
	})}
	if strings.TrimSpace(source) == "" {
		return f, nil
	}
	var first error
	for _, c := range contexts {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "fragment", c.before+f.text+c.after, parser.SkipObjectResolution)
		if err != nil {
			if c.kind == kindStatements { // the most general
				first = err
			}
			continue
		}
		f.kind = c.kind
		f.base = fset.File(file.Pos()).Pos(len(c.before))
		f.nodes = inner(file, c.kind)
		return f, nil
	}
	return nil, fmt.Errorf("%q is no fragment of Go: %w", source, first)
}

// inner returns what lies between the text before and after a fragment.
func inner(file *ast.File, k kind) (nodes []ast.Node) {
	if k == kindExpressions {
		spec := file.Decls[0].(*ast.GenDecl).Specs[0].(*ast.ValueSpec)
		return nodesOf(spec.Values[0].(*ast.CompositeLit).Elts)
	}
	body := file.Decls[0].(*ast.FuncDecl).Body.List
	if k == kindClause {
		switch s := body[0].(type) {
		case *ast.SwitchStmt:
			body = s.Body.List
		case *ast.SelectStmt:
			body = s.Body.List
		}
	}
	return nodesOf(body)
}

func nodesOf[N ast.Node](list []N) (nodes []ast.Node) {
	for _, n := range list {
		nodes = append(nodes, n)
	}
	return nodes
}

// anchored reports why a fragment cannot name a place.
func (f *fragment) anchored() error {
	if len(f.nodes) == 0 {
		return errors.New("it is empty")
	}
	_, leads, first := variable(f.nodes[0])
	_, trails, _ := variable(f.nodes[len(f.nodes)-1])
	switch {
	case f.kind == kindClause && len(f.nodes) > 1:
		return errors.New("it has several cases")
	case first && len(f.nodes) == 1:
		return errors.New("it is nothing but a variable")
	case leads || trails:
		return errors.New("$* begins or ends it")
	}
	return nil
}

// variables calls visit with each variable of the fragment, in order.
func (f *fragment) variables(visit func(id *ast.Ident, name string, many bool)) {
	for _, n := range f.nodes {
		ast.Inspect(n, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if name, many, ok := variable(id); ok {
					visit(id, name, many)
				}
			}
			return true
		})
	}
}

// references calls visit with each expression under n that names something by itself: an identifier that is no
// field, method or key, or a name with its package before it.
func references(n ast.Node, visit func(e ast.Expr, qualifier, name string)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if q, name := qualified(n); q != "" {
				visit(n, q, name)
				return false
			}
			references(n.X, visit)
			return false
		case *ast.KeyValueExpr:
			if _, _, v := variable(n.Key); v || !isIdent(n.Key) {
				references(n.Key, visit)
			}
			references(n.Value, visit)
			return false
		case *ast.Ident:
			visit(n, "", n.Name)
		}
		return true
	})
}

func isIdent(n ast.Node) bool {
	_, ok := n.(*ast.Ident)
	return ok
}

// qualified reports the two names of p.Name, where p may be a package.
func qualified(s *ast.SelectorExpr) (qualifier, name string) {
	x, ok := s.X.(*ast.Ident)
	if _, _, v := variable(s.X); v || !ok || !ast.IsExported(s.Sel.Name) {
		return "", ""
	}
	return x.Name, s.Sel.Name
}
