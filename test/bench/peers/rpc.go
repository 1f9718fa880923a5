package peers

import (
	"context"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// Ours: one connection for all callers, each caller with registered memory of its own.
func init() {
	remote("rpctcp", "tcp://127.0.0.1:0", "", "ours on tcp:// (record marking), no RDMA")
	register("loopback", Stack{Client: func() load.Peer { return &rpcPeer{within: "loopback://127.0.0.1:0"} },
		About: "ours, provider loopback; in process"})
}

// remote registers ours with client and server in processes of their own.
func remote(name, listen, options, about string) {
	register(name, Stack{
		Serve:  func() (string, error) { return serveRPC(listen, options) },
		Client: func() load.Peer { return &rpcPeer{options: options} },
		About:  about,
	})
}

func serveRPC(listen, options string) (string, error) {
	pattern, err := patternBuffer()
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	l, err := rpc.Listen(ctx, listen+options)
	if err != nil {
		return "", err
	}
	s := rpc.NewServer()
	s.Register(benchProgram, benchVersion, methods(pattern)...)
	go s.Serve(ctx, l)
	return l.URL(), nil
}

type rpcPeer struct {
	options string
	within  string // both ends in this process: where to listen
	client  *rpc.Client
	pattern *rpc.Buffer
	callers [load.MaxCallers]*rpcCaller
}

type rpcCaller struct {
	payload
	mem *rpc.Buffer
}

func (p *rpcPeer) Connect(ctx context.Context, addr string) (err error) {
	if p.within != "" {
		if addr, err = serveRPC(p.within, p.options); err != nil {
			return err
		}
	}
	if p.pattern, err = patternBuffer(); err != nil {
		return err
	}
	if p.client, err = rpc.NewClient(addr + p.options); err != nil {
		return err
	}
	return p.client.Connect(ctx)
}

func (p *rpcPeer) Close() error { return p.client.Close() }

func (p *rpcPeer) Do(ctx context.Context, op load.Op, w, n int) error {
	c := p.callers[w]
	if c == nil {
		c = new(rpcCaller)
		p.callers[w] = c
	}
	c.op, c.n = op, n
	var err error
	switch op {
	case load.Read:
		if c.mem == nil || len(c.mem.Bytes()) < n {
			if c.mem, err = rpc.NewBuffer(max(n, 4<<10)); err != nil {
				return err
			}
		}
		err = p.client.Call(ctx, procs[op], c, c, rpc.IntoBuffer(c.mem, 0, n))
	case load.Write:
		c.send = xdr.Bulk{Data: p.pattern.Bytes()[:n], Mem: p.pattern}
		fallthrough
	default:
		err = p.client.Call(ctx, procs[op], c, c)
	}
	if err != nil {
		return err
	}
	return c.ok
}
