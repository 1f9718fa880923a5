package peers

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"

	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// gRPC: unary calls on one connection. The codec is written by hand and hands gRPC the
// payload as it is, so that no encoder's copies are held against it.
func init() {
	register("grpc", Stack{Serve: serveGRPC, Client: func() load.Peer { return new(grpcPeer) },
		About: "google.golang.org/grpc, unary, a codec without copies"})
}

// message is a payload: sent as it is, received into the caller's memory if it has some.
type message struct{ b, into []byte }

type codec struct{}

func (codec) Name() string { return "bytes" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(*message).b)}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m := v.(*message)
	if m.into == nil {
		m.b = data.Materialize()
		return nil
	}
	if data.Len() > len(m.into) {
		return fmt.Errorf("%d bytes for a buffer of %d", data.Len(), len(m.into))
	}
	m.b = m.into[:data.CopyTo(m.into)]
	return nil
}

func word(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

var grpcServes = map[load.Op]func(in []byte) []byte{
	load.Echo: func(in []byte) []byte { return in },
	load.Read: func(in []byte) []byte { return load.Pattern(int(binary.BigEndian.Uint32(in))) },
	load.Write: func(in []byte) []byte {
		if load.Check(in, len(in)) != nil {
			return word(-1)
		}
		return word(len(in))
	},
}

func serveGRPC() (string, error) {
	desc := &grpc.ServiceDesc{ServiceName: "bench", HandlerType: (*any)(nil)}
	for op, serve := range grpcServes {
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: string(op),
			Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				var in message
				if err := decode(&in); err != nil {
					return nil, err
				}
				return &message{b: serve(in.b)}, nil
			}})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.MaxRecvMsgSize(2*load.MaxPayload))
	s.RegisterService(desc, nil)
	go s.Serve(l)
	return l.Addr().String(), nil
}

type grpcPeer struct {
	conn *grpc.ClientConn
	addr string
	mem  [load.MaxCallers][]byte
	idle []*grpc.ClientConn
}

func (p *grpcPeer) Connect(_ context.Context, addr string) (err error) {
	p.addr = addr
	p.conn, err = dialGRPC(addr)
	return err
}

func dialGRPC(addr string) (*grpc.ClientConn, error) {
	return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(2*load.MaxPayload)))
}

func (p *grpcPeer) Idle(ctx context.Context, n int) error {
	for range n {
		c, err := dialGRPC(p.addr)
		if err != nil {
			return err
		}
		p.idle = append(p.idle, c)
		in, out := message{b: load.Pattern(64)}, message{}
		if err := c.Invoke(ctx, "/bench/"+string(load.Echo), &in, &out); err != nil {
			return err
		}
	}
	return nil
}

func (p *grpcPeer) Close() error {
	for _, c := range p.idle {
		c.Close()
	}
	return p.conn.Close()
}

func (p *grpcPeer) Do(ctx context.Context, op load.Op, w, n int) error {
	p.mem[w] = load.Memory(p.mem[w], n)
	in, out := message{b: load.Pattern(n)}, message{into: p.mem[w]}
	if op == load.Read {
		in.b = word(n)
	}
	if err := p.conn.Invoke(ctx, "/bench/"+string(op), &in, &out); err != nil {
		return err
	}
	if op == load.Write {
		if len(out.b) != 4 || int(int32(binary.BigEndian.Uint32(out.b))) != n {
			return errAnswer
		}
		return nil
	}
	return load.Check(out.b, n)
}
