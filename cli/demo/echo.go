package demo

import (
	"bytes"
	"context"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// The echo program has nothing that may be moved by itself: what does not fit inline goes as a
// whole, in a Position-Zero Read chunk (a Long Call, RFC 8166 §3.5.3) and in a Reply chunk (a Long
// Reply).
const (
	echoProgram = 0x20049998 // RFC 5531 §8.3: defined by users
	echoVersion = 1
	echoLimit   = 1 << 20
)

var echoProc = &rpc.Proc{Program: echoProgram, Version: echoVersion, Number: 1, Name: "ECHO", Idempotent: true, Binding: binding.Binding{MaxReply: echoLimit}}

// callProc asks the server to call ECHO at its client, on the same connection (RFC 8167).
var callProc = &rpc.Proc{Program: echoProgram, Version: echoVersion, Number: 2, Name: "CALL_BACK", Idempotent: true}

// registerEcho makes s serve the program: at the server, and at the client for the call back.
func registerEcho(s *rpc.Server, more ...rpc.Method) {
	s.Register(echoProgram, echoVersion, append(more, rpc.Method{Proc: callProc, Handler: callBack}, rpc.Method{Proc: echoProc, Handler: func(_ context.Context, r *rpc.Request) error {
		want := r.Args.Uint32()
		b := r.Args.OpaqueView(echoLimit)
		if r.Args.Err() != nil {
			return r.Args.Err()
		}
		if want > echoLimit {
			return rpc.ErrGarbageArgs
		}
		r.Results.Opaque(bytes.Repeat(b, int(want)/max(len(b), 1)+1)[:want])
		return nil
	}})...)
}

func callBack(ctx context.Context, r *rpc.Request) error {
	back, err := rpc.NewBackchannel()
	if err != nil {
		return err
	}
	defer back.Close()
	if err := back.Bind(r.Peer()); err != nil {
		return err
	}
	e := echoCall{data: []byte("backward "), want: 100}
	if err := back.Call(ctx, echoProc, &e, &e); err != nil {
		return err
	}
	if want := bytes.Repeat(e.data, 12)[:e.want]; !bytes.Equal(e.got, want) {
		return rpc.ErrSystem
	}
	return nil
}

// echoCall sends data and asks for want bytes of it, repeated, back.
type echoCall struct {
	data []byte
	want int
	got  []byte
}

func (e *echoCall) MarshalXDR(w *xdr.Writer) {
	w.Uint32(uint32(e.want))
	w.Opaque(e.data)
}

func (e *echoCall) MaxReply() (reduced, whole int) { return 4 + e.want + 3, 4 + e.want + 3 }

func (e *echoCall) UnmarshalXDR(r *xdr.Reader) { e.got = r.Opaque(echoLimit) }

// runEcho makes one call each: long there, long back, long both ways, short both ways. Then it has the server call
// back.
func runEcho(ctx context.Context, c *rpc.Client) (calls int, err error) {
	long := bytes.Repeat([]byte("RPC-over-RDMA "), 20_000)
	for _, e := range []echoCall{{data: long, want: 100}, {data: []byte("short"), want: 300_001}, {data: long, want: 200_003}, {data: []byte("x"), want: 1}} {
		if err := c.Call(ctx, echoProc, &e, &e); err != nil {
			return calls, fmt.Errorf("echo of %d bytes, %d back: %w", len(e.data), e.want, err)
		}
		if want := bytes.Repeat(e.data, e.want/len(e.data)+1)[:e.want]; !bytes.Equal(e.got, want) {
			return calls, fmt.Errorf("echo of %d bytes, %d back: the answer is wrong", len(e.data), e.want)
		}
		calls++
	}
	if err := c.Call(ctx, callProc, nil, nil); err != nil {
		return calls, fmt.Errorf("a backward call: %w", err)
	}
	return calls, nil
}
