package iwarp

import (
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/providers/soft"
)

const (
	// combineSize is the buffer for headers and small payloads. It holds one frame of any
	// length, so that a payload in countless pieces can always be copied.
	combineSize = 128 << 10
	// copyMax is how long a frame's payload may be to be copied next to its header: below
	// it an iovec costs the kernel more than the copy costs us.
	copyMax = 4 << 10
	// maxPieces is in how many pieces a payload may lie to be sent from where it is.
	maxPieces = 16
	// batchBytes is when a batch, which one system call is given, is full: a MiB with its
	// frames and the Send behind it is one call. Less would let the peer work on one batch
	// while the CRC of the next is summed up, but costs more calls and wake-ups than that
	// gains (BenchmarkWrite1M).
	batchBytes = 1<<20 + 64<<10
	maxVector  = 1000 // below the kernel's 1024
)

// item is one message on its way out, ours or the answer to a peer's Read.
type item struct {
	op    rdmap.Opcode
	local bool   // an Invalidate
	work  *work  // Send, Write, Invalidate
	key   uint32 // the header's STag; of a Send with Invalidate the one to invalidate
	to    uint64
	n     int
	read  rdmap.Read // a Read Request's body; of a response, what was asked

	begun     bool
	done      int // bytes encoded
	seg, used int // where that is in the work's Segs
	msn       uint32
}

// outbound is the output side. It belongs to whoever is pumping.
type outbound struct {
	c                *conn
	lent             *batch // of which what follows is made; nil: nothing is under way
	untagged, tagged int    // payload of one frame at most

	todo []item // gathered; all before at is encoded
	at   int
	turn bool
	msn  uint32 // of the last Send

	// The batch: frames encoded and not taken by the stream yet. vec points into buf and
	// into memory; what buf holds from loose on is not in vec yet.
	buf     []byte
	loose   int
	vec     [][]byte
	next    int // the first of vec that is not taken whole
	size    int
	ends    []uint64 // position after each frame; started is where the first begins
	started uint64

	// The elements of vec that lie in windows of ours (Reads are answered) may have to
	// move: places tells of each where.
	wins   []held
	places []place

	sent          works // in the batch, or before it
	queued, taken uint64
	served        int
	failure       *failure
	err           error
	try, wait     func() bool
	stats         verbs.Stats // since the last publish

	// The frame that is being put together (frame.go).
	ulpdu  int
	summed int
	sum    uint32
	parts  [][]byte // for the tap
}

// held is a window that the batch takes bytes from.
type held struct {
	s     *soft.Slot
	key   uint32
	moves uint32
	left  int // elements of vec that the stream has not taken
}

// place is where an element of vec ends: at off in a window; 0: in none.
type place struct{ win, off int }

// maxHeld is how many windows one system call takes bytes from: the segments of a chunk are a window each, and
// a call for each of 128 of 8 KiB cost three times what their bytes do.
const maxHeld = 64

// window is s's number among those of the batch; -1: there is no room for it.
func (o *outbound) window(s *soft.Slot) int {
	for i := len(o.wins) - 1; i >= 0; i-- {
		if o.wins[i].s == s {
			return i
		}
	}
	if len(o.wins) == maxHeld {
		return -1
	}
	o.wins = append(o.wins, held{s: s, key: s.Key(), moves: s.Moves})
	return len(o.wins) - 1
}

func (o *outbound) init(c *conn, fpdu int) {
	o.c = c
	o.tagged = maxPayload(fpdu)
	o.untagged = evenly(mpa.MULPDU(fpdu) - ddp.UntaggedLen)
	o.try = func() bool { o.attempt(); return true }
	o.wait = func() bool { o.attempt(); return o.err != stream.ErrAgain }
}

func (o *outbound) more() bool    { return o.at < len(o.todo) }
func (o *outbound) written() bool { return o.queued == o.taken }

