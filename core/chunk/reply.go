package chunk

import (
	"slices"

	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// WriteOp is one RDMA Write of a reply, into segment Seg of Write chunk Chunk from the segment's
// start: N > 0 bytes from Off of bulk item Bulk; or, with Chunk -1 (the Reply chunk) and
// Bulk -1, of the stream that the plan's Parts make (see Range).
type WriteOp struct {
	Chunk, Seg int
	Bulk       int
	Off, N     int
}

// ReplyPlan is how one reply travels. Its slices are reused by the next Plan.
type ReplyPlan struct {
	NoMsg  bool      // RDMA_NOMSG: the stream goes into the Reply chunk
	Pieces bool      // the stream is longer than one Send, and goes in several
	Parts  []Part    // the stream as it travels, in order: inline, or into the Reply chunk
	Len    int       // bytes of Parts with their pads
	Header int       // bytes of the transport header
	Writes []WriteOp // in the order in which they are posted, Reply chunk last
	// Returned are the chunk lists of the reply's header: segments copied from the
	// call with the lengths that were written (RFC 8166 §3.4.6, §4.3.2.2, §4.3.3).
	Returned wire.Lists

	moved []int
	segs  []wire.Segment // backs Returned
}

// Plan plans a reply from the lists of its call, which CheckCall has passed. move tells
// that the binding allows moving the results' bulk items; the i-th of them goes into the
// i-th Write chunk. The stream is reduced first and takes the Reply chunk only where it
// does not fit in one Send even so (RFC 8166 §3.5.3). The error is msg's own, a
// *ResourceError or a *PlanError; the plan is void then.
func (p *ReplyPlan) Plan(msg *xdr.Writer, move bool, l Limits, lists *wire.Lists) error {
	if err := msg.Err(); err != nil {
		return err
	}
	if msg.Len() > maxLen {
		return tooLong(msg.Len())
	}
	p.Writes, p.moved = p.Writes[:0], p.moved[:0]
	p.copyLists(lists)
	for i, it := range msg.Bulk() {
		if !move || i == len(lists.Writes) {
			break
		}
		if len(lists.Writes[i]) == 0 {
			continue // an empty chunk asks for this result inline (RFC 8166 §4.3.2.3)
		}
		// An item of no bytes consumes its chunk like any other: it comes back unused.
		if uint64(len(it.Data)) > lists.Writes[i].Len() {
			return &ResourceError{Write: uint32(i) + 1, Needed: uint32(len(it.Data))}
		}
		// The round-up is never written (RFC 8166 §3.4.6.2, D-28).
		p.fill(WriteOp{Chunk: i, Bulk: i, N: len(it.Data)}, lists.Writes[i], p.Returned.Writes[i])
		p.moved = append(p.moved, i)
	}
	p.Parts, p.Len = appendParts(p.Parts[:0], msg, p.moved)
	p.Header = headerLen(l.Version) - listsLen + p.Returned.Len()
	if p.Header > l.Send {
		return &PlanError{ErrHeader, p.Header, l.Send}
	}
	p.Pieces = l.pieces(p.Header, p.Len)
	p.NoMsg = p.Len > l.Send-p.Header && !p.Pieces
	if !p.NoMsg {
		return nil // an offered Reply chunk goes back with lengths of zero (D-31)
	}
	if uint64(p.Len) > lists.Reply.Len() {
		return &ResourceError{Needed: uint32(p.Len)}
	}
	p.fill(WriteOp{Chunk: -1, Bulk: -1, N: p.Len}, lists.Reply, p.Returned.Reply)
	return nil
}

// copyLists makes Returned the Write list and Reply chunk of the call with all lengths
// zero: what unused chunks look like.
func (p *ReplyPlan) copyLists(lists *wire.Lists) {
	n := len(lists.Reply)
	for _, c := range lists.Writes {
		n += len(c)
	}
	p.segs = slices.Grow(p.segs[:0], n) // once, so that the chunks share one array
	p.Returned.Reads = nil              // RFC 8166 §4.3.1
	p.Returned.Writes = p.Returned.Writes[:0]
	for _, c := range lists.Writes {
		p.Returned.Writes = append(p.Returned.Writes, p.copyChunk(c))
	}
	p.Returned.HasReply = lists.HasReply
	p.Returned.Reply = p.copyChunk(lists.Reply)
}

func (p *ReplyPlan) copyChunk(c wire.Chunk) wire.Chunk {
	at := len(p.segs)
	for _, s := range c {
		s.Length = 0
		p.segs = append(p.segs, s)
	}
	return p.segs[at:len(p.segs):len(p.segs)]
}

// fill spreads op.N bytes over the segments of a chunk, contiguously and in order
// (RFC 8166 §3.4.6), and notes in returned what each gets. The chunk is large enough.
func (p *ReplyPlan) fill(op WriteOp, offered, returned wire.Chunk) {
	for left := op.N; left > 0; op.Seg++ {
		op.N = int(min(uint64(left), uint64(offered[op.Seg].Length)))
		if op.N == 0 {
			continue // an empty segment, legal and useless
		}
		returned[op.Seg].Length = uint32(op.N)
		p.Writes = append(p.Writes, op)
		op.Off += op.N
		left -= op.N
	}
}
