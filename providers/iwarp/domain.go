package iwarp

import (
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

// domain is a protection domain on a network.
type domain struct {
	qp.Domain
	net   stream.Network
	local string // an address, or ""
	opt   options
}

func newDomain(n stream.Network, local string, o options) *domain {
	d := &domain{net: n, local: local, opt: o}
	d.Init(qp.Config{Provider: Name, Caps: o.caps(), Setup: o.setup, Linger: o.linger})
	return d
}
