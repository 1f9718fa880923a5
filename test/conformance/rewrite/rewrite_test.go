package rewrite

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
)

// load parses a module of the given files, by path.
func load(t *testing.T, files map[string]string, without ...string) *Tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": &fstest.MapFile{Data: []byte("module example.com/m\n\ngo 1.26\n")}}
	for p, source := range files {
		fsys[p] = &fstest.MapFile{Data: []byte(source)}
	}
	tree, err := Load(fsys, without...)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// change applies a rule, which must succeed, and returns the file that it changed.
func change(t *testing.T, tree *Tree, where, from, to string) *Change {
	t.Helper()
	r, err := Parse(from, to)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tree.Apply(where, r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// refused applies a rule, which must fail in the way of want and mention all of the texts.
func refused(t *testing.T, tree *Tree, where, from, to string, want error, texts ...string) {
	t.Helper()
	r, err := Parse(from, to)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tree.Apply(where, r)
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v; changed: %+v", err, want, c)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not mention %q", err, text)
		}
	}
}

const conn = `package engine

import "example.com/m/wire"

type Conn struct{ peer int; closed bool }

func (c *Conn) admit(h *wire.Header, level int) (why error) {
	switch {
	case c.closed: // it stays
		return nil
	case h.Proc == wire.Done,
		h.Version   !=   wire.Version1:
		c.drop(h.XID, "proc", level+1)
		return wire.ErrProc
	}
	for i := range level {
		c.take(wire.Grant{Credit: uint32(i), Proc: wire.Done})
		c.peer++
	}
	if n := len(h.Reads); n > 0 {
		c.drop(h.XID, "reads", n)
		c.peer--
		return nil
	}
	return
}
`

// TestApply: each kind of fragment is found, and nothing but its place changes.
func TestApply(t *testing.T) {
	for _, c := range []struct{ name, from, to, old, new string }{
		{"expression", "$h.Proc == wire.Done", "$h.Proc != wire.Done",
			"h.Proc == wire.Done", "(h.Proc != wire.Done)"},
		{"expression in another layout", "$h.Version != wire.Version1", "false",
			"h.Version   !=   wire.Version1", "false"},
		{"argument", `"reads"`, `"writes"`, `"reads"`, `"writes"`},
		{"arguments that follow each other", `$h.XID, "proc"`, `0, "proc"`, `h.XID, "proc"`, `0, "proc"`},
		{"element", "Credit: $n", "Credit: $n + 1", "Credit: uint32(i)", "Credit: uint32(i) + 1"},
		{"elements", "Credit: $n, Proc: wire.Done", "Credit: $n", "Credit: uint32(i), Proc: wire.Done", "Credit: uint32(i)"},
		{"statement", "$c.peer++", "$c.peer += 0", "c.peer++", "c.peer += 0"},
		{"statement that goes", "$c.peer--", "", "c.peer--", ""},
		{"statements", "$c.peer--; return $why", "return $why", "c.peer--\n\t\treturn nil", "return nil"},
		{"if", "if $n := len($h.Reads); $n > 0 { $*body }", "if $n := len($h.Reads); $n > 99 { $*body }",
			"if n := len(h.Reads); n > 0 {\n\t\tc.drop(h.XID, \"reads\", n)\n\t\tc.peer--\n\t\treturn nil\n\t}",
			"if n := len(h.Reads); n > 99 { c.drop(h.XID, \"reads\", n)\n\t\tc.peer--\n\t\treturn nil }"},
		{"head of a case", "case $c.closed:", "case $c.closed && false:", "case c.closed:", "case c.closed && false:"},
		{"case with its first statement", "case $*_, $h.Version != $v: $c.drop($*args)", "case true: $c.drop($*args)",
			"case h.Proc == wire.Done,\n\t\th.Version   !=   wire.Version1:\n\t\tc.drop(h.XID, \"proc\", level+1)",
			"case true: c.drop(h.XID, \"proc\", level+1)"},
		{"operation in an operation", `$c.drop($xid, "proc", $n)`, `$c.drop($xid, "proc", 2*$n)`,
			`c.drop(h.XID, "proc", level+1)`, `c.drop(h.XID, "proc", 2*(level+1))`},
		{"the same again", "$c.take(wire.Grant{$*_}); $c.peer++", "$c.peer++",
			"c.take(wire.Grant{Credit: uint32(i), Proc: wire.Done})\n\t\tc.peer++", "c.peer++"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := load(t, map[string]string{"core/engine/conn.go": conn})
			got := change(t, tree, "Conn.admit", c.from, c.to)
			want := strings.Replace(conn, c.old, c.new, 1)
			if strings.Count(conn, c.old) != 1 || want == conn {
				t.Fatalf("%q is no place of the source", c.old)
			}
			if string(got.Source) != want || got.Path != "core/engine/conn.go" {
				t.Errorf("%s:\n%s", got.Path, got.Source)
			}
		})
	}
}

