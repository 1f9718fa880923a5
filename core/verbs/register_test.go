package verbs_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// named is a Provider of which only the name is asked.
type named struct {
	verbs.Provider
	name string
}

func (n named) Name() string { return n.name }

func TestRegister(t *testing.T) {
	if p, ok := verbs.Lookup("none"); ok {
		t.Errorf("Lookup of nothing found %v", p)
	}
	verbs.Register("zeta", named{name: "zeta"})
	verbs.Register("alpha", named{name: "alpha"})
	p, ok := verbs.Lookup("zeta")
	if !ok || p.Name() != "zeta" {
		t.Errorf("Lookup: %v, %v", p, ok)
	}
	s := verbs.Schemes()
	if !slices.IsSorted(s) || !slices.Contains(s, "alpha") || !slices.Contains(s, "zeta") {
		t.Errorf("Schemes: %v", s)
	}
	s[0] = "changed"
	if slices.Contains(verbs.Schemes(), "changed") {
		t.Errorf("Schemes gives its own slice away")
	}
}

func TestRegisterTwicePanics(t *testing.T) {
	verbs.Register("twice", named{name: "first"})
	defer func() {
		if recover() == nil {
			t.Errorf("the second Register did not panic")
		}
		if p, _ := verbs.Lookup("twice"); p.Name() != "first" {
			t.Errorf("the second Register took the scheme")
		}
		verbs.Register("after the panic", named{}) // the lock is free
	}()
	verbs.Register("twice", named{name: "second"})
}

func TestRegisterIsSafeForManyGoroutines(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			verbs.Register(string(rune('A'+i)), named{})
			verbs.Schemes()
			verbs.Lookup("A")
		})
	}
	wg.Wait()
}
