package peers

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// Stack is one way to do RPC.
type Stack struct {
	// Serve starts the server and returns its address; nil: the client holds both ends.
	Serve  func() (addr string, err error)
	Client func() load.Peer
	// Callers is the most it takes at once; 0: any number.
	Callers int
	About   string
}

var stacks = map[string]Stack{}

func register(name string, s Stack) { stacks[name] = s }

// Names lists the stacks, sorted.
func Names() []string { return slices.Sorted(maps.Keys(stacks)) }

// Find returns the stack of that name.
func Find(name string) (Stack, error) {
	s, ok := stacks[name]
	if !ok {
		return s, fmt.Errorf("no peer %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return s, nil
}
