package props

import (
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// basic is what the two basic properties mean on one connection (v2 draft §5.2). Like exchange it does no I/O: it says
// what is to be asked of the engine.
type basic struct {
	client bool
	size   uint32            // RBSIZ as we announce it
	most   uint32            // to which it may be raised
	aim    uint32            // to which it is being raised; 0: it is not
	sure   bool              // the peer knows size: no UPDPROP of it is on its way
	floor  uint32            // the most that the peer may take it for
	turn   uint64            // of raising: an earlier one's result does not count
	level  ext.BackwardLevel // BRS as we announce it
	peer   uint32            // the peer's RBSIZ
	wanted uint32            // a lower one that we have asked for and that is not decided; 0: none
	limit  uint32            // of our Sends, as the engine was last told
}

func newBasic(f ext.Facts, most int) basic {
	if most == 0 || most > f.MaxRecv {
		most = f.MaxRecv
	}
	return basic{client: f.Client, size: uint32(f.RecvSize), most: uint32(most),
		level: f.Backward, peer: uint32(f.SendLimit), limit: uint32(f.SendLimit)}
}

// resize is the answer to a peer that wants our receives to be of another size, and what is to be asked of the engine
// for it (D-22). A lower size is in force at once: larger receives do no harm, and the peer keeps to it from its request
// on. A higher one is true only when all smaller receives have been consumed: the answer is the present size, an
// update follows.
func (b *basic) resize(want uint32) (c ext.Change, request ext.Request) {
	to := max(want, DefaultReceiveSize)
	switch {
	case want == b.size && b.aim == 0:
		return ext.Change{Kind: ext.Done}, nil
	case to <= b.size:
		c = ext.Change{Kind: ext.Done}
		if to != want {
			if to == b.size && b.aim == 0 {
				return ext.Change{Kind: ext.Rejected}, nil // it is as low as it may be
			}
			c = ReceiveSize.Instead(to)
		}
		if b.sure { // its request says that it keeps to this
			b.floor = to
		}
		b.size, b.aim = to, 0
		b.turn++
		return c, b.receives(to)
	}
	to = min(to, b.most)
	if to <= b.size {
		return ext.Change{Kind: ext.Rejected}, nil
	}
	b.raise(to)
	return ReceiveSize.Instead(b.size), b.receives(to)
}

// receives asks for receives of a size, but for none smaller than the peer may believe ours to be.
func (b *basic) receives(size uint32) ext.Request { return ext.ReceiveSize(max(size, b.floor)) }

// believed says whether the peer knows the size that we last announced.
func (b *basic) believed(it bool) {
	b.sure, b.floor = it, max(b.floor, b.size)
	if it {
		b.floor = b.size
	}
}

// raise begins raising; raised is told by turn.
func (b *basic) raise(to uint32) (turn uint64) {
	b.aim = to
	b.turn++
	return b.turn
}

// raised tells whether the engine's answer makes the size that it was raised to true now.
func (b *basic) raised(turn uint64, err error) bool {
	if turn != b.turn || b.aim == 0 {
		return false
	}
	if err == nil {
		b.size = b.aim
	}
	b.aim = 0
	return err == nil
}

// told takes the peer's value of a basic property and gives what is to be asked of the engine. ok is false where the
// value is ignored (D-22).
func (b *basic) told(id uint32, data []byte) (r ext.Request, ok bool) {
	switch v := decodeUint32(data); {
	case id == RBSIZ && v < minSendLimit:
		return nil, false
	case id == RBSIZ:
		b.peer = v
		return b.limited(), true
	case id == BRS && !b.client: // it is a client's readiness (v2 draft §5.2.2, D-23)
		return ext.BackwardLevel(v), true
	}
	return nil, true
}

// asking comes when a request to the peer for another receive size is sent: a lower one limits our Sends from now on
// (v2 draft §5.2.1). settled comes when it has been dealt with.
func (b *basic) asking(size uint32) ext.Request {
	b.wanted = max(size, minSendLimit)
	return b.limited()
}

func (b *basic) settled() ext.Request {
	b.wanted = 0
	return b.limited()
}

// limited sets what our Sends are limited to; nil where that stays.
func (b *basic) limited() ext.Request {
	limit := min(b.peer, maxSendLimit)
	if b.wanted != 0 {
		limit = min(limit, b.wanted)
	}
	if limit == b.limit {
		return nil
	}
	b.limit = limit
	return ext.SendLimit(limit)
}

// change tells why one of our own basic properties cannot be changed to a value; nil where it can.
func (b *basic) change(id, v uint32) error {
	switch {
	case id == RBSIZ && v <= b.size:
		// The peer may be sending as much as was announced: only it can ask for less (v2 draft §5.2.1).
		return &AskError{ReceiveSize.Prop(), id, fmt.Sprintf("it is %d now and can be lowered at the peer's request only", b.size)}
	case id == RBSIZ && v > b.most:
		return &AskError{ReceiveSize.Prop(), id, fmt.Sprintf("receives here grow to %d at most", b.most)}
	case id == BRS && !b.client:
		return &AskError{Backward.Prop(), id, "it is a client's property"}
	}
	return nil
}
