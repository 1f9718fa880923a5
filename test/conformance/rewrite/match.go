package rewrite

import (
	"go/ast"
	"go/token"
	"maps"
	"reflect"
)

// matcher compares a fragment with syntax of one declaration, and keeps what the variables stand for.
type matcher struct {
	d     *decl
	bound map[string][]ast.Node
	named []*ast.Ident // identifiers of the declaration that the fragment names
}

// match is a place where a fragment occurs.
type match struct {
	*matcher
	from, to token.Pos
}

// matches finds where the fragment occurs in a declaration.
func (f *fragment) matches(d *decl) (found []match) {
	try := func(n ast.Node, compare func(m *matcher) (from, to token.Pos, ok bool)) {
		m := &matcher{d: d, bound: make(map[string][]ast.Node)}
		if from, to, ok := compare(m); ok {
			found = append(found, match{m, from, to})
		}
	}
	runs := func(list []ast.Node) {
		for i := range list {
			try(list[i], func(m *matcher) (from, to token.Pos, ok bool) {
				n, ok := m.list(f.nodes, list[i:], true)
				if !ok {
					return 0, 0, false
				}
				return list[i].Pos(), list[i+n-1].End(), true
			})
		}
	}
	visit := func(n ast.Node) {
		switch f.kind {
		case kindExpressions:
			if len(f.nodes) > 1 {
				lists[ast.Expr](n, runs)
			} else if e, ok := n.(ast.Expr); ok && !isParen(e) {
				runs([]ast.Node{e})
			}
		case kindStatements:
			lists[ast.Stmt](n, runs)
		case kindClause:
			try(n, func(m *matcher) (from, to token.Pos, ok bool) {
				to, ok = m.clause(f.nodes[0], n)
				return n.Pos(), to, ok
			})
		}
	}
	for _, root := range d.roots() {
		walk(root, visit)
	}
	return found
}

// walk visits every node but the names that are selected, which are no expressions by themselves.
func walk(n ast.Node, visit func(ast.Node)) {
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		visit(n)
		if s, ok := n.(*ast.SelectorExpr); ok {
			walk(s.X, visit)
			return false
		}
		return true
	})
}

func isParen(e ast.Expr) bool {
	_, ok := e.(*ast.ParenExpr)
	return ok
}

// lists calls visit with each list of N that a node has, and with each N of its own as a list of one.
func lists[N ast.Node](n ast.Node, visit func([]ast.Node)) {
	v := reflect.ValueOf(n).Elem()
	for i := range v.NumField() {
		switch x := v.Field(i).Interface().(type) {
		case []N:
			visit(nodesOf(x))
		case N:
			if v.Field(i).Kind() == reflect.Interface {
				visit([]ast.Node{x})
			}
		}
	}
}

// list compares a list of a fragment with a list of the declaration, or with its beginning, and returns how many
// nodes of it matched. Where $* leaves a choice, the fewest do.
func (m *matcher) list(p, n []ast.Node, prefix bool) (end int, ok bool) {
	if len(p) == 0 {
		return 0, prefix || len(n) == 0
	}
	bound, named := maps.Clone(m.bound), len(m.named)
	again := func() { m.bound, m.named = maps.Clone(bound), m.named[:named] }
	if name, many, _ := variable(p[0]); many {
		for k := range len(n) + 1 {
			if m.bind(name, n[:k]) {
				if end, ok := m.list(p[1:], n[k:], prefix); ok {
					return k + end, true
				}
			}
			again()
		}
		return 0, false
	}
	if len(n) > 0 && m.node(p[0], n[0]) {
		if end, ok := m.list(p[1:], n[1:], prefix); ok {
			return 1 + end, true
		}
	}
	again()
	return 0, false
}

// clause compares a clause: its head, and the beginning of its body.
func (m *matcher) clause(p, n ast.Node) (end token.Pos, ok bool) {
	var have []ast.Stmt
	switch n := n.(type) {
	case *ast.CaseClause:
		c, is := p.(*ast.CaseClause)
		if !is || (c.List == nil) != (n.List == nil) {
			return 0, false
		}
		if _, ok := m.list(nodesOf(c.List), nodesOf(n.List), false); !ok {
			return 0, false
		}
		have, end = n.Body, n.Colon+1
	case *ast.CommClause:
		if !m.communication(p, n.Comm) {
			return 0, false
		}
		have, end = n.Body, n.Colon+1
	default:
		return 0, false
	}
	k, ok := m.list(nodesOf(body(p)), nodesOf(have), true)
	if ok && k > 0 {
		end = have[k-1].End()
	}
	return end, ok
}

