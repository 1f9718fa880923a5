package ext

// Wrapper is the Session of a payload extension. Its methods are called where the message is: by callers, by handlers and
// within the provider's Complete, several at a time. They must be quick, must not block and must not call Conn but for
// Attach, Consumed and Send.
type Wrapper interface {
	Session
	// Reach is the most bytes of RPC message, without chunks, that it carries to the peer and from it now. What is within the
	// inline threshold goes as MSG, without it. 0: it carries none.
	Reach() (send, recv int)
	// Wrap cuts a message of n bytes into pieces, appended to into. The last one is of an operation that declares Wraps,
	// and holds at most last bytes; those before it are of one that declares Part, at most part bytes each.
	Wrap(into []Piece, xid uint32, n, part, last int) []Piece
	// Unwrap takes one of them. payload is valid until it returns; whole, if it is not nil, is the RPC
	// message, which stays as it is until release has been called.
	Unwrap(p Piece, xid uint32, reply bool, payload []byte) (whole []byte, release func(), v Verdict)
}

// Piece is a Send of a wrapped RPC message.
type Piece struct {
	Op       string
	Info     []byte // the extension's bytes
	From, To int    // of the message
}

// Cutter is a Wrapper with a layout of rdma_optinfo of its own: Cut gives the bytes before the chunk lists. It is a pure function.
type Cutter interface {
	Cut(op string, info []byte) (n int, err error)
}
