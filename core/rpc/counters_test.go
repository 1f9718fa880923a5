package rpc_test

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// TestBothEndsCountAlike: messages by form and bytes by way are the same seen from either side.
func TestBothEndsCountAlike(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	c := dial(t, f.url)
	var res bulk
	var s number
	var b blob
	const n = 100_000
	if err := c.Call(ctx(t), procWrite, bulk(pattern(n)), &s); err != nil { // a Read chunk
		t.Fatal(err)
	}
	if err := c.Call(ctx(t), procRead, readArgs(n), &res, rpc.Into(make([]byte, n))); err != nil { // a Write chunk
		t.Fatal(err)
	}
	if err := c.Call(ctx(t), procEcho, blob(pattern(n)), &b, rpc.MaxReply(n+8)); err != nil { // long both ways
		t.Fatal(err)
	}
	wait.For(t, "the server to be done", func() bool { return f.srv.Counters().RepliesSent == 3 })
	client, server := c.Counters(), f.srv.Counters()
	if client.ReadBytes != server.ReadBytes || client.ReadBytes < 2*n || client.WriteBytes != server.WriteBytes || client.WriteBytes < 2*n {
		t.Errorf("RDMA Read %d and %d bytes, RDMA Write %d and %d", client.ReadBytes, server.ReadBytes, client.WriteBytes, server.WriteBytes)
	}
	type forms struct{ inline, chunked, long, bytes uint64 }
	cf := forms{client.Inline, client.Chunked, client.Long, client.InlineBytes}
	sf := forms{server.Inline, server.Chunked, server.Long, server.InlineBytes}
	if cf != sf || cf.chunked == 0 || cf.long == 0 || cf.bytes == 0 {
		t.Errorf("the client counts %+v, the server %+v", cf, sf)
	}
}
