package peers

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
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
	// With is the stack with options, for a name like iwarp?crc=false; nil: it takes none.
	With  func(url.Values) (Stack, error)
	About string
}

var stacks = map[string]Stack{}

func register(name string, s Stack) { stacks[name] = s }

// alias gives a stack with options a name.
func alias(name, full, about string) {
	s, err := Find(full)
	if err != nil {
		panic(err) // a line of this package's is wrong
	}
	s.About = about
	register(name, s)
}

// Names lists the stacks, sorted.
func Names() []string { return slices.Sorted(maps.Keys(stacks)) }

// Find returns the stack of that name, which may have options: iwarp?inline=16384.
func Find(name string) (Stack, error) {
	base, query, optioned := strings.Cut(name, "?")
	s, ok := stacks[base]
	if !ok {
		return s, fmt.Errorf("no peer %q; there are %s", base, strings.Join(Names(), ", "))
	}
	if !optioned {
		return s, nil
	}
	q, err := url.ParseQuery(query)
	if err == nil && s.With == nil {
		err = errors.New("it takes no options")
	}
	if err == nil {
		s, err = s.With(q)
	}
	if err != nil {
		return s, fmt.Errorf("peer %s: %w", name, err)
	}
	return s, nil
}
