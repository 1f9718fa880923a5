package chunk

import (
	"math"

	"github.com/rpcrdma/rpcrdma/core/wire"
)

// RecvLimits are what this responder takes of one call.
type RecvLimits struct {
	// MaxReads and MaxWrites bound the chunks of each list; negative: no bound. A
	// Position-Zero Read chunk carries the message, not an argument: it is not counted.
	MaxReads, MaxWrites int
	// MaxSegs bounds the segments of one chunk; 0: no bound.
	MaxSegs int
	// MaxBytes bounds what all Read chunks together make us pull; 0: no bound
	// but memory's.
	MaxBytes uint64
	// Send is the bytes of our Send back; 0: no bound. The reply's header returns the Write
	// list and the Reply chunk: one that cannot be sent is refused before the call is executed.
	Send int
}

// CheckCall judges the chunk lists of a call before any memory is taken for them. h.Proc is
// its form, RDMA_MSG or RDMA_NOMSG (of a message that an operation wraps: the form it was wrapped
// in); payload is the bytes that follow the header. A *ListError tells what to answer with
// RDMA_ERROR; ErrPayload means GARBAGE_ARGS (D-37).
func CheckCall(h *wire.Header, payload int, lim RecvLimits) error {
	long := h.Proc == wire.NoMsg
	zero := len(h.Reads) > 0 && h.Reads[0].Position == 0
	switch {
	case long && !zero: // RFC 8166 §4.2.4: a chunk must hold the payload, and for a call only this one can
		return badList("NOMSG call without a position-zero read chunk")
	case !long && zero: // §3.5.3: that chunk is the message, which has come inline
		return badList("position-zero read chunk in a message with payload")
	case long && payload > 0 && h.Version != wire.Version1: // D-26
		return badList("bytes after a NOMSG header")
	}
	if err := checkWrites(h, lim); err != nil {
		return err
	}
	return checkReads(h, uint64(max(payload, 0)), lim)
}

func checkWrites(h *wire.Header, lim RecvLimits) error {
	if lim.MaxWrites >= 0 && len(h.Writes) > lim.MaxWrites {
		return tooMany(h, wire.ErrWriteChunks, lim.MaxWrites, "too many write chunks")
	}
	segs := len(h.Reply)
	for _, c := range h.Writes {
		segs = max(segs, len(c))
	}
	if lim.Send > 0 && headerLen(h.Version)-listsLen+replyLists(h).Len() > lim.Send {
		return tooMuch(h, "chunks to return are longer than a reply")
	}
	return checkSegs(h, segs, lim)
}

// replyLists are those that the reply returns.
func replyLists(h *wire.Header) *wire.Lists {
	return &wire.Lists{Writes: h.Writes, Reply: h.Reply, HasReply: h.HasReply}
}

func checkSegs(h *wire.Header, segs int, lim RecvLimits) error {
	if lim.MaxSegs > 0 && segs > lim.MaxSegs {
		return tooMany(h, wire.ErrSegments, lim.MaxSegs, "too many segments in a chunk")
	}
	return nil
}

// checkReads walks the Read list. Positions count in the unreduced stream (RFC 8166
// §3.4.5): a chunk takes the place of its bytes and their round-up, included in its length
// or not (§3.4.5.2). Sums have 64 bits (T-28): a list that overflowed them would not fit in memory.
func checkReads(h *wire.Header, payload uint64, lim RecvLimits) error {
	var (
		stream = payload // bytes of the reduced stream
		moved  uint64    // bytes, with round-up, of the chunks so far: position = offset in the reduced stream + moved
		end    uint64    // in the unreduced stream, of the last chunk
		bytes  uint64
		chunks int
		beyond bool
	)
	for i := 0; i < len(h.Reads); {
		at := h.Reads[i].Position
		n, next := readChunk(h.Reads, i)
		if err := checkSegs(h, next-i, lim); err != nil {
			return err
		}
		i = next
		if bytes += n; lim.MaxBytes > 0 && bytes > lim.MaxBytes || bytes > math.MaxInt {
			return tooMuch(h, "read chunks longer than accepted")
		}
		if at == 0 {
			if n == 0 { // §4.2.4: it must hold the payload stream
				return badList("empty position-zero read chunk")
			}
			stream = n // only the first can be, see CheckCall and the order below
			continue
		}
		if chunks++; lim.MaxReads >= 0 && chunks > lim.MaxReads {
			return tooMany(h, wire.ErrReadChunks, lim.MaxReads, "too many read chunks")
		}
		switch {
		case at%4 != 0:
			return badList("read chunk position is not a multiple of 4")
		case uint64(at) < end || i < len(h.Reads) && h.Reads[i].Position < at:
			return badList("read chunks overlap or are out of order")
		}
		beyond = beyond || uint64(at)-moved > stream
		rounded := n + -n&3
		moved += rounded
		end = uint64(at) + rounded
	}
	if beyond { // known once no fault of the header is left to find
		return ErrPayload
	}
	return nil
}

