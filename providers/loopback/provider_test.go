package loopback_test

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/loopback"
	"github.com/rpcrdma/rpcrdma/test/providertest"
)

func TestProvider(t *testing.T) {
	providertest.Run(t, func(*testing.T) verbs.Provider { return loopback.Provider{} }, providertest.Options{
		Domain:     map[string]string{"private": "56/196/148"}, // each its own, as over InfiniBand
		Listen6:    "[::1]:0",
		ShortSetup: map[string]string{"setup_timeout": "100ms"},
	})
}
