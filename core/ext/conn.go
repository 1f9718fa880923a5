package ext

import "net/netip"

// Conn is the engine's half of one connection, for one extension. It is safe for concurrent use and never
// blocks; after Session.Closed it does nothing.
type Conn interface {
	// Facts are what is known of the connection now.
	Facts() Facts
	// Send sends an operation of the extension's, when the operation's window at the peer allows; what
	// waits keeps its order. done may be nil; it is called once, on the Session's goroutine.
	Send(m Outgoing, done func(Outcome))
	// Answer is the verdict on a Message.
	Answer(t Token, v Verdict)
	// Request asks the engine to change something of the connection; done may be nil. See Request.
	Request(r Request, done func(error))
	// Offer sets the value, as XDR, of a property that the extension declares. What is offered before Connect
	// returns, or before a Starter has started, is part of the first exchange; what is offered later is an update. fixed: it will not
	// change. nil takes it back to its default.
	Offer(id uint32, value []byte, fixed bool)
	// Ask asks the peer to change its value of a property that the extension declares. done gets what became
	// of it: Unsupported where nobody carries properties, or the peer does not know it.
	Ask(id uint32, value []byte, done func(Change))
	// Settle answers Owner.Requested and Carrier.Asked.
	Settle(t Token, c Change)
	// Attach wraps each call of ours, from the next one on, into the operation op, which declares Wraps, with
	// info as the extension's bytes; nil ends it. Attach only what the peer has announced that it takes: where it
	// refuses the operation all the same, the call goes again without it, and so do those that follow. No bytes, but not nil:
	// only calls that bring bytes of their own for op are wrapped. Of several extensions' attachments the call's own
	// goes, else that of the extension declared first: one message is wrapped once. What is attached before all extensions
	// have their sessions is so once they have.
	Attach(op string, info []byte)
	// Consumed says that n messages of op, sent by us, are known to have been consumed by the peer:
	// their places in its window are free. Where op declares Proves nothing else tells; for others the engine has a proof of
	// its own (D-8).
	Consumed(op string, n int)
	// Open opens the connection that the extension gates, on our side. A client's opens when the server's is known to be open:
	// what comes there earlier is refused.
	Open()
	// Fail ends the connection. Where the extension gates it, and has not opened it, calls end with err; else they go on on
	// another connection, as when one is lost.
	Fail(err error)
}

// Facts are what is known of a connection.
type Facts struct {
	ID     uint64 // within the process
	Client bool   // we dialled
	// Version is the protocol version that stands: 2.
	Version       uint32
	Local, Remote netip.AddrPort
	// SendLimit is the most bytes of a Send to the peer now, RecvSize the bytes of our receives that may be announced
	// now, MaxRecv what Request(ReceiveSize) may raise them to.
	SendLimit, RecvSize, MaxRecv int
	// Credits is what the connection asks for or grants.
	Credits int
	// Backward is the level of backward calls that stands: at a client, what it takes, which is none where it serves nothing.
	Backward BackwardLevel
	// Gated: some extension has not opened the connection yet.
	Gated bool
}

// Outgoing is an operation to send.
type Outgoing struct {
	Op   string
	Info []byte // copied before Send returns
	// Optional asks for the form RDMA2_OPTIONAL where the operation has two.
	Optional bool
}

// Outcome is what became of an operation sent.
type Outcome struct {
	Kind OutcomeKind
	XID  uint32 // that it was sent with; 0: it was not
	Code Code   // with Refused
	// Info and Credit are the answer's, with Answered.
	Info     []byte
	Credit   uint32
	Optional bool // it came as RDMA2_OPTIONAL
}

// OutcomeKind says how an operation sent has ended.
type OutcomeKind uint8

const (
	// Consumed: it was one-way, and the peer is known to have taken it from its receives.
	Consumed OutcomeKind = iota + 1
	// Answered: its answer is here.
	Answered
	// Refused: the peer's RDMA_ERROR names it.
	Refused
	// Lost: the connection ended first.
	Lost
	// TimedOut: no answer came within the operation's deadline and 10 s. One that comes later goes to Message.
	TimedOut
	// NotSent: the declaration does not allow it, it is longer than the peer's receives, or too many wait already.
	NotSent
)

func (k OutcomeKind) String() string {
	switch k {
	case Consumed:
		return "consumed"
	case Answered:
		return "answered"
	case Refused:
		return "refused"
	case Lost:
		return "lost with the connection"
	case TimedOut:
		return "not answered in time"
	case NotSent:
		return "not sent"
	}
	return "no outcome"
}
