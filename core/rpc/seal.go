package rpc

import (
	"errors"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// sealed is what a call needs whose authentication computes something: the arguments as they were encoded, to be
// signed and wrapped anew each time the call is sent. A repetition with the signature of the first would be taken for
// a replay (RFC 2203 §5.3.3.1).
type sealed struct {
	args           xdr.Writer
	move           bool // the binding allows moving arguments
	plain, wrapped []byte
	results        []byte
}

// wrapRoom is how much longer results may become by being wrapped: the lengths, the sequence number and the checksum
// or token of RFC 2203 §5.3.2, with some room for the mechanism's own.
const wrapRoom = 1024

var errWrapped = errors.New("the mechanism's wrapping is not a multiple of four bytes")

// seal encodes the call for a mechanism. Wrapped arguments and results are no longer the items that the binding
// knows: none of them is moved by itself, the call goes inline or as a whole (RFC 8166 §6.1, RFC 2203 §5.3.2).
func (c *Client) seal(inv *invocation, call *transport.Call) error {
	s := &sealed{move: call.Move}
	inv.sealed = s
	if a := inv.info.Args; a != nil {
		a.MarshalXDR(&s.args)
	}
	if err := s.args.Err(); err != nil {
		return fmt.Errorf("%s: arguments: %w", inv.info.Proc, err)
	}
	call.MaxReply += wrapRoom
	if call.MaxWhole > 0 {
		call.MaxWhole += wrapRoom
	}
	return inv.sign(call)
}

// resign signs the call anew before it is sent again.
func (c *Client) resign(inv *invocation, call *transport.Call) error {
	if inv.sealed == nil {
		return nil
	}
	call.Msg.Reset()
	return inv.sign(call)
}

func (inv *invocation) sign(call *transport.Call) error {
	s, p := inv.sealed, inv.info.Proc
	if err := rpcmsg.AppendCall(&call.Msg, &inv.head, inv.auth); err != nil {
		return fmt.Errorf("%s: credential: %w", p, err)
	}
	call.Move = s.move
	if !inv.auth.Protects() {
		appendMessage(&call.Msg, &s.args)
		return nil
	}
	call.Move, call.MoveResults = false, false
	s.plain = s.args.AppendUnreduced(s.plain[:0])
	var err error
	s.wrapped, err = inv.auth.Wrap(&inv.head, s.wrapped[:0], s.plain)
	if err == nil && len(s.wrapped)%4 != 0 {
		err = errWrapped
	}
	if err != nil {
		return fmt.Errorf("%s: arguments: %w", p, err)
	}
	call.Msg.Raw(s.wrapped)
	return nil
}

// appendMessage appends src to w; src keeps its bulk items, and releases them.
func appendMessage(w, src *xdr.Writer) {
	at := 0
	for _, it := range src.Bulk() {
		w.Raw(src.Bytes()[at : it.Off-4]) // BulkItem writes the length word
		w.BulkItem(xdr.Bulk{Data: it.Data, Mem: it.Mem})
		at = it.Off
	}
	w.Raw(src.Bytes()[at:])
}

// unseal makes the reader read the results unwrapped. Their bulk items then end up in their destinations by a copy.
func (inv *invocation) unseal(call *transport.Call) error {
	if !inv.auth.Protects() {
		return nil
	}
	s := inv.sealed
	var err error
	if s.results, err = inv.auth.Unwrap(&inv.head, s.results[:0], inv.reader.RestView()); err != nil {
		return err
	}
	inv.reader.Reset(s.results, call.Moved)
	return nil
}

// authenticate asks the mechanism of the call's flavor, and unwraps the arguments. The error is what to answer.
func (r *Request) authenticate(s *Server, stream []byte) error {
	h := &r.head
	switch mech, ok := s.opts.flavors[h.Cred.Flavor]; {
	case ok:
		r.mech = mech
	case h.Cred.Flavor == rpcmsg.AuthNone, h.Cred.Flavor == rpcmsg.AuthSys:
		return nil // the procedure looks at it
	default:
		return &rpcmsg.AuthError{Stat: rpcmsg.AuthRejectedCred}
	}
	signed := stream[:min(24+h.Cred.Len(), len(stream))]
	var err error
	if r.Identity, err = r.mech.Accept(h, signed); err != nil {
		return err
	}
	if r.reply.Verf, err = r.mech.Verf(h, r.Identity); err != nil {
		return err
	}
	r.verf = r.reply.Verf
	wrapped := r.mech.Protects(r.Identity)
	r.protected = r.protected || wrapped
	if control, ok := r.mech.(rpcmsg.Controller); ok && control.Controls(h) {
		r.own = true
		return nil
	}
	if !wrapped {
		return nil
	}
	args, err := r.mech.Unwrap(h, r.Identity, nil, r.Args.RestView()) // without what was moved by itself: that fails
	if err != nil {
		return fmt.Errorf("%w: %w", ErrGarbageArgs, err) // RFC 2203 §5.3.3.4.2
	}
	r.reader.Reset(args, nil)
	return nil
}

// control lets the mechanism answer a call of its own, such as those that make an RPCSEC_GSS context.
func (r *Request) control() {
	results, err := r.mech.(rpcmsg.Controller).Control(&r.head, r.Identity, r.Args.RestView())
	if err == nil && len(results)%4 != 0 {
		err = errWrapped
	}
	if err != nil {
		r.refuse(err)
		return
	}
	r.reply = rpcmsg.ReplyHeader{XID: r.XID, Verf: r.verf}
	r.reply.Append(r.Results)
	r.Results.Raw(results)
}

// answer sends the reply, wrapped where it is to be.
func (r *Request) answer(flush bool) {
	r.seal()
	r.finish(true, flush)
}

// seal wraps the results. What the duplicate request cache holds is not: each sending is wrapped by itself.
func (r *Request) seal() {
	if r.mech == nil || !r.mech.Protects(r.Identity) || r.reply.Err() != nil {
		return
	}
	w := r.Results
	plain := w.AppendUnreduced(nil)[r.reply.Len():]
	wrapped, err := r.mech.Wrap(&r.head, r.Identity, nil, plain)
	if err != nil || len(wrapped)%4 != 0 {
		r.refuse(ErrSystem)
		return
	}
	w.DropBulk()
	w.Reset()
	r.reply.Append(w)
	w.Raw(wrapped)
}
