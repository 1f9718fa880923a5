package ext

import (
	"fmt"
	"time"
)

// Request is something that an extension asks the engine to change. The engine checks it; a *RequestError says what
// is wrong with it.
type Request interface{ String() string }

// SendLimit sets the most bytes of a Send to the peer, header included: what it has announced. 1024 to 262144.
type SendLimit int

// ReceiveSize sets the bytes of our receives. Its answer comes when every smaller receive has been consumed, so that
// the new size can be announced (D-22). Lowering it is done at once. 4096 to Facts.MaxRecv.
type ReceiveSize int

// BackwardLevel sets how much of backward calls is taken: at a client by us, at a server by its client (v2 draft §5.2.2).
type BackwardLevel uint8

// The values are those of rpcrdma2_bkreqsup.
const (
	BackwardNone    BackwardLevel = 0
	BackwardInline  BackwardLevel = 1
	BackwardGeneral BackwardLevel = 2
)

// Invalidation says whether the peer may be asked to invalidate our memory remotely.
type Invalidation bool

// CreditAlgorithm says how rdma_credit is read and written. For CreditsSplit the server's side asks first, and the client's when
// it knows that: a side that has asked reads both, and the server begins to write when the client has (docs/protocol.md).
type CreditAlgorithm uint8

const (
	// CreditsPlain: the number of calls that may be outstanding (RFC 8166 §3.3.1).
	CreditsPlain CreditAlgorithm = iota
	// CreditsSplit: its low half is what is newly granted, its high half the most that may be outstanding.
	CreditsSplit
)

// ExtraReceives posts that many receives beyond the credits and the windows, for messages that the extension lets the
// peer send. The number stands for the extension's all: a later request replaces it. 0 to 1024.
type ExtraReceives int

// Silence waits: its answer comes when nothing has passed on the connection, in either direction, for that long or up to a quarter
// longer, counted from the request at the earliest. 10 ms to 1 h. An extension has one at a time: a later request replaces it, and it is refused.
type Silence time.Duration

// GrantChange waits: its answer comes when what the peer may have outstanding by our grant is not what it has last
// been told, and no call of the peer's is under way whose answer would tell it. The engine looks once a tick. An extension
// has one at a time, as of Silence.
type GrantChange struct{}

// Limits of Silence.
const (
	MinSilence = 10 * time.Millisecond
	MaxSilence = time.Hour
)

func (n SendLimit) String() string       { return fmt.Sprintf("send limit %d", int(n)) }
func (n ReceiveSize) String() string     { return fmt.Sprintf("receive size %d", int(n)) }
func (l BackwardLevel) String() string   { return fmt.Sprintf("backward level %d", uint8(l)) }
func (i Invalidation) String() string    { return fmt.Sprintf("remote invalidation %t", bool(i)) }
func (a CreditAlgorithm) String() string { return fmt.Sprintf("credit algorithm %d", uint8(a)) }
func (n ExtraReceives) String() string   { return fmt.Sprintf("%d extra receives", int(n)) }

func (d Silence) String() string   { return fmt.Sprintf("silence of %v", time.Duration(d)) }
func (GrantChange) String() string { return "change of the grant" }

// RequestError is a Request that the engine does not grant.
type RequestError struct {
	Request Request
	Why     string
}

func (e *RequestError) Error() string { return fmt.Sprintf("%v: %s", e.Request, e.Why) }
