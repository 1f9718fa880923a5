package ext

import "time"

// Extension is a feature that a program has loaded. It is shared by all connections: safe for concurrent use.
type Extension interface {
	// Declare says what it is. It is asked once, when the extension is loaded, and always says the same.
	Declare() Declaration
	// Connect begins a connection: version 2 stands there from now on. It must not block. A nil Session:
	// the extension has nothing to do with this connection, which then treats its operations as not supported (a
	// plugin that is down, D-38); a connection that it gates ends.
	Connect(Conn) Session
}

// Class says where an extension can run.
type Class uint8

const (
	Control Class = iota // compiled in, or as a plugin
	Payload              // sees RPC messages: compiled in only
)

func (c Class) String() string {
	if c == Payload {
		return "payload"
	}
	return "control"
}

// Declaration is what an extension says of itself.
type Declaration struct {
	// Name is its name in configuration, logs and errors: lower-case letters, digits, '-', at most 32.
	Name string
	// Version is its own, for people.
	Version string
	Class   Class
	// Document names the text that assigns its ids where they lie outside the experimental
	// range (v2 draft §4.1, §5.4); an extension without one keeps to that range.
	Document string
	Ops      []Op
	Props    []Prop
	// Needs are the names of extensions without which it does not work (v2 draft §4.3).
	Needs []string
	// Carrier: it exchanges the properties of all extensions with the peer; its Session is a Carrier. One
	// extension of a program may be.
	Carrier bool
	// Gate: no RPC but NULL is carried until the Session opens the connection (D-3).
	Gate   bool
	Limits Limits
}

// Limits bound what an extension costs others.
type Limits struct {
	// Info is the most bytes of an operation's rdma_optinfo; longer ones are BAD_XDR. Default 4096.
	Info int
	// Queue is the most messages, property events and results of one connection that wait for the extension. What
	// does not fit is treated as if the extension were late. Default 64.
	Queue int
}

// Op is one operation: an rdma_opttype, an rdma_proc, or both as two encodings of the same (D-1).
type Op struct {
	Name string
	// Type is its rdma_opttype; 0: it has none.
	Type uint32
	// Proc is its rdma_proc, 6 or above; 0: it has none. Where an operation has both, it is sent by Proc unless
	// Outgoing.Optional, and answered in the form in which it came.
	Proc uint32
	// From says who sends it.
	From Sender
	// Answer is the name of the operation that answers this one; its own name where the answer has the same id and
	// direction REPLY. Empty: it is one-way.
	Answer string
	// Reply: its direction is REPLY, and nothing answers it. One that is another's Answer is sent by Conn.Answer only
	// (RESPROP), any other by Conn.Send.
	Reply bool
	// Payload says what follows its header.
	Payload PayloadRule
	// Info is the most bytes of the extension's own in one that Wraps or is a Part. Default Limits.Info.
	Info int
	// Credit: rdma_credit counts in it, as in an RPC message of its direction; else it is ignored (D-9).
	Credit bool
	// Window is how many of it, as sent by the peer, may be unconsumed: as many receives are posted for them beyond the credits.
	// Default 1; of an operation that is only sent in answer, that of its question. At most 256.
	Window int
	// Proves: what the peer has consumed of it is told by the extension, through Conn.Consumed, and by nothing else. A Part
	// must: the engine's own proof at a server is calls that come later, and those may wait for a reply that waits for places.
	Proves bool
	// Deadline is how long the extension may take to answer one; then Late is. Default 1 s, at most 1 min.
	Deadline time.Duration
	// Late is the verdict when it takes longer, or is down. Default: Refuse(System) where there is an answer,
	// else nothing is done (D-38).
	Late Verdict
}

// Sender says who sends an operation.
type Sender uint8

const (
	Either Sender = iota
	Client
	Server
)

// PayloadRule says what follows the header of an operation (v2 draft §4.3, §6.2.1).
type PayloadRule uint8

const (
	NoPayload PayloadRule = iota // nothing; what follows all the same is BAD_XDR (D-26)
	// Wraps: an RPC message, whose chunk lists lie in rdma_optinfo behind the extension's bytes:
	// opaque<>, then rpcrdma2_chunk_lists. It costs the credit of its RPC.
	Wraps
	// Part: a piece of an RPC message, not its last. Class Payload. Its whole rdma_optinfo is the extension's. It takes
	// a place of its window, and its rdma_xid and direction are the RPC's.
	Part
)

// Prop is a transport property (v2 draft §5.1.1, §5.4.1).
type Prop struct {
	ID   uint32
	Name string
	Type PropType
	// Default is the value in force where none was given, as XDR.
	Default []byte
	// Min and Max bound the value of a Uint32 or an Enum; both 0: it is not bounded. A value outside is refused as one that
	// is malformed is (D-13), unless Lenient.
	Min, Max uint32
	Lenient  bool
	// MaxLen bounds an Opaque. Default 1024.
	MaxLen int
	// Mutable: the value may change while the connection lives, and may be asked to.
	Mutable bool
}

// PropType is the XDR type of a property's value.
type PropType uint8

const (
	Uint32 PropType = iota + 1
	Bool
	Enum
	Opaque // opaque<>: the count and round-up bytes are part of the value
)

func (t PropType) String() string {
	switch t {
	case Uint32:
		return "uint32"
	case Bool:
		return "bool"
	case Enum:
		return "enum"
	case Opaque:
		return "opaque"
	}
	return "no type"
}
