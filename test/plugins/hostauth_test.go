package plugins_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/extensions/x/hostauth"
	"github.com/rpcrdma/rpcrdma/props"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

var (
	keyOne = "node-1 " + strings.Repeat("1f", 32)
	keyTwo = "node-1 " + strings.Repeat("2e", 32)
	null   = &rpc.Proc{Program: echo.Program, Version: 1, Name: "NULL"}
)

// keys are the options with a key file that has text.
func keys(t testing.TB, text string, more ...string) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := map[string]string{"key_file": path, "timeout": "30s"}
	for i := 0; i < len(more); i += 2 {
		o[more[i]] = more[i+1]
	}
	return o
}

// guarded is a server that counts what it executes beside NULL.
type guarded struct {
	*rpc.Server
	url      string
	executed atomic.Int64
}

func guard(t testing.TB, set *ext.Set) *guarded {
	t.Helper()
	g := &guarded{}
	g.Server = echoServer(rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
		if r.Proc != 0 {
			g.executed.Add(1)
		}
		return next(ctx, r)
	}))
	g.url = serveWith(t, g.Server, "iwarp://127.0.0.1:0", rpc.WithExtensions(set))
	return g
}

// refused makes a call that is not executed, because of the gate and for a reason that has why.
func (g *guarded) refused(t testing.TB, c *rpc.Client, why string) {
	t.Helper()
	err := call(t, c)
	var gate *engine.GateError
	if !errors.As(err, &gate) || gate.Extension != hostauth.Name || !strings.Contains(err.Error(), why) {
		t.Errorf("the call ended with %v, want %q", err, why)
	}
	if n := g.executed.Load(); n != 0 {
		t.Errorf("%d calls were executed", n)
	}
}

