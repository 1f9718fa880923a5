package engine

import (
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// chunkLimits are what a peer has said that it takes of one call (v2 draft §6.2.4): learned from its refusals,
// good for the connection.
type chunkLimits struct {
	reads, writes int // chunks of a list; negative: not known
	segs          int // of a chunk; 0: not known
}

// maxReplans bounds how often a call is planned anew on one connection, whatever its peer says.
const maxReplans = 8

// replan tells whether the peer's refusal is one that another plan answers: fewer chunks, fewer segments, or,
// where the caller allows it (D-33), more room. Each plan must go beyond what was sent: a peer that refuses that as
// well gets no third one like it. Called with mu held.
func (c *Conn) replan(call *call, version uint32, e wire.ErrorBody) bool {
	if !e.Code.Retryable(version) || call.replans >= maxReplans {
		return false
	}
	h, l := &call.head, &c.learned
	most := int(min(e.Max, wire.MaxSegments))
	switch e.Code {
	case wire.ErrReadChunks:
		if most >= argumentChunks(h.Reads) {
			return false
		}
		l.reads = most // 0: a Position-Zero Read chunk (D-34)
	case wire.ErrWriteChunks:
		if most >= len(h.Writes) {
			return false
		}
		l.writes = most // 0: the Reply chunk
	case wire.ErrSegments:
		if most == 0 || most >= longestChunk(&h.Lists) {
			return false
		}
		l.segs = most
	case wire.ErrWriteResource:
		i := int(e.Index) - 1
		if e.Index == 0 || uint64(e.Index) > uint64(len(h.Writes)) || uint64(e.Needed) <= h.Writes[i].Len() || int64(e.Needed) > int64(call.Grow) {
			return false
		}
		call.growWrite, call.growTo = i, int(e.Needed)
	case wire.ErrReplyResource:
		most := call.Grow
		if call.recv > defaultSize { // planned to come inline while the peer, as it asks us to have shorter receives, no longer sends so long
			most = max(most, call.recv)
		}
		most = max(most, call.replyReach) // planned to come in pieces, which the peer's extension has not made of it
		if uint64(e.Needed) <= h.Reply.Len() || int64(e.Needed) > int64(most) {
			return false
		}
		call.minReply = int(e.Needed)
	}
	call.replans++
	return true
}

// grow gets a longer destination for a result that did not fit. Called without mu.
func (c *Conn) grow(call *call) error {
	if call.growTo == 0 {
		return nil
	}
	mem, err := c.ep.getMemory(call.growTo)
	if err != nil {
		return err
	}
	call.grown = append(call.grown, mem)
	call.Into[call.growWrite] = transport.Dest{Buf: mem.Bytes(), Mem: &mem.Memory}
	call.growTo = 0
	return nil
}

// dropGrown gives back what grow took. Nothing can reach it any more.
func (call *call) dropGrown() {
	for i, m := range call.grown {
		m.Free()
		call.grown[i] = nil
	}
	call.grown = call.grown[:0]
}

// loosen lets a result that came inline be longer than its destination.
func (call *call) loosen(moved []xdr.Moved) {
	for i := range moved {
		moved[i].Loose = call.Grow > 0
	}
}

// argumentChunks is how many Read chunks carry arguments: the message itself, at position zero, is none.
func argumentChunks(reads []wire.ReadSegment) (n int) {
	for i, s := range reads {
		if s.Position != 0 && (i == 0 || reads[i-1].Position != s.Position) {
			n++
		}
	}
	return n
}

// longestChunk is the most segments that any chunk has.
func longestChunk(l *wire.Lists) int {
	most, run := len(l.Reply), 0
	for i, s := range l.Reads {
		if i > 0 && l.Reads[i-1].Position != s.Position {
			run = 0
		}
		run++
		most = max(most, run)
	}
	for _, w := range l.Writes {
		most = max(most, len(w))
	}
	return most
}
