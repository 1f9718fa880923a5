package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/loopback"
)

// chosen is a resolver that has the routes it was given, under the scheme "rdma".
type chosen struct {
	mu     sync.Mutex
	dial   []rpc.Route
	listen [][]rpc.Route
	err    error
	asked  int // for routes to dial
}

func (r *chosen) Check(t rpc.Target) error {
	if t.Scheme != "rdma" {
		return &rpc.TargetError{Target: t.String(), Problem: "only rdma is known"}
	}
	return nil
}

func (r *chosen) DialRoutes(context.Context, rpc.Target) ([]rpc.Route, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return r.dial, r.err
}

func (r *chosen) ListenRoutes(context.Context, rpc.Target) ([][]rpc.Route, error) {
	return r.listen, r.err
}

// patchy is the loopback provider, of which parts fail.
type patchy struct {
	verbs.Provider
	open, dial, listen error
	opened, dialled    atomic.Int32
	during             func(context.Context) // if not nil, runs in Dial
}

func newPatchy() *patchy { return &patchy{Provider: loopback.Provider{}} }

func (p *patchy) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	p.opened.Add(1)
	if p.open != nil {
		return nil, fmt.Errorf("patchy: open: %w", p.open)
	}
	d, err := p.Provider.Open(ctx, local, options)
	return &patchyDomain{d, p}, err
}

type patchyDomain struct {
	verbs.Domain
	p *patchy
}

func (d *patchyDomain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	d.p.dialled.Add(1)
	if d.p.during != nil {
		d.p.during(ctx)
	}
	if d.p.dial != nil {
		return nil, fmt.Errorf("patchy: dial: %w", d.p.dial)
	}
	return d.Domain.Dial(ctx, addr, o)
}

func (d *patchyDomain) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	if d.p.listen != nil {
		return nil, fmt.Errorf("patchy: listen: %w", d.p.listen)
	}
	return d.Domain.Listen(ctx, addr, o)
}

// address is url's host and port.
func address(t *testing.T, url string) string {
	t.Helper()
	target, err := rpc.ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	return target.Address
}

func through(p verbs.Provider, scheme, address string) rpc.Route {
	return rpc.Route{Scheme: scheme, Provider: p, Address: address}
}

const anywhere = "rdma://server:20049"

// errorClasses are what dialling or opening can end with, and whether the next route is tried then.
var errorClasses = []struct {
	name  string
	err   error
	falls bool
}{
	{"cannot run here", verbs.ErrUnavailable, true},
	{"not built in", errors.ErrUnsupported, true},
	{"no device", syscall.ENODEV, true},
	{"no such address here", &net.OpError{Op: "dial", Err: os.NewSyscallError("bind", syscall.EADDRNOTAVAIL)}, true},
	{"no permission", &fs.PathError{Op: "open", Path: "/dev/fabric", Err: syscall.EACCES}, true},
	{"not allowed", syscall.EPERM, true},
	{"no route to the host", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, true},
	{"no route to the network", syscall.ENETUNREACH, true},
	{"refused", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, true},
	{"nothing listens", verbs.ErrUnreachable, true},

	{"rejected by the program", &verbs.RejectedError{Reason: "too many"}, false},
	{"another protocol", verbs.ErrProtocol, false},
	{"a reset", syscall.ECONNRESET, false},
	{"a time-out", os.ErrDeadlineExceeded, false},
	{"a bad option", &verbs.OptionError{Provider: "patchy", Key: "mtu"}, false},
	{"an unknown host", &net.DNSError{Err: "no such host", Name: "server"}, false},
	{"anything else", errors.New("out of order"), false},
}

