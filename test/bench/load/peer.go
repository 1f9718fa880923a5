package load

import (
	"context"
	"fmt"
)

// Op is what one operation moves.
type Op string

const (
	Echo  Op = "echo"  // n bytes there and the same n back
	Read  Op = "read"  // n bytes from the server into the caller's own memory
	Write Op = "write" // n bytes from the caller's memory to the server's
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
	MaxCallers = 256
	MaxPayload = 1 << 20
)

// Pattern is what a server gives for Read and a client sends; its prefixes are payloads.
var Pattern = func() []byte {
	b := make([]byte, MaxPayload)
	for i := range b {
		b[i] = at(i)
	}
	return b
}()

func at(i int) byte { return byte(i) ^ byte(i>>8) ^ byte(i>>16) ^ 0xa5 }

// Check looks at the length of b and at 16 bytes spread over it: enough to see a payload
// that is missing, shifted or stale, and nothing beside the cost of moving it.
func Check(b []byte, n int) error {
	if len(b) != n {
		return fmt.Errorf("got %d bytes, want %d", len(b), n)
	}
	for k := 0; n > 0 && k < 16; k++ {
		if i := int(int64(n-1) * int64(k) / 15); b[i] != at(i) {
			return fmt.Errorf("byte %d of %d is wrong", i, n)
		}
	}
	return nil
}
