package cli

import (
	"context"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"

	// The fabrics of the stock program. A program of one's own may link fewer, or more.
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
)

// resolver finds the fabrics of the command line's addresses: as the scheme says, and for rdma://, without a
// configuration that chooses, the default fabric.
var resolver rpc.Resolver = fabrics{}

// defaultFabric is the scheme of the provider that needs no hardware.
const defaultFabric = "iwarp"

type fabrics struct{}

func (fabrics) Check(t rpc.Target) error {
	t, err := chosen(t)
	if err != nil {
		return err
	}
	return rpc.Registered.Check(t)
}

func (fabrics) DialRoutes(ctx context.Context, t rpc.Target) ([]rpc.Route, error) {
	t, err := chosen(t)
	if err != nil {
		return nil, err
	}
	return rpc.Registered.DialRoutes(ctx, t)
}

func (fabrics) ListenRoutes(ctx context.Context, t rpc.Target) ([][]rpc.Route, error) {
	t, err := chosen(t)
	if err != nil {
		return nil, err
	}
	return rpc.Registered.ListenRoutes(ctx, t)
}

// chosen is t with the fabric that stands for rdma.
func chosen(t rpc.Target) (rpc.Target, error) {
	if t.Scheme != rpc.SchemeAny {
		return t, nil
	}
	if _, ok := verbs.Lookup(defaultFabric); !ok {
		return t, &rpc.TargetError{Target: t.String(), Problem: "rdma:// stands for " + defaultFabric + "://, which is not linked into this program; name a fabric by the scheme: " + schemes()}
	}
	t.Scheme = defaultFabric
	return t, nil
}

// schemes lists those of an address.
func schemes() string { return strings.Join(append(verbs.Schemes(), "tcp"), ", ") }
