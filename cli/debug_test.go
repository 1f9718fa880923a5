package cli

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/core/obs"
)

// RPCRDMA_DEBUG prints every kind of event by a name of its own.
func TestEventNames(t *testing.T) {
	seen := map[string]obs.Kind{}
	for k := obs.Kind(1); int(k) < obs.Kinds; k++ {
		switch other, twice := seen[eventNames[k]]; {
		case eventNames[k] == "":
			t.Errorf("kind %d has no name", k)
		case twice:
			t.Errorf("kinds %d and %d are both %q", other, k, eventNames[k])
		}
		seen[eventNames[k]] = k
	}
}
