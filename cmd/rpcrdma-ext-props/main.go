// Command rpcrdma-ext-props is the extension props, transport properties, in a process of its own.
package main

import (
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	"github.com/rpcrdma/rpcrdma/props"
)

func main() { sdk.Serve(props.Configured) }
