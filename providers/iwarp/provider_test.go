package iwarp_test

import (
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream/memory"
	"github.com/rpcrdma/rpcrdma/test/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProvider(t *testing.T) {
	providertest.Run(t, func(*testing.T) verbs.Provider { return iwarp.New(nil) }, providertest.Options{
		Listen6:      "[::1]:0",
		SmallBuffers: map[string]string{"sndbuf": "4096", "rcvbuf": "4096"},
		ShortSetup:   map[string]string{"setup": "300ms"},
		Stall:        stall,
	})
}

// stall leaves set-ups half done: streams that say nothing, and streams that stop within
// their MPA request.
func stall(t *testing.T, addr string) (stop func()) {
	var conns []net.Conn
	for i := range 20 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if i%2 == 1 {
			if _, err := c.Write([]byte("MPA ID Req Frame\x50")); err != nil {
				t.Fatal(err)
			}
		}
	}
	return func() {
		for _, c := range conns {
			c.Close()
		}
	}
}

// TestProviderInMemory is the same contract where the network's segments are small, so that each
// message is many frames.
func TestProviderInMemory(t *testing.T) {
	providertest.Run(t, func(*testing.T) verbs.Provider {
		return iwarp.New(&memory.Network{})
	}, providertest.Options{ShortSetup: map[string]string{"setup": "300ms"}})
}
