package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// RawBody is the arguments or the results of a call as they were encoded: the stream, and the bulk items of it that are
// known. xdr.Item says how the two fit together. None of it is decoded or copied on its way.
type RawBody struct {
	Stream []byte
	Items  []xdr.Item
}

// Dest is where a bulk result of a RawCall is to be placed.
type Dest = transport.Dest

// RawCall is a call that is made for somebody else, of whose arguments and results this end needs to know nothing: credential
// and verifier are passed on as they are, and so is the reply, whatever it says. The zero value is ready; one
// may be used again after Release.
type RawCall struct {
	// XID is the call's own with PassXID; else CallRaw sets it to the one that it has chosen.
	XID     uint32
	PassXID bool

	Program, Version, Proc uint32
	Cred, Verf             rpcmsg.Auth
	// Args are taken over: their Items are released once, whatever comes of the call, and stay untouched until then.
	Args RawBody
	// MoveArgs tells that the binding allows moving the items of Args. With a credential that protects arguments
	// (RPCSEC_GSS with integrity or privacy) none are moved, either way.
	MoveArgs bool
	// Into are the destinations of bulk results, in order: the binding then allows moving them. Len(Buf) is the most
	// that is accepted of each. The server places what goes into a chunk by its order alone (RFC 8166 §4.3.2): NextResult
	// must find the items. After Success it reads up to the length word of the next one, and returns false
	// where there is none; each lies in its destination then. It runs before CallRaw returns.
	Into       []Dest
	NextResult func(*xdr.Reader) bool
	// MaxReply is the bytes of the longest results without those of Into. A longer reply is refused by the server's
	// transport, or ends with an error: a relay that does not know its programs sets it to the longest that it passes on.
	// On tcp only WithTCPRecord bounds replies.
	MaxReply int
	// Grow is MayGrow's, for servers of version 2.
	Grow int
	// Attach is CallInfo's.
	Attach transport.Attachment

	// Reply is the reply's header, verifier included: accepted or denied, it is no error of CallRaw. Results is what
	// follows. Both are views, valid until Release.
	Reply   rpcmsg.ReplyHeader
	Results RawBody

	proc Proc            // as interceptors and errors name it
	call *transport.Call // that Results lie in
}

// Release gives back what Reply and Results lie in, but for destinations of Into. Once, after CallRaw has returned nil; then or later
// it does nothing. Closing the client, or its server's listener for a backward call, waits for it.
func (rc *RawCall) Release() {
	if call := rc.call; call != nil {
		rc.call = nil
		call.Free()
	}
	rc.Reply, rc.Results.Stream = rpcmsg.ReplyHeader{}, nil
	clear(rc.Results.Items)
	rc.Results.Items = rc.Results.Items[:0]
}

// errNoNextResult is a mistake of the program.
var errNoNextResult = errors.New("rpc: RawCall.Into without NextResult")

// XIDInUseError is CallRaw's for an XID of the caller's under which a call is pending: on this client, or, where the
// caller of one has given up, on the connection. Nothing was sent. Two callers may well have the same XIDs: a relay lets the client
// choose one then, or drops a call that is the same one repeated.
type XIDInUseError = transport.XIDInUseError

// CallRaw makes the call and waits for its reply, as Call does: it is sent again with the same XID where a connection is
// lost, and interceptors apply, whose CallInfo has neither Args nor Results. Errors are those by which there is no reply:
// what the server says is none. Release follows when the error is nil.
func (c *Client) CallRaw(ctx context.Context, rc *RawCall) error {
	noted, err := c.beginRaw(rc)
	if err != nil {
		releaseItems(rc.Args.Items)
		return err
	}
	inv := invocations.Get().(*invocation)
	rc.proc = Proc{Program: rc.Program, Version: rc.Version, Number: rc.Proc}
	inv.raw, inv.info.Proc, inv.info.XID, inv.info.Attach = rc, &rc.proc, rc.XID, rc.Attach
	err = c.run(ctx, inv)
	if !inv.rawTaken { // an interceptor has not called on
		releaseItems(rc.Args.Items)
	}
	if noted {
		c.passed.remove(rc.XID)
	}
	inv.done()
	return err
}

// CallRaw is Client.CallRaw to the client.
func (b *Backchannel) CallRaw(ctx context.Context, rc *RawCall) error {
	if b.life.Err() != nil {
		releaseItems(rc.Args.Items)
		return ErrClosed
	}
	ctx, stop := b.until(ctx)
	defer stop()
	return b.client.CallRaw(ctx, rc)
}

// beginRaw settles the call's XID. noted: it is in c.passed.
func (c *Client) beginRaw(rc *RawCall) (noted bool, err error) {
	switch {
	case len(rc.Into) > 0 && rc.NextResult == nil:
		return false, errNoNextResult
	case rc.PassXID:
		err = c.passed.add(rc.XID)
		return err == nil, err
	}
	rc.XID, noted = c.newXID()
	return noted, nil
}

func releaseItems(items []xdr.Item) {
	for i := range items {
		if f := items[i].Release; f != nil {
			f()
		}
	}
}

