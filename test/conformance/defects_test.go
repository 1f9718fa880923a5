//go:build defects

package main

import (
	"os"
	"testing"
)

// TestDefects breaks the program, one defect at a time: each must turn its test red. -run selects some by their names.
func TestDefects(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parseModule(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	atOnce := make(chan struct{}, 2) // each takes a build and a test, both with goroutines of their own
	for _, d := range allDefects() {
		t.Run(d.Name, func(t *testing.T) {
			t.Parallel()
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			if err := d.provoke(root, tree); err != nil {
				t.Fatalf("%s: %v", d.Row, err)
			}
			t.Logf("%s: caught by %s", d.Row, d.Test)
		})
	}
}