func withProps(t testing.TB, x ext.Extension) *ext.Set {
	t.Helper()
	set, err := ext.NewSet(props.New(props.Options{}), x)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestHostAuth(t *testing.T) {
	bothWays(t, hostauth.Name, func(t *testing.T, with func(map[string]string) *extensions.Loaded) {
		g := guard(t, with(keys(t, keyOne+"\nother "+strings.Repeat("33", 32))).Set())
		for _, o := range []map[string]string{keys(t, keyOne), keys(t, "other "+strings.Repeat("33", 32))} {
			c := dial(t, g.url, rpc.WithExtensions(with(o).Set()))
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					if err := call(t, c); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		if n := g.executed.Load(); n != 32 {
			t.Errorf("%d calls were executed", n)
		}
	})
}

// TestHostAuthRefused: a wrong key is refused at once, both sides say so, and the client does not try again by itself.
func TestHostAuthRefused(t *testing.T) {
	bothWays(t, hostauth.Name, func(t *testing.T, with func(map[string]string) *extensions.Loaded) {
		g := guard(t, with(keys(t, keyOne)).Set())
		r := newRelay(t, g.url)
		for _, tc := range []struct{ file, why string }{
			{keyTwo, "the server refuses the proof"},
			{"node-2 " + strings.Repeat("1f", 32), "the server refuses the proof"},
		} {
			before := r.dialled()
			c := dial(t, r.url, rpc.WithExtensions(with(keys(t, tc.file)).Set()))
			g.refused(t, c, tc.why)
			time.Sleep(300 * time.Millisecond)
			if n := r.dialled() - before; n != 1 {
				t.Errorf("the client has dialled %d times", n)
			}
			wait.For(t, "the server's end", func() bool { return g.Connections() == 0 })
		}
	})
}

// TestHostAuthTranslated: bound to the addresses, a connection through a translator of them is refused; else it is not.
func TestHostAuthTranslated(t *testing.T) {
	with := func(o map[string]string) *ext.Set {
		return load(t, new(wait.Log), extensions.Spec{Name: props.Name}, extensions.Spec{Name: hostauth.Name, Required: true, Options: o}).Set()
	}
	for _, bind := range []string{"none", "addresses"} {
		g := guard(t, with(keys(t, keyOne, "bind", bind)))
		direct := dial(t, g.url, rpc.WithExtensions(with(keys(t, keyOne, "bind", bind))))
		if err := call(t, direct); err != nil {
			t.Errorf("bind %s, directly: %v", bind, err)
		}
		g.executed.Store(0)
		through := dial(t, newRelay(t, g.url).url, rpc.WithExtensions(with(keys(t, keyOne, "bind", bind))))
		if bind == "none" {
			if err := call(t, through); err != nil {
				t.Errorf("through a translator: %v", err)
			}
			continue
		}
		g.refused(t, through, "an address is translated")
	}
	g := guard(t, with(keys(t, keyOne, "bind", "addresses")))
	g.refused(t, dial(t, g.url, rpc.WithExtensions(with(keys(t, keyOne)))), "bind is none here")
}

// TestHostAuthStrangers: who does not authenticate may call NULL; other calls are refused and not executed; version 1 is.
func TestHostAuthStrangers(t *testing.T) {
	bothWays(t, hostauth.Name, func(t *testing.T, with func(map[string]string) *extensions.Loaded) {
		g := guard(t, with(keys(t, keyOne)).Set())
		for name, opts := range map[string][]rpc.ClientOption{
			"no extension":    nil,
			"properties only": {rpc.WithExtensions(withoutAuth(t))},
		} {
			c := dial(t, g.url, append(opts, rpc.WithVersions(2, 2))...)
			var weak *rpcmsg.AuthError
			for range 2 {
				if err := c.Call(context.Background(), null, nil, nil); err != nil {
					t.Errorf("%s: NULL: %v", name, err)
				}
				if err := call(t, c); !errors.As(err, &weak) || weak.Stat != rpcmsg.AuthTooWeak {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		old := dial(t, g.url, rpc.WithVersions(1, 1))
		if err := call(t, old); !errors.Is(err, engine.ErrVersion) {
			t.Errorf("version 1: %v", err)
		}
		if n := g.executed.Load(); n != 0 {
			t.Errorf("%d calls were executed", n)
		}
		open, url := server(t, "iwarp://127.0.0.1:0", rpc.WithExtensions(withoutAuth(t)))
		c := dial(t, url, rpc.WithExtensions(with(keys(t, keyOne)).Set()))
		if err := call(t, c); err == nil || !strings.Contains(err.Error(), "the server does not authenticate hosts") || open.Counters().CallsRecv > 1 {
			t.Errorf("a server that does not authenticate: %v, %d calls", err, open.Counters().CallsRecv)
		}
	})
}

func withoutAuth(t testing.TB) *ext.Set {
	set, err := ext.NewSet(props.New(props.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// impostor is a peer with hostauth's property and without its key. It records what the real extension says, or plays what it was given.
type impostor struct {
	ext.Extension
	hello, proof []byte                    // to say instead; nil: as it is
	answer       func(proof []byte) []byte // a server's; nil: as it is
	maxLen       int

	mu           sync.Mutex
	said, proved []byte // recorded
}

type impostorConn struct {
	ext.Conn
	i *impostor
}

type impostorSession struct {
	ext.Session
	c *impostorConn
}

func (i *impostor) Declare() ext.Declaration {
	d := i.Extension.Declare()
	if i.maxLen > 0 {
		d.Props[0].MaxLen = i.maxLen
	}
	return d
}

func (i *impostor) Connect(c ext.Conn) ext.Session {
	ic := &impostorConn{c, i}
	return &impostorSession{i.Extension.Connect(ic), ic}
}

func (c *impostorConn) Offer(id uint32, value []byte, fixed bool) {
	c.i.mu.Lock()
	defer c.i.mu.Unlock()
	if c.i.said = bytes.Clone(value); c.i.hello != nil {
		value = c.i.hello
	}
	c.Conn.Offer(id, value, fixed)
}

func (c *impostorConn) Ask(id uint32, value []byte, done func(ext.Change)) {
	c.i.mu.Lock()
	defer c.i.mu.Unlock()
	if c.i.proved = bytes.Clone(value); c.i.proof != nil {
		value = c.i.proof
	}
	c.Conn.Ask(id, value, done)
}

func (s *impostorSession) PeerValue(id uint32, value []byte, def bool) {
	s.Session.(ext.Owner).PeerValue(id, value, def)
}

func (s *impostorSession) Requested(t ext.Token, id uint32, value []byte) {
	if s.c.i.answer != nil {
		s.c.Open()
		s.c.Settle(t, ext.Change{Kind: ext.Other, Value: s.c.i.answer(value)})
		return
	}
	s.Session.(ext.Owner).Requested(t, id, value)
}

func newImpostor(t testing.TB, file string) *impostor {
	t.Helper()
	x, err := hostauth.Configured(keys(t, file))
	if err != nil {
		t.Fatal(err)
	}
	return &impostor{Extension: x}
}

// TestHostAuthImpostors: what was recorded, sent back, cut or made longer opens no connection.
func TestHostAuthImpostors(t *testing.T) {
	bothWays(t, hostauth.Name, func(t *testing.T, with func(map[string]string) *extensions.Loaded) {
		g := guard(t, with(keys(t, keyOne)).Set())
		recorder := newImpostor(t, keyOne)
		if err := call(t, dial(t, g.url, rpc.WithExtensions(withProps(t, recorder)))); err != nil {
			t.Fatal(err)
		}
		if g.executed.Swap(0) != 1 || len(recorder.proved) != 40 {
			t.Fatalf("recorded %x, %x", recorder.said, recorder.proved)
		}
		long := append([]byte{0, 0, 4, 0}, make([]byte, 1024)...)
		for _, tc := range []struct {
			name         string
			hello, proof []byte
			why          string
		}{
			{"hello and proof of another connection", recorder.said, recorder.proved, "the server refuses the proof"},
			{"proof of another connection", nil, recorder.proved, "the server refuses the proof"},
			{"hello as the proof", nil, recorder.said, "the server refuses the proof"},
			{"short hello", append([]byte{0, 0, 0, 8}, recorder.said[4:12]...), nil, "the server refuses the proof"},
			{"short proof", nil, append([]byte{0, 0, 0, 8}, recorder.proved[4:12]...), "the server refuses the proof"},
			{"empty proof", nil, []byte{0, 0, 0, 0}, "the server refuses the proof"},
			{"long proof", nil, long, "the server refuses the proof"},
			{"long hello", long, nil, "hostauth"}, // the whole CONNPROP is refused (D-13)
		} {
			i := newImpostor(t, keyTwo)
			i.hello, i.proof, i.maxLen = tc.hello, tc.proof, 1024
			c := dial(t, g.url, rpc.WithExtensions(withProps(t, i)))
			t.Log(tc.name)
			g.refused(t, c, tc.why)
			c.Close()
		}
		mirror := newImpostor(t, keyTwo) // a server
		mirror.answer = func(proof []byte) []byte { return proof }
		m := guard(t, withProps(t, mirror))
		m.refused(t, dial(t, m.url, rpc.WithExtensions(with(keys(t, keyOne)).Set())), "the server's proof is wrong")
	})
}

// silent is a carrier of properties that is not there.
type silent struct{ *props.Extension }

func (silent) Connect(ext.Conn) ext.Session { return nil }

// TestHostAuthAlone: without who carries properties, or without its own process, nothing is opened.
func TestHostAuthAlone(t *testing.T) {
	x, err := hostauth.Configured(keys(t, keyOne, "timeout", "300ms"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ext.NewSet(x); err == nil || !strings.Contains(err.Error(), `"props", which is not loaded`) {
		t.Errorf("without props: %v", err)
	}
	dead, err := ext.NewSet(silent{props.New(props.Options{})}, x)
	if err != nil {
		t.Fatal(err)
	}
	g := guard(t, withProps(t, newImpostor(t, keyOne)))
	g.refused(t, dial(t, g.url, rpc.WithExtensions(dead)), "has not proved itself within 300ms")
	h := guard(t, dead)
	err = call(t, dial(t, h.url, rpc.WithExtensions(withProps(t, newImpostor(t, keyOne)))))
	if err == nil || h.executed.Load() != 0 {
		t.Errorf("a server without properties: %v, %d executed", err, h.executed.Load())
	}
}

// TestHostAuthKilled: a connection that was opened outlives the plugin's process; a new one is opened by the next process or not at all.
func TestHostAuthKilled(t *testing.T) {
	spec := plugin(t, hostauth.Name)
	spec.Timeout, spec.Options = time.Second, keys(t, keyOne)
	there := load(t, new(wait.Log), extensions.Spec{Name: props.Name, Required: true}, spec)
	g := guard(t, there.Set())
	here := withProps(t, newImpostor(t, keyOne))
	c := dial(t, g.url, rpc.WithExtensions(here))
	if err := call(t, c); err != nil {
		t.Fatal(err)
	}
	before := there.Health()[1].Plugin
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the process's end", func() bool { return there.Health()[1].Plugin.PID != before.PID })
	if err := call(t, c); err != nil {
		t.Errorf("on the connection that was open: %v", err)
	}
	executed := g.executed.Load()
	var why []string
	wait.For(t, "a new connection", func() bool {
		err := call(t, dial(t, g.url, rpc.WithExtensions(here)))
		if err != nil {
			if why = append(why, fmt.Sprint(err)); g.executed.Load() != executed {
				t.Errorf("a call that failed was executed: %v", err)
			}
		}
		return err == nil
	})
	t.Log(why)
}