// encodeRaw takes over the arguments, whatever it returns.
func (inv *invocation) encodeRaw(call *transport.Call) error {
	rc := inv.raw
	moves := !rc.Cred.Protects()
	call.XID, call.Move, call.MoveResults = rc.XID, rc.MoveArgs && moves, len(rc.Into) > 0 && moves
	call.MaxReply, call.MaxWhole, call.Grow, call.Attach = rc.MaxReply+replyRoom, 0, rc.Grow, inv.info.Attach
	call.Into = append(call.Into, rc.Into...)
	h := rpcmsg.CallHeader{XID: rc.XID, Program: rc.Program, Version: rc.Version, Proc: rc.Proc, Cred: rc.Cred, Verf: rc.Verf}
	h.Append(&call.Msg)
	inv.rawTaken = true
	call.Msg.Relay(rc.Args.Stream, rc.Args.Items)
	if err := call.Msg.Err(); err != nil {
		return fmt.Errorf("%s: arguments: %w", &rc.proc, err)
	}
	return nil
}

// decodeRaw keeps call when it returns nil.
func (inv *invocation) decodeRaw(call *transport.Call) error {
	rc, r := inv.raw, &inv.reader
	call.Msg.DropBulk() // nobody needs the arguments any more
	r.Reset(call.Stream, call.Moved)
	if err := rc.Reply.Parse(r); err != nil {
		return fmt.Errorf("%s: reply: %w", &rc.proc, err)
	}
	next := rc.NextResult
	if rc.Reply.Err() != nil {
		next = nil
	}
	rc.Results.Stream, rc.Results.Items = r.Relay(rc.Results.Items[:0], next)
	if err := r.Err(); err != nil {
		return fmt.Errorf("%s: results: %w", &rc.proc, err)
	}
	rc.call = call
	return nil
}

// RawArgs takes the arguments as they came, whatever lies before Args, into b, whose Items it uses again. Both are valid until
// the handler returns. Without next the items are those that the caller has moved; next finds further ones, as
// RawCall.NextResult does. The error is ErrGarbageArgs.
func (r *Request) RawArgs(b *RawBody, next func(*xdr.Reader) bool) error {
	b.Stream, b.Items = r.Args.Relay(b.Items[:0], next)
	if err := r.Args.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrGarbageArgs, err)
	}
	return nil
}

// ReplyRaw makes the reply what h says, but for its XID, with the results b, whose Items are taken over: each is released once, when the
// reply has left. The stream is copied. The handler then returns nil, or the error of ReplyRaw; a method of whose
// flavor a mechanism takes care has that one's verifier.
func (r *Request) ReplyRaw(h *rpcmsg.ReplyHeader, b *RawBody) error {
	w := r.Results
	w.DropBulk()
	w.Reset()
	r.reply = *h
	r.reply.XID = r.XID
	if r.mech != nil {
		r.reply.Verf = r.verf
	}
	r.raw = r.mech == nil
	r.reply.Append(w)
	if r.reply.Stat == rpcmsg.Accepted && w.Err() == nil {
		const verf = 5 * 4 // behind XID, type, reply_stat, flavor and length
		// That of h may be a view that ends before the reply is cached.
		r.reply.Verf.Body = w.Bytes()[verf:][:len(r.reply.Verf.Body)]
	}
	w.Relay(b.Stream, b.Items)
	if err := w.Err(); err != nil {
		return fmt.Errorf("%w: reply: %v", ErrSystem, err)
	}
	return nil
}

// keepVerf copies the verifier of a reply that is kept: each sending has its own, except where it is passed on.
func (e *cachedCall) keepVerf(r *Request) {
	e.raw = r.raw
	e.verf = e.verf[:0]
	if !r.raw {
		e.reply.Verf = rpcmsg.Auth{}
		return
	}
	e.verf = append(e.verf, e.reply.Verf.Body...)
	e.reply.Verf.Body = e.verf
}

// verfOf is the verifier of a repetition's reply.
func (e *cachedCall) verfOf(r *Request) rpcmsg.Auth {
	if e.raw {
		return rpcmsg.Auth{Flavor: e.reply.Verf.Flavor, Body: bytes.Clone(e.verf)} // the entry may go
	}
	return r.reply.Verf
}

// passedXIDs are the XIDs of a client's pending calls, from when the first call of somebody else's brings its own.
// Until then nothing is kept: two calls of the client's own never have the same. Should one that began before have the XID of
// that first one, their connection refuses the second of them.
type passedXIDs struct {
	on atomic.Bool

	mu      sync.Mutex // guards pending
	pending map[uint32]struct{}
}

func (p *passedXIDs) add(xid uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending == nil {
		p.pending = make(map[uint32]struct{})
		p.on.Store(true)
	}
	if _, ok := p.pending[xid]; ok {
		return &XIDInUseError{XID: xid}
	}
	p.pending[xid] = struct{}{}
	return nil
}

func (p *passedXIDs) remove(xid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pending, xid)
}

func (p *passedXIDs) has(xid uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.pending[xid]
	return ok
}

// newXID is the XID of one more call, which no pending one has (D-20). noted: it is in c.passed until the call is over.
func (c *Client) newXID() (xid uint32, noted bool) {
	xid = c.xids()
	if !c.passed.on.Load() {
		return xid, false
	}
	for c.passed.add(xid) != nil {
		xid = c.xids()
	}
	return xid, true
}

// freeXID is one for a connection's own NULL calls.
func (c *Client) freeXID() uint32 {
	xid := c.xids()
	for c.passed.on.Load() && c.passed.has(xid) {
		xid = c.xids()
	}
	return xid
}
