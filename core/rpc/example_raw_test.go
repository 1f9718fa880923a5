package rpc_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
)

// A gateway between RDMA and TCP that understands no program: what comes over RDMA goes to a server on TCP,
// credential and all, and what that one answers goes back.
func ExampleWithFallback() {
	ctx := context.Background()

	// The server behind it.
	hello := &rpc.Proc{Program: 0x20000001, Version: 1, Number: 1, Name: "HELLO", Binding: binding.Binding{MaxReply: 1024}}
	behind := rpc.NewServer()
	defer behind.Close()
	behind.Register(hello.Program, hello.Version, rpc.Method{Proc: hello, Handler: func(_ context.Context, r *rpc.Request) error {
		r.Results.String("hello from behind")
		return nil
	}})
	tcp, err := rpc.Listen(ctx, "tcp://127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go behind.Serve(ctx, tcp)

	// The gateway.
	to, err := rpc.NewClient(tcp.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer to.Close()
	relay := func(ctx context.Context, r *rpc.Request) error {
		call := rpc.RawCall{
			XID: r.XID, PassXID: true,
			Program: r.Program, Version: r.Version, Proc: r.Proc, Cred: r.Cred, Verf: r.Verf,
			MaxReply: 1 << 20,
		}
		if err := r.RawArgs(&call.Args, nil); err != nil {
			return err
		}
		if err := to.CallRaw(ctx, &call); err != nil {
			return fmt.Errorf("%w: %w", rpcmsg.ErrDiscard, err) // the caller sends it again
		}
		defer call.Release()
		return r.ReplyRaw(&call.Reply, &call.Results)
	}
	anything := &rpc.Method{Proc: &rpc.Proc{Name: "relayed"}, Handler: relay}
	gateway := rpc.NewServer(rpc.WithFallback(func(*rpc.Request) (*rpc.Method, error) { return anything, nil }))
	defer gateway.Close()
	rdma, err := rpc.Listen(ctx, "loopback://127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go gateway.Serve(ctx, rdma)

	// Its caller.
	c, err := rpc.NewClient(rdma.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var greeting blob
	if err := c.Call(ctx, hello, nil, &greeting); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", greeting)
	// Output: hello from behind
}
