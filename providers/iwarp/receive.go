package iwarp

import (
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/providers/soft"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

const (
	// directMin is how much of a payload must be missing for it to be read from the stream
	// straight to where it belongs: below it one copy within the cache costs less than the
	// system call that saves it.
	directMin = 16 << 10
	// behindDirect is how much is read ahead behind such a payload: the header of what
	// follows, or a few small frames. What of it is the next payload's is copied.
	behindDirect = 1 << 10
	// lookAhead is the buffer for headers and small payloads. Any frame fits whole, and what
	// guess needs beside one.
	lookAhead = 72 << 10
)

// inbound is the input side. It belongs to whoever is reading, and all state lies here: who
// reads may leave in the middle of a frame.
type inbound struct {
	c    *conn
	buf  []byte // read ahead: buf[r:w]
	r, w int

	// The frame whose payload is being placed directly; left of its bytes are missing, and
	// then its pad and CRC. Each read looks its memory up anew.
	direct  bool
	head    [mpa.LengthLen + ddp.UntaggedLen]byte
	headLen int
	size    int // of the payload
	left    int
	sum     uint32

	guess guess

	queues  [ddp.Queues]ddp.Inbound
	message rdmap.Message // the Send that arrives
	recv    qp.Receive    // its
	rtr     mpa.RTR       // messages that may come first and are not for the ULP
	heard   bool          // a frame has come
	gated   bool          // the connection waits for it
	answers bool          // responses were queued
	resumed bool          // a Read has ended: what waited for it may leave
	read    *work         // the oldest Read under way, if known

	vec      [][]byte
	err      error
	fault    *failure
	done     []verbs.Completion // not reported
	reported bool               // since receive began: whoever drives is to be asked
	stats    verbs.Stats        // since the last publish
	tryFn    func() bool        // try, bound once
}

func (in *inbound) init(c *conn) {
	in.c = c
	in.done = make([]verbs.Completion, 0, batchSize)
	in.rtr = c.agreed.RTR
	in.tryFn = in.try
	in.gated = !c.initiator
}

// header is the DDP header of the frame that is being placed.
func (in *inbound) header() ddp.Header {
	return ddp.Header(in.head[mpa.LengthLen:in.headLen])
}

// try reads, within stream.Read, until there is something to report or to wait for.
func (in *inbound) try() bool {
	for {
		in.attempt()
		if in.err == stream.ErrAgain {
			in.giveBack()
			in.count()
			return false
		}
		in.frames()
		if len(in.done) > 0 || in.reported || in.err != nil || in.fault != nil || in.answers || in.resumed ||
			in.gated && in.heard || in.c.wanted.Load() {
			return true
		}
	}
}

// attempt is one system call.
func (in *inbound) attempt() {
	in.err = nil
	in.borrow()
	in.vec = in.vec[:0]
	in.guess.size = 0
	var held *soft.Slot
	if in.left > 0 {
		in.r, in.w = 0, 0 // all of it was placed
		if held = in.target(); in.fault != nil {
			return
		}
		if !in.expect(held) {
			in.vec = append(in.vec, in.buf[:behindDirect])
		}
	} else {
		in.vec = append(in.vec, in.buf[in.w:])
	}
	n, err := in.c.stream.Readv(in.vec)
	in.stats.ReadCalls++
	in.stats.RecvBytes += uint64(n)
	if in.left > 0 {
		placed := min(n, in.left)
		if in.c.agreed.CRC {
			for i, k := 0, placed; k > 0; i++ {
				b := in.vec[i][:min(k, len(in.vec[i]))]
				in.sum = mpa.Sum(in.sum, b)
				k -= len(b)
			}
		}
		in.left -= placed
		n -= placed
	}
	if in.guess.size > 0 {
		n = in.judge(n, held)
	}
	if held != nil {
		held.Unlock()
	}
	clear(in.vec)
	in.w += n
	in.err = err
}

// target puts what is missing of the payload's memory into vec. A window is returned locked.
func (in *inbound) target() *soft.Slot {
	h, at := in.header(), in.size-in.left
	switch rdmap.Op(h) {
	case rdmap.Write:
		s, mem, r := in.c.Windows.Resolve(h.STag(), h.TO()+uint64(at), uint64(in.left), verbs.RemoteWrite)
		if r != soft.Granted {
			in.fault = &failure{fault: refusals[r], header: h, size: len(h) + in.size}
			return nil
		}
		in.vec = append(in.vec, mem)
		s.Reach(h.TO(), in.size)
		return s
	case rdmap.ReadResponse:
		in.vec = in.read.Slices(in.vec, in.read.X.sink.Offset(h)+at, in.left)
	default:
		off := int(h.MO()) + at
		in.vec = append(in.vec, in.recv.Buf[off:off+in.left])
	}
	return nil
}

// Receive implements qp.Input: it waits for input, handles every frame that is there whole, and reports. It returns
// when something was reported, or when somebody wants the role or the connection's end.
func (c *conn) Receive() {
	in := &c.in
	in.reported = false
	err := c.stream.Read(in.tryFn)
	if err == nil {
		err = in.err
	}
	if len(in.done) > 0 {
		in.report()
	} else {
		c.Report(nil)
	}
	if in.gated && in.heard {
		in.gated = false
		c.ungate()
	}
	if in.answers || in.resumed {
		in.answers, in.resumed = false, false
		c.resume()
	}
	switch {
	case in.fault != nil:
		c.Mu.Lock()
		c.fail(in.fault)
		c.Mu.Unlock()
	case err != nil:
		c.inputEnded(err)
	}
}

// frames handles what lies in the look-ahead, as far as frames are whole or can be placed
// directly.
func (in *inbound) frames() {
	for in.fault == nil {
		if len(in.done) == cap(in.done) {
			in.report()
			in.reported = true
		}
		if in.direct {
			if in.left > 0 {
				return
			}
			if !in.endDirect() {
				in.compact()
				return
			}
			if in.guess.right && in.fault == nil {
				in.follow()
			}
			continue
		}
		b := in.buf[in.r:in.w]
		if len(b) < mpa.LengthLen {
			if in.r > 0 {
				in.compact()
			}
			return
		}
		n := mpa.ULPDULen(b)
		whole := mpa.FPDULen(n)
		if len(b) < whole {
			if in.beginDirect(b, n) {
				continue
			}
			if len(in.buf)-in.r < whole {
				in.compact()
			}
			return
		}
		in.r += whole
		in.whole(b[:whole], n)
	}
}

func (in *inbound) compact() {
	in.w = copy(in.buf, in.buf[in.r:in.w])
	in.r = 0
}

// whole handles a frame with a ULPDU of n bytes.
func (in *inbound) whole(b []byte, n int) {
	in.stats.RecvFrames++
	c := in.c
	if c.Tap != nil {
		c.Show(verbs.LinkTCP, false, b)
	}
	if c.agreed.CRC && mpa.Sum(0, b[:len(b)-mpa.CRCLen]) != mpa.CRC(b[len(b)-mpa.CRCLen:]) {
		in.fault = &failure{fault: rdmap.FaultMPACRC}
		return
	}
	h, payload, ok := ddp.Cut(b[mpa.LengthLen : mpa.LengthLen+n])
	if !ok {
		in.fault = &failure{fault: rdmap.FaultCatastrophic}
		return
	}
	if !in.check(h, len(payload)) || !in.place(h, payload) {
		return
	}
	in.finish(h, payload, len(payload))
}

// beginDirect begins to place a frame of which b is there, if enough is missing. It is
// refused when something about the frame is wrong: whether the peer is to blame is known
// only when its CRC has come. With a tap frames are wanted whole.
func (in *inbound) beginDirect(b []byte, n int) bool {
	if len(b) <= mpa.LengthLen {
		return false
	}
	headLen := mpa.LengthLen + ddp.HeaderLen(b[mpa.LengthLen])
	size := mpa.LengthLen + n - headLen
	here := len(b) - headLen
	if here < 0 || size-here < directMin || in.c.Tap != nil {
		return false
	}
	h := ddp.Header(b[mpa.LengthLen:headLen])
	if !in.check(h, size) || !in.reachable(h, size) {
		if in.fault != nil {
			in.fault = nil
		}
		return false
	}
	in.direct, in.headLen, in.size, in.left = true, headLen, size, size
	copy(in.head[:], b[:headLen])
	if in.c.agreed.CRC {
		in.sum = mpa.Sum(0, b)
	}
	in.r += headLen
	here = min(here, in.w-in.r)
	if !in.place(in.header(), in.buf[in.r:in.r+here]) {
		return true
	}
	in.r += here
	in.left -= here
	return true
}

// endDirect ends such a frame when its pad and CRC are there.
func (in *inbound) endDirect() bool {
	n := in.headLen - mpa.LengthLen + in.size
	pad := mpa.Pad(n)
	if in.w-in.r < pad+mpa.CRCLen {
		return false
	}
	b := in.buf[in.r : in.r+pad+mpa.CRCLen]
	in.r += len(b)
	in.direct = false
	in.stats.RecvFrames++
	if in.c.agreed.CRC && mpa.Sum(in.sum, b[:pad]) != mpa.CRC(b[pad:]) {
		in.fault = &failure{fault: rdmap.FaultMPACRC}
		return true
	}
	in.finish(in.header(), nil, in.size)
	return true
}

// report reports what came in.
func (in *inbound) report() {
	in.count()
	in.c.Report(in.done)
	in.done = in.done[:0]
}

// count adds what was counted to the connection's counters.
func (in *inbound) count() {
	c := in.c
	c.Mu.Lock()
	c.Count(&in.stats)
	c.Counts.Unfinished = uint64(in.w - in.r)
	if in.direct {
		c.Counts.Unfinished += uint64(in.headLen + in.size - in.left)
	}
	c.Mu.Unlock()
}
