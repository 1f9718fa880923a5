package transport

import "github.com/rpcrdma/rpcrdma/core/xdr"

// Request is one call at its server, from Service.Serve until Reply or Drop.
type Request struct {
	// Stream and Moved are the RPC call message, as xdr.Reader.Reset takes them. They are views, valid until Reply or Drop.
	Stream []byte
	Moved  []xdr.Moved
	// Results is where the reply message is written.
	Results xdr.Writer
	// User is the server's own. It is kept where the implementation uses the Request again.
	User any

	impl Responder
}

// Responder is the implementation's side of a Request.
type Responder interface {
	// Conn is the connection that the call came on.
	Conn() Conn
	// Attached is what the requester has attached to the call: the operation's rdma_opttype, 0 where there is none, and
	// its bytes, a view that is valid until Reply.
	Attached() (opttype uint32, info []byte)
	// Memory takes n bytes that results can leave from without a copy, where the implementation has such memory. Free,
	// or the end of the reply that has its Bulk, gives it back.
	Memory(n int) (*Memory, error)
	// Reply sends what is in Results; the request must not be touched again. move tells that the binding allows moving
	// bulk results. flush is false within Service.Serve, where the implementation flushes a batch of replies as a whole.
	// The error is for logs: the request is over in each case, and the requester has been told where it can be.
	Reply(move, flush bool) error
	// Drop ends the request without a reply.
	Drop()
}

// Init gives r its implementation, once.
func (r *Request) Init(impl Responder) { r.impl = impl }

// Conn is Responder's.
func (r *Request) Conn() Conn { return r.impl.Conn() }

// Attached is Responder's.
func (r *Request) Attached() (opttype uint32, info []byte) { return r.impl.Attached() }

// Memory is Responder's.
func (r *Request) Memory(n int) (*Memory, error) { return r.impl.Memory(n) }

// Reply is Responder's.
func (r *Request) Reply(move, flush bool) error { return r.impl.Reply(move, flush) }

// Drop is Responder's.
func (r *Request) Drop() { r.impl.Drop() }
