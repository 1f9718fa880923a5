package engine

import (
	"errors"

	"github.com/rpcrdma/rpcrdma/core/chunk"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// inbound is what a connection needs to take messages in. Only Complete uses it, but
// for put.
type inbound struct {
	c           *Conn
	hdr         *wire.Header // of the message at hand; a call keeps it and leaves its own
	invalidated uint32       // the key that came with the operation at hand
	own         ownReceives
}

// buffer is a receive that a message came in: whoever holds it gives it back once.
type buffer struct {
	in *inbound
	id uint32
	received
}

func (b *buffer) put() {
	if b.in == nil {
		return
	}
	b.poison()
	if pool := b.in.c.ep.recv; pool != nil {
		pool.Put(b.id)
	} else {
		b.in.own.put(b.in.c.vc, b.id)
	}
	b.in = nil
}

// received takes one message: readable, well-formed, allowed now, in this order.
func (in *inbound) received(cp *verbs.Completion) {
	c := in.c
	buf := buffer{in, cp.BufID, receivedIn(cp.Buf)}
	if c.ep.recv == nil {
		buf.id = uint32(cp.ID)
		if r := in.own.took(buf.id); r != nil {
			r.done(nil)
		}
	}
	if cp.Status != verbs.OK {
		if c.ep.recv != nil && cp.Buf == nil {
			return // a pool's receive that never carried a message
		}
		buf.put()
		return
	}
	h := in.hdr
	n, err := h.Parse(cp.Buf, c.cfg.Profile)
	if err == nil && h.Version >= wire.Version2 && c.sizes.longer(len(cp.Buf)) {
		c.sizes.came(len(cp.Buf))
	}
	if h.Proc >= wire.Optional && c.ext.claims(h, err) {
		in.invalidated = cp.Invalidated
		in.operation(h, cp.Buf, n, err, buf)
		return
	}
	if err != nil {
		in.refuse(err)
		buf.put()
		return
	}
	payload := cp.Buf[n:]
	switch in.sort(h, payload) {
	case toRequester:
		in.reply(h, payload, cp.Invalidated, loan{})
		buf.put()
	case toResponder:
		in.call(h, payload, buf, loan{}) // takes buf
	default:
		in.drop(h.XID)
		buf.put()
	}
}

// side is who a message is for.
type side uint8

const (
	toNobody side = iota
	toRequester
	toResponder
)

// sort tells who a message is for. Version 2 says so in the header; version 1 does not, there
// the RPC message does (RFC 8167 §2.4). One without a payload is never part of a backward call, as
// those have no chunks: it is a client's call or, without a Read list (RFC 8166 §4.3.1), a server's reply.
func (in *inbound) sort(h *wire.Header, payload []byte) side {
	switch h.Proc {
	case wire.Msg, wire.NoMsg:
		if h.Version >= wire.Version2 {
			if h.Direction == wire.Reply {
				return toRequester
			}
			return toResponder
		}
		if h.Proc == wire.NoMsg {
			if in.c.client && len(h.Reads) == 0 {
				return toRequester
			}
			return toResponder
		}
		_, isReply, ok := rpcmsg.PeekType(payload)
		switch {
		case !ok:
			return toNobody
		case isReply:
			return toRequester
		}
		return toResponder
	case wire.ErrorMsg:
		return toRequester
	case wire.RespProp:
		return toNobody // no property operation of ours is under way
	case wire.MsgP, wire.Done:
		if in.c.client {
			return toNobody // D-40
		}
	}
	return toResponder
}

func (in *inbound) drop(xid uint32) {
	c := in.c
	c.mu.Lock()
	c.counters.Dropped++
	c.mu.Unlock()
	c.event(obs.Event{Kind: obs.Dropped, XID: xid})
}

// refuse answers a header that cannot be used, or drops it (RFC 8166 §4.5, D-12, D-36).
func (in *inbound) refuse(err error) {
	c := in.c
	he, ok := asHeaderError(err)
	if !ok {
		in.drop(0)
		return
	}
	as := wire.Call
	if c.client {
		as = wire.Reply // where the header does not tell; a call of the server's would be the exception
	}
	if he.Reason == wire.BadVersion {
		he.DirKnown = false // nobody has read as far
	}
	if he.Version >= wire.Version2 && he.Proc >= wire.ConnProp {
		he.Reason = wire.BadProc // nobody here is to judge what it carries
	}
	low, high := c.versionRange()
	if he.Reason != wire.TooShort && (he.Version < low || he.Version > high) {
		he.Reason = wire.BadVersion // the version is judged before what follows it (T-16)
	}
	body, ok := he.Answer(as, low, high)
	if !ok {
		in.drop(he.XID)
		return
	}
	switch body.Code { // the parser has limits of its own, above ours
	case wire.ErrReadChunks, wire.ErrWriteChunks:
		body.Max = min(body.Max, uint32(c.cfg.MaxChunks))
	case wire.ErrSegments:
		body.Max = min(body.Max, uint32(c.cfg.MaxSegs))
	}
	c.sendError(nil, he.XID, he.Version, body)
}

// versionRange is what ERR_VERS offers: what we support, or the version that stands (D-4).
func (c *Conn) versionRange() (low, high uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.stands(); v != 0 && !c.client {
		return v, v
	}
	return c.cfg.MinVersion, c.cfg.MaxVersion
}

// reply takes a message that answers a call of ours. With release it keeps payload, if it takes the reply, and calls release
// when the call is over.
func (in *inbound) reply(h *wire.Header, payload []byte, invalidated uint32, release loan) (taken bool) {
	c := in.c
	c.mu.Lock()
	if h.Proc == wire.ErrorMsg && c.ext.refused(h) {
		c.mu.Unlock()
		c.event(obs.Event{Kind: obs.ErrorRecv, XID: h.XID, Arg: int64(h.Err.Code)})
		c.ext.pump()
		return false
	}
	call := c.pending.at(h.XID)
	if call != nil && invalidated != 0 && !c.remoteInvalidated(call, invalidated) {
		c.counters.BadInvalidate++ // of another call, or of none: that call's fence fails and tells (D-25)
	}
	switch {
	case call == nil || call.state != callSent || h.Proc != wire.ErrorMsg && h.Version != c.neg.Version:
		c.mu.Unlock()
		in.drop(h.XID)
		return false
	case h.Proc == wire.ErrorMsg:
		room := c.ext.replied(call.after)
		failed := c.errorReply(call, h)
		c.mu.Unlock()
		if room {
			c.ext.pump()
		}
		c.event(obs.Event{Kind: obs.ErrorRecv, XID: h.XID, Arg: int64(h.Err.Code)})
		if failed {
			c.Close() // the next call may find another server
		}
		return false
	}
	if err := c.takeReply(call, h, payload, release); err != nil {
		c.end(call, callDone, badReply(err))
		c.mu.Unlock()
		in.drop(h.XID)
		return false
	}
	// With mu held: what follows from the reply is recorded after it.
	if c.recording() {
		c.record(obs.Event{Kind: obs.ReplyRecv, XID: h.XID, Bytes: len(payload), Arg: int64(formOf(h))})
	}
	granted := c.credits.limit
	opened := c.confirmed(h)
	limit := c.credits.limit
	c.dropCredit(call)
	room := c.ext.replied(call.after)
	c.end(call, callDone, nil)
	c.mu.Unlock()
	if room {
		c.ext.pump()
	}
	if opened {
		c.ext.begin(h.Version)
		c.event(obs.Event{Kind: obs.Negotiated, Arg: int64(h.Version)})
	}
	if limit != granted {
		c.event(obs.Event{Kind: obs.CreditGrant, Arg: int64(limit)})
	}
	return true
}

// confirmed takes the version and the grant of a valid reply (RFC 8166 §3.3.3; v2 draft §7).
// Called with mu held.
func (c *Conn) confirmed(h *wire.Header) (opened bool) {
	if c.neg.State == NegProbing {
		var act NegAction
		c.neg, act = c.neg.Step(NegEvent{Kind: NegReply, Version: h.Version})
		if opened = act == NegOpen; opened {
			c.cfg.Versions.settled(c.cfg.Peer, h.Version, c.neg.Max)
		}
	}
	c.takeGrant(h.Credit, true)
	c.grantWaiting()
	return opened
}

var errNotTheReply = errors.New("the RPC message is no reply to it")

// takeReply keeps the reply's inline bytes, with release as they are, and finds the rest. Called with mu held.
func (c *Conn) takeReply(call *call, h *wire.Header, payload []byte, release loan) error {
	if err := chunk.CheckReply(h, &call.head.Lists, len(payload)); err != nil {
		return err
	}
	inline := payload
	if release.free == nil {
		call.inline = append(call.inline[:0], payload...)
		inline = call.inline
	}
	call.into = call.into[:0]
	for _, d := range call.Into {
		call.into = append(call.into, d.Buf)
	}
	var reply []byte
	if call.reply != nil {
		reply = call.reply.Bytes()
	}
	call.Stream, call.Moved = chunk.JoinReply(call.Moved[:0], &h.Lists, call.results, reply, inline, call.into)
	call.loosen(call.Moved)
	if xid, isReply, ok := rpcmsg.PeekType(call.Stream); !ok || !isReply || xid != h.XID { // D-27
		return errNotTheReply
	}
	call.release = release
	c.countMessage(h, len(payload), c.pick(ours, &c.counters.RepliesRecv, &c.counters.BackRepliesRecv))
	for _, w := range h.Writes {
		c.counters.WriteBytes += w.Len()
	}
	c.counters.WriteBytes += h.Reply.Len()
	for _, s := range call.head.Reads { // answered: so it was pulled
		c.counters.ReadBytes += uint64(s.Length)
	}
	return nil
}

// errorReply takes an RDMA_ERROR for call; failed: no version is left to talk in. Called with mu held.
func (c *Conn) errorReply(call *call, h *wire.Header) (failed bool) {
	c.counters.ErrorsRecv++
	err := &TransportError{XID: h.XID, Version: h.Version, Body: h.Err}
	switch {
	case c.neg.State == NegSettled:
		c.takeGrant(h.Credit, true)
	case h.Err.Code == wire.ErrVers:
		var act NegAction
		c.neg, act = c.neg.Step(NegEvent{Kind: NegErrVers, Low: h.Err.Low, High: h.Err.High})
		if act == NegProbe {
			c.end(call, callAgain, nil) // on the same connection, with the same XID (D-5)
			return false
		}
		if failed = act == NegFail; failed {
			c.cfg.Versions.forget(c.cfg.Peer)
		}
	}
	if again, refused := c.refusedWrap(call, h.Err.Code); again {
		c.end(call, callAgain, nil)
		return false
	} else if refused {
		return false
	}
	if c.replan(call, h.Version, h.Err) {
		c.end(call, callAgain, nil) // the same call and XID, otherwise cut
		return false
	}
	c.dropCredit(call)
	c.end(call, callDone, err)
	c.grantWaiting()
	return failed
}
