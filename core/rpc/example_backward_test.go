package rpc_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

// Watch asks the server to tell of changes; Changed is how it tells: a backward call, to the program
// that the client serves.
var (
	Watch   = &rpc.Proc{Program: greetings, Version: 1, Number: 3, Name: "WATCH", Idempotent: true}
	Changed = &rpc.Proc{Program: greetings + 1, Version: 1, Number: 1, Name: "CHANGED"}
)

// A server calls its client, on the connection that the client made.
func ExampleBackchannel() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	// The server: whoever calls WATCH wants to be called.
	back, err := rpc.NewBackchannel()
	if err != nil {
		log.Fatal(err)
	}
	defer back.Close()
	srv := rpc.NewServer()
	srv.Register(greetings, 1, rpc.Method{Proc: Watch, Handler: func(_ context.Context, req *rpc.Request) error {
		return back.Bind(req.Peer())
	}})
	l, err := rpc.Listen(ctx, "loopback://127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(context.Background(), l)
	defer srv.Shutdown(ctx)

	// The client serves a program of its own, and asks to be called.
	programs := rpc.NewServer()
	defer programs.Close()
	programs.Register(greetings+1, 1, rpc.Method{Proc: Changed, Handler: func(_ context.Context, req *rpc.Request) error {
		var what Name
		what.UnmarshalXDR(req.Args)
		if err := req.Args.Done(); err != nil {
			return err
		}
		fmt.Println("the client is told:", what)
		Name("seen").MarshalXDR(req.Results)
		return nil
	}})
	client, err := rpc.NewClient(l.URL(), rpc.WithPrograms(programs))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.Call(ctx, Watch, nil, nil); err != nil {
		log.Fatal(err)
	}

	// Any time later, in the server:
	var answer Name
	if err := back.Call(ctx, Changed, Name("/etc/motd"), &answer); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the server hears:", answer)
	// Output:
	// the client is told: /etc/motd
	// the server hears: seen
}