// TestRoutes: the next route is tried after a failure of the route's own, and after no other.
func TestRoutes(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	for _, tc := range errorClasses {
		for _, at := range []string{"open", "dial"} {
			t.Run(tc.name+" "+at, func(t *testing.T) {
				first, second := newPatchy(), newPatchy()
				if at == "open" {
					first.open = tc.err
				} else {
					first.dial = tc.err
				}
				r := &chosen{dial: []rpc.Route{through(first, "first", f.l.Addr().String()), through(second, "second", f.l.Addr().String())}}
				var log bytes.Buffer
				c := dial(t, anywhere, rpc.WithResolver(r), rpc.WithLog(slog.New(slog.NewTextHandler(&log, nil))))
				err := c.Connect(ctx(t))
				if !tc.falls {
					var none *rpc.NoRouteError
					if !errors.As(err, &none) || !errors.Is(err, tc.err) || len(none.Tried) != 1 || none.Tried[0].Route.Scheme != "first" {
						t.Errorf("the dial ended with %v", err)
					}
					if n := second.opened.Load(); n != 0 {
						t.Errorf("the second route was tried")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := ask(t, c); err != nil {
					t.Error(err)
				}
				up := c.Routes()
				if len(up) != 1 || up[0].Route.Scheme != "second" || len(up[0].Skipped) != 1 || !errors.Is(up[0].Skipped[0], tc.err) || up[0].Skipped[0].Route.Scheme != "first" {
					t.Errorf("the client's routes: %+v", up)
				}
				for _, want := range []string{`msg="route skipped"`, `msg="route taken"`, "route=second://", "route=first://"} {
					if !strings.Contains(log.String(), want) {
						t.Errorf("the log does not have %s:\n%s", want, log.String())
					}
				}
			})
		}
	}
}

// TestRoutesOfProviders: what our providers and TCP report of a port where nothing listens makes way for the next route; a
// program that listens and refuses does not.
func TestRoutesOfProviders(t *testing.T) {
	f := serve(t, "tcp://127.0.0.1:0")
	last := rpc.Route{Scheme: "tcp", Address: address(t, f.url)}
	for _, scheme := range []string{"loopback", "iwarp", "tcp"} {
		t.Run(scheme, func(t *testing.T) {
			free, err := rpc.Listen(ctx(t), scheme+"://127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			free.Close()
			var p verbs.Provider
			if scheme != "tcp" {
				p, _ = verbs.Lookup(scheme)
			}
			r := &chosen{dial: []rpc.Route{through(p, scheme, free.Addr().String()), last}}
			c := dial(t, anywhere, rpc.WithResolver(r))
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
			if up := c.Routes(); len(up) != 1 || up[0].Route.Scheme != "tcp" || len(up[0].Skipped) != 1 {
				t.Errorf("%+v", up)
			}
			if scheme == "tcp" {
				return
			}
			full := serve(t, scheme+"://127.0.0.1:0", rpc.WithConnectionLimit(1))
			if err := ask(t, dial(t, full.url)); err != nil {
				t.Fatal(err)
			}
			r = &chosen{dial: []rpc.Route{through(p, scheme, address(t, full.url)), last}}
			var no *verbs.RejectedError
			if err := ask(t, dial(t, anywhere, rpc.WithResolver(r))); !errors.As(err, &no) {
				t.Errorf("a listener that is full: %v", err)
			}
		})
	}
}

// TestReconnectBeginsAtTheFirst: a connection that was lost is followed by one of the best route there is by then.
func TestReconnectBeginsAtTheFirst(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	first, second := newPatchy(), newPatchy()
	first.dial = syscall.ECONNREFUSED
	r := &chosen{dial: []rpc.Route{through(first, "first", f.l.Addr().String()), through(second, "second", f.l.Addr().String())}}
	c := dial(t, anywhere, rpc.WithResolver(r))
	for i, want := range []string{"second", "second", "first"} {
		if i == 2 {
			first.dial = nil
		}
		if err := ask(t, c); err != nil {
			t.Fatal(err)
		}
		if up := c.Routes(); len(up) != 1 || up[0].Route.Scheme != want {
			t.Errorf("connection %d: %+v, want %s", i+1, up, want)
		}
		if n := first.dialled.Load(); n != int32(i+1) {
			t.Errorf("the first route was dialled %d times for %d connections", n, i+1)
		}
		conn := c.Conns()[0]
		conn.Abort(errors.New("told to"))
		<-conn.Done()
	}
	if r.asked != 3 {
		t.Errorf("the resolver was asked %d times for three connections", r.asked)
	}
	// One domain for each route, however often it was tried.
	if a, b := first.opened.Load(), second.opened.Load(); a != 1 || b != 1 {
		t.Errorf("%d and %d domains were opened", a, b)
	}
}

// TestNoRoute: the error of a dial names every route that was tried, and why it failed.
func TestNoRoute(t *testing.T) {
	first, second := newPatchy(), newPatchy()
	first.open, second.dial = verbs.ErrUnavailable, syscall.ECONNREFUSED
	a := through(first, "first", "10.0.0.1:20049")
	a.Local, a.Fabric = "mlx5_0", "storage"
	r := &chosen{dial: []rpc.Route{a, through(second, "second", "10.0.0.2:20049")}}
	err := ask(t, dial(t, anywhere, rpc.WithResolver(r)))
	const want = "connect to rdma://server:20049: first://10.0.0.1:20049?local=mlx5_0 (fabric storage): patchy: open: verbs: not available on this machine; " +
		"second://10.0.0.2:20049: patchy: dial: connection refused"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	var none *rpc.NoRouteError
	if !errors.Is(err, verbs.ErrUnavailable) || !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &none) || len(none.Tried) != 2 {
		t.Errorf("%#v", err)
	}

	// The error of a target that is its own route says everything once.
	err = ask(t, dial(t, "loopback://127.0.0.1:9"))
	if want := "connect to loopback://127.0.0.1:9: loopback: dial 127.0.0.1:9: connection refused"; err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

type uncomparable struct {
	verbs.Provider
	_ []int
}

// TestBadRoutes: what a resolver gives that cannot be used is an error, and no connection to something else.
func TestBadRoutes(t *testing.T) {
	p := newPatchy()
	cause := errors.New("the file is gone")
	for want, r := range map[string]*chosen{
		"rdma://server:20049: the file is gone":             {err: cause},
		"rdma://server:20049: there is no route to it":      {},
		"tcp://server:1: the resolver's route":              {dial: []rpc.Route{{Scheme: "tcp", Address: "server:1", Provider: p}}},
		"WithResolver(in Route.Settings): want":             {dial: []rpc.Route{{Scheme: "patchy", Provider: p, Address: "server:1", Settings: []rpc.ConnOption{rpc.WithResolver(rpc.Registered)}}}},
		"values of which cannot be compared: use a pointer": {dial: []rpc.Route{{Scheme: "patchy", Provider: uncomparable{p, nil}, Address: "server:1"}}},
		"it has no provider":                                {dial: []rpc.Route{{Scheme: "iwarp", Address: "server:1"}}},
		"it has no scheme or no address":                    {dial: []rpc.Route{{Provider: p, Address: "server:1"}}},
		"cannot be used: it has no scheme or no address":    {dial: []rpc.Route{{Provider: p, Scheme: "patchy"}}},
		"tcp takes no options but local":                    {dial: []rpc.Route{{Scheme: "tcp", Address: "server:1", Options: map[string]string{"a": "b"}}}},
		"WithCredits(0): want 1 to 16384":                   {dial: []rpc.Route{{Scheme: "patchy", Provider: p, Address: "server:1", Settings: []rpc.ConnOption{rpc.WithCredits(0)}}}},
		"WithInline: version 2 needs at least 4096":         {dial: []rpc.Route{{Scheme: "patchy", Provider: p, Address: "server:1", Settings: []rpc.ConnOption{rpc.WithInline(1024)}}}},
		"option 1(nil): want one that a function of pack":   {dial: []rpc.Route{{Scheme: "patchy", Provider: p, Address: "server:1", Settings: []rpc.ConnOption{nil}}}},
	} {
		r.listen = [][]rpc.Route{r.dial}
		c := dial(t, anywhere, rpc.WithResolver(r))
		var none *rpc.NoRouteError
		if err := ask(t, c); !errors.As(err, &none) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "connect to rdma://server:20049: ") {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := rpc.Listen(ctx(t), anywhere, rpc.WithResolver(r)); !errors.As(err, &none) || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "listen on rdma://server:20049: ") {
			t.Errorf("Listen: %v, want %q", err, want)
		}
	}
	if n := p.opened.Load(); n != 0 {
		t.Errorf("%d domains were opened", n)
	}
	for _, err := range []error{
		func() error { _, err := rpc.NewClient("iwarp://h:1", rpc.WithResolver(new(chosen))); return err }(),
		func() error { _, err := rpc.Listen(ctx(t), "iwarp://h:1", rpc.WithResolver(new(chosen))); return err }(),
		func() error {
			_, err := rpc.ListenAll(ctx(t), "iwarp://h:1", rpc.WithResolver(new(chosen)))
			return err
		}(),
	} {
		var bad *rpc.TargetError
		if !errors.As(err, &bad) || bad.Problem != "only rdma is known" {
			t.Errorf("%v", err)
		}
	}
	if _, err := rpc.Listen(ctx(t), anywhere, rpc.WithResolver(&chosen{})); err == nil || !strings.Contains(err.Error(), "there is no route to it") {
		t.Errorf("no group of routes: %v", err)
	}
}

// TestRegistered: the default resolver knows the providers that are linked, and tcp.
func TestRegistered(t *testing.T) {
	for in, want := range map[string]string{
		"nope://h:1":           `address "nope://h:1": unknown provider "nope"; known here: `,
		"rdma://h:1":           `address "rdma://h:1": no configuration chooses the fabric of an rdma:// address here; name it by the scheme: `,
		"tcp://h:1?crc=true":   "tcp takes no options but local",
		"tcp://h:1?local=eth0": `local address "eth0": want an IP address of this machine`,
	} {
		var bad *rpc.TargetError
		if _, err := rpc.NewClient(in); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("NewClient: %v, want %q", err, want)
		}
		if _, err := rpc.Listen(ctx(t), in); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("Listen: %v, want %q", err, want)
		}
		if strings.HasSuffix(want, ": ") {
			if _, err := rpc.NewClient(in); !strings.Contains(err.Error(), "loopback, ") || !strings.HasSuffix(err.Error(), ", tcp") {
				t.Errorf("%v does not list what is known", err)
			}
		}
	}
}

