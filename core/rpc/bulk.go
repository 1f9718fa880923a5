package rpc

import (
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/pages"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Buffer is memory that fabrics can reach without registering it for each call.
type Buffer = transport.Memory

// NewBuffer allocates n bytes outside the Go heap. Each fabric registers it on first use and keeps
// it registered until Free. Not Free while a call uses it.
func NewBuffer(n int) (*Buffer, error) {
	b, err := pages.Alloc(max(n, 1))
	if err != nil {
		return nil, fmt.Errorf("buffer of %d bytes: %w", n, err)
	}
	return transport.NewMemory(b[:n], func() { pages.Free(b) }), nil
}

// Bulk is a bulk result of a handler that lies in memory of its own: release is called exactly
// once, when nothing needs b any more; nil: nobody wants to know.
func Bulk(b []byte, release func()) xdr.Bulk { return xdr.Bulk{Data: b, Release: release} }
