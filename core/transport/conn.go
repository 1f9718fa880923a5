package transport

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Conn is a connection, at either end. Its methods are safe for concurrent use.
type Conn interface {
	// ID numbers the connection within the process, as in its events.
	ID() uint64
	// Version is the version of RPC-over-RDMA that both ends use; 0: none yet, or none ever.
	Version() uint32
	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	// Done is closed when the connection has ended.
	Done() <-chan struct{}
	// Err is why it ended: nil before, and after an orderly end.
	Err() error
	// Closing reports whether the connection takes no calls any more: it has ended, or is about to.
	Closing() bool
	// Serving is the number of requests received and not yet answered.
	Serving() int
	// Counters is a snapshot.
	Counters() obs.Counters
	// Fabric fills s with the provider's counters, where there is a provider.
	Fabric(s *verbs.Stats)
	// Close ends the connection in order: what was sent leaves first, on tcp within a minute. Close does
	// not wait for that.
	Close() error
	// Abort ends the connection at once.
	Abort(err error)
}

// Link is a connection that carries our calls.
type Link interface {
	Conn
	// Do sends call and waits for its reply. Errors: the context's, ErrTimeout, *LostError, *OrphanError, *XIDInUseError, ErrTooShort,
	// and what the implementation adds. In each case no peer can reach the caller's memory any more.
	Do(ctx context.Context, call *Call) error
}

// Backlink is a server's connection, or a client's, on which calls go both ways (RFC 8167).
type Backlink interface {
	Link
	// Client reports whether we have dialled: then our calls go forward, and the peer's backward.
	Client() bool
	// KeepOpen lifts the default limit on idleness: more is expected of the connection than calls of the peer's.
	KeepOpen()
	// Backward is how much of backward calls the client takes.
	Backward() BackwardLevel
	// SetBackward sets it while the connection is up. At a client: what it takes from now on; the caller has told the
	// server, or will when this has returned. At a server: what its client has said. It counts for calls that come, or
	// are planned, after it.
	SetBackward(BackwardLevel) error
}

// BackwardLevel is how much of backward calls, those that a server makes to its client, the client takes:
// rpcrdma2_bkreqsup of the v2 draft §5.2.2. In version 1 the program above says whether there is any
// support (RFC 8167 §6), and BackwardGeneral is BackwardInline.
type BackwardLevel uint8

const (
	BackwardDefault BackwardLevel = iota // BackwardInline (D-23)
	BackwardNone                         // none is sent, and one that comes is dropped
	BackwardInline                       // inline messages, without chunks
	BackwardGeneral                      // all that forward calls can be; version 2
)

func (l BackwardLevel) String() string {
	switch l {
	case BackwardNone:
		return "none"
	case BackwardInline, BackwardDefault:
		return "inline"
	case BackwardGeneral:
		return "general"
	}
	return fmt.Sprintf("level %d", uint8(l))
}

// Service is what takes a peer's calls on one connection.
type Service struct {
	// Serve takes a request. It must not block: it may run on the goroutine that reads the connection.
	Serve func(*Request)
	// Busy, if not nil, reports that calls wait for long to be served. It must not block.
	Busy func() bool
	// Ended, if not nil, is called once when the connection has ended and no request comes any more; err is why, nil
	// after an orderly end. It may be called before the connection is returned by Accept or Dial, and is not
	// called where they return an error.
	Ended func(c Conn, err error)
	// Over, if not nil, is called once after Ended, when the connection holds no more memory for requests of its own.
	Over func(c Conn)
	// Unsent, if not nil, counts the bytes of replies that wait for peers to read, of all connections of a server.
	Unsent *atomic.Int64
}

// Listener is a bound address.
type Listener interface {
	Addr() netip.AddrPort
	// Accept waits for the next connection. After Stop its error is net.ErrClosed. One that matches ErrAcceptLater
	// passes: Accept is of use again after a while.
	Accept(ctx context.Context) (Incoming, error)
	// Stop ends Accept; connections go on.
	Stop() error
	// Close stops, ends the connections, and waits until nobody uses their memory any more, handlers included.
	Close() error
}

// Incoming is a connection that was not accepted yet. Accept or Reject follows.
type Incoming interface {
	RemoteAddr() netip.AddrPort
	Accept(ctx context.Context, s Service) (Conn, error)
	Reject()
}

var connIDs atomic.Uint64

// NewConnID is for implementations: the ID of one more connection.
func NewConnID() uint64 { return connIDs.Add(1) }