// TestRouteSettings: the settings of a route override the client's and the listener's options, for its connections.
func TestRouteSettings(t *testing.T) {
	p := newPatchy()
	listen := through(p, "patchy", "127.0.0.1:0")
	listen.Settings = []rpc.ConnOption{rpc.WithCredits(7)}
	r := &chosen{listen: [][]rpc.Route{{listen}}}
	f := programs()
	f.listen(t, anywhere, rpc.WithResolver(r), rpc.WithCredits(99))
	if want := "patchy://" + f.l.Addr().String(); f.url != want {
		t.Errorf("the listener's URL is %s, want %s", f.url, want)
	}
	one := through(newPatchy(), "one", f.l.Addr().String())
	one.Settings = []rpc.ConnOption{rpc.WithVersions(1, 1)}
	one.Provider.(*patchy).dial = verbs.ErrUnavailable
	two := through(p, "two", f.l.Addr().String())
	r.dial = []rpc.Route{one, two}
	c := dial(t, anywhere, rpc.WithResolver(r), rpc.WithCredits(99))
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	if n, v := c.Counters().Granted, c.Conns()[0].Version(); n != 7 || v != 2 {
		t.Errorf("%d credits were granted in version %d, want the route's 7, in 2: the first route's settings are not the second's", n, v)
	}
}

