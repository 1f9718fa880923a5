package rpc

import (
	"context"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/binding"
)

// Proc is one remote procedure: declare it once, as a variable.
type Proc struct {
	Program, Version, Number uint32
	Name                     string // for people: logs, traces, errors
	Binding                  binding.Binding
}

func (p *Proc) String() string {
	if p.Name != "" {
		return p.Name
	}
	return fmt.Sprintf("%d.%d.%d", p.Program, p.Version, p.Number)
}

// HandlerFunc serves one procedure: it reads req.Args and appends to req.Results. nil is
// SUCCESS. Errors are answered: those of rpcmsg as they say, ErrGarbageArgs and xdr's as GARBAGE_ARGS,
// others as SYSTEM_ERR. ctx ends with the connection, or when the server closes.
type HandlerFunc func(ctx context.Context, req *Request) error

// Method binds a procedure to what serves it.
type Method struct {
	Proc    *Proc
	Handler HandlerFunc
	// Inline promises that Handler neither blocks nor calls out: it runs on the goroutine
	// that reads the connection.
	Inline bool
}