// TestMoved: a declaration is found in another file, and in another package, where other packages stand before the
// names that it uses, and so they do in the replacement.
func TestMoved(t *testing.T) {
	const from, to = "$c.refuse($h, wire.ErrChunk)", "$c.refuse($h, wire.ErrVers)"
	for _, c := range []struct{ name, path, source, want string }{
		{"another file", "engine/other.go", `package engine
			import "example.com/m/wire"
			func (c *Conn) check(h *wire.Header) { c.refuse(h, wire.ErrChunk) }`, "c.refuse(h, wire.ErrVers)"},
		{"another import name", "engine/conn.go", `package engine
			import w "example.com/m/wire"
			func (c *Conn) check(h *w.Header) { c.refuse(h, w.ErrChunk) }`, "c.refuse(h, w.ErrVers)"},
		{"the package itself", "wire/conn.go", `package wire
			func (c *Conn) check(h *Header) { c.refuse(h, ErrChunk) }`, "c.refuse(h, ErrVers)"},
		{"a value receiver with parameters", "engine/conn.go", `package engine
			import "example.com/m/wire"
			func (c Conn[T]) check(h *wire.Header) { c.refuse(h, wire.ErrChunk) }`, "c.refuse(h, wire.ErrVers)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree := load(t, map[string]string{
				c.path: c.source, "wire/errs.go": "package wire\nconst (\n\tErrChunk = 1\n\tErrVers = 2\n)",
			})
			got := change(t, tree, "Conn.check", from, to)
			if got.Path != c.path || !strings.Contains(string(got.Source), c.want) {
				t.Errorf("%s:\n%s", got.Path, got.Source)
			}
		})
	}
	t.Run("out of its package", func(t *testing.T) {
		tree := load(t, map[string]string{
			"wire/errs.go": "package wire\nconst (\n\tErrChunk = 1\n\tErrVers = 2\n)",
			"other/errs.go": `package other
				import "example.com/m/wire"
				func check() int { return wire.ErrChunk }`,
		})
		got := change(t, tree, "check", "ErrChunk", "ErrVers")
		if !strings.Contains(string(got.Source), "return wire.ErrVers }") {
			t.Errorf("%s", got.Source)
		}
	})
	t.Run("a local of an import's name", func(t *testing.T) {
		tree := load(t, map[string]string{"engine/conn.go": `package engine
			import "example.com/m/wire"
			func check(p *wire.Header) bool { wire := p.Lists; return wire.ErrChunk }`})
		refused(t, tree, "check", "return ErrChunk", "return ErrVers", ErrGone)
	})
}

// TestRenamed: locals, parameters and receivers have no names that count, and layout does not count either.
func TestRenamed(t *testing.T) {
	for _, source := range []string{
		"package p\nfunc (c *Conn) drain(n int) {\n\tfor i := range n {\n\t\tc.at[i].left = c.at[i].left - 1\n\t}\n}\n",
		"package p\nfunc (conn *Conn) drain(count int) { for k := range count { conn.at[k].left = (conn.at[k].left) -\n\t1 } }\n",
		"package p\nfunc (c *Conn) drain(n int) {\n\tfor i := range n {\n\t\ts := c.slot(i)\n\t\ts.left = /* one */ s.left - 1 // less\n\t}\n}\n",
	} {
		c := change(t, load(t, map[string]string{"p/conn.go": source}), "Conn.drain", "$s.left = $s.left - 1", "$s.left = $s.left - 2")
		if !strings.Contains(string(c.Source), ".left - 2") && !strings.Contains(string(c.Source), ".left) - 2") {
			t.Errorf("%s", c.Source)
		}
	}
	other := load(t, map[string]string{"p/conn.go": "package p\nfunc (c *Conn) drain(a, b *slot) { a.left = b.left - 1 }\n"})
	refused(t, other, "Conn.drain", "$s.left = $s.left - 1", "", ErrGone)
}

