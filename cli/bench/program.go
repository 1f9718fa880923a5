package bench

import (
	"bytes"
	"context"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// The program, in the language of RFC 5531 §12:
//
//	struct bench_read  { unsigned offset; unsigned count; };
//	struct bench_write { unsigned offset; bool whole; opaque data<BENCH_MAX>; };
//	program BENCH {
//		version BENCH_V1 {
//			opaque<BENCH_MAX> ECHO(opaque<BENCH_MAX>) = 1;
//			opaque<BENCH_MAX> READ(bench_read) = 2;
//			unsigned WRITE(bench_write) = 3;
//		} = 1;
//	} = 0x20049997;
//
// The payload of n bytes at an offset is that part of the pattern. READ's result may be placed by
// RDMA Write, WRITE's data fetched by RDMA Read; nothing of ECHO may be moved by itself: what does not
// fit inline goes as a Long Call and comes as a Long Reply. WRITE answers with the bytes that were
// right: all of them, or 0. It looks at all of them when whole is set, else at 16.
const (
	Program = 0x20049997 // RFC 5531 §8.3: defined by users
	Version = 1
)

// MaxPayload is the most bytes of one payload.
const MaxPayload = 16 << 20

// MaxOffset is the last offset into the pattern that a payload may begin at.
const MaxOffset = 4 << 10

// Op is what a call moves.
type Op string

// The operations.
const (
	Echo  Op = "echo"  // there and back again, as part of the message
	Read  Op = "read"  // from the server's memory into the caller's own
	Write Op = "write" // from the caller's memory to the server
)

// Ops are all operations.
var Ops = []Op{Echo, Read, Write}

var procs = map[Op]*rpc.Proc{
	Echo:  {Program: Program, Version: Version, Number: 1, Name: "ECHO", Idempotent: true},
	Read:  {Program: Program, Version: Version, Number: 2, Name: "READ", Idempotent: true, Binding: binding.Binding{Results: true, MaxReply: 4}},
	Write: {Program: Program, Version: Version, Number: 3, Name: "WRITE", Idempotent: true, Binding: binding.Binding{Args: true, MaxReply: 4}},
}

// MaxConnections is how many connections a listener takes, all of them from one address if need be.
const MaxConnections = 4096

// ListenOptions let a listener take every size of payload and MaxConnections; others may be added.
func ListenOptions() []rpc.ListenOption {
	return []rpc.ListenOption{rpc.WithMaxCall(MaxPayload + 64<<10), rpc.WithTCPRecord(MaxPayload + 64<<10),
		rpc.WithConnectionLimit(MaxConnections), rpc.WithConnectionsPerAddress(MaxConnections)}
}

// Register adds the program to s. READ answers out of pattern, which NewPattern made and
// which must outlive s: its length less MaxOffset is the most that READ gives. The procedures only
// look at memory, so they run on the goroutine that reads the connection.
func Register(s *rpc.Server, pattern *rpc.Buffer) {
	all := pattern.Bytes()
	echo := func(_ context.Context, r *rpc.Request) error {
		b := r.Args.OpaqueView(MaxPayload)
		r.Results.Opaque(b)
		return r.Args.Err()
	}
	read := func(_ context.Context, r *rpc.Request) error {
		offset, n := r.Args.Uint32(), r.Args.Uint32()
		if offset > MaxOffset || int64(n) > int64(len(all)-MaxOffset) {
			return rpc.ErrGarbageArgs
		}
		r.Results.BulkItem(xdr.Bulk{Data: all[offset:][:n], Mem: pattern})
		return r.Args.Err()
	}
	write := func(_ context.Context, r *rpc.Request) error {
		offset, whole := r.Args.Uint32(), r.Args.Uint32()
		b := r.Args.Bulk(MaxPayload)
		if offset > MaxOffset {
			return rpc.ErrGarbageArgs
		}
		n := uint32(len(b))
		if whole != 0 && len(b) <= len(all)-MaxOffset {
			if !bytes.Equal(b, all[offset:][:n]) {
				n = 0
			}
		} else if Check(b, len(b), int(offset)) != nil {
			n = 0
		}
		r.Results.Uint32(n)
		return r.Args.Err()
	}
	s.Register(Program, Version,
		rpc.Method{Proc: procs[Echo], Handler: echo, Inline: true},
		rpc.Method{Proc: procs[Read], Handler: read, Inline: true},
		rpc.Method{Proc: procs[Write], Handler: write, Inline: true})
}