// encode fills a batch from what was gathered.
func (o *outbound) encode() {
	o.buf, o.loose = o.buf[:0], 0
	clear(o.vec)
	clear(o.wins)
	o.vec, o.places, o.wins, o.ends = o.vec[:0], o.places[:0], o.wins[:0], o.ends[:0]
	o.next, o.size, o.started = 0, 0, o.queued
	for o.more() {
		it := &o.todo[o.at]
		if !o.message(it) {
			break
		}
		if w := it.work; w != nil {
			w.X.end = o.queued
			o.sent.Push(w)
		}
		*it = item{}
		o.at++
	}
	o.gatherLoose()
}

// message encodes it, or as much of it as the batch has room for: then it returns false.
func (o *outbound) message(it *item) bool {
	switch {
	case it.local:
		o.c.Windows.Revoke(it.key) // of a window that has ended it is none
		return true
	case it.op == rdmap.ReadResponse:
		return o.response(it)
	case it.op == rdmap.ReadRequest:
		return o.request(it)
	}
	w := it.work
	if !it.begun {
		it.begun = true
		if !it.op.Tagged() {
			o.msn++
			it.msn = o.msn
		}
	}
	limit := o.untagged
	if it.op.Tagged() {
		limit = o.tagged
	}
	for {
		n := min(it.n-it.done, limit)
		copied := n <= copyMax || len(w.Segs)-it.seg > maxPieces
		if !o.room(n, copied) {
			return false
		}
		last := it.done+n == it.n
		o.begin(it, n, last)
		for left := n; left > 0; {
			s := &w.Segs[it.seg]
			b := s.R.Bytes()[s.Off+it.used : s.Off+s.N]
			b = b[:min(len(b), left)]
			if copied {
				o.copy(b)
			} else if len(b) > 0 {
				o.refer(b, place{})
			}
			left -= len(b)
			if it.used += len(b); it.used == s.N {
				it.seg, it.used = it.seg+1, 0
			}
		}
		it.done += n
		o.end()
		if last {
			return true
		}
	}
}

// request encodes a Read Request.
func (o *outbound) request(it *item) bool {
	if !o.room(copyMax, true) {
		return false
	}
	o.open(ddp.UntaggedLen + rdmap.ReadLen)
	o.buf = ddp.AppendUntagged(o.buf, true, rdmap.Control(rdmap.ReadRequest), 0, ddp.QueueRead, it.msn, 0)
	o.buf = it.read.Append(o.buf)
	o.end()
	return true
}

// response encodes the answer to a Read. The window is looked up anew for each batch, and
// held while its bytes are summed up or copied.
func (o *outbound) response(it *item) bool {
	if it.n == 0 { // allowed with any STag (RFC 5040 §5.2)
		if !o.room(0, true) {
			return false
		}
		o.begin(it, 0, true)
		o.end()
		o.served++
		return true
	}
	if !o.room(min(it.n-it.done, o.tagged), it.n-it.done <= copyMax) {
		return false
	}
	s, mem, r := o.c.Windows.Resolve(it.read.SourceSTag, it.read.SourceTO, uint64(it.n), verbs.RemoteRead)
	if r != soft.Granted {
		o.failure = &failure{fault: refusals[r], read: it.read.Append(nil)}
		return false
	}
	defer s.Unlock()
	base := int(it.read.SourceTO - s.Start)
	for {
		n := min(it.n-it.done, o.tagged)
		copied, win := n <= copyMax, -1
		if !o.room(n, copied) {
			return false
		}
		if !copied {
			if win = o.window(s); win < 0 {
				return false
			}
		}
		b := mem[it.done : it.done+n]
		last := it.done+n == it.n
		o.begin(it, n, last)
		if copied {
			o.copy(b)
		} else {
			o.wins[win].left++
			o.refer(b, place{win, base + it.done + n})
		}
		it.done += n
		o.end()
		if last {
			o.served++
			return true
		}
	}
}
