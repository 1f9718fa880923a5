// Command rpcrdma-ext-hostauth is the extension hostauth in a process of its own.
package main

import (
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	"github.com/rpcrdma/rpcrdma/extensions/x/hostauth"
)

func main() { sdk.Serve(hostauth.Configured) }
