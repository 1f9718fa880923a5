//go:build defects

package main

import "testing"

// TestDefects breaks the program, one defect at a time: each must turn its test red.
func TestDefects(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	provokeAll(root, allDefects(), func(d Defect, err error) {
		if err != nil {
			t.Errorf("%s (%s): %v", d.Name, d.Row, err)
			return
		}
		t.Logf("%s (%s): caught by %s", d.Name, d.Row, d.Test)
	})
}
