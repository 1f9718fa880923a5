package rpc

import (
	"context"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// CallOption changes one call. It is a value, so that options allocate nothing.
type CallOption struct {
	into  []byte
	mem   *Buffer
	auth  *rpcmsg.Auth
	reply int
	grow  int
}

// Into names where the next bulk result is to be placed. len(buf) is the most accepted: a longer result
// is an error, and nothing is written behind it: xdr.ErrBounds, or, where the server was to place it, its
// refusal, an *engine.TransportError. Several are matched to the bulk results in order. What the results' UnmarshalXDR gets from Reader.Bulk then lies in buf.
// As with an io.Reader's buffer, what buf held behind a shorter result may be gone after the call.
func Into(buf []byte) CallOption { return CallOption{into: buf} }

// IntoBuffer is Into(b.Bytes()[off:off+n]), without registering memory for the call.
func IntoBuffer(b *Buffer, off, n int) CallOption {
	return CallOption{into: b.Bytes()[off : off+n : off+n], mem: b}
}

// WithCred replaces the client's credential for one call.
func WithCred(a *rpcmsg.Auth) CallOption { return CallOption{auth: a} }

// MaxReply is the bytes of the largest results of this call, instead of what its binding says.
func MaxReply(n int) CallOption { return CallOption{reply: n} }

// MayGrow lets a call be sent again, on the same connection and with the same XID, when a version 2 server answers
// that a result or the reply needs more room (v2 draft §6.2.4): with that much, up to n bytes for what was too short.
// The server has executed it by then: one with a duplicate request cache answers from there, another executes it
// again. A result longer than its Into then lies in memory that is valid only during UnmarshalXDR. Version 1 servers
// do not say what they need: the error is an *engine.TransportError.
func MayGrow(n int) CallOption { return CallOption{grow: n} }

// CallInfo is a call as interceptors see it; valid until they return.
type CallInfo struct {
	Proc    *Proc
	Target  Target
	XID     uint32
	Args    xdr.Marshaler
	Results xdr.Unmarshaler
	// Attach goes with the call where an extension on its connection allows it (ext.Conn.Attach); its bytes must stay as
	// they are until the interceptor's next returns.
	Attach transport.Attachment
}

// ClientInterceptor wraps a call. It calls next once, or returns an error instead.
type ClientInterceptor func(ctx context.Context, call *CallInfo, next func(context.Context) error) error

// ServerInterceptor wraps a handler. It calls next once, or returns an error instead.
type ServerInterceptor func(ctx context.Context, req *Request, next HandlerFunc) error