// TestRoutesOfOneProvider: routes that differ by their local address, options or settings have protection domains of their own.
func TestRoutesOfOneProvider(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	p := newPatchy()
	dead := through(p, "patchy", "127.0.0.1:1")
	here, queue, inline := dead, dead, through(p, "patchy", f.l.Addr().String())
	here.Local = "127.0.0.5"
	queue.Options = map[string]string{"queue": "64"}
	inline.Settings = []rpc.ConnOption{rpc.WithInline(8192)}
	r := &chosen{dial: []rpc.Route{dead, here, queue, inline}}
	c := dial(t, anywhere, rpc.WithResolver(r))
	for i := range 2 {
		if err := ask(t, c); err != nil {
			t.Fatal(err)
		}
		if n, m := p.opened.Load(), p.dialled.Load(); n != 4 || m != int32(4*(i+1)) {
			t.Errorf("%d domains were opened and %d times dialled, want 4 and %d", n, m, 4*(i+1))
		}
		conn := c.Conns()[0]
		conn.Abort(errors.New("told to"))
		<-conn.Done()
	}
}

// TestProgramsOverTCPRoute: a client that serves programs does not fall back to where they cannot be called.
func TestProgramsOverTCPRoute(t *testing.T) {
	f := serve(t, "tcp://127.0.0.1:0")
	if err := ask(t, dial(t, f.url)); err != nil {
		t.Fatal(err)
	}
	first := newPatchy()
	first.dial = syscall.ECONNREFUSED
	r := &chosen{dial: []rpc.Route{through(first, "first", "127.0.0.1:1"), {Scheme: "tcp", Address: address(t, f.url)}}}
	local := programs()
	t.Cleanup(func() { local.srv.Close() })
	err := ask(t, dial(t, anywhere, rpc.WithResolver(r), rpc.WithPrograms(local.srv)))
	if err == nil || !strings.Contains(err.Error(), "serves no programs") {
		t.Errorf("%v", err)
	}
}

