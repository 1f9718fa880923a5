package main

import (
	"slices"
	"strings"
	"testing"
)

// TestLedger: every row is whole, and the tests and scripts that it names exist. Whether they pass is for the
// tests themselves, and for "go run ./test/conformance", which runs them all.
func TestLedger(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range check(root, ledger(), allDefects()) {
		t.Error(err)
	}
	scripts := make(map[string]bool)
	for _, l := range []struct {
		names   func(...string) []string
		scripts []script
	}{
		{responder, toResponder()}, {requester, toRequester()},
		{propServer, propertiesServer()}, {propClient, propertiesClient()},
		{opServer, operationsServer()}, {opClient, operationsClient()},
	} {
		for _, s := range l.scripts {
			scripts[l.names(s.name)[0]] = true
		}
	}
	for _, r := range ledger() {
		for _, name := range r.Tests {
			test := strings.TrimPrefix(name, "test/conformance ")
			top, _, sub := strings.Cut(test, "/")
			if test != name && sub && slices.Contains([]string{"TestResponder", "TestRequester", "TestProperties", "TestOperations"}, top) && !scripts[name] {
				t.Errorf("%s: there is no script %s", r.ID, test)
			}
		}
	}
}
