// Command rpcrdma serves, uses and shows ONC RPC over RDMA. See rpcrdma help.
package main

import (
	"os"

	"github.com/rpcrdma/rpcrdma/cli"
)

func main() { os.Exit(cli.Main()) }
