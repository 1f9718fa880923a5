package loopback

import (
	"net/netip"

	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

// domain is one protection domain.
type domain struct {
	qp.Domain
	local netip.Addr // invalid: chosen per connection
}

// from is the local address of what this domain binds, in the family of to.
func (d *domain) from(to netip.Addr) netip.Addr {
	switch {
	case d.local.IsValid():
		return d.local
	case to.Is6():
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
