//go:build unix

package unixsock_test

import (
	"net"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/examples/unixsock"
	"github.com/rpcrdma/rpcrdma/test/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProvider(t *testing.T) {
	dir := t.TempDir()
	providertest.Run(t, func(*testing.T) verbs.Provider { return unixsock.Provider{} }, providertest.Options{
		Local:      dir,
		ShortSetup: map[string]string{"setup": "300ms"},
		Stall: func(t *testing.T, addr string) (stop func()) {
			_, port, _ := net.SplitHostPort(addr)
			var conns []net.Conn
			for range 20 {
				c, err := net.Dial("unix", filepath.Join(dir, "unixsock-"+port+".sock"))
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, c)
			}
			return func() {
				for _, c := range conns {
					c.Close()
				}
			}
		},
	})
}
