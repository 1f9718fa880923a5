package peers

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/rpcrdma/rpcrdma/cli/bench"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// Ours: the program of rpcrdma bench. One connection for all callers unless conns says otherwise, each
// caller with registered memory of its own.
func init() {
	ours("iwarp", "iwarp://127.0.0.1:0", "ours, provider iwarp, CRC32c")
	ours("rpctcp", "tcp://127.0.0.1:0", "ours on tcp:// (record marking), no RDMA")
	ours("loopback", "loopback://127.0.0.1:0", "ours, provider loopback; in process")
	alias("iwarpthread", "iwarp?reader=thread", "ours, provider iwarp, who reads waits on a thread of its own")
	alias("iwarpspin", "iwarp?spin=50us", "ours, provider iwarp, who waits polls for up to 50 us first")
	alias("iwarpnocrc", "iwarp?crc=false", "ours, provider iwarp, no CRC")
}

// ours registers a provider. Its name takes options as a URL's query does: those of setup, and the
// provider's.
func ours(name, listen, about string) {
	with := func(q url.Values) (Stack, error) {
		s, err := newSetup(listen, q)
		if err != nil {
			return Stack{}, err
		}
		stack := Stack{Serve: s.serve, Client: func() load.Peer { return &rpcPeer{setup: s} }, About: about}
		if name == "loopback" {
			stack.Serve = nil // the client holds both ends
		}
		return stack, nil
	}
	stack, err := with(nil)
	if err != nil {
		panic(err) // without options nothing can be wrong
	}
	stack.With = with
	register(name, stack)
}

// setup is how a connection of ours is made.
type setup struct {
	listen  string // with the provider's options
	query   string // these, for the client
	payload int    // bytes of the largest: what the pattern takes memory for
	conns   int
	segment int // bytes of a chunk's segment; 0: one a chunk
	both    []rpc.ConnOption
}

// newSetup reads inline, credits, version, conns, segment and payload out of q; what is left are the
// provider's options.
func newSetup(listen string, q url.Values) (*setup, error) {
	s := &setup{payload: 1 << 20, conns: 1}
	rest := url.Values{}
	for key, values := range q {
		var to *int
		var n int
		switch key {
		case "inline", "credits", "version":
			to = &n
		case "payload":
			to = &s.payload
		case "conns":
			to = &s.conns
		case "segment":
			to = &s.segment
		default:
			rest[key] = values
			continue
		}
		var err error
		if *to, err = strconv.Atoi(values[0]); err != nil || *to < 1 {
			return nil, fmt.Errorf("%s=%s: want a positive number", key, values[0])
		}
		switch key {
		case "inline":
			s.both = append(s.both, rpc.WithInline(n))
		case "credits":
			s.both = append(s.both, rpc.WithCredits(n))
		case "version":
			s.both = append(s.both, rpc.WithVersions(uint32(n), uint32(n)))
		}
	}
	if len(rest) > 0 {
		s.query = "?" + rest.Encode()
	}
	s.listen = listen + s.query
	return s, nil
}

func (s *setup) serve() (string, error) {
	pattern, err := bench.NewPattern(s.payload)
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	l, err := rpc.Listen(ctx, s.listen, append(bench.ListenOptions(), rpc.ConnOptions(s.both...))...)
	if err != nil {
		return "", err
	}
	server := rpc.NewServer()
	bench.Register(server, pattern)
	go server.Serve(ctx, l)
	return l.URL(), nil
}

func (s *setup) client(addr string, conns int) (*rpc.Client, error) {
	opts := []rpc.ClientOption{rpc.WithConnections(conns), rpc.WithTCPRecord(load.MaxPayload + 64<<10), rpc.ConnOptions(s.both...)}
	if s.segment > 0 {
		opts = append(opts, rpc.WithSegmentLength(s.segment))
	}
	return rpc.NewClient(addr+s.query, opts...)
}

type rpcPeer struct {
	*setup
	addr    string
	calls   *rpc.Client
	idle    *rpc.Client
	pattern *rpc.Buffer
	callers [load.MaxCallers]*bench.Caller
}

func (p *rpcPeer) Connect(ctx context.Context, addr string) (err error) {
	if addr == "-" {
		if addr, err = p.serve(); err != nil {
			return err
		}
	}
	if p.pattern, err = bench.NewPattern(p.payload); err != nil {
		return err
	}
	p.addr = addr
	if p.calls, err = p.client(addr, p.conns); err != nil {
		return err
	}
	return p.calls.Connect(ctx)
}

func (p *rpcPeer) Close() error {
	if p.idle != nil {
		p.idle.Close()
	}
	return p.calls.Close()
}

func (p *rpcPeer) Do(ctx context.Context, op load.Op, w, n int) error {
	if n > p.payload {
		return fmt.Errorf("%d bytes: more than payload=%d", n, p.payload)
	}
	c := p.callers[w]
	if c == nil {
		c = bench.NewCaller(p.calls, p.pattern)
		p.callers[w] = c
	}
	return c.Do(ctx, op, n)
}

// Idle calls on each connection once, or nearly: a client takes them in turn.
func (p *rpcPeer) Idle(ctx context.Context, n int) (err error) {
	if p.idle, err = p.client(p.addr, n); err != nil {
		return err
	}
	if err := p.idle.Connect(ctx); err != nil {
		return err
	}
	c := bench.NewCaller(p.idle, p.pattern)
	defer c.Free()
	for range n {
		if err := c.Do(ctx, load.Echo, 64); err != nil {
			return err
		}
	}
	return nil
}
