package stream

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// ErrAgain is what Readv and Writev return when they would have to wait.
var ErrAgain = errors.New("stream: would block")

// Stream is one connected byte stream. Read and Readv are for one goroutine at a time,
// and so are Write and Writev; everything else may be called from several.
type Stream interface {
	// Read calls try, and calls it again whenever there may be more input, until it
	// returns true. try calls Readv. The error is os.ErrDeadlineExceeded or one that
	// wraps net.ErrClosed.
	Read(try func() bool) error
	// Readv reads into v, in order, what is there: ErrAgain if nothing is, io.EOF at the
	// end. Only within try.
	Readv(v [][]byte) (int, error)
	// Write and Writev are the same for output.
	Write(try func() bool) error
	Writev(v [][]byte) (int, error)

	// A deadline that has passed ends a waiting call, and each later one, until it is
	// set anew; the zero time is none.
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error

	// CloseWrite ends our direction, after what was written.
	CloseWrite() error
	// Close gives the stream up; what was written still leaves if all input was read.
	Close() error
	// Reset gives the stream up at once, and tells the peer so.
	Reset() error

	LocalAddr() netip.AddrPort
	RemoteAddr() netip.AddrPort
	// MSS is the number of bytes that one segment of the network carries.
	MSS() int
}

// Network makes streams.
type Network interface {
	// Dial connects; local is the source address ("" leaves it to the network).
	Dial(ctx context.Context, local, addr string) (Stream, error)
	// Listen binds addr. What comes from an address for which admit returns false is reset at once, before anything is made
	// of it; nil admits all. No lock is held while admit runs.
	Listen(ctx context.Context, addr string, admit func(netip.Addr) bool) (Listener, error)
}

// Listener takes streams.
type Listener interface {
	// Accept waits for the next; after Close the error wraps net.ErrClosed.
	Accept() (Stream, error)
	Addr() netip.AddrPort
	Close() error
}
