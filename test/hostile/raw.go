package hostile

import (
	"net/url"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/test/octets"
)

// raw is one connection of the hostile peer.
type raw struct{ *octets.Peer }

// patience is how long the peer waits for what must come; only a failure takes so long.
const patience = time.Minute

func config(private []byte) octets.Config {
	return octets.Config{Private: private, Receives: 160, Size: 8 << 10, Out: 4 << 20, Patience: patience}
}

// good is private data as our own ends send it.
var good = octets.Private()

// open is the fabric of a target, and what to dial or bind there.
func open(tb testing.TB, target string) (dom verbs.Domain, addr string) {
	tb.Helper()
	u, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	return octets.Open(tb, u.Scheme), u.Host
}

// dial connects to a server of ours.
func dial(tb testing.TB, dom verbs.Domain, addr string, private []byte) *raw {
	tb.Helper()
	return &raw{octets.Dial(tb, dom, addr, config(private))}
}
