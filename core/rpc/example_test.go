package rpc_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback" // the fabric; iwarp:// wants providers/iwarp
)

const greetings = 0x20000099

// Greet is declared once, for clients and servers.
var Greet = &rpc.Proc{
	Program: greetings, Version: 1, Number: 1, Name: "GREET",
	Binding: binding.Binding{MaxReply: 300},
}

// Name is a string of at most 255 bytes.
type Name string

func (n Name) MarshalXDR(w *xdr.Writer)    { w.String(string(n)) }
func (n *Name) UnmarshalXDR(r *xdr.Reader) { *n = Name(r.String(255)) }

// A server, a client, and a call.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	srv := rpc.NewServer()
	srv.Register(greetings, 1, rpc.Method{Proc: Greet, Handler: func(_ context.Context, req *rpc.Request) error {
		var who Name
		who.UnmarshalXDR(req.Args)
		if err := req.Args.Done(); err != nil {
			return err // answered with GARBAGE_ARGS
		}
		Name("Hello, " + who).MarshalXDR(req.Results)
		return nil
	}})
	l, err := rpc.Listen(ctx, "loopback://127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(context.Background(), l)
	defer srv.Shutdown(ctx)

	client, err := rpc.NewClient(l.URL()) // no I/O yet
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	var answer Name
	if err := client.Call(ctx, Greet, Name("world"), &answer); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer)
	fmt.Println("RPC-over-RDMA version", client.Conns()[0].Version())
	// Output:
	// Hello, world
	// RPC-over-RDMA version 2
}

// Fetch reads so many bytes. Its result may be moved by RDMA Write.
var Fetch = &rpc.Proc{
	Program: greetings, Version: 1, Number: 2, Name: "FETCH",
	Binding: binding.Binding{Results: true, MaxReply: 8},
}

// Count is a number of bytes.
type Count uint32

func (n Count) MarshalXDR(w *xdr.Writer)    { w.Uint32(uint32(n)) }
func (n *Count) UnmarshalXDR(r *xdr.Reader) { *n = Count(r.Uint32()) }

// Data is an opaque that may be moved. What it reads lies where rpc.Into said; without it, it is a view that ends with
// UnmarshalXDR.
type Data []byte

func (d Data) MarshalXDR(w *xdr.Writer)    { w.BulkOpaque(d) }
func (d *Data) UnmarshalXDR(r *xdr.Reader) { *d = r.Bulk(1 << 20) }

// A result of a megabyte lands in the caller's buffer, without a copy on its way.
func ExampleInto() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	srv := rpc.NewServer()
	srv.Register(greetings, 1, rpc.Method{Proc: Fetch, Handler: func(_ context.Context, req *rpc.Request) error {
		var n Count
		n.UnmarshalXDR(req.Args)
		if err := req.Args.Done(); err != nil {
			return err
		}
		b, err := req.Buffer(int(n)) // registered: it leaves from where it lies
		if err != nil {
			return err
		}
		for i := range b.Bytes() {
			b.Bytes()[i] = byte(i)
		}
		req.Results.BulkItem(b.Bulk(int(n)))
		return nil
	}})
	l, err := rpc.Listen(ctx, "loopback://127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go srv.Serve(context.Background(), l)
	defer srv.Shutdown(ctx)

	client, err := rpc.NewClient(l.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	buf := make([]byte, 1<<20)
	var got Data
	if err := client.Call(ctx, Fetch, Count(1<<20), &got, rpc.Into(buf)); err != nil {
		log.Fatal(err)
	}
	n := client.Counters()
	fmt.Println(len(got), "bytes, in the buffer:", &got[0] == &buf[0])
	fmt.Println(n.WriteBytes, "of them by RDMA Write,", n.InlineBytes, "bytes in messages")
	// Output:
	// 1048576 bytes, in the buffer: true
	// 1048576 of them by RDMA Write, 72 bytes in messages
}

// Interceptors see each call, with its procedure and its outcome.
func ExampleWithInterceptor() {
	client, err := rpc.NewClient("loopback://127.0.0.1:1", rpc.WithInterceptor(
		func(ctx context.Context, call *rpc.CallInfo, next func(context.Context) error) error {
			err := next(ctx)
			fmt.Println(call.Proc, "failed:", err != nil)
			return err
		}))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	client.Call(context.Background(), Greet, Name("nobody"), nil)
	// Output: GREET failed: true
}
