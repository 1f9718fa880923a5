package ext

import "time"

// Session is an extension's half of one connection. The engine calls it, and the functions that it gave to Conn, one at
// a time and in order, on a goroutine that is neither the connection's reader nor a caller's. A call that takes long
// holds up this extension on this connection and nothing else.
//
// A Session may also be an Owner, a Carrier, a Watcher, a Wrapper or a Starter.
type Session interface {
	// Message takes an operation of the peer's that is not in answer to one sent. Where it has a
	// token it is to be answered: by Conn.Answer, at any time before the operation's deadline, which runs from when it
	// came; one-way operations by Accept or Refuse. Messages of the same operation come one after the other has been
	// answered.
	Message(m Message)
	// Closed is the last call: the connection has ended. err is nil where it ended in order. The end of whom the
	// connection belongs to, a client or a listener, waits until it has returned.
	Closed(err error)
}

// Starter is a Session that has not done all of its beginning when Connect returns: one in another process. What it
// offers until it has is part of the first exchange of properties too.
type Starter interface {
	// Starting is the first call, right after Connect. Carrier.Begin waits until done has been called, from any goroutine,
	// or until most is over; most is at most a second. Nothing else waits. done does not block; later calls of it do nothing.
	Starting(done func()) (most time.Duration)
}

// Watcher is a Session that wants to see the bytes attached to the RPCs it declares.
type Watcher interface {
	// Attached comes after the RPC has gone to its handler. What finds the queue full is lost and counted.
	Attached(xid uint32, op string, info []byte)
}

// Message is an operation that has come.
type Message struct {
	Op     string // its name in the declaration
	XID    uint32
	Credit uint32
	// Reply: its direction is REPLY, and no message of ours is known by its XID.
	Reply bool
	// Optional: it came as RDMA2_OPTIONAL, where it has two encodings.
	Optional bool
	// Info is rdma_optinfo, or what follows rdma_proc; it is the Session's to keep.
	Info []byte
	// Token names it to Conn.Answer; 0: its direction is REPLY, and there is nothing to answer.
	Token Token
}

// Token names a question of the engine's within its connection. It is good for one answer; a later one, or one
// for another connection's, is ignored and counted.
type Token uint64

// Verdict is the answer to a Message.
type Verdict struct {
	Kind VerdictKind
	// Info is that of the answering operation, with Answer.
	Info []byte
	// Code is an RDMA_ERROR's, with Refuse: BadXDR, InvalidOption or System.
	Code Code
}

// VerdictKind is what is done with a Message.
type VerdictKind uint8

const (
	Default VerdictKind = iota // as declared
	Accept                     // it has been taken; nothing is sent
	Answer                     // Info is sent as the answer
	Refuse                     // an RDMA_ERROR is sent, where one may be (D-12); else it is counted
)

// Code is an error code of version 2 (v2 draft §6.2.4).
type Code uint32

const (
	BadXDR        Code = 2
	InvalidProc   Code = 3
	InvalidOption Code = 9
	System        Code = 10
)

// Unsupported tells whether the peer does not know the operation: INVALID_PROC and INVALID_OPTION mean the same (D-2).
func (c Code) Unsupported() bool { return c == InvalidProc || c == InvalidOption }

func (c Code) String() string {
	switch c {
	case BadXDR:
		return "RDMA2_ERR_BAD_XDR"
	case InvalidProc:
		return "RDMA2_ERR_INVALID_PROC"
	case InvalidOption:
		return "RDMA2_ERR_INVALID_OPTION"
	case System:
		return "RDMA2_ERR_SYSTEM"
	}
	return "another error"
}
