// Package rewrite changes Go source at a place that is found by its structure: a declaration, wherever in the
// module it is, and a fragment of Go that occurs in it once. The place is still found when the declaration moves to
// another file or package, when its locals are renamed, and when it is formatted anew.
//
// A declaration is named as in "ParsePrivate", "Conn.admit" (a method, by the name of its receiver's type) or
// "minV1" (a constant, variable or type). The name of its package before it, as in "wire Header.Parse", is needed
// only where the fragment occurs in two declarations of the same name.
//
// A fragment is an expression, several that follow each other in a list (arguments, elements, results), a
// statement, several that follow each other, or a case with the first statements of its body, if any:
//
//	$h.Version > $p.MaxVersion()
//	Write: $i, Needed: $n
//	$c.works = $c.works[:0]
//	case wire.Done:
//
// $x stands for any expression, or for any statement where a statement is expected; where it occurs again it stands
// for the same. $_ stands for any each time. $*x stands for any number of expressions or statements between others.
// Locals, parameters and receivers must be variables: a fragment that names one is an error. Everything else is
// compared as it is written, because functions, methods, fields, constants and types are what a rule is about. Only
// the package before an exported name is not compared: wire.Done is also Done in package wire itself, and w.Done in
// a file that imports wire as w. Parentheses, comments and layout are not compared.
//
// The replacement is Go as well, or empty. Its variables become the source text that they stand for, and the packages
// before exported names become those of the file. The rest of the file does not change by a byte, but for an import
// that nothing else uses: it becomes a blank one.
//
// It works on the syntax alone: nothing is type-checked, and a module is parsed once.
//
// Files: fragment.go reads fragments, match.go compares them with syntax trees, tree.go holds the declarations of a
// module, apply.go finds the one place and replaces it.
//
// Imports: the standard library.
package rewrite
