package chunk

import (
	"math"

	"github.com/rpcrdma/rpcrdma/core/wire"
)

// Bytes of a transport header's parts (RFC 8166 §4.1.2, §4.3).
const (
	listsLen   = 3 * 4      // Read list and Write list ended, Reply chunk present or not
	version2   = 2 * 4      // rdma_direction, rdma_inv_handle (v2 draft §6.2)
	segmentLen = 4 + 4 + 8  // handle, length, offset
	readLen    = 4 + 4 + 16 // one more entry, position, segment
	writeHead  = 4 + 4      // one more chunk, count of segments
	replyHead  = 4          // count of segments: the word "present" is in listsLen
)

// maxLen is the longest message, chunk or segment: rdma_position and rdma_length have 32
// bits. Where int has no more it is less.
const maxLen = math.MaxUint32 & math.MaxInt

// headerLen is the bytes of a header whose chunk lists are empty.
func headerLen(version uint32) int {
	if version == wire.Version1 {
		return wire.FixedLen + listsLen
	}
	return wire.FixedLen + version2 + listsLen
}

// pad is the round-up of an item of n bytes (RFC 4506 §3).
func pad(n int) int { return -n & 3 }

// Segments appends to dst the lengths of the segments that a chunk of n bytes is
// split into: none for an empty chunk. A plan has counted them with its own SegLen and MaxSegs.
func (l Limits) Segments(dst []int, n int) []int {
	for size := l.segment(n); n > 0; n -= size {
		dst = append(dst, min(n, size))
	}
	return dst
}

// segment is the length of each segment but the last of a chunk of n bytes. Where
// MaxSegs makes them grow, they stay multiples of SegLen and so keep its alignment.
func (l Limits) segment(n int) int {
	size := maxLen
	if l.SegLen > 0 {
		size = min(size, l.SegLen)
	}
	if l.MaxSegs > 0 && ceil(n, size) > l.MaxSegs {
		k := ceil(ceil(n, l.MaxSegs), size)
		if k > maxLen/size {
			return maxLen
		}
		size *= k
	}
	return size
}

// segments is how many segments a chunk of n bytes has.
func (l Limits) segments(n int) int { return ceil(n, l.segment(n)) }

// readSize is the bytes that a Read chunk of n bytes adds to a header.
func (l Limits) readSize(n int) int { return l.segments(n) * readLen }

// ceil is n/d rounded up, of n >= 0 and d > 0, without an addition that could wrap.
func ceil(n, d int) int {
	q := n / d
	if n%d != 0 {
		q++
	}
	return q
}
