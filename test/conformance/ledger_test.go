package main

import (
	"testing"
)

// TestLedger: every row is whole, and the tests that it names exist. Whether they pass is for the tests
// themselves, and for "go run ./test/conformance", which runs them all.
func TestLedger(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range check(root, ledger(), allDefects()) {
		t.Error(err)
	}
}
