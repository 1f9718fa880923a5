package verbs

import (
	"fmt"
	"slices"
	"sync"
)

var (
	registerMu sync.RWMutex
	registered = map[string]Provider{}
)

// Register makes p known by its URL scheme. Providers call it from init; a scheme
// that is taken panics.
func Register(scheme string, p Provider) {
	registerMu.Lock()
	defer registerMu.Unlock()
	if _, dup := registered[scheme]; dup {
		panic(fmt.Sprintf("verbs: provider %q registered twice", scheme))
	}
	registered[scheme] = p
}

// Lookup finds a provider by its scheme.
func Lookup(scheme string) (Provider, bool) {
	registerMu.RLock()
	defer registerMu.RUnlock()
	p, ok := registered[scheme]
	return p, ok
}

// Schemes lists what is registered, sorted.
func Schemes() []string {
	registerMu.RLock()
	defer registerMu.RUnlock()
	names := make([]string, 0, len(registered))
	for s := range registered {
		names = append(names, s)
	}
	slices.Sort(names)
	return names
}
