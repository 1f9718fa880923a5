//go:build unix

package stream_test

import "github.com/rpcrdma/rpcrdma/providers/iwarp/stream"

func init() {
	networks["TCP, buffered"] = func() stream.Network { return stream.BufferedTCP{} }
}
