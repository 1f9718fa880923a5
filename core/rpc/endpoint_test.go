package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// opener counts the domains of another provider.
type opener struct {
	verbs.Provider
	scheme       string
	opened, open atomic.Int64
}

var openers atomic.Int64

// countOpens registers the provider of a scheme under another, which counts.
func countOpens(t testing.TB, scheme string) *opener {
	t.Helper()
	p, ok := verbs.Lookup(scheme)
	if !ok {
		t.Fatalf("no provider %q", scheme)
	}
	o := &opener{Provider: p, scheme: fmt.Sprintf("opener%d", openers.Add(1))}
	verbs.Register(o.scheme, o)
	return o
}

func (o *opener) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	d, err := o.Provider.Open(ctx, local, options)
	if err != nil {
		return nil, err
	}
	o.opened.Add(1)
	o.open.Add(1)
	return &openDomain{d, o}, nil
}

// url is the address of another scheme's URL.
func (o *opener) url(url string) string { return o.scheme + url[strings.Index(url, "://"):] }

type openDomain struct {
	verbs.Domain
	o *opener
}

func (d *openDomain) Close() error {
	err := d.Domain.Close()
	d.o.open.Add(-1)
	return err
}

func files(t testing.TB) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Logf("files are not counted: %v", err)
	}
	return len(list)
}

// TestClientsShareADomain: a hundred clients of one server open one protection domain, and their connections cost what a
// connection costs: here two goroutines at each end, and two sockets.
func TestClientsShareADomain(t *testing.T) {
	const clients = 100
	o := countOpens(t, "iwarp")
	f := serve(t, "iwarp://127.0.0.1:0")
	echo := func(c *rpc.Client) {
		t.Helper()
		var got blob
		if err := c.Call(ctx(t), procEcho, blob("x"), &got); err != nil || string(got) != "x" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	echo(dial(t, o.url(f.url)))
	goroutines, fds := runtime.NumGoroutine(), files(t)
	var all []*rpc.Client
	for range clients {
		c := dial(t, o.url(f.url))
		echo(c)
		all = append(all, c)
	}
	if n := o.opened.Load(); n != 1 {
		t.Errorf("%d domains were opened, want 1", n)
	}
	if n := runtime.NumGoroutine() - goroutines; n > 4*clients+20 {
		t.Errorf("%d goroutines more for %d clients", n, clients)
	}
	if fds > 0 {
		if n := files(t) - fds; n != 2*clients {
			t.Errorf("%d files more for %d clients and the server's ends", n, clients)
		}
	}
	t.Logf("%d goroutines and %d files for %d clients", runtime.NumGoroutine()-goroutines, files(t)-fds, clients)
	for i, c := range all {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if i < clients-1 {
			echo(all[i+1])
		}
	}
	if n := o.open.Load(); n != 1 {
		t.Errorf("%d domains are open while one client is left, want 1", n)
	}
}

// TestLastClientClosesTheDomain, and no other; the next one opens another.
func TestLastClientClosesTheDomain(t *testing.T) {
	o := countOpens(t, "loopback")
	f := serve(t, "loopback://127.0.0.1:0")
	for round := range 3 {
		var all []*rpc.Client
		for range 3 {
			c := dial(t, o.url(f.url))
			if err := c.Connect(ctx(t)); err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		for i, c := range all {
			if n := o.open.Load(); n != 1 {
				t.Errorf("round %d: %d domains are open with %d clients, want 1", round, n, len(all)-i)
			}
			c.Close()
		}
		if open, opened := o.open.Load(), o.opened.Load(); open != 0 || opened != int64(round+1) {
			t.Errorf("round %d: %d domains are open of %d, want none of %d", round, open, opened, round+1)
		}
	}
}

// TestCloseIsTheClientsOwn: a client's Close neither ends nor waits for another's calls.
func TestCloseIsTheClientsOwn(t *testing.T) {
	for _, scheme := range []string{"loopback", "iwarp"} {
		t.Run(scheme, func(t *testing.T) {
			f := serve(t, scheme+"://127.0.0.1:0")
			a, b := dial(t, f.url), dial(t, f.url)
			answered := make(chan error, 1)
			var got bulk
			go func() {
				answered <- a.Call(ctx(t), procWait, bulk(pattern(9000)), &got, rpc.Into(make([]byte, 9000)))
			}()
			<-f.inside
			lost := make(chan error, 1)
			go func() { lost <- b.Call(ctx(t), procWait, bulk(nil), nil) }()
			<-f.inside
			closed := make(chan error, 1)
			go func() { closed <- b.Close() }()
			if err := <-lost; err == nil {
				t.Error("a call of the client that was closed was answered")
			}
			select {
			case err := <-closed:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("Close waits for another client's call")
			}
			select {
			case err := <-answered:
				t.Fatalf("the other client's call ended: %v", err)
			default:
			}
			close(f.wait)
			if err := <-answered; err != nil {
				t.Errorf("the other client's call: %v", err)
			}
			if n := len(a.Conns()); n != 1 {
				t.Errorf("the other client has %d connections, want its one", n)
			}
		})
	}
}

// TestWhatIsNotShared: another option or limit, or Endpoints of one's own, open another domain; what does not concern
// domains does not.
func TestWhatIsNotShared(t *testing.T) {
	o := countOpens(t, "loopback")
	f := serve(t, "loopback://127.0.0.1:0")
	url := o.url(f.url)
	first := dial(t, url)
	if err := first.Connect(ctx(t)); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		url  string
		opts []rpc.ClientOption
		more int64
	}{
		"the same":            {url, nil, 0},
		"other credits":       {url, []rpc.ClientOption{rpc.WithCredits(3)}, 0},
		"provider's option":   {url + "?queue=100", nil, 1},
		"local address":       {url + "?local=127.0.0.9", nil, 1},
		"longer receives":     {url, []rpc.ClientOption{rpc.WithInline(8192)}, 1},
		"limit of extensions": {url, []rpc.ClientOption{rpc.WithMaxInline(8192)}, 1},
		"own endpoints":       {url, []rpc.ClientOption{rpc.WithEndpoints(rpc.NewEndpoints())}, 1},
	} {
		before := o.opened.Load()
		c, err := rpc.NewClient(tc.url, tc.opts...)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Connect(ctx(t)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := o.opened.Load() - before; n != tc.more {
			t.Errorf("%s: %d domains more, want %d", name, n, tc.more)
		}
		c.Close()
		if n := o.open.Load(); n != 1 {
			t.Errorf("%s: %d domains are open, want the first client's", name, n)
		}
	}
}

// TestBubblesApart: with Endpoints of its own a client in a bubble has nothing of those outside, whatever they connect to.
func TestBubblesApart(t *testing.T) {
	o := countOpens(t, "loopback")
	f := serve(t, o.scheme+"://127.0.0.1:0")
	outside := dial(t, f.url)
	call := func(t *testing.T, c *rpc.Client) {
		t.Helper()
		var got blob
		if err := c.Call(ctx(t), procEcho, blob("x"), &got); err != nil || string(got) != "x" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	call(t, outside)
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			f := serve(t, o.scheme+"://127.0.0.1:0")
			call(t, dial(t, f.url, rpc.WithEndpoints(rpc.NewEndpoints())))
			time.Sleep(time.Hour)
			call(t, dial(t, f.url, rpc.WithEndpoints(rpc.NewEndpoints())))
		})
	}
	call(t, outside)
}

