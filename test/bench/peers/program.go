package peers

import (
	"context"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// The benchmark's own RPC program: ECHO carries its bytes inline, READ gives back a bulk
// result that may be placed by RDMA Write, WRITE takes a bulk argument that may be fetched by
// RDMA Read. Procedure numbers are tcp.go's op codes.
const (
	benchProgram = 0x20049999 // RFC 5531 §8.3: defined by users
	benchVersion = 1
)

var procs = map[load.Op]*rpc.Proc{
	load.Echo:  {Program: benchProgram, Version: benchVersion, Number: opCodes[load.Echo], Name: "ECHO", Idempotent: true},
	load.Read:  {Program: benchProgram, Version: benchVersion, Number: opCodes[load.Read], Name: "READ", Idempotent: true, Binding: binding.Binding{Results: true, MaxReply: 4}},
	load.Write: {Program: benchProgram, Version: benchVersion, Number: opCodes[load.Write], Name: "WRITE", Idempotent: true, Binding: binding.Binding{Args: true, MaxReply: 4}},
}

// payload is the arguments and results of one caller: it encodes what op sends and
// decodes what op gets.
type payload struct {
	op   load.Op
	n    int
	send xdr.Bulk // Write: what is sent
	ok   error    // of what came back
}

func (p *payload) MarshalXDR(w *xdr.Writer) {
	switch p.op {
	case load.Echo:
		w.Opaque(load.Pattern[:p.n])
	case load.Read:
		w.Uint32(uint32(p.n))
	case load.Write:
		w.BulkItem(p.send)
	}
}

// MaxReply is how an ECHO's caller knows that its reply fits inline.
func (p *payload) MaxReply() (reduced, whole int) {
	switch p.op {
	case load.Echo:
		return 4 + p.n + 3, 4 + p.n + 3
	case load.Read:
		return 4, 4 + p.n + 3
	}
	return 4, 4
}

func (p *payload) UnmarshalXDR(r *xdr.Reader) {
	switch p.op {
	case load.Echo:
		p.ok = load.Check(r.Opaque(load.MaxPayload), p.n)
	case load.Read:
		p.ok = load.Check(r.Bulk(load.MaxPayload), p.n)
	case load.Write:
		if p.ok = nil; r.Uint32() != uint32(p.n) {
			p.ok = errAnswer
		}
	}
}

// methods are the server's side; pattern is registered memory with the payload. All
// of them only look at memory, so they run on the goroutine that reads the connection.
func methods(pattern *rpc.Buffer) []rpc.Method {
	echo := func(_ context.Context, r *rpc.Request) error {
		b := r.Args.Opaque(load.MaxPayload)
		r.Results.Opaque(b)
		return r.Args.Err()
	}
	read := func(_ context.Context, r *rpc.Request) error {
		n := r.Args.Uint32()
		if n > load.MaxPayload {
			return rpc.ErrGarbageArgs
		}
		r.Results.BulkItem(xdr.Bulk{Data: pattern.Bytes()[:n], Mem: pattern})
		return r.Args.Err()
	}
	write := func(_ context.Context, r *rpc.Request) error {
		b := r.Args.Bulk(load.MaxPayload)
		n := uint32(len(b))
		if load.Check(b, len(b)) != nil {
			n = ^uint32(0)
		}
		r.Results.Uint32(n)
		return r.Args.Err()
	}
	return []rpc.Method{
		{Proc: procs[load.Echo], Handler: echo, Inline: true},
		{Proc: procs[load.Read], Handler: read, Inline: true},
		{Proc: procs[load.Write], Handler: write, Inline: true},
	}
}

// patternBuffer is registered memory that holds the payload.
func patternBuffer() (*rpc.Buffer, error) {
	b, err := rpc.NewBuffer(load.MaxPayload)
	if err == nil {
		copy(b.Bytes(), load.Pattern)
	}
	return b, err
}
