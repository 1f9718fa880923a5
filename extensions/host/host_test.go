package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/test/self"
)

// The test binary is the plugin too: linked as rpcrdma-ext-MODE, and started by a host, it is the one that
// modes_test.go has under that name.
func TestMain(m *testing.M) {
	if mode, ok := strings.CutPrefix(filepath.Base(os.Args[0]), "rpcrdma-ext-"); ok {
		bePlugin(mode)
		os.Exit(0)
	}
	if dir := os.Getenv("RPCRDMA_TEST_HOST"); dir != "" {
		beHost(dir)
	}
	goleak.VerifyTestMain(m)
}

// executable makes a plugin of a mode, and its digest.
func executable(t testing.TB, mode string) Config {
	t.Helper()
	path := self.As(t, "rpcrdma-ext-"+mode)
	return Config{Name: "acme", Path: path, SHA256: digest(t, path), StartTimeout: time.Minute, Log: quietLog()}
}

func digest(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := sum(f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func quietLog() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// fast is how tests have a plugin start again.
var fast = tune{backoff: time.Millisecond, most: 10 * time.Millisecond}

func mustStart(t testing.TB, c Config, u tune) *Plugin {
	t.Helper()
	p, err := start(context.Background(), c, u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// engine is an ext.CarrierConn that writes down what it is told.
type engine struct {
	t     testing.TB
	props []ext.Prop

	mu    sync.Mutex
	facts ext.Facts
	log   []string
	done  []func(ext.Outcome)
}

func (e *engine) note(format string, args ...any) {
	e.mu.Lock()
	e.log = append(e.log, fmt.Sprintf(format, args...))
	e.mu.Unlock()
}

// want waits for a line, and takes it with all before it.
func (e *engine) want(line string) {
	e.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		e.mu.Lock()
		i := slices.Index(e.log, line)
		if i >= 0 {
			e.log = e.log[i+1:]
			e.mu.Unlock()
			return
		}
		log := strings.Join(e.log, "\n")
		e.mu.Unlock()
		if time.Now().After(end) {
			e.t.Fatalf("no %q in a minute, but:\n%s", line, log)
		}
	}
}

func (e *engine) has(line string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.log, line)
}

func (e *engine) Facts() ext.Facts {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.facts
}

func (e *engine) Send(m ext.Outgoing, done func(ext.Outcome)) {
	e.note("send %s %s", m.Op, m.Info)
	if done != nil {
		e.mu.Lock()
		e.done = append(e.done, done)
		e.mu.Unlock()
	}
}

func (e *engine) Answer(t ext.Token, v ext.Verdict) {
	e.note("answer %d %d %s", t, v.Kind, v.Info)
}

func (e *engine) Request(r ext.Request, done func(error)) {
	e.note("request %v", r)
	if done != nil {
		done(&ext.RequestError{Request: r, Why: "no"})
	}
}

func (e *engine) Offer(id uint32, value []byte, fixed bool) {
	e.note("offer %d %s %t", id, value, fixed)
}

func (e *engine) Ask(id uint32, value []byte, done func(ext.Change)) {
	e.note("ask %d %s", id, value)
	done(ext.Change{Kind: ext.Other, Value: []byte("other")})
}

func (e *engine) Settle(t ext.Token, c ext.Change) { e.note("settle %d %v", t, c.Kind) }
func (e *engine) Attach(op string, info []byte)    { e.note("attach %s %t", op, info != nil) }
func (e *engine) Consumed(op string, n int)        { e.note("consumed %s %d", op, n) }
func (e *engine) Open()                            { e.note("open") }
func (e *engine) Fail(err error)                   { e.note("fail %v", err) }
func (e *engine) Declared() []ext.Prop             { return e.props }

func (e *engine) Peer(id uint32, value []byte, def bool) { e.note("peer %d %s %t", id, value, def) }

func (e *engine) Requested(id uint32, value []byte, done func(ext.Change)) {
	e.note("peer requests %d %s", id, value)
	done(ext.Change{Kind: ext.Done})
}

// outcome ends the oldest Send that waits for it.
func (e *engine) outcome(o ext.Outcome) {
	e.mu.Lock()
	done := e.done[0]
	e.done = e.done[1:]
	e.mu.Unlock()
	done(o)
}

// connect is a connection that has begun: Starting's done has been called.
func connect(t testing.TB, p *Plugin) (*engine, ext.Session) {
	t.Helper()
	e := &engine{t: t}
	s := p.Connect(e)
	if s == nil {
		t.Fatal("no session")
	}
	begun := make(chan struct{})
	var once sync.Once
	s.(ext.Starter).Starting(func() { once.Do(func() { close(begun) }) })
	select {
	case <-begun:
	case <-time.After(time.Minute):
		t.Fatal("it has not started in a minute")
	}
	return e, s
}

// message asks the plugin something; its answer is "answer TOKEN 2 …".
func message(token ext.Token, text string) ext.Message {
	return ext.Message{Op: "echo", XID: 7, Info: []byte(text), Token: token}
}

// beHost is a program with a plugin, to be killed. It writes its plugin's pid.
func beHost(path string) {
	d, err := Digest(path)
	if err != nil {
		panic(err)
	}
	p, err := Start(context.Background(), Config{Name: "acme", Path: path, SHA256: d, StartTimeout: time.Minute, RunDir: filepath.Dir(path)})
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Health().PID)
	select {}
}
