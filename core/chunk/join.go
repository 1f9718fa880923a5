package chunk

import (
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// ReadChunk is one chunk of a Read list.
type ReadChunk struct {
	Position int // in the unreduced stream; 0: the message itself
	First, N int // its segments in the Read list
	Len      int // bytes, all segments
}

// ReadChunks appends the chunks of a Read list that CheckCall has passed: segments that
// follow one another at one position (RFC 8166 §3.4.5).
func ReadChunks(dst []ReadChunk, reads []wire.ReadSegment) []ReadChunk {
	for i := 0; i < len(reads); {
		n, next := readChunk(reads, i)
		dst = append(dst, ReadChunk{Position: int(reads[i].Position), First: i, N: next - i, Len: int(n)})
		i = next
	}
	return dst
}

// JoinCall makes of a call what xdr.Reader.Reset takes. chunks are those of its Read list,
// data what was pulled of each, inline what follows the header. Moved items are appended
// to dst. Whether they fit the stream is found out as it is decoded (D-37).
func JoinCall(dst []xdr.Moved, h *wire.Header, chunks []ReadChunk, data [][]byte, inline []byte) (stream []byte, moved []xdr.Moved) {
	stream = inline
	if h.Proc == wire.NoMsg {
		stream = nil // bytes after a NOMSG header of version 1 are ignored (D-26)
	}
	for i, c := range chunks {
		if c.Position == 0 {
			stream = data[i]
			continue
		}
		dst = append(dst, xdr.Moved{Position: c.Position, Data: data[i]})
	}
	return stream, dst
}

// JoinReply makes of a reply what xdr.Reader.Reset takes. returned are its chunk lists, which
// CheckReply has passed; writes is the memory of each offered Write chunk and reply that of
// the Reply chunk, whole and contiguous however many segments it was offered in; inline is
// what follows the header. into, as long as the caller has destinations, may be shorter or longer
// than writes: where no chunk was offered or used, the item ends up there all the same. Moved items
// are appended to dst.
func JoinReply(dst []xdr.Moved, returned *wire.Lists, writes [][]byte, reply, inline []byte, into [][]byte) (stream []byte, moved []xdr.Moved) {
	stream = inline
	if n := returned.Reply.Len(); n > 0 { // only in RDMA_NOMSG, see CheckReply
		stream = reply[:n]
	}
	for i := range max(len(returned.Writes), len(into)) {
		m := xdr.Moved{Position: xdr.InOrder}
		if i < len(returned.Writes) {
			m.Data = writes[i][:returned.Writes[i].Len()]
		}
		if i < len(into) {
			m.Into = into[i]
		}
		dst = append(dst, m)
	}
	return stream, dst
}
