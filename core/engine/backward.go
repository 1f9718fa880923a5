package engine

import (
	"errors"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

var (
	errBackwardNone  = &transport.BackwardError{Why: "the client takes none (level none)"}
	errBackwardOff   = &transport.BackwardError{Why: "no receives are kept for the replies (backward credits)"}
	errBackwardEarly = &transport.BackwardError{Why: "the client has not called yet, so no version stands"}
)

// SetBackward implements transport.Backlink.
func (c *Conn) SetBackward(l transport.BackwardLevel) error {
	switch {
	case l == transport.BackwardDefault:
		l = transport.BackwardInline
	case l > transport.BackwardGeneral:
		return &ConfigError{"backward level", "want none, inline or general"}
	}
	if c.client && l > transport.BackwardNone && c.allows() == 0 {
		return &ConfigError{"backward level", "none: the connection has no receives for backward calls"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level = l
	if !c.client {
		c.learned = chunkLimits{reads: -1, writes: -1} // it may have refused chunks at its former level
	}
	return nil
}

// Backward is the connection's level, as Config or SetBackward has it: it implements transport.Backlink.
func (c *Conn) Backward() transport.BackwardLevel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.level
}

// asks and allows are the calls in flight that this side wants, as requester, and allows, as
// responder. Forward and backward calls are counted apart, and each has its receives (RFC 8167 §4): at a
// client those of asks take forward replies and those of allows backward calls.
func (c *Conn) asks() int {
	if c.client {
		return c.cfg.Credits
	}
	return max(c.cfg.Backward, 0)
}

func (c *Conn) allows() int {
	switch {
	case !c.client:
		return c.cfg.Credits
	case c.cfg.Serve == nil:
		return 0
	}
	return max(c.cfg.Backward, 0)
}

// mayCallBack tells why this server may not call its client now. Called with mu held.
func (c *Conn) mayCallBack() error {
	switch {
	case c.asks() == 0:
		return errBackwardOff
	case c.level == transport.BackwardNone:
		return errBackwardNone
	case c.stands() == 0: // a server never speaks first
		return errBackwardEarly
	}
	return nil
}

// inlineOnly tells whether backward calls may have no chunks.
func (c *Conn) inlineOnly(version uint32, level transport.BackwardLevel) bool {
	return version == wire.Version1 || level != transport.BackwardGeneral
}

var errNoChunks = errors.New("chunks in a backward call")

// noChunks answers a backward call with chunks where none are taken. Version 2 can tell which were too many
// but for those that carry a whole message (D-34).
func noChunks(h *wire.Header) wire.ErrorBody {
	switch {
	case h.Version == wire.Version1:
		return wire.ErrorBody{Code: wire.ErrChunk}
	case len(h.Reads) > 0 && h.Reads[0].Position > 0:
		return wire.ErrorBody{Code: wire.ErrReadChunks}
	case len(h.Writes) > 0:
		return wire.ErrorBody{Code: wire.ErrWriteChunks}
	}
	return wire.ErrorBody{Code: wire.ErrSystem}
}

// callable is what the admission of a call depends on. Within Complete, without mu: forward calls take no lock for it.
func (c *Conn) callable() (Negotiation, transport.BackwardLevel) {
	if !c.client {
		return c.neg, transport.BackwardNone
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.neg, c.level
}

// called notes the version of the peer's first valid call. At a server it is the one that stands from then
// on (D-4). At a client it confirms the version of its first call, before the reply to that: the server
// would not have called in another (v2 draft §7). It grants nothing.
func (c *Conn) called(version uint32) {
	ev := NegEvent{Kind: NegCalled, Version: version}
	if c.client {
		ev.Kind = NegReply
	}
	c.mu.Lock()
	var act NegAction
	if c.neg, act = c.neg.Step(ev); act == NegOpen && c.client {
		c.cfg.Versions.settled(c.cfg.Peer, version, c.neg.Max)
	}
	c.mu.Unlock()
	if act == NegOpen {
		c.ext.begin(version)
		c.event(obs.Event{Kind: obs.Negotiated, Arg: int64(version)})
	}
}

// Whose call a message belongs to.
const (
	ours   = true
	theirs = false
)

// pick is the counter for a message of a call of ours, or of the peer's.
func (c *Conn) pick(mine bool, forward, backward *uint64) *uint64 {
	if mine == c.client {
		return forward
	}
	return backward
}