// TestSharedReceivesRunOut: a client that finds no receives left is told how many there are; the others go on, and so does it
// with Endpoints of its own.
func TestSharedReceivesRunOut(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	shared := rpc.NewEndpoints()
	var greedy []*rpc.Client
	for range 7 { // 16390 of 131072 receives each
		c := dial(t, f.url, rpc.WithCredits(1<<14), rpc.WithEndpoints(shared))
		if err := c.Connect(ctx(t)); err != nil {
			t.Fatal(err)
		}
		greedy = append(greedy, c)
	}
	late := dial(t, f.url, rpc.WithCredits(1<<14), rpc.WithEndpoints(shared))
	var no *engine.ReceivesError
	if err := late.Connect(ctx(t)); !errors.As(err, &no) || no.Want != 16390 || no.Reserved != 7*16390 || no.Limit != 1<<17 {
		t.Errorf("%v, want a ReceivesError with what there is", err)
	}
	for _, c := range append(greedy, dial(t, f.url, rpc.WithCredits(1<<14), rpc.WithEndpoints(rpc.NewEndpoints()))) {
		if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
			t.Error(err)
		}
	}
	greedy[0].Close()
	if err := late.Connect(ctx(t)); err != nil {
		t.Errorf("with receives again: %v", err)
	}
}

// TestClientsComeAndGo: clients that share a domain begin and end at any moment, and none notices another.
func TestClientsComeAndGo(t *testing.T) {
	o := countOpens(t, "loopback")
	f := serve(t, "loopback://127.0.0.1:0")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 40 {
				c, err := rpc.NewClient(o.url(f.url))
				if err != nil {
					t.Error(err)
					return
				}
				calls := make(chan struct{})
				if rand.IntN(3) == 0 { // while it connects
					go func() {
						defer close(calls)
						c.Connect(context.Background())
					}()
					time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
				} else {
					close(calls)
					if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
						t.Error(err)
					}
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				<-calls
			}
		})
	}
	wg.Wait()
	if n := o.open.Load(); n != 0 {
		t.Errorf("%d domains are left open", n)
	}
}

// TestDomainOpensLater: a domain that cannot be opened is an error of those who wait for it, and is tried again.
func TestDomainOpensLater(t *testing.T) {
	o := &opener{Provider: refusing{new(atomic.Bool)}, scheme: fmt.Sprintf("opener%d", openers.Add(1))}
	verbs.Register(o.scheme, o)
	f := serve(t, "loopback://127.0.0.1:0")
	c := dial(t, o.url(f.url), rpc.WithRetransmits(-1))
	if err := c.Connect(ctx(t)); !errors.Is(err, errRefusing) {
		t.Fatalf("%v, want the provider's error", err)
	}
	o.Provider.(refusing).opens.Store(true)
	if err := c.Connect(ctx(t)); err != nil {
		t.Error(err)
	}
}

// refusing is the loopback provider, which opens nothing at first.
type refusing struct{ opens *atomic.Bool }

var errRefusing = errors.New("no device yet")

func (refusing) Name() string { return "refusing" }

func (refusing) Probe(context.Context) (verbs.Info, error) { return verbs.Info{}, nil }

func (r refusing) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	if !r.opens.Load() {
		return nil, errRefusing
	}
	p, _ := verbs.Lookup("loopback")
	return p.Open(ctx, local, options)
}
