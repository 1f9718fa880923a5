package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rpcrdma/rpcrdma/test/conformance/rewrite"
)

// check finds what is wrong with the ledger itself, without running anything. Whether a defect has its place is
// checked where the defects run: see checkPlaces.
func check(root string, rows []Row, defects []Defect) (faults []error) {
	bad := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	byID := make(map[string]Row)
	known := make(map[string]map[string]bool) // tests by folder
	for _, r := range rows {
		if _, twice := byID[r.ID]; twice {
			bad("%s stands there twice", r.ID)
		}
		byID[r.ID] = r
		if r.ID == "" || !slices.Contains(documents, r.Doc) || r.Level == "" || r.Text == "" {
			bad("%s: id, document, level and text are not all there", r.ID)
		}
		for _, err := range r.check(root) {
			bad("%s: %v", r.ID, err)
		}
		for _, name := range r.Tests {
			dir, test, _ := strings.Cut(name, " ")
			if known[dir] == nil {
				known[dir] = testsIn(filepath.Join(root, dir))
			}
			if top, _, _ := strings.Cut(test, "/"); !known[dir][top] {
				bad("%s: there is no test %s in %s", r.ID, top, dir)
			}
		}
	}
	having := make(map[string]bool)
	named := make(map[string]bool)
	for _, d := range defects {
		r, ok := byID[d.Row]
		switch {
		case named[d.Name]:
			bad("defect %q: two have this name", d.Name)
		case !ok:
			bad("defect %q: no row %s", d.Name, d.Row)
		case !slices.Contains(r.Tests, d.Test):
			bad("defect %q: %s is not a test of row %s", d.Name, d.Test, d.Row)
		}
		if _, err := rewrite.Parse(d.Old, d.New); err != nil {
			bad("defect %q: %v", d.Name, err)
		}
		having[d.Row], named[d.Name] = true, true
	}
	for _, r := range rows {
		if (r.Level == Decision || r.Level == Trap) && (r.status() == Tested || r.status() == Departs) && !having[r.ID] {
			bad("%s: no defect shows that its tests can fail", r.ID)
		}
	}
	return append(faults, checkCounts(rows)...)
}

// check looks at one row alone.
func (r Row) check(root string) (faults []error) {
	bad := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	switch r.status() {
	case Tested, Departs:
		if len(r.Tests) == 0 {
			bad("no test")
		}
		if r.Wire == "" {
			bad("it does not say which octets show it")
		}
		if r.status() == Departs && r.Do == "" {
			bad("it does not say how we depart")
		}
	case Planned:
		if r.Until == "" {
			bad("planned, but not until when")
		} else if hasGo(filepath.Join(root, r.Until)) {
			bad("planned until %s exists, and it does: give it a test", r.Until)
		}
	case NotOurs:
		if r.Do == "" {
			bad("not applicable, but not why")
		}
	default:
		bad("status %q", r.Status)
	}
	return faults
}

// hasGo tells whether a folder holds Go code.
func hasGo(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	return len(files) > 0
}

// testsIn are the top-level tests of a folder.
func testsIn(dir string) map[string]bool {
	names := make(map[string]bool)
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, src, parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}
