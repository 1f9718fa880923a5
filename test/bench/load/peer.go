package load

import (
	"context"
	"math/bits"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/cli/bench"
)

// Op is what one operation moves.
type Op = bench.Op

// The operations: n bytes there and the same n back; from the server into the caller's own
// memory; from the caller's memory to the server's.
const (
	Echo  = bench.Echo
	Read  = bench.Read
	Write = bench.Write
)

// Peer is the client's side of one RPC stack. Do is called from many goroutines at once;
// caller is the goroutine's number, the same for the life of the peer, so that a stack
// without multiplexing may keep a connection for each.
type Peer interface {
	Connect(ctx context.Context, addr string) error
	Do(ctx context.Context, op Op, caller, n int) error
	Close() error
}

// MaxCallers and MaxPayload bound what is asked of a peer.
const (
	MaxCallers = 1024
	MaxPayload = bench.MaxPayload
)

// Pattern is a payload of n bytes: what a server gives for Read and a client sends. It
// is made as large as it is asked for: memory is one of the things measured.
func Pattern(n int) []byte {
	if b := pattern.Load(); b != nil && len(*b) >= n {
		return (*b)[:n]
	}
	b := make([]byte, 1<<bits.Len(uint(max(n, 4<<10)-1)))
	bench.Fill(b)
	pattern.Store(&b)
	return b[:n]
}

var pattern atomic.Pointer[[]byte]

// Memory returns b if it has room for n bytes, else new memory.
func Memory(b []byte, n int) []byte {
	if len(b) >= n {
		return b
	}
	return make([]byte, 1<<bits.Len(uint(max(n, 4<<10)-1)))
}

// Check looks at the length of b and at 16 bytes spread over it: enough to see a payload
// that is missing or shifted, and nothing beside the cost of moving it.
func Check(b []byte, n int) error { return bench.Check(b, n, 0) }

// Idler is a Peer that can open n further connections, each of which has carried a call,
// and leave them idle.
type Idler interface {
	Idle(ctx context.Context, n int) error
}
