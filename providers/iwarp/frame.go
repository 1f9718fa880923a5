package iwarp

import (
	"encoding/binary"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
)

// A frame is put together by  open (or begin), then copy and refer in any order, then end.
// Its CRC is summed up piece by piece; summed is how far in buf.

// room says whether the batch takes a frame with n bytes of payload.
func (o *outbound) room(n int, copied bool) bool {
	if o.size >= batchBytes || len(o.vec)+maxPieces+4 > maxVector {
		return false
	}
	need := mpa.LengthLen + ddp.UntaggedLen + 3 + mpa.CRCLen
	if copied {
		need += n
	}
	return need <= cap(o.buf)-len(o.buf)
}

// begin opens the frame of a Send, a Write or a response.
func (o *outbound) begin(it *item, n int, last bool) {
	if it.op.Tagged() {
		o.open(ddp.TaggedLen + n)
		o.buf = ddp.AppendTagged(o.buf, last, rdmap.Control(it.op), it.key, it.to+uint64(it.done))
		return
	}
	o.open(ddp.UntaggedLen + n)
	o.buf = ddp.AppendUntagged(o.buf, last, rdmap.Control(it.op), it.key, ddp.QueueSend, it.msn, uint32(it.done))
}

// open starts a frame around a ULPDU of n bytes.
func (o *outbound) open(n int) {
	o.summed, o.sum = len(o.buf), 0
	o.buf = binary.BigEndian.AppendUint16(o.buf, uint16(n))
	o.ulpdu = n
}

// copy puts b into the combine buffer.
func (o *outbound) copy(b []byte) {
	o.buf = append(o.buf, b...)
	o.stats.CopiedBytes += uint64(len(b))
}

// refer lets the stream take b from where it lies.
func (o *outbound) refer(b []byte, at place) {
	o.sumLoose()
	o.gatherLoose()
	if o.c.agreed.CRC {
		o.sum = mpa.Sum(o.sum, b)
	}
	o.vec, o.places = append(o.vec, b), append(o.places, at)
	if o.c.Tap != nil {
		o.parts = append(o.parts, b)
	}
}

// sumLoose sums up what was added to buf.
func (o *outbound) sumLoose() {
	b := o.buf[o.summed:]
	o.summed = len(o.buf)
	if o.c.agreed.CRC {
		o.sum = mpa.Sum(o.sum, b)
	}
	if o.c.Tap != nil && len(b) > 0 {
		o.parts = append(o.parts, b)
	}
}

// gatherLoose moves what was added to buf into vec; frames without a reference share one
// element.
func (o *outbound) gatherLoose() {
	if o.loose < len(o.buf) {
		o.vec, o.places = append(o.vec, o.buf[o.loose:len(o.buf):len(o.buf)]), append(o.places, place{})
		o.loose = len(o.buf)
	}
}

var pad [3]byte

// end closes the frame: pad and CRC, which is zero where none was agreed.
func (o *outbound) end() {
	o.buf = append(o.buf, pad[:mpa.Pad(o.ulpdu)]...)
	o.sumLoose()
	o.buf = mpa.AppendCRC(o.buf, o.sum)
	n := mpa.FPDULen(o.ulpdu)
	o.size += n
	o.queued += uint64(n)
	o.ends = append(o.ends, o.queued)
	o.stats.SentFrames++
	o.stats.SentBytes += uint64(n)
	if c := o.c; c.Tap != nil {
		o.parts = append(o.parts, o.buf[o.summed:])
		c.Show(verbs.LinkTCP, true, o.parts...)
		clear(o.parts)
		o.parts = o.parts[:0]
	}
}
