package octets

import (
	"context"
	"sync"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Listen accepts what clients of ours connect to addr, each as config says then, and serves each in a goroutine of its own.
// It returns its address, and how it is stopped: the connections end, and serve has returned, while dom is open still.
func Listen(t testing.TB, dom verbs.Domain, addr string, config func() Config, serve func(*Peer)) (at string, stop func(), err error) {
	l, err := dom.Listen(context.Background(), addr, verbs.ListenOptions{})
	if err != nil {
		return "", nil, err
	}
	var accepting, serving sync.WaitGroup
	var peers []*Peer // the acceptor's until it has gone
	accepting.Go(func() {
		for {
			req, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			p, err := newPeer(t, dom, config())
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := req.Accept(context.Background(), p.options()); err != nil {
				continue // it has gone again
			}
			peers = append(peers, p)
			serving.Go(func() { serve(p) })
		}
	})
	return l.Addr().String(), func() {
		l.Close()
		accepting.Wait()
		for _, p := range peers {
			p.Conn.Abort(nil)
		}
		serving.Wait()
	}, nil
}
