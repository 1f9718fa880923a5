//go:build linux

package nfs_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/server3"
)

// A server of a directory, and a client that puts a file there and lists it. With
// "iwarp://0.0.0.0:20049" instead of loopback this is NFS over RDMA between machines.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "export")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	export, err := server3.New(dir, server3.Options{Squash: server3.SquashAll, Anon: &server3.IDs{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}})
	if err != nil {
		log.Fatal(err)
	}
	defer export.Close()
	server := rpc.NewServer()
	export.Register(server)
	l, err := rpc.Listen(ctx, "loopback://127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l) }()
	defer func() { server.Close(); <-served }()

	client, err := rpc.NewClient(l.URL(), rpc.WithAuthSys(rpcmsg.Sys{UID: 1000, GID: 1000}))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fs, rest, err := nfs.Mount(ctx, client, "/", nil)
	if err != nil {
		log.Fatal(err)
	}
	text := "Memory was written that nobody copied.\n"
	if err := fs.Put(ctx, strings.NewReader(text), int64(len(text)), rest+"hello", nfs.Transfer{}); err != nil {
		log.Fatal(err)
	}
	for e, err := range fs.List(ctx, rest) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Attr.Attr.FileMode(), e.Attr.Attr.Size, e.Name)
	}
	// Output: -rw-r--r-- 39 hello
}
