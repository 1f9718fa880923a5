package chunk

import (
	"cmp"
	"slices"

	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Limits are what the connection and the peer allow one message.
type Limits struct {
	Version uint32
	// Send is the bytes of one Send towards the peer, header included: the inline
	// threshold of this direction (RFC 8166 §3.3.2).
	Send int
	// MoveAbove keeps bulk items of up to so many bytes inline where they fit; larger
	// ones, and those that do not fit, are moved. 0 moves whatever is not empty.
	MoveAbove int
	// MaxReads and MaxWrites bound the chunks of each list; negative: no bound. 0 reads: a call that
	// does not fit goes as a Position-Zero Read chunk, which does not count here; 0 writes: results
	// come in the Reply chunk (D-34).
	MaxReads, MaxWrites int
	// MaxSegs bounds the segments of one chunk; 0: no bound.
	MaxSegs int
	// SegLen splits chunks into segments of so many bytes at most; 0: one segment a
	// chunk. MaxSegs wins: segments grow where there would be too many.
	SegLen int
	// LongMore allows a Position-Zero Read chunk together with other Read chunks (RFC 8166 §3.5.3, D-29).
	LongMore bool
	// Extra is the bytes by which the header is longer than that of RDMA_MSG: an operation wraps the message.
	Extra int
	// Reach is the most bytes of RPC message that an extension carries in several Sends. What does not fit in one, and has no
	// item above MoveAbove, then goes without Read chunks, or without the Reply chunk; 0: there is none.
	Reach int
	// Inline allows no chunk of any kind, neither in the call nor offered for its reply: a backward call
	// whose receiver takes none (RFC 8167 §5.3).
	Inline bool
}

// CallPlan is how one call travels. Its slices are reused by the next Plan.
type CallPlan struct {
	NoMsg  bool   // RDMA_NOMSG: the stream goes as the Position-Zero Read chunk
	Pieces bool   // the stream is longer than one Send, and goes in several
	Parts  []Part // the stream as it travels, in order; without the moved items
	Len    int    // bytes of Parts with their pads
	Moved  []int  // bulk items that go as Read chunks, by index, in order
	Header int    // bytes of the transport header, all segments counted

	order []int // bulk items that may be moved, largest first
}

// ReplySpec is what the caller expects of a reply (binding and destinations).
type ReplySpec struct {
	// Writes are the bytes of each Write chunk to offer, in the order of the eligible
	// results; 0: that result is wanted inline (RFC 8166 §4.3.2.3).
	Writes []int
	// Max is the bytes of the largest possible reply stream, without the results that
	// Writes has room for; 0: unknown, small.
	Max int
	// MaxWhole is the same with every result inline, for when no Write chunk can be
	// offered; 0: Max and what Writes holds.
	MaxWhole int
	// Reach is the most bytes of a reply's stream that the responder can send without chunks, beyond those of one Send; 0: no more.
	Reach int
	// Chunk is the least bytes of a Reply chunk, offered even where the reply seems to fit inline: the
	// responder has asked for it (D-33); 0: it has not.
	Chunk int
}

// Offer is what a call offers for its reply. Writes is a part of ReplySpec.Writes.
type Offer struct {
	Writes []int // bytes of each Write chunk; 0: an empty chunk, without segments (version 2 only)
	Reply  int   // bytes of the Reply chunk; 0: none
}

// Plan plans a call: which bulk items travel as Read chunks and which inline, or the
// whole message as a Position-Zero Read chunk; and what is offered for the reply. move
// tells that the binding allows moving the arguments' bulk items; recv is the largest
// Send that we take, header included. The error is msg's own or a *PlanError.
func (p *CallPlan) Plan(msg *xdr.Writer, move bool, l Limits, spec ReplySpec, recv int) (Offer, error) {
	if err := msg.Err(); err != nil {
		return Offer{}, err
	}
	if msg.Len() > maxLen {
		return Offer{}, tooLong(msg.Len())
	}
	offer, header, err := l.offer(spec, recv)
	if err != nil {
		return Offer{}, err
	}
	header += l.Extra
	bulk := msg.Bulk()
	sure, most := p.candidates(bulk, move, l)
	k := 0
	if p.NoMsg, p.Pieces = false, l.pieces(header, msg.Len()) && sure == 0; !p.Pieces {
		k = l.short(msg, p.order, header, sure, most)
		if p.NoMsg = k < 0; p.NoMsg && l.Inline {
			return Offer{}, &PlanError{ErrInline, header + msg.Len(), l.Send}
		} else if p.NoMsg {
			k = l.long(msg, p.order, header, sure)
		}
	}
	p.Moved = append(p.Moved[:0], p.order[:k]...)
	slices.Sort(p.Moved)
	p.Parts, p.Len = appendParts(p.Parts[:0], msg, p.Moved)
	p.Header = header
	for _, i := range p.Moved {
		p.Header += l.readSize(len(bulk[i].Data))
	}
	if p.NoMsg {
		p.Header += l.readSize(p.Len)
	}
	if p.Header > l.Send {
		return Offer{}, &PlanError{ErrHeader, p.Header, l.Send}
	}
	return offer, nil
}

// pieces tells whether a stream of n bytes behind such a header goes in several Sends.
func (l Limits) pieces(header, n int) bool {
	return n <= l.Reach && n > l.Send-header && header < l.Send
}

// candidates lists in p.order, largest first, the items that may become Read chunks:
// at most most of them, of which the first sure are above MoveAbove. An empty item makes
// no chunk.
func (p *CallPlan) candidates(bulk []xdr.Bulk, move bool, l Limits) (sure, most int) {
	p.order = p.order[:0]
	if !move || l.MaxReads == 0 || l.Inline {
		return 0, 0
	}
	for i := range bulk {
		if len(bulk[i].Data) > 0 {
			p.order = append(p.order, i)
		}
	}
	slices.SortStableFunc(p.order, func(a, b int) int {
		return cmp.Compare(len(bulk[b].Data), len(bulk[a].Data))
	})
	most = len(p.order)
	if l.MaxReads > 0 {
		most = min(most, l.MaxReads)
	}
	for sure < most && len(bulk[p.order[sure]].Data) > l.MoveAbove {
		sure++
	}
	return sure, most
}

// short is how many items of order to move so that header and stream fit in one
// Send, or -1. The large ones first; more where the rest does not fit; fewer where
// their segments take more room than the items would.
func (l Limits) short(msg *xdr.Writer, order []int, header, sure, most int) int {
	size := header + msg.Len()
	gain := func(i int) int { n := len(msg.Bulk()[i].Data); return n + pad(n) - l.readSize(n) }
	for _, i := range order[:sure] {
		size -= gain(i)
	}
	up := size
	for k := sure; ; k++ {
		if up <= l.Send {
			return k
		}
		if k == most {
			break
		}
		up -= gain(order[k])
	}
	for k := sure - 1; k >= 0; k-- {
		if size += gain(order[k]); size <= l.Send {
			return k
		}
	}
	return -1
}

// long is how many items of order travel as Read chunks beside a Position-Zero Read
// chunk: none unless LongMore, because the Linux server corrupts such calls (D-29).
// Fewer where the header has no room for their segments.
func (l Limits) long(msg *xdr.Writer, order []int, header, sure int) int {
	if !l.LongMore {
		return 0
	}
	k, stream := sure, msg.Len()
	for _, i := range order[:k] {
		n := len(msg.Bulk()[i].Data)
		stream -= n + pad(n)
		header += l.readSize(n)
	}
	for ; k > 0 && header+l.readSize(stream) > l.Send; k-- {
		n := len(msg.Bulk()[order[k-1]].Data)
		stream += n + pad(n)
		header -= l.readSize(n)
	}
	return k
}

// offer plans what a call offers for its reply, and the bytes of its header without
// the Read list.
func (l Limits) offer(spec ReplySpec, recv int) (o Offer, header int, err error) {
	if spec.Max > maxLen {
		return Offer{}, 0, tooLong(spec.Max)
	}
	for _, n := range spec.Writes {
		if n < 0 || n > maxLen {
			return Offer{}, 0, tooLong(n)
		}
	}
	if l.Inline { // who answers with more than fits is refused by its own plan
		spec = ReplySpec{}
	}
	writes, stream := l.offeredWrites(spec)
	if stream > maxLen-3 {
		return Offer{}, 0, tooLong(stream)
	}
	header = headerLen(l.Version)
	for _, n := range writes {
		header += writeHead + l.segments(n)*segmentLen
	}
	// RFC 8166 §4.3.3: a Reply chunk whenever the largest reply, whose header returns
	// the Write list, is larger than what we receive.
	stream = max(stream, min(spec.Chunk, maxLen-3))
	stream += pad(stream)
	inline := header+stream <= recv || stream <= spec.Reach
	if stream > 0 && (!inline || spec.Chunk > 0) {
		o.Reply = stream
		header += replyHead + l.segments(stream)*segmentLen
	}
	if header > recv { // the reply's header is as long as the call's, but for the Read list
		return Offer{}, 0, &PlanError{ErrHeader, header, recv}
	}
	o.Writes = writes
	return o, header, nil
}

// offeredWrites is the Write list to offer and the largest stream of a reply to it.
func (l Limits) offeredWrites(spec ReplySpec) (writes []int, stream int) {
	writes = spec.Writes
	for len(writes) > 0 && writes[len(writes)-1] == 0 {
		writes = writes[:len(writes)-1] // results behind the last chunk come inline anyway
	}
	few := l.MaxWrites < 0 || len(writes) <= l.MaxWrites
	// An empty chunk keeps the place of a result that is wanted inline; version 1
	// servers refuse it (D-30), so there everything comes inline.
	if few && (l.Version != wire.Version1 || !slices.Contains(writes, 0)) {
		return writes, spec.Max
	}
	stream = spec.MaxWhole
	if stream == 0 {
		stream = spec.Max
		for _, n := range writes {
			stream += n + pad(n)
		}
	}
	return nil, stream
}