// TestLocals: a fragment or a replacement that names a local is refused, although it would match today.
func TestLocals(t *testing.T) {
	tree := load(t, map[string]string{"engine/conn.go": conn})
	refused(t, tree, "Conn.admit", "c.peer++", "", ErrLocal, "engine Conn.admit", "$c")
	refused(t, tree, "Conn.admit", "$h.Proc == wire.Done", "level == 1", ErrLocal, "$level")
	refused(t, tree, "Conn.admit", "$h.Proc == wire.Done", "h.Proc != wire.Done", ErrLocal, "$h")
	change(t, tree, "Conn.admit", "Credit: uint32($n)", "level: uint32($n)") // a field
}

// TestAmbiguous: a place must be the only one.
func TestAmbiguous(t *testing.T) {
	tree := load(t, map[string]string{"engine/conn.go": conn})
	refused(t, tree, "Conn.admit", "wire.Done", "wire.Msg", ErrAmbiguous, "2 times", "engine/conn.go:11", "engine/conn.go:17")
	refused(t, tree, "Conn.admit", "$c.drop($h.XID, $*_)", "", ErrAmbiguous)
	parens := load(t, map[string]string{"p/p.go": "package p\nfunc f(a int) bool { return ((a == 1)) }\n"})
	change(t, parens, "f", "$a == 1", "$a == 2") // once, whatever surrounds it
}

// TestGone: what has no place says so, and where the fragment occurs otherwise.
func TestGone(t *testing.T) {
	tree := load(t, map[string]string{"engine/conn.go": conn})
	refused(t, tree, "Conn.admit", "$h.Proc == wire.Msg", "", ErrGone, "Conn.admit", "engine/conn.go:7")
	refused(t, tree, "Conn.accept", "$h.Proc == wire.Done", "", ErrGone, "Conn.accept is not declared", "it occurs in engine Conn.admit (engine/conn.go:11)")
	refused(t, tree, "admit", "$h.Proc == wire.Done", "", ErrGone, "admit is not declared")
	refused(t, tree, "wire Conn.admit", "$h.Proc == wire.Done", "", ErrGone)
	spread := load(t, map[string]string{"p/p.go": "package p\nfunc f(a []int) { g(a...) }\n"})
	refused(t, spread, "f", "g($a)", "", ErrGone)
	change(t, spread, "f", "g($a...)", "")
}

// TestSameName: of two declarations of a name the fragment decides, and where it cannot, the package.
func TestSameName(t *testing.T) {
	tree := load(t, map[string]string{
		"ddp/check.go":   "package ddp\nfunc check(h int) int { if h > 1 { return FaultMSN }; return 0 }\n",
		"rdmap/check.go": "package rdmap\nfunc check(h int) int { if h > 1 { return FaultOp }; return 0 }\n",
	})
	if c := change(t, tree, "check", "FaultMSN", "0"); c.Path != "ddp/check.go" {
		t.Errorf("in %s", c.Path)
	}
	refused(t, tree, "check", "$h > 1", "false", ErrAmbiguous, "ddp check", "rdmap check")
	if c := change(t, tree, "rdmap check", "$h > 1", "false"); c.Path != "rdmap/check.go" {
		t.Errorf("in %s", c.Path)
	}
	refused(t, tree, "rdmap check", "FaultMSN", "0", ErrGone, "it occurs in ddp check")
}

// TestDeclarations: constants, variables and types are places as well.
func TestDeclarations(t *testing.T) {
	const source = "package p\nconst (\n\tleast = 28 // octets\n\tmost = 28\n)\nvar table = T{Low: least}\ntype T struct {\n\tLow int `x:\"y\"`\n}\n"
	tree := load(t, map[string]string{"p/p.go": source})
	for where, c := range map[string][4]string{
		"least": {"28", "16", "least = 28", "least = 16"},
		"most":  {"28", "16", "most = 28", "most = 16"},
		"table": {"Low: least", "Low: most", "Low: least", "Low: most"},
		"T":     {"int", "int32", "Low int", "Low int32"},
	} {
		got := change(t, tree, where, c[0], c[1])
		if want := strings.Replace(source, c[2], c[3], 1); string(got.Source) != want {
			t.Errorf("%s: %s", where, got.Source)
		}
	}
}

