package peers

import (
	"context"

	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// What one process can do at best: a hand-over by channels there and back, a copy of
// memory. Providers that run in process are measured against these.
func init() {
	register("chan", Stack{Client: func() load.Peer { return new(chanPeer) }, Callers: 1,
		About: "a round trip over two channels; in process"})
	register("memcpy", Stack{Client: func() load.Peer { return new(copyPeer) }, Callers: 1,
		About: "one copy of the payload; in process"})
}

type chanPeer struct{ there, back chan int }

func (p *chanPeer) Connect(context.Context, string) error {
	p.there, p.back = make(chan int), make(chan int)
	go func() {
		for n := range p.there {
			p.back <- n
		}
	}()
	return nil
}

func (p *chanPeer) Close() error {
	close(p.there)
	return nil
}

func (p *chanPeer) Do(_ context.Context, _ load.Op, _, n int) error {
	p.there <- n
	if <-p.back != n {
		return errAnswer
	}
	return nil
}

type copyPeer struct{ mem []byte }

func (p *copyPeer) Connect(context.Context, string) error { return nil }

func (p *copyPeer) Close() error { return nil }

func (p *copyPeer) Do(_ context.Context, _ load.Op, _, n int) error {
	p.mem = load.Memory(p.mem, n)
	return load.Check(p.mem[:copy(p.mem, load.Pattern(n))], n)
}
