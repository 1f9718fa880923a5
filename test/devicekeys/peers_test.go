package devicekeys_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/devicekeys"
	"github.com/rpcrdma/rpcrdma/test/providertest"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestProvider: the device keeps the contract.
func TestProvider(t *testing.T) {
	p := devicekeys.Register()
	providertest.Run(t, func(*testing.T) verbs.Provider { return p }, providertest.Options{})
}

var procEcho = &rpc.Proc{Program: 0x20000001, Version: 1, Number: 1, Name: "ECHO", Binding: binding.Binding{Args: true, Results: true, MaxReply: 16}, Idempotent: true}

type bulk []byte

func (b bulk) MarshalXDR(w *xdr.Writer)    { w.BulkOpaque(b) }
func (b *bulk) UnmarshalXDR(r *xdr.Reader) { *b = r.Bulk(1 << 20) }

// serve makes a server that echoes, on an address of a provider.
func serve(t *testing.T, url string, opts ...rpc.ListenOption) *rpc.Listener {
	t.Helper()
	return serveLogged(t, url, slog.New(slog.DiscardHandler), opts...)
}

func serveLogged(t *testing.T, url string, log *slog.Logger, opts ...rpc.ListenOption) *rpc.Listener {
	t.Helper()
	srv := rpc.NewServer(rpc.WithLog(log))
	srv.Register(procEcho.Program, 1, rpc.Method{Proc: procEcho, Handler: func(_ context.Context, r *rpc.Request) error {
		b := r.Args.Bulk(1 << 20)
		if err := r.Args.Done(); err != nil {
			return err
		}
		r.Results.BulkOpaque(append([]byte(nil), b...))
		return nil
	}})
	l, err := rpc.Listen(context.Background(), url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l
}

func dial(t *testing.T, url string, opts ...rpc.ClientOption) *rpc.Client {
	t.Helper()
	c, err := rpc.NewClient(url, append(opts, rpc.WithRetransmits(-1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// echo calls with bytes that travel by RDMA Read and Write, so that keys are used.
func echo(t *testing.T, c *rpc.Client) {
	t.Helper()
	data, into := make([]byte, 20_000), make([]byte, 20_000)
	for i := range data {
		data[i] = byte(i * 7)
	}
	var got bulk
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Call(ctx, procEcho, bulk(data), &got, rpc.Into(into)); err != nil || string(got) != string(data) {
		t.Fatalf("%d bytes back, %v", len(got), err)
	}
}

func domains(t *testing.T, p *devicekeys.Provider, when string, open int) {
	t.Helper()
	wait.For(t, fmt.Sprintf("%s: %d domains open", when, open), func() bool {
		n, _ := p.Domains()
		return n == open
	})
	if err := p.Mixed(); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

func opened(p *devicekeys.Provider) int {
	_, n := p.Domains()
	return n
}

// TestAcceptedPeers: a listener has a domain for each address that is connected to it, closed with the last connection.
func TestAcceptedPeers(t *testing.T) {
	p := devicekeys.Register()
	l := serve(t, p.Scheme+"://127.0.0.1:0")
	domains(t, p, "nobody is connected", 1) // the listener's
	at := func(local string) *rpc.Client {
		c := dial(t, "loopback://"+l.Addr().String()+"?local="+local)
		echo(t, c)
		return c
	}
	a1, a2 := at("127.0.0.2"), at("127.0.0.2")
	domains(t, p, "one peer, two connections", 2)
	b := at("127.0.0.3")
	domains(t, p, "two peers", 3)
	a1.Close()
	echo(t, a2)
	domains(t, p, "the first peer has one connection left", 3)
	a2.Close()
	domains(t, p, "the first peer is gone", 2)
	echo(t, b)
	again := at("127.0.0.2")
	domains(t, p, "it is back", 3)
	if n := opened(p); n != 4 {
		t.Errorf("%d domains were opened, want 4", n)
	}
	again.Close()
	b.Close()
	domains(t, p, "all are gone", 1)
}

// TestAcceptedByTheDialledAddress: a listener on an unspecified address opens a peer's domain at the address that the peer dialled,
// one for each of those; with a local address of its own, or on one that names it, at that.
func TestAcceptedByTheDialledAddress(t *testing.T) {
	for _, tc := range []struct {
		listen string
		want   []string
	}{
		{"0.0.0.0:0", []string{"", "127.0.0.5", "127.0.0.6"}},
		{"0.0.0.0:0?local=127.0.0.1", []string{"127.0.0.1", "127.0.0.1"}},
	} {
		p := devicekeys.Register()
		l := serve(t, p.Scheme+"://"+tc.listen)
		for _, at := range []string{"127.0.0.5", "127.0.0.6", "127.0.0.5"} {
			echo(t, dial(t, fmt.Sprintf("loopback://%s:%d?local=127.0.0.2", at, l.Addr().Port())))
		}
		if got := p.Locals(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: domains were opened at %q, want %q", tc.listen, got, tc.want)
		}
	}
}

// TestListenerCloses: its end closes the domains of peers that are connected.
func TestListenerCloses(t *testing.T) {
	p := devicekeys.Register()
	l := serve(t, p.Scheme+"://127.0.0.1:0")
	echo(t, dial(t, "loopback://"+l.Addr().String()))
	domains(t, p, "one peer", 2)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n, _ := p.Domains(); n != 0 {
		t.Errorf("%d domains are open after Listener.Close", n)
	}
}

// TestAcceptedPeersAreBounded: one peer too many is refused and told so; when one has gone there is room.
func TestAcceptedPeersAreBounded(t *testing.T) {
	p := devicekeys.Register()
	var logged wait.Log
	l := serveLogged(t, p.Scheme+"://127.0.0.1:0", logged.Logger(), rpc.WithPeerDomains(2))
	at := func(local string) *rpc.Client {
		return dial(t, "loopback://"+l.Addr().String()+"?local="+local)
	}
	a, b, c := at("127.0.0.2"), at("127.0.0.3"), at("127.0.0.4")
	echo(t, a)
	echo(t, b)
	var no *verbs.RejectedError
	if err := c.Connect(context.Background()); !errors.As(err, &no) {
		t.Errorf("the third peer: %v, want a RejectedError", err)
	}
	if s := logged.String(); !strings.Contains(s, "no protection domain is left for 127.0.0.4: 2 other peers have one each") {
		t.Errorf("the server's log: %q", s)
	}
	domains(t, p, "two peers", 3)
	echo(t, at("127.0.0.2")) // a peer that has one needs none
	a.Close()
	b.Close()
	domains(t, p, "one is gone", 2)
	echo(t, c)
}

// TestDialledPeers: clients of one server share a domain, clients of two have one each; it is closed with the last
// connection, while the client lives, too.
func TestDialledPeers(t *testing.T) {
	p := devicekeys.Register()
	one, two := serve(t, "loopback://127.0.0.2:0"), serve(t, "loopback://127.0.0.3:0")
	url := func(l *rpc.Listener) string { return p.Scheme + "://" + l.Addr().String() }
	a1, a2, b := dial(t, url(one)), dial(t, url(one)), dial(t, url(two))
	echo(t, a1)
	echo(t, a2)
	domains(t, p, "two clients of one server", 1)
	echo(t, b)
	domains(t, p, "another server", 2)
	if n := opened(p); n != 2 {
		t.Errorf("%d domains were opened, want 2", n)
	}
	a1.Close()
	echo(t, a2)
	domains(t, p, "one client is left", 2)
	for _, c := range a2.Conns() {
		c.Abort(errors.New("told to"))
	}
	domains(t, p, "its connection has ended", 1)
	echo(t, a2)
	domains(t, p, "it has called again", 2)
	a2.Close()
	b.Close()
	domains(t, p, "all are closed", 0)
}

// TestNamesAreResolved: where a name leads decides the domain.
func TestNamesAreResolved(t *testing.T) {
	p := devicekeys.Register()
	l := serve(t, "loopback://127.0.0.1:0")
	echo(t, dial(t, fmt.Sprintf("%s://localhost:%d", p.Scheme, l.Addr().Port())))
	domains(t, p, "a name", 1)
}

// TestDialledPeersAreBounded: beyond 128 servers a client is told; it does not take another's domain.
func TestDialledPeersAreBounded(t *testing.T) {
	p := devicekeys.Register()
	l := serve(t, "loopback://0.0.0.0:0")
	at := func(i int) string { return fmt.Sprintf("%s://127.1.0.%d:%d", p.Scheme, i, l.Addr().Port()) }
	var all []*rpc.Client
	for i := range 128 {
		c := dial(t, at(i+1))
		if err := c.Connect(context.Background()); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	domains(t, p, "as many as there may be", 128)
	late := dial(t, at(200))
	var no *rpc.PeerDomainsError
	if err := late.Connect(context.Background()); !errors.As(err, &no) || no.Most != 128 || no.Peer.String() != "127.1.0.200" {
		t.Errorf("%v, want a PeerDomainsError", err)
	}
	all[0].Close()
	domains(t, p, "one is closed", 127)
	echo(t, late)
}

// TestComeAndGo: peers that connect and leave at any moment never share a domain and leave none.
func TestComeAndGo(t *testing.T) {
	p := devicekeys.Register()
	l := serve(t, p.Scheme+"://0.0.0.0:0")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for round := range 25 {
				c, err := rpc.NewClient(fmt.Sprintf("%s://127.0.0.%d:%d?local=127.0.0.%d", p.Scheme, 2+(i+round)%3, l.Addr().Port(), 5+i%2))
				if err != nil {
					t.Error(err)
					return
				}
				var got bulk
				if err := c.Call(context.Background(), procEcho, bulk("some bytes"), &got); err != nil {
					t.Error(err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	domains(t, p, "all are gone", 1)
}