// communication compares the head of a clause with that of a select's. One that receives, or is the default, is read
// as a clause of a switch.
func (m *matcher) communication(p ast.Node, n ast.Stmt) bool {
	switch p := p.(type) {
	case *ast.CommClause:
		return n != nil && m.node(p.Comm, n)
	case *ast.CaseClause:
		if n == nil || len(p.List) != 1 {
			return n == nil && p.List == nil
		}
		s, ok := n.(*ast.ExprStmt)
		return ok && m.node(p.List[0], s.X)
	}
	return false
}

func body(clause ast.Node) []ast.Stmt {
	if c, ok := clause.(*ast.CommClause); ok {
		return c.Body
	}
	return clause.(*ast.CaseClause).Body
}

// node compares a node of a fragment with one of the declaration.
func (m *matcher) node(p, n ast.Node) bool {
	if name, _, ok := variable(p); ok {
		if _, statement := p.(ast.Stmt); !statement || isStatement(n) {
			return m.bind(name, []ast.Node{n})
		}
	}
	p, n = unparen(p), unparen(n)
	switch p := p.(type) {
	case *ast.Ident:
		switch n := n.(type) {
		case *ast.Ident:
			m.named = append(m.named, n)
			return p.Name == n.Name
		case *ast.SelectorExpr:
			return ast.IsExported(p.Name) && m.qualifies(n) && p.Name == n.Sel.Name
		}
		return false
	case *ast.SelectorExpr:
		return m.selector(p, n)
	case *ast.KeyValueExpr:
		n, ok := n.(*ast.KeyValueExpr)
		return ok && m.key(p.Key, n.Key) && m.node(p.Value, n.Value)
	case *ast.CallExpr:
		if n, ok := n.(*ast.CallExpr); ok && p.Ellipsis.IsValid() != n.Ellipsis.IsValid() {
			return false
		}
	case *ast.TypeSpec:
		if n, ok := n.(*ast.TypeSpec); ok && p.Assign.IsValid() != n.Assign.IsValid() {
			return false
		}
	}
	pv, nv := reflect.ValueOf(p), reflect.ValueOf(n)
	return pv.Type() == nv.Type() && m.value(pv.Elem(), nv.Elem())
}

func isStatement(n ast.Node) bool {
	_, ok := n.(ast.Stmt)
	return ok
}

func unparen(n ast.Node) ast.Node {
	if e, ok := n.(ast.Expr); ok {
		return ast.Unparen(e)
	}
	return n
}

// selector compares x.Name of a fragment: as the field or method of an x, and as a name with a package before it.
func (m *matcher) selector(p *ast.SelectorExpr, n ast.Node) bool {
	_, name := qualified(p)
	switch n := n.(type) {
	case *ast.Ident:
		m.named = append(m.named, n)
		return name != "" && n.Name == name
	case *ast.SelectorExpr:
		if name != "" && m.qualifies(n) {
			return n.Sel.Name == name
		}
		return m.key(p.Sel, n.Sel) && m.node(p.X, n.X)
	}
	return false
}

// qualifies reports whether x.Name of the declaration is a name with a package before it.
func (m *matcher) qualifies(n *ast.SelectorExpr) bool {
	q, _ := qualified(n)
	return q != "" && !m.d.locals[q] && m.d.file.imports[q] != ""
}

// key compares names of fields, methods and keys, which are no locals.
func (m *matcher) key(p, n ast.Expr) bool {
	if _, _, ok := variable(p); !ok && isIdent(p) && isIdent(n) {
		return p.(*ast.Ident).Name == n.(*ast.Ident).Name
	}
	return m.node(p, n)
}

// value compares what is left to compare: the fields of two nodes of the same type.
func (m *matcher) value(p, n reflect.Value) bool {
	switch p.Interface().(type) {
	case token.Pos, *ast.CommentGroup:
		return true
	}
	switch p.Kind() {
	case reflect.Interface, reflect.Pointer:
		if p.IsNil() || n.IsNil() {
			return p.IsNil() && n.IsNil()
		}
		if pn, ok := p.Interface().(ast.Node); ok {
			return m.node(pn, n.Interface().(ast.Node))
		}
		return false
	case reflect.Slice:
		_, ok := m.list(elements(p), elements(n), false)
		return ok
	case reflect.Struct:
		for i := range p.NumField() {
			if !m.value(p.Field(i), n.Field(i)) {
				return false
			}
		}
		return true
	}
	return p.Interface() == n.Interface()
}

// elements are the nodes of a slice.
func elements(v reflect.Value) (nodes []ast.Node) {
	for i := range v.Len() {
		nodes = append(nodes, v.Index(i).Interface().(ast.Node))
	}
	return nodes
}

// bind makes a variable stand for nodes; false: it stands for others.
func (m *matcher) bind(name string, nodes []ast.Node) bool {
	if name == "_" {
		return true
	}
	before, again := m.bound[name]
	if !again {
		m.bound[name] = nodes
		return true
	}
	_, same := (&matcher{d: m.d}).list(before, nodes, false)
	return same
}
