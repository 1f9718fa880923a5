package cli

import (
	"context"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// resolver finds the fabrics of the command line's addresses: the provider that the scheme names, among those that the
// program links, and for rdma:// the default fabric.
var resolver rpc.Resolver = fabrics{}

// defaultFabric is the scheme of the provider that needs no hardware.
const defaultFabric = "iwarp"

type fabrics struct{}

func (fabrics) Check(t rpc.Target) error {
	t, err := chosen(t)
	if err != nil {
		return err
	}
	if t.Scheme != "tcp" && !linked(t.Scheme) {
		return &rpc.TargetError{Target: t.String(), Problem: "unknown provider \"" + t.Scheme + "\"; known here: " + schemes()}
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

// chosen is t with the fabric that rdma stands for.
func chosen(t rpc.Target) (rpc.Target, error) {
	if t.Scheme != rpc.SchemeAny {
		return t, nil
	}
	if !linked(defaultFabric) {
		return t, &rpc.TargetError{Target: t.String(), Problem: "rdma stands for " + defaultFabric + " here, which is not linked into this program; name another fabric by the scheme: " + schemes()}
	}
	t.Scheme = defaultFabric
	return t, nil
}

func linked(scheme string) bool {
	_, ok := verbs.Lookup(scheme)
	return ok
}

// schemes lists those of an address.
func schemes() string {
	known := append(verbs.Schemes(), "tcp")
	if linked(defaultFabric) {
		known = append(known, rpc.SchemeAny)
	}
	return strings.Join(known, ", ")
}
