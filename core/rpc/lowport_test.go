package rpc_test

import (
	"context"
	"net/netip"
	"os"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

func TestReservedPort(t *testing.T) {
	from := make(chan netip.AddrPort, 8)
	see := rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
		from <- r.RemoteAddr()
		return next(ctx, r)
	})
	f := serve(t, "tcp://127.0.0.1:0", see)
	for range 3 { // towards one server each port is good once in a minute
		c := dial(t, f.url, rpc.WithReservedPort())
		if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
			t.Fatal(err)
		}
		if port := (<-from).Port(); port >= 1024 && os.Geteuid() == 0 {
			t.Errorf("called from port %d", port)
		}
	}
}
