package cli

// The fabrics of the stock program. A program of one's own may link fewer, or more.
import (
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
)
