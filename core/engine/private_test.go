package engine

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/core/wire"
)

// TestPrivateLimits: each side keeps to the limit of its own step, and sends none where RFC 8797's does not fit.
func TestPrivateLimits(t *testing.T) {
	for _, tc := range []struct {
		limits           string
		dialled, replied bool // private data was sent
	}{
		{"8/8/0", true, true}, {"7/8/8", false, true}, {"8/7/8", true, false}, {"0/0/0", false, false}, {"56/196/148", true, true},
	} {
		t.Run(tc.limits, func(t *testing.T) {
			p := couple(t, "loopback private="+tc.limits, Config{}, Config{})
			for _, side := range []struct {
				name string
				c    *Conn
				sent bool
			}{{"the server", p.server, tc.dialled}, {"the client", p.client, tc.replied}} {
				want := wire.DefaultPrivate
				if side.sent {
					want = p.client.local
				}
				if side.c.peer != want {
					t.Errorf("%s knows %+v of its peer, want %+v", side.name, side.c.peer, want)
				}
			}
			p.call(t, 3000)
		})
	}
}
