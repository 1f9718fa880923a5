// Command rpcrdma serves, uses and shows ONC RPC over RDMA. See rpcrdma help.
package main

import (
	"os"

	"github.com/rpcrdma/rpcrdma/cli"

	// The fabrics that addresses can name.
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
)

func main() { os.Exit(cli.Main()) }