// readChunk is the length of the Read chunk that begins at segment i, and the segment
// behind it.
func readChunk(reads []wire.ReadSegment, i int) (n uint64, next int) {
	at := reads[i].Position
	for ; i < len(reads) && reads[i].Position == at; i++ {
		n += uint64(reads[i].Length)
	}
	return n, i
}

// tooMany is a list longer than we take: version 2 tells how long it may be (v2 draft §6.2.4).
func tooMany(h *wire.Header, code wire.Code, most int, what string) error {
	if h.Version == wire.Version1 {
		return &ListError{Body: wire.ErrorBody{Code: wire.ErrChunk}, What: what}
	}
	return &ListError{Body: wire.ErrorBody{Code: code, Max: uint32(most)}, What: what}
}

// tooMuch is more than we take in a way for which neither version has a code; version 2
// has one for the rest (v2 draft §6.2.4).
func tooMuch(h *wire.Header, what string) error {
	code := wire.ErrSystem
	if h.Version == wire.Version1 {
		code = wire.ErrChunk
	}
	return &ListError{Body: wire.ErrorBody{Code: code}, What: what}
}

// CheckReply judges the chunk lists of a reply, its form being h.Proc, against those that
// its call offered. payload is the bytes that follow the header. The error is a
// *ListError: the reply is to be discarded (RFC 8166 §4.5).
func CheckReply(h *wire.Header, offered *wire.Lists, payload int) error {
	if len(h.Reads) > 0 {
		return badList("read list in a reply") // RFC 8166 §4.3.1
	}
	// Responders return what they were offered (§3.4.6, §4.3.3). Those of version 1 that
	// leave out what they have not used do no harm.
	absent := h.Version == wire.Version1 && len(h.Writes) == 0
	if len(h.Writes) != len(offered.Writes) && !absent {
		return badList("write list is not the one offered")
	}
	for i, c := range h.Writes {
		if !returned(c, offered.Writes[i]) {
			return badList("write chunk is not the one offered, or has holes")
		}
	}
	switch {
	case h.HasReply && (!offered.HasReply || !returned(h.Reply, offered.Reply)):
		return badList("reply chunk is not the one offered, or has holes")
	case !h.HasReply && offered.HasReply && h.Version != wire.Version1:
		return badList("reply chunk not returned")
	}
	long := h.Proc == wire.NoMsg
	used := h.HasReply && h.Reply.Len() > 0
	switch {
	case long && !used: // §4.2.4
		return badList("NOMSG reply without a reply chunk")
	case !long && used: // §4.3.3
		return badList("reply chunk used by a message with payload")
	case long && payload > 0 && h.Version != wire.Version1: // D-26
		return badList("bytes after a NOMSG header")
	}
	return nil
}

// returned tells that c is the chunk offered, filled contiguously and in order (RFC 8166
// §3.4.6): full segments, perhaps a shorter one, empty ones. Its memory then has no holes.
func returned(c, offered wire.Chunk) bool {
	if len(c) != len(offered) {
		return false
	}
	short := false
	for i, s := range c {
		o := offered[i]
		if s.Handle != o.Handle || s.Offset != o.Offset || s.Length > o.Length || short && s.Length > 0 {
			return false
		}
		short = short || s.Length < o.Length
	}
	return true
}
