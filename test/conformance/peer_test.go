package main

import (
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/test/octets"
)

// patience is how long what must come may take. A defect on purpose is waited for less long: what it keeps back does not come.
var patience = func() time.Duration {
	if os.Getenv(provoked) != "" {
		return 5 * time.Second
	}
	return time.Minute
}()

func peerConfig(private []byte) octets.Config {
	return octets.Config{Private: private, Receives: 128, Size: 8 << 10, Out: 1 << 20, Patience: patience}
}

// dialPeer connects to a server of ours.
func dialPeer(t testing.TB, dom verbs.Domain, target string, private []byte) *octets.Peer {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return octets.Dial(t, dom, u.Host, peerConfig(private))
}

// listener hands out the peers that clients of ours have connected to.
type listener struct {
	url     string
	peers   chan *octets.Peer
	private atomic.Pointer[[]byte] // what the next peer says of itself
}

var servers atomic.Uint32

// listenPeer listens as a server; each connection becomes a peer.
func listenPeer(t testing.TB, scheme string, dom verbs.Domain, private []byte) *listener {
	t.Helper()
	l := &listener{peers: make(chan *octets.Peer, 16)}
	l.private.Store(&private)
	listen := func(addr string) (at string, stop func(), err error) {
		return octets.Listen(t, dom, addr, func() octets.Config { return peerConfig(*l.private.Load()) }, func(p *octets.Peer) { l.peers <- p })
	}
	// An address of its own: clients remember for a while, by address, who knows only version 1 (D-5).
	n := servers.Add(1)
	at, stop, err := listen(fmt.Sprintf("127.1.%d.%d:0", n>>8&0xff, n&0xff))
	if err != nil { // not every system has more than one
		at, stop, err = listen("127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	l.url = scheme + "://" + at
	return l
}
