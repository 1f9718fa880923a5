package oracle

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/cli/capture"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// TestTsharkReadsBackwardCalls: version 1 has no field for the direction (RFC 8167 §2.4). To tshark too a backward
// call is a well-formed message from the server, and its reply belongs to it.
func TestTsharkReadsBackwardCalls(t *testing.T) {
	needTshark(t)
	// Programs that tshark knows: NFS, and the callback program of NFSv4 as Linux has it.
	const nfs, callback, calls = 100003, 0x40000000, 5
	subscribe := &rpc.Proc{Program: nfs, Version: 3, Number: 0, Idempotent: true}
	notify := &rpc.Proc{Program: callback, Version: 1, Number: 0, Idempotent: true}

	name := filepath.Join(keepDir(t), "backward.pcapng")
	file, err := capture.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{file: file, streams: map[string][]byte{}, started: map[string]bool{}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	back, err := rpc.NewBackchannel()
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	srv := rpc.NewServer()
	srv.Register(nfs, 3, rpc.Method{Proc: subscribe, Handler: func(_ context.Context, r *rpc.Request) error { return back.Bind(r.Peer()) }})
	l, err := rpc.Listen(ctx, "iwarp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- srv.Serve(ctx, l) }()
	programs := rpc.NewServer()
	programs.Register(callback, 1)
	c, err := rpc.NewClient(l.URL()+"?settle=0s", rpc.WithVersions(1, 1), rpc.WithTap(p), rpc.WithPrograms(programs))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(ctx, subscribe, nil, nil); err != nil {
		t.Fatal(err)
	}
	for range calls {
		if err := back.Call(ctx, notify, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	programs.Close()
	srv.Close()
	<-done
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}

	if bad := tshark(t, name, "_ws.malformed", "frame.number"); len(bad[0]) > 0 {
		t.Errorf("malformed packets: %v", bad[0])
	}
	// The server's port is the source of backward calls and the destination of their replies.
	port := fmt.Sprint(l.Addr().Port())
	for _, way := range []struct {
		what, filter string
		credits      uint64
	}{
		{"calls", "rpcordma && rpc.msgtyp == 0 && tcp.srcport == " + port, 8},
		{"replies", fmt.Sprintf("rpcordma && rpc.msgtyp == 1 && rpc.program == %d && tcp.dstport == %s", callback, port), 8},
	} {
		got := tshark(t, name, way.filter, "rpcordma.xid", "rpc.xid", "rpcordma.flow_control", "rpcordma.reads_count", "rpcordma.writes_count", "rpc.program")
		if len(got[0]) != calls || fmt.Sprint(numbers(t, "XIDs", got[0])) != fmt.Sprint(numbers(t, "XIDs", got[1])) {
			t.Fatalf("%s: %d of %d, XIDs %v and %v", way.what, len(got[0]), calls, got[0], got[1])
		}
		for i := range calls {
			for f, want := range map[int]uint64{2: way.credits, 3: 0, 4: 0, 5: callback} {
				if n := numbers(t, way.what, got[f]); n[i] != want {
					t.Errorf("%s: field %d is %d, want %d", way.what, f, n[i], want)
				}
			}
		}
	}
	for i := range p.headers {
		if h := &p.headers[i]; h.Version != wire.Version1 || h.Proc != wire.Msg {
			t.Errorf("message %d: %+v", i, h)
		}
	}
}
