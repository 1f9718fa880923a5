// A provider outside the main module, as its author writes one: docs/providers.md. The module that it builds on is the one
// above it.
module github.com/rpcrdma/rpcrdma/examples/unixsock

go 1.26.0

require (
	github.com/rpcrdma/rpcrdma v0.0.0-00010101000000-000000000000
	go.uber.org/goleak v1.3.0
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/rpcrdma/rpcrdma => ../..
