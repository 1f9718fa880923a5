// Command rpcrdma is the program of the main module with the provider unixsock beside its own.
package main

import (
	"os"

	"github.com/rpcrdma/rpcrdma/cli"

	_ "github.com/rpcrdma/rpcrdma/examples/unixsock"
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
)

func main() { os.Exit(cli.Main()) }
