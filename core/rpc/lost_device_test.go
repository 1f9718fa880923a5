package rpc_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/loopback"
)

// TestLostDevice: a domain whose device is gone is replaced for all that share it, although another client still holds it, and
// is closed when the last of them has found out.
func TestLostDevice(t *testing.T) {
	for _, gone := range []error{syscall.ENODEV, verbs.ErrUnavailable} {
		f := serve(t, "loopback://127.0.0.1:0")
		o := &opener{Provider: loopback.Provider{}}
		p := &patchy{Provider: o}
		r := rpc.WithResolver(&chosen{dial: []rpc.Route{through(p, "patchy", f.l.Addr().String())}})
		a, b := dial(t, anywhere, r), dial(t, anywhere, r)
		for _, c := range []*rpc.Client{a, b} {
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
		}
		if n := o.opened.Load(); n != 1 {
			t.Fatalf("%d domains were opened for two clients, want 1", n)
		}
		lose := func(c *rpc.Client) {
			t.Helper()
			for _, conn := range c.Conns() {
				conn.Abort(errors.New("the device is gone"))
				<-conn.Done()
			}
			p.dial = gone
			if err := c.Connect(ctx(t)); !errors.Is(err, gone) {
				t.Fatalf("%v, want %v", err, gone)
			}
			p.dial = nil
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
		}
		lose(a)
		if n, open := o.opened.Load(), o.open.Load(); n != 2 || open != 2 {
			t.Errorf("%v: %d domains were opened, of which %d are open; want a second, beside that of the other client", gone, n, open)
		}
		lose(b)
		for deadline := time.Now().Add(10 * time.Second); o.open.Load() > 1; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%v: the lost domain is still open after its last client has left it", gone)
			}
		}
		if n := o.opened.Load(); n != 2 {
			t.Errorf("%v: %d domains were opened, want that the second client found the first's", gone, n)
		}
		a.Close()
		b.Close()
		if n := o.open.Load(); n != 0 {
			t.Errorf("%v: %d domains are open behind the last client", gone, n)
		}
	}
}

// TestProgramsSkipTCPRoute: a client that serves programs goes on to a route that carries their calls.
func TestProgramsSkipTCPRoute(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	local := programs()
	t.Cleanup(func() { local.srv.Close() })
	r := &chosen{dial: []rpc.Route{{Scheme: "tcp", Address: "127.0.0.1:9"}, through(newPatchy(), "patchy", f.l.Addr().String())}}
	c := dial(t, anywhere, rpc.WithResolver(r), rpc.WithPrograms(local.srv))
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	taken := c.Routes()[0]
	if taken.Route.Scheme != "patchy" || len(taken.Skipped) != 1 || !strings.Contains(taken.Skipped[0].Error(), "serves no programs") {
		t.Errorf("route taken: %+v", taken)
	}
}

// TestAddressesOfAName: the next address is tried only where nothing answers at the one before, and what a peer has answered is the
// error, without those of the others.
func TestAddressesOfAName(t *testing.T) {
	unreachable := &rpc.RouteError{Err: verbs.ErrUnreachable}
	rejected := &verbs.RejectedError{Reason: "no"}
	late := errors.New("no answer in time")
	full := &rpc.PeerDomainsError{Most: 1}
	var peers []netip.AddrPort
	for _, a := range []string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"} {
		peers = append(peers, netip.MustParseAddrPort(a))
	}
	for _, tc := range []struct {
		name    string
		results []error
		dialled int
		want    []error
		only    bool
	}{
		{"the first answers", []error{nil, nil, nil}, 1, nil, false},
		{"the second answers", []error{unreachable, nil, nil}, 2, nil, false},
		{"none answers", []error{unreachable, syscall.ECONNREFUSED, unreachable}, 3, []error{verbs.ErrUnreachable, syscall.ECONNREFUSED}, false},
		{"one rejects", []error{unreachable, rejected, nil}, 2, []error{rejected}, true},
		{"one is late", []error{late, nil, nil}, 1, []error{late}, true},
		{"no domain for one", []error{full, nil, nil}, 2, nil, false},
	} {
		var dialled []netip.AddrPort
		_, err := rpc.FirstOf(ctx(t), peers, func(a netip.AddrPort) (*engine.Conn, error) {
			dialled = append(dialled, a)
			return nil, tc.results[len(dialled)-1]
		})
		if !slices.Equal(dialled, peers[:tc.dialled]) {
			t.Errorf("%s: dialled %v, want the first %d", tc.name, dialled, tc.dialled)
		}
		for _, want := range tc.want {
			if !errors.Is(err, want) || tc.only && err != want {
				t.Errorf("%s: %v, want %v", tc.name, err, want)
			}
		}
		if len(tc.want) == 0 && err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
