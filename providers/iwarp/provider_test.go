package iwarp_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/test/memory"
	"github.com/rpcrdma/rpcrdma/test/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient are domains whose orderly closes are orderly on a busy machine too: 2 s, the default, may be over before the
// other end has read what was under way.
var patient = map[string]string{"linger": "1m"}

func TestProvider(t *testing.T) {
	providertest.Run(t, func(*testing.T) verbs.Provider { return iwarp.New(nil) }, providertest.Options{
		Domain:       patient,
		Listen6:      "[::1]:0",
		SmallBuffers: map[string]string{"sndbuf": "4096", "rcvbuf": "4096"},
		ShortSetup:   map[string]string{"setup": "300ms"},
		Stall:        stall,
	})
}

// with is a provider that adds options to those of each Open.
type with struct {
	verbs.Provider
	options map[string]string
}

func (p with) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	all := maps.Clone(p.options)
	maps.Copy(all, options)
	return p.Provider.Open(ctx, local, all)
}

// modes are the ways to wait for input, besides the default.
var modes = map[string]map[string]string{
	"thread": {"reader": "thread"},
	"spin":   {"spin": "50us"},
}

// TestModes is the whole contract in each of them.
func TestModes(t *testing.T) {
	for name, options := range modes {
		if options["reader"] == "thread" && !stream.Threads {
			continue
		}
		t.Run(name, func(t *testing.T) {
			providertest.Run(t, func(*testing.T) verbs.Provider { return with{iwarp.New(nil), options} }, providertest.Options{
				Domain:       patient,
				SmallBuffers: map[string]string{"sndbuf": "4096", "rcvbuf": "4096"},
				ShortSetup:   map[string]string{"setup": "300ms"},
				Stall:        stall,
			})
		})
	}
}

func TestModesThatAreNone(t *testing.T) {
	for _, bad := range []map[string]string{{"reader": "epoll"}, {"spin": "2ms"}, {"spin": "-1us"}, {"spin": "50"}} {
		var e *verbs.OptionError
		if _, err := iwarp.New(nil).Open(t.Context(), "", bad); !errors.As(err, &e) || bad[e.Key] != e.Value || e.Want == "" {
			t.Errorf("%v: %v", bad, err)
		}
	}
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
	}, providertest.Options{Domain: patient, ShortSetup: map[string]string{"setup": "300ms"}})
}

// TestLocal: Open's address is where Dial comes from, and where Listen binds without a host.
func TestLocal(t *testing.T) {
	d, err := iwarp.New(nil).Open(t.Context(), "127.0.0.2", nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Listen(t.Context(), ":0", verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Addr().Addr().String(); got != "127.0.0.2" {
		t.Errorf("listening on %s", got)
	}
	from := make(chan string, 1)
	go func() {
		if r, err := l.Accept(t.Context()); err == nil {
			from <- r.RemoteAddr().Addr().String()
			r.Reject(nil)
		}
	}()
	d.Dial(t.Context(), l.Addr().String(), verbs.Options{Handler: &end{}})
	if got := <-from; got != "127.0.0.2" {
		t.Errorf("dialled from %s", got)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := iwarp.New(nil).Open(t.Context(), "nowhere", nil); err == nil {
		t.Error("Open on an address that is none")
	}
}
