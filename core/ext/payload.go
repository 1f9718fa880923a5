package ext

// Wrapper is the Session of a payload extension. Its methods are called where the message is: by callers, by handlers and
// within the provider's Complete, several at a time. They must be quick, must not block and must not call Conn but for
// Attach, Consumed and Send. One that panics, or the release of a message, ends its call and the connection.
//
// A message goes in pieces only where it does not fit in one Send; where several payload extensions are loaded, by the
// first one declared whose reach it is within. A message that has an attachment (Conn.Attach) goes with that and in no
// pieces: one message is wrapped once.
type Wrapper interface {
	Session
	// Reach is the most bytes of RPC message, without chunks, that it carries to the peer and from it now. What is within the
	// inline threshold goes as MSG, without it. 0: it carries none. recv must be no more than what the peer is known to
	// carry: calls then offer no Reply chunk for replies within it.
	Reach() (send, recv int)
	// Wrap cuts a message of n bytes into pieces, appended to into. The last one is of an operation that declares Wraps,
	// and holds 1 to last bytes; those before it are of one that declares Part, at most part bytes each; all follow on one another. Info
	// need only be good until the next call with the same into. No pieces: the message goes as if there were no extension.
	Wrap(into []Piece, xid uint32, n, part, last int) []Piece
	// Unwrap takes one of them: From is 0 and To the length of payload. payload and p.Info are views
	// that are valid until it returns; whole, if it is not nil, is the RPC
	// message, which stays as it is until release has been called, once, from any goroutine. Where whole is nil and the operation
	// declares Wraps, payload itself is the message, or the chunks hold it. An operation that is refused, of direction CALL,
	// is answered so; a reply that is refused is dropped.
	Unwrap(p Piece, xid uint32, reply bool, payload []byte) (whole []byte, release func(), v Verdict)
}

// Piece is a Send of a wrapped RPC message.
type Piece struct {
	Op string
	// Info is the extension's bytes: of a Part, its rdma_optinfo.
	Info     []byte
	From, To int // of the message
}

// Cutter is a Session with a layout of its own of the rdma_optinfo of operations that declare Wraps: Cut gives the bytes
// before the chunk lists, a multiple of 4. It is a pure function, and info is a view that is valid until it returns. What is sent is Info as it is, then the lists.
type Cutter interface {
	Cut(op string, info []byte) (n int, err error)
}
