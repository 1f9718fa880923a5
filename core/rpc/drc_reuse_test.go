package rpc

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// nowhere is a connection of requests whose replies stay where they are.
type nowhere struct {
	transport.Conn
	n int
}

func (nowhere) RemoteAddr() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.1:7") }

type fromNowhere struct {
	transport.Responder
	conn transport.Conn
}

func (f fromNowhere) Conn() transport.Conn { return f.conn }

// TestRepliesOnTheirWay keep their bytes when the cache forgets them and uses their memory for another.
func TestRepliesOnTheirWay(t *testing.T) {
	c := newReplyCache(ReplyCache{Entries: 1})
	request := func(xid uint32, conn int) *Request {
		from := new(transport.Request)
		from.Init(fromNowhere{conn: nowhere{n: conn}})
		return &Request{XID: xid, Args: xdr.NewReader(nil), Results: &from.Results, from: from,
			reply: rpcmsg.ReplyHeader{XID: xid}}
	}
	executed := func(xid uint32, with byte) {
		r := request(xid, 1)
		if v, _ := c.claim(r); v != execute {
			t.Fatalf("verdict %d on a new call", v)
		}
		r.reply.Append(r.Results)
		r.Results.Opaque(bytes.Repeat([]byte{with}, 50))
		r.Results.BulkOpaque(bytes.Repeat([]byte{with}, 100))
		if c.settle(r) != nil {
			t.Fatal("somebody waits")
		}
	}
	executed(1, 'a')
	again := request(1, 2)
	if v, _ := c.claim(again); v != repeat {
		t.Fatalf("verdict %d on a repetition", v)
	}
	want := again.Results.AppendUnreduced(nil)
	for xid := uint32(2); xid < 10; xid++ {
		executed(xid, 'b')
	}
	if got := again.Results.AppendUnreduced(nil); !bytes.Equal(got, want) || !bytes.Contains(got, bytes.Repeat([]byte{'a'}, 100)) {
		t.Errorf("it is %q now", got)
	}
}
