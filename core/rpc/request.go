package rpc

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

var (
	// ErrGarbageArgs, wrapped by what a handler returns, is answered with GARBAGE_ARGS.
	ErrGarbageArgs error = rpcmsg.ErrGarbageArgs
	// ErrSystem is answered with SYSTEM_ERR, as is any error that is not known.
	ErrSystem error = rpcmsg.ErrSystem
)

// Request is one call at its server. It is valid until the handler returns, with all that it hands out but Peer: its memory
// serves another call then. What a handler keeps of Args is a copy as long as it was read by methods of xdr.Reader whose name does
// not end in View; of Cred, Verf, Attached and what Args.Bulk returns, which are views, it keeps copies of its own.
type Request struct {
	XID                    uint32
	Program, Version, Proc uint32
	Cred, Verf             rpcmsg.Auth // their Bodies are views; Auth.Clone
	Args                   *xdr.Reader // at the arguments; bulk items lie where they were placed
	Results                *xdr.Writer // behind the reply's header
	Method                 *Method
	// Identity is the caller as the mechanism of its flavor knows it (WithAuthFlavor); nil: there is none. It may be kept.
	Identity any

	ctx      context.Context
	life     context.Context // ctx of procedures that outlive their connection
	backward bool            // never on the goroutine that reads the connection
	from     *transport.Request
	reader   xdr.Reader
	head     rpcmsg.CallHeader
	reply    rpcmsg.ReplyHeader
	line     *line         // of its connection
	queued   time.Duration // when it began to wait for a worker, where events are recorded; 0: it did not wait
	next     *Request      // in line

	cached *cachedCall // where its reply is kept; nil: nowhere

	mech      rpcmsg.ServerAuth // of the call's flavor; nil: nobody looks at it here
	verf      rpcmsg.Auth       // of the reply
	protected bool              // arguments and results are wrapped: nothing is moved by itself
	own       bool              // the call is the mechanism's own

	fellBack  bool // Method is of WithFallback
	raw       bool // the reply's verifier is the handler's
	discarded bool // the handler wants no reply
}

// RemoteAddr is the caller's address.
func (r *Request) RemoteAddr() netip.AddrPort { return r.from.Conn().RemoteAddr() }

// Buffer takes n bytes of the transport's memory, registered where the fabric has such. Its Bulk is a result that
// frees it; a buffer that is not sent is Freed by its taker.
func (r *Request) Buffer(n int) (*Buffer, error) { return r.from.Memory(n) }

// Attached is what the caller has attached to the call by an operation of an extension: its rdma_opttype, 0 where
// there is none, and its bytes, a view that is valid until the handler returns.
func (r *Request) Attached() (opttype uint32, info []byte) { return r.from.Attached() }

// finish sends Results, or nothing, and ends the request.
func (r *Request) finish(send, flush bool) {
	if !send {
		r.from.Drop()
		return
	}
	move := r.Method != nil && r.Method.Proc.Binding.Results && !r.protected
	r.from.Reply(move, flush)
}

// begin reads the call's header. The error is what to answer.
func (r *Request) begin(stream []byte, moved []xdr.Moved) error {
	r.reader.Reset(stream, moved)
	r.Args, r.Method, r.Identity, r.reply = &r.reader, nil, nil, rpcmsg.ReplyHeader{}
	r.mech, r.verf, r.own = nil, rpcmsg.Auth{}, false
	r.fellBack, r.raw, r.discarded = false, false, false
	err := r.head.Parse(&r.reader)
	h := &r.head
	r.XID, r.Program, r.Version, r.Proc = h.XID, h.Program, h.Version, h.Proc
	r.Cred, r.Verf = h.Cred, h.Verf
	r.protected = h.Cred.Protects()
	return err
}

// run serves the request and puts the whole reply message into Results.
func (r *Request) run(s *Server) {
	w := r.Results
	r.reply = rpcmsg.ReplyHeader{XID: r.XID, Verf: r.verf}
	r.reply.Append(w)
	err := ErrSystem // what is left of a handler that ends its goroutine
	defer func() {
		if err != nil {
			r.discarded = errors.Is(err, rpcmsg.ErrDiscard)
			r.refuse(err)
		}
	}()
	if err = r.call(s); err == nil {
		err = w.Err()
	}
}

func (r *Request) call(s *Server) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.log.Error("handler panicked", "procedure", r.Method.Proc.String(), "panic", p, "stack", stack())
			err = ErrSystem
		}
	}()
	return r.handler(s)(r.ctx, r)
}

// refuse replaces what is in Results by the reply that says err.
func (r *Request) refuse(err error) {
	switch {
	case errors.Is(err, xdr.ErrShort), errors.Is(err, xdr.ErrBounds), errors.Is(err, xdr.ErrValue),
		errors.Is(err, xdr.ErrChunk), errors.Is(err, xdr.ErrTrailing):
		err = ErrGarbageArgs
	}
	w := r.Results
	w.DropBulk()
	w.Reset()
	r.raw = false
	r.reply.Refuse(r.XID, err)
	r.reply.Verf = r.verf // where it is accepted
	r.reply.Append(w)
}

// requestOf is the server's side of tr, kept with it.
func requestOf(tr *transport.Request) *Request {
	r, ok := tr.User.(*Request)
	if !ok {
		r = &Request{from: tr}
		tr.User = r
	}
	r.Results = &tr.Results
	return r
}

func methodNotFound(p *program, v uint32) error {
	if p == nil {
		return rpcmsg.ErrProgUnavail
	}
	if _, ok := p.versions[v]; ok {
		return rpcmsg.ErrProcUnavail
	}
	return &rpcmsg.AcceptError{Stat: rpcmsg.ProgMismatch, Low: p.low, High: p.high}
}
