package verbs_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/loopback"
)

// printer is a Handler that says what it gets.
type printer struct {
	name string
	pool verbs.RecvPool
	done chan struct{} // closed by Disconnected
	recv chan string   // messages
}

func (p *printer) Complete(cs []verbs.Completion) {
	for _, c := range cs {
		if c.Op == verbs.OpRecv && c.Status == verbs.OK {
			p.recv <- string(c.Buf) // Buf is the provider's again from Put on
			p.pool.Put(c.BufID)
		}
	}
}

func (p *printer) Disconnected(err error) {
	fmt.Println(p.name, "disconnected:", err)
	close(p.done)
}

// A server exposes memory; the client writes into it and says so with a Send that
// ends the exposure. When the Send has arrived, the Write has too.
func Example() {
	ctx := context.Background()
	open := func(name string) (verbs.Domain, *printer) {
		d, err := loopback.Provider{}.Open(ctx, "", nil)
		if err != nil {
			log.Fatal(err)
		}
		pool, err := d.NewRecvPool(16, 1024)
		if err != nil {
			log.Fatal(err)
		}
		return d, &printer{name: name, pool: pool, done: make(chan struct{}), recv: make(chan string, 16)}
	}
	dc, client := open("client")
	defer dc.Close()
	ds, server := open("server")
	defer ds.Close()

	l, err := ds.Listen(ctx, "example:2049", verbs.ListenOptions{})
	if err != nil {
		log.Fatal(err)
	}
	place, _ := ds.Alloc(64)
	var win verbs.Window
	go func() {
		r, err := l.Accept(ctx)
		if err != nil {
			log.Fatal(err)
		}
		c, err := r.Accept(ctx, verbs.Options{Handler: server, Recv: server.pool})
		if err != nil {
			log.Fatal(err)
		}
		<-server.recv // the client asks
		c.Expose(&win, place, 0, 64, verbs.RemoteWrite)
		where := binary.BigEndian.AppendUint32(nil, win.Key)
		where = binary.BigEndian.AppendUint64(where, win.Addr)
		answer, _ := ds.Register(where)
		c.Post([]verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: answer, N: len(where)}}}})
		c.Flush()
	}()

	c, err := dc.Dial(ctx, "example:2049", verbs.Options{Handler: client, Recv: client.pool})
	if err != nil {
		log.Fatal(err)
	}
	c.Post([]verbs.Work{{Op: verbs.OpSend}}) // an empty message
	c.Flush()
	where := []byte(<-client.recv)
	key, addr := binary.BigEndian.Uint32(where), binary.BigEndian.Uint64(where[4:])

	buf, _ := dc.Register([]byte("straight into place"))
	c.Post([]verbs.Work{
		{ID: 1, Op: verbs.OpWrite, Key: key, Remote: addr, Segs: []verbs.Seg{{R: buf, Off: 0, N: 19}}},
		{ID: 2, Op: verbs.OpSendInvalidate, Key: key, Segs: []verbs.Seg{{R: buf, Off: 14, N: 5}}},
	})
	c.Flush()
	fmt.Println("message:", <-server.recv)
	fmt.Printf("memory: %s\n", place.Bytes()[:19])

	c.Close()
	<-client.done
	<-server.done
	// Unordered output:
	// message: place
	// memory: straight into place
	// client disconnected: <nil>
	// server disconnected: <nil>
}
