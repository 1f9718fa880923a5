package rpc_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// preferring reaches rdma:// addresses by the first of these providers that works there, and others as usual.
type preferring []string

func (p preferring) Check(t rpc.Target) error {
	if t.Scheme != rpc.SchemeAny {
		return rpc.Registered.Check(t)
	}
	return nil
}

func (p preferring) DialRoutes(ctx context.Context, t rpc.Target) ([]rpc.Route, error) {
	if t.Scheme != rpc.SchemeAny {
		return rpc.Registered.DialRoutes(ctx, t)
	}
	var routes []rpc.Route
	for _, scheme := range p {
		if provider, ok := verbs.Lookup(scheme); ok {
			routes = append(routes, rpc.Route{Scheme: scheme, Provider: provider, Address: t.Address, Local: t.Local, Options: t.Options})
		}
	}
	return routes, nil
}

// ListenRoutes has the providers as alternatives of one fabric.
func (p preferring) ListenRoutes(ctx context.Context, t rpc.Target) ([][]rpc.Route, error) {
	routes, err := p.DialRoutes(ctx, t)
	return [][]rpc.Route{routes}, err
}

// A client prefers one fabric and falls back to another, where the server listens.
func ExampleWithResolver() {
	ctx := context.Background()
	srv := rpc.NewServer()
	defer srv.Close()
	l, err := rpc.Listen(ctx, "loopback://127.9.9.9:20047")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(ctx, l)

	client, err := rpc.NewClient("rdma://127.9.9.9:20047", rpc.WithResolver(preferring{"tape", "iwarp", "loopback"}))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.Connect(ctx); err != nil {
		log.Fatal(err)
	}
	for _, r := range client.Routes() {
		fmt.Println("connected by", r.Route)
	}
	// Output: connected by loopback://127.9.9.9:20047
}
