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
	// Idempotent: executing it twice does no more than once, and both replies are right. A server then keeps no
	// reply to answer repetitions with (ReplyCache).
	Idempotent bool
}

func (p *Proc) String() string {
	if p.Name != "" {
		return p.Name
	}
	return fmt.Sprintf("%d.%d.%d", p.Program, p.Version, p.Number)
}

// HandlerFunc serves one procedure: it reads req.Args and appends to req.Results. nil is
// SUCCESS. Errors are answered: those of rpcmsg as they say, ErrGarbageArgs and xdr's as GARBAGE_ARGS,
// others as SYSTEM_ERR; with rpcmsg.ErrDiscard
// there is no answer, and a repetition is executed again. ctx ends when the server closes, and that of an Idempotent procedure with the
// connection as well: others are carried through, as their caller comes back for the reply.
type HandlerFunc func(ctx context.Context, req *Request) error

// Method binds a procedure to what serves it.
type Method struct {
	Proc    *Proc
	Handler HandlerFunc
	// Inline promises that Handler neither blocks nor calls out: it runs on the goroutine
	// that reads the connection.
	Inline bool
}
