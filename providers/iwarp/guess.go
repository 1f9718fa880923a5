package iwarp

import (
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/providers/soft"
)

// Behind a tagged payload that is not its message's last there most likely comes the
// next segment of that message, as long as this one, and its place is known. So one system call
// reads, beyond the rest of this payload,
//
//	buf[:gap]       this frame's pad and CRC, and the next one's header
//	the memory      where the next payload belongs if the guess is right
//	buf[gap+size:]  what lies behind it
//
// and nothing of the two payloads is copied. If the header is another, what came into the
// memory is copied into the hole of buf, and it is as if it had been read there. That may
// have spoilt what the memory held: of an RDMA Read's sink all is going to be written, a window
// must be verbs.Scratch, and nothing that the peer has placed further on is ever run over.
type guess struct {
	size  int // of the next payload; 0: no guess
	gap   int
	first int  // the element of vec where it begins
	right bool // the header is as expected
	came  int  // bytes of the payload that are placed
	tail  int  // bytes behind it, at buf[gap+size:]
	sum   uint32
}

// expect adds the rest of the elements to vec, which ends with this payload's. held is the window
// of a Write. It returns false when there is nothing to expect.
func (in *inbound) expect(held *soft.Slot) bool {
	g, h := &in.guess, in.header()
	if !h.Tagged() || h.Last() {
		return false
	}
	var off, room int
	if held != nil {
		off, room = int(h.TO()-held.Start)+in.size, len(held.Mem)
		if held.Access&verbs.Scratch == 0 || held.Reached > off {
			return false // what lies there must stay, or is a part of the message itself
		}
	} else {
		off, room = in.read.X.sink.Offset(h)+in.size, in.read.N
	}
	size := min(in.size, room-off)
	if size < directMin {
		return false
	}
	g.size = size
	g.gap = mpa.Pad(len(h)+in.size) + mpa.CRCLen + in.headLen
	in.vec = append(in.vec, in.buf[:g.gap])
	g.first = len(in.vec)
	if held != nil {
		in.vec = append(in.vec, held.Mem[off:off+g.size])
	} else {
		in.vec = in.read.Slices(in.vec, off, g.size)
	}
	in.vec = append(in.vec, in.buf[g.gap+g.size:][:behindDirect])
	return true
}

// judge takes the n bytes behind this payload, while their place is held, and returns how many
// of them lie in buf.
func (in *inbound) judge(n int, held *soft.Slot) int {
	g := &in.guess
	g.right = false
	if n <= g.gap {
		return n
	}
	g.came = min(n-g.gap, g.size)
	g.tail = n - g.gap - g.came
	h, next := in.header(), in.buf[g.gap-in.headLen:g.gap]
	k := ddp.Header(next[mpa.LengthLen:])
	g.right = mpa.ULPDULen(next) == len(h)+g.size && k.Follows(h) && k.TO() == h.TO()+uint64(in.size)
	if g.right && rdmap.Op(h) == rdmap.ReadResponse {
		g.right = k.Last() == (in.read.X.sink.Offset(k)+g.size == in.read.N)
	}
	if !g.right {
		to := in.buf[g.gap : g.gap+g.came]
		for _, b := range in.vec[g.first:] {
			if len(to) == 0 {
				break
			}
			to = to[copy(to, b):]
		}
		in.stats.CopiedBytes += uint64(g.came)
		return n
	}
	if held != nil {
		held.Reach(k.TO(), g.came)
	}
	if in.c.agreed.CRC {
		g.sum = mpa.Sum(0, next)
		left := g.came
		for _, b := range in.vec[g.first:] {
			b = b[:min(left, len(b))]
			g.sum = mpa.Sum(g.sum, b)
			if left -= len(b); left == 0 {
				break
			}
		}
	}
	return g.gap
}

// follow begins the frame that was guessed, when the one before it has ended.
func (in *inbound) follow() {
	g := &in.guess
	g.right = false
	in.direct = true
	copy(in.head[:], in.buf[in.r:in.w])
	in.size, in.left, in.sum = g.size, g.size-g.came, g.sum
	in.r, in.w = g.gap+g.size, g.gap+g.size+g.tail
}