// TestCancelledOnTheSecondRoute: the call ends at once, with its context's error; a third route is not tried.
func TestCancelledOnTheSecondRoute(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	first, second, third := newPatchy(), newPatchy(), newPatchy()
	first.dial = syscall.ECONNREFUSED
	reached := make(chan struct{}, 1)
	second.during = func(ctx context.Context) {
		reached <- struct{}{}
		<-ctx.Done()
	}
	second.dial = syscall.ECONNREFUSED // as some say it when they are interrupted
	at := f.l.Addr().String()
	r := &chosen{dial: []rpc.Route{through(first, "first", at), through(second, "second", at), through(third, "third", at)}}
	c := dial(t, anywhere, rpc.WithResolver(r))
	cc, cancel := context.WithCancelCause(ctx(t))
	mine := errors.New("I have changed my mind")
	done := make(chan error, 1)
	go func() { done <- c.Connect(cc) }()
	<-reached
	cancel(mine)
	var none *rpc.NoRouteError
	if err := <-done; !errors.As(err, &none) || len(none.Tried) != 2 || !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
	if n := third.opened.Load(); n != 0 {
		t.Error("the third route was tried")
	}
	// Another caller's call is none the worse for it.
	second.during = nil
	if err := ask(t, c); err != nil {
		t.Error(err)
	}
}

