package extensions

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

var registry struct {
	sync.Mutex
	makes map[string]func(options map[string]string) (ext.Extension, error)
	gates map[string]bool
}

// Register makes an extension that is compiled in known by its name. It is for init functions and mains, and panics when the
// name is taken.
func Register(name string, make func(options map[string]string) (ext.Extension, error)) {
	registry.Lock()
	defer registry.Unlock()
	if make == nil || registry.makes[name] != nil {
		panic(fmt.Sprintf("extensions: %q is registered twice, or without a function", name))
	}
	if registry.makes == nil {
		registry.makes = map[string]func(map[string]string) (ext.Extension, error){}
	}
	registry.makes[name] = make
}

// RegisterGate is Register for an extension that gates connections (ext.Declaration.Gate): so it is known of one that cannot be loaded, too,
// be it a plugin of that name.
func RegisterGate(name string, make func(options map[string]string) (ext.Extension, error)) {
	Register(name, make)
	registry.Lock()
	defer registry.Unlock()
	if registry.gates == nil {
		registry.gates = map[string]bool{}
	}
	registry.gates[name] = true
}

// ErrGate is a Spec that is not Required of an extension that gates connections: without it they would be open to everybody.
var ErrGate = errors.New("it keeps connections closed to who does not satisfy it, and required = false would open them where it cannot be loaded: take that out")

// CheckGate refuses, as an *Error with ErrGate, a Spec that may not be left out. declared is zero where the extension could not be loaded.
func CheckGate(s Spec, declared ext.Declaration) error {
	registry.Lock()
	defer registry.Unlock()
	if s.Required || !declared.Gate && !registry.gates[s.Name] {
		return nil
	}
	return &Error{s.Name, s.Path, ErrGate}
}

// Registered are the names of the extensions that are compiled in, in order.
func Registered() []string {
	registry.Lock()
	defer registry.Unlock()
	return slices.Sorted(maps.Keys(registry.makes))
}

// compiledIn makes one that is registered.
func compiledIn(name string, options map[string]string) (ext.Extension, error) {
	registry.Lock()
	make := registry.makes[name]
	registry.Unlock()
	if make == nil {
		return nil, fmt.Errorf("none of that name is compiled in: give the path of its executable, or one of %q", Registered())
	}
	options = maps.Clone(options)
	if options == nil {
		options = map[string]string{} // a make may read it, and write to it
	}
	x, err := make(options)
	if err == nil && x == nil {
		err = fmt.Errorf("it made nothing")
	}
	if err == nil {
		if n := x.Declare().Name; n != name {
			err = fmt.Errorf("it calls itself %q", n)
		}
	}
	return x, err
}
