// Command rpcrdma-ext-keepalive is the extension keepalive in a process of its own.
package main

import (
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	"github.com/rpcrdma/rpcrdma/extensions/x/keepalive"
)

func main() { sdk.Serve(keepalive.Configured) }