// TestListenRoutes: a listener is bound by the first route of its fabric that can be bound.
func TestListenRoutes(t *testing.T) {
	for _, tc := range errorClasses {
		for _, at := range []string{"open", "listen"} {
			t.Run(tc.name+" "+at, func(t *testing.T) {
				first, second := newPatchy(), newPatchy()
				if at == "open" {
					first.open = tc.err
				} else {
					first.listen = tc.err
				}
				r := &chosen{listen: [][]rpc.Route{{through(first, "first", "127.0.0.1:0"), through(second, "loopback", "127.0.0.1:0")}}}
				l, err := rpc.Listen(ctx(t), anywhere, rpc.WithResolver(r))
				if !tc.falls {
					var none *rpc.NoRouteError
					if !errors.As(err, &none) || !errors.Is(err, tc.err) || len(none.Tried) != 1 || second.opened.Load() != 0 {
						t.Errorf("%v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				if took := l.Route(); took.Route.Scheme != "loopback" || len(took.Skipped) != 1 || !errors.Is(took.Skipped[0], tc.err) {
					t.Errorf("%+v", took)
				}
				if want := "loopback://" + l.Addr().String(); l.URL() != want {
					t.Errorf("%s, want %s", l.URL(), want)
				}
			})
		}
	}
	taken, err := rpc.Listen(ctx(t), "loopback://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := &chosen{listen: [][]rpc.Route{{through(newPatchy(), "first", taken.Addr().String()), through(newPatchy(), "second", "127.0.0.1:0")}}}
	if _, err := rpc.Listen(ctx(t), anywhere, rpc.WithResolver(r)); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("an address that is in use is no reason for another fabric: %v", err)
	}
}

// TestListenAll: an address that several fabrics have is bound on all of them, or on none; Listen refuses it.
func TestListenAll(t *testing.T) {
	f := programs()
	defer f.srv.Close()
	one := through(newPatchy(), "loopback", "127.0.0.1:0")
	broken := through(newPatchy(), "broken", "127.0.0.1:0")
	broken.Provider.(*patchy).listen = verbs.ErrUnavailable
	two := rpc.Route{Scheme: "tcp", Address: "127.0.0.1:0"}
	r := &chosen{listen: [][]rpc.Route{{one}, {broken, two}}}
	if _, err := rpc.Listen(ctx(t), anywhere, rpc.WithResolver(r)); err == nil || !strings.Contains(err.Error(), "2 fabrics have this address") || !strings.Contains(err.Error(), "ListenAll") {
		t.Errorf("Listen on two fabrics: %v", err)
	}
	ls, err := rpc.ListenAll(ctx(t), anywhere, rpc.WithResolver(r))
	if err != nil || len(ls) != 2 {
		t.Fatalf("%d listeners, %v", len(ls), err)
	}
	var served sync.WaitGroup
	for _, l := range ls {
		served.Go(func() {
			if err := f.srv.Serve(context.Background(), l); err != nil {
				t.Error(err)
			}
		})
	}
	for i, scheme := range []string{"loopback", "tcp"} {
		if got := ls[i].URL(); !strings.HasPrefix(got, scheme+"://") {
			t.Errorf("listener %d is %s", i, got)
		}
		if err := ask(t, dial(t, ls[i].URL())); err != nil {
			t.Errorf("%s: %v", scheme, err)
		}
	}
	f.srv.Close()
	served.Wait()

	// The second cannot be bound: the first's address is free again.
	port := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 2)
	first := through(newPatchy(), "loopback", port.String())
	r = &chosen{listen: [][]rpc.Route{{first}, {broken}}}
	var none *rpc.NoRouteError
	if _, err := rpc.ListenAll(ctx(t), anywhere, rpc.WithResolver(r)); !errors.As(err, &none) || !errors.Is(err, verbs.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	l, err := rpc.Listen(ctx(t), "loopback://"+port.String())
	if err != nil {
		t.Fatalf("the address stays bound: %v", err)
	}
	l.Close()
}

// TestListenLocal: tcp takes ?local= as the address to bind where the target names no host.
func TestListenLocal(t *testing.T) {
	l, err := rpc.Listen(ctx(t), "tcp://:0?local=127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !l.Addr().Addr().IsLoopback() {
		t.Errorf("it is bound to %v", l.Addr())
	}
	route := rpc.Route{Scheme: "tcp", Address: "127.0.0.1:1", Local: "nonsense"}
	c := dial(t, anywhere, rpc.WithResolver(&chosen{dial: []rpc.Route{route}}))
	if err := ask(t, c); err == nil || !strings.Contains(err.Error(), `local address "nonsense"`) {
		t.Errorf("%v", err)
	}
}