// TestLoad: the tree has what is compiled on this system, and no tests, nested modules or folders that are left out.
func TestLoad(t *testing.T) {
	const f = "package p\nfunc f() int { return 1 }\n"
	tree := load(t, map[string]string{
		"p/p.go":           f,
		"p/p_plan9.go":     f,
		"p/p_other.go":     "//go:build ignore\n\n" + f,
		"p/p_test.go":      f,
		"nested/go.mod":    "module example.com/nested\n",
		"nested/p.go":      f,
		"test/oracle/p.go": f,
		"p/testdata/p.go":  f,
		".tools/p.go":      f,
	}, "test")
	if c := change(t, tree, "f", "1", "2"); c.Path != "p/p.go" || c.Line != 2 {
		t.Errorf("%s:%d", c.Path, c.Line)
	}
	if _, err := Load(fstest.MapFS{}); err == nil {
		t.Error("a tree without go.mod is no module")
	}
	broken := fstest.MapFS{"go.mod": &fstest.MapFile{Data: []byte("module m\n")}, "p.go": &fstest.MapFile{Data: []byte("package p\nfunc {")}}
	if _, err := Load(broken); err == nil {
		t.Error("a file that does not parse is no part of a tree")
	}
}

// TestParse: what cannot be a rule is refused before there is any source.
func TestParse(t *testing.T) {
	for _, c := range [][2]string{
		{"", "1"},                      // no place
		{"$x", "1"},                    // any place
		{"$*x, 1", "1"},                // no beginning
		{"$c.f(); $*x", "1"},           // no end
		{"if {", "1"},                  // no Go
		{"$a > 1", "$b > 1"},           // b is nothing
		{"$_ > 1", "$_ > 2"},           // _ is anything
		{"$a > 1", "if {"},             // no Go
		{"case 1: case 2:", "case 1:"}, // two cases
	} {
		if r, err := Parse(c[0], c[1]); err == nil {
			t.Errorf("%q to %q: %+v", c[0], c[1], r)
		}
	}
}

// TestClauses: the default is no case with any expressions, and a select has clauses as well.
func TestClauses(t *testing.T) {
	const source = `package p

func f(c, done chan int, n int) {
	type id = int
	switch n {
	default:
		g()
	case 1, 2:
		g()
	}
	select {
	case <-done:
		k()
	case c <- n:
		g()
	default:
		h()
	}
}
`
	for _, c := range []struct{ from, to, old, new string }{
		{"default: g()", "default:", "default:\n\t\tg()", "default:"},
		{"case $*_: g()", "case 3: g()", "case 1, 2:\n\t\tg()", "case 3: g()"},
		{"case <-$done:", "case <-$done: return", "case <-done:", "case <-done: return"},
		{"case $c <- $n: g()", "case $c <- 0: g()", "case c <- n:\n\t\tg()", "case c <- 0: g()"},
		{"default: h()", "default:", "default:\n\t\th()", "default:"},
	} {
		got := change(t, load(t, map[string]string{"p/p.go": source}), "f", c.from, c.to)
		if want := strings.Replace(source, c.old, c.new, 1); string(got.Source) != want {
			t.Errorf("%s: %s", c.from, got.Source)
		}
	}
	tree := load(t, map[string]string{"p/p.go": source})
	refused(t, tree, "f", "case $c <- $n: h()", "", ErrGone)
	refused(t, tree, "f", "type $t int", "", ErrGone) // not an alias
	change(t, tree, "f", "type $t = int", "type $t int")
}

// TestImports: a replacement may drop the last use of an import.
func TestImports(t *testing.T) {
	const source = `package p

import (
	"errors"
	w "example.com/m/wire"
	"example.com/odd.name"
)

func f(err error) bool { return errors.Is(err, w.ErrChunk) }

func g(err error) bool { return errors.Is(err, name.Err) }
`
	tree := load(t, map[string]string{"p/p.go": source})
	got := change(t, tree, "f", "errors.Is($err, wire.ErrChunk)", "false")
	want := strings.NewReplacer("w \"example", "_ \"example", "errors.Is(err, w.ErrChunk)", "false").Replace(source)
	if string(got.Source) != want {
		t.Errorf("%s", got.Source)
	}
}

// TestNoGo: a replacement that does not fit its place is an error.
func TestNoGo(t *testing.T) {
	tree := load(t, map[string]string{"engine/conn.go": conn})
	r, err := Parse("$h.Proc == wire.Done", "return")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := tree.Apply("Conn.admit", r); err == nil {
		t.Errorf("%s", c.Source)
	}
}
