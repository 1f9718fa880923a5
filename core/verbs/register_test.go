package verbs_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// named is a Provider of which only the name is asked.
type named struct {
	verbs.Provider
	name string
}

func (n named) Name() string { return n.name }

var schemes atomic.Int64

// scheme is one that nobody has registered: nothing is ever unregistered, and tests may run more than once.
func scheme(like string) string { return fmt.Sprintf("%s-%d", like, schemes.Add(1)) }

func TestRegister(t *testing.T) {
	if p, ok := verbs.Lookup("none"); ok {
		t.Errorf("Lookup of nothing found %v", p)
	}
	zeta, alpha := scheme("zeta"), scheme("alpha")
	verbs.Register(zeta, named{name: "zeta"})
	verbs.Register(alpha, named{name: "alpha"})
	p, ok := verbs.Lookup(zeta)
	if !ok || p.Name() != "zeta" {
		t.Errorf("Lookup: %v, %v", p, ok)
	}
	s := verbs.Schemes()
	if !slices.IsSorted(s) || !slices.Contains(s, alpha) || !slices.Contains(s, zeta) {
		t.Errorf("Schemes: %v", s)
	}
	s[0] = "changed"
	if slices.Contains(verbs.Schemes(), "changed") {
		t.Errorf("Schemes gives its own slice away")
	}
}

func TestRegisterTwicePanics(t *testing.T) {
	twice := scheme("twice")
	verbs.Register(twice, named{name: "first"})
	defer func() {
		if recover() == nil {
			t.Errorf("the second Register did not panic")
		}
		if p, _ := verbs.Lookup(twice); p.Name() != "first" {
			t.Errorf("the second Register took the scheme")
		}
		verbs.Register(scheme("after the panic"), named{}) // the lock is free
	}()
	verbs.Register(twice, named{name: "second"})
}

func TestRegisterIsSafeForManyGoroutines(t *testing.T) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			mine := scheme("many")
			verbs.Register(mine, named{})
			verbs.Schemes()
			verbs.Lookup(mine)
		})
	}
	wg.Wait()
}
