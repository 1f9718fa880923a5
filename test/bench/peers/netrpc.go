package peers

import (
	"context"
	"net"
	"net/rpc"

	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// net/rpc with its own encoding, gob, on one connection: what comes with Go.
func init() {
	register("netrpc", Stack{Serve: serveNetRPC, Client: func() load.Peer { return new(netRPCPeer) },
		About: "net/rpc of the standard library, gob"})
}

// Gob is arguments and results. Memory to decode into is reused: gob fills a slice that is
// long enough.
type Gob struct {
	N int
	B []byte
}

// GobServer is the service.
type GobServer struct{}

// Echo gives back what it got.
func (GobServer) Echo(in *Gob, out *Gob) error {
	out.B = in.B
	return nil
}

// Read gives in.N bytes.
func (GobServer) Read(in *Gob, out *Gob) error {
	out.B = load.Pattern(in.N)
	return nil
}

// Write says how many bytes were right.
func (GobServer) Write(in *Gob, out *Gob) error {
	if out.N = len(in.B); load.Check(in.B, out.N) != nil {
		out.N = -1
	}
	return nil
}

func serveNetRPC() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := rpc.NewServer()
	if err := s.RegisterName("Bench", GobServer{}); err != nil {
		return "", err
	}
	go s.Accept(l)
	return l.Addr().String(), nil
}

type netRPCPeer struct {
	addr   string
	client *rpc.Client
	mem    [load.MaxCallers][]byte

	idle []*rpc.Client
}

func (p *netRPCPeer) Connect(_ context.Context, addr string) (err error) {
	p.addr = addr
	p.client, err = rpc.Dial("tcp", addr)
	return err
}

func (p *netRPCPeer) Close() error {
	for _, c := range p.idle {
		c.Close()
	}
	return p.client.Close()
}

var netRPCMethods = map[load.Op]string{load.Echo: "Bench.Echo", load.Read: "Bench.Read", load.Write: "Bench.Write"}

func (p *netRPCPeer) Do(_ context.Context, op load.Op, w, n int) error {
	in, out := Gob{B: load.Pattern(n)}, Gob{}
	switch op {
	case load.Read:
		in = Gob{N: n}
		fallthrough
	case load.Echo:
		p.mem[w] = load.Memory(p.mem[w], n)
		out.B = p.mem[w][:0]
	}
	if err := p.client.Call(netRPCMethods[op], &in, &out); err != nil {
		return err
	}
	if op != load.Write {
		return load.Check(out.B, n)
	}
	if out.N != n {
		return errAnswer
	}
	return nil
}

func (p *netRPCPeer) Idle(_ context.Context, n int) error {
	for range n {
		c, err := rpc.Dial("tcp", p.addr)
		if err != nil {
			return err
		}
		p.idle = append(p.idle, c)
		if err := c.Call(netRPCMethods[load.Echo], &Gob{B: load.Pattern(64)}, new(Gob)); err != nil {
			return err
		}
	}
	return nil
}
