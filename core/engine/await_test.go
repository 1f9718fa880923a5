package engine

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// waiter is an extension that only asks.
type waiter struct{}

func (waiter) Declare() ext.Declaration         { return ext.Declaration{Name: "waiter"} }
func (w waiter) Connect(ext.Conn) ext.Session   { return w }
func (waiter) Message(ext.Message)              {}
func (waiter) Closed(error)                     {}
func waiters(t *testing.T, cfg *Config) *Config { return extended(t, cfg, waiter{}) }

func extended(t *testing.T, cfg *Config, exts ...ext.Extension) *Config {
	t.Helper()
	set, err := ext.NewSet(exts...)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Extensions = set
	return cfg
}

func answered(t *testing.T, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatalf("%s: no answer", what)
	}
	return nil
}

func TestSilence(t *testing.T) {
	for _, transport := range transports[:2] {
		t.Run(transport, func(t *testing.T) {
			p := couple(t, transport, *waiters(t, &Config{}), *waiters(t, &Config{}))
			for _, d := range []ext.Silence{0, ext.Silence(ext.MinSilence) - 1, ext.Silence(ext.MaxSilence) + 1} {
				if err := answered(t, "silence", change(p.client, 0, d)); err == nil || !strings.Contains(err.Error(), "want 10ms to 1h") {
					t.Errorf("%v: %v", d, err)
				}
			}
			replaced := change(p.client, 0, ext.Silence(time.Hour))
			here, there := change(p.client, 0, ext.Silence(50*time.Millisecond)), change(p.server, 0, ext.Silence(50*time.Millisecond))
			var refused *ext.RequestError
			if err := answered(t, "replaced", replaced); !errors.As(err, &refused) || !strings.Contains(err.Error(), "replaced") {
				t.Errorf("the former request: %v", err)
			}
			for _, done := range []<-chan error{here, there} {
				if err := answered(t, "silence", done); err != nil {
					t.Error(err)
				}
			}
			var before, after verbs.Stats
			p.client.Fabric(&before)
			passed := p.client.ext.passedBytes()
			p.call(t, 3000)
			p.client.Fabric(&after)
			if n := p.client.ext.passedBytes() - passed; n < after.SentBytes-before.SentBytes+3000 {
				t.Errorf("%d bytes have passed in a call that sent %d and received 3000", n, after.SentBytes-before.SentBytes)
			}
			change(p.client, 0, ext.Silence(time.Hour))
			p.client.Abort(errors.New("cut by the test"))
			<-p.client.Done()
			if err := <-change(p.client, 0, ext.Silence(20*time.Millisecond)); !strings.Contains(fmt.Sprint(err), "has ended") {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// TestSilences: what passes begins the time anew, and the end is found a quarter of it late at most.
func TestSilences(t *testing.T) {
	s := &session{}
	x := &extensions{sessions: []*session{s}, over: true} // without a timer
	n, start := 0, time.Now()
	s.awaits = awaits{silence: func(error) { n++ }, long: 80, since: start, passed: 7, due: start.Add(20)}
	for _, step := range []struct {
		at     time.Duration
		passed uint64
		due    time.Duration // next
		want   int
	}{
		{19, 7, 20, 0}, // not its turn
		{20, 7, 40, 0},
		{45, 8, 65, 0}, // a byte, at the latest now
		{65, 8, 85, 0},
		{110, 8, 125, 0}, // late, so the rest is less than a quarter
		{125, 8, 0, 1},
		{500, 8, 0, 1}, // once
	} {
		answerAll(x.silences(start.Add(step.at), step.passed), nil)
		if n != step.want || step.want == 0 && s.awaits.due != start.Add(step.due) {
			t.Errorf("at %d: %d answers, next look at %d", step.at, n, s.awaits.due.Sub(start))
		}
	}
}

func TestGrantChange(t *testing.T) {
	var busy atomic.Bool
	server := waiters(t, &Config{Credits: 16, KeepAlive: 80 * time.Millisecond, Busy: busy.Load})
	p := couple(t, "loopback", *waiters(t, &Config{Credits: 8}), *server)
	done := change(p.server, 0, ext.GrantChange{})
	stale := func(now int) bool {
		p.server.mu.Lock()
		defer p.server.mu.Unlock()
		return p.server.rule.stale(now)
	}
	if stale(16) || stale(8) || !stale(7) || len(done) != 0 {
		t.Fatal("a client that asks for 8 was told 16 and now may have 8: the same")
	}
	busy.Store(true)
	if err := answered(t, "change", done); err != nil {
		t.Fatal(err)
	}
	p.call(t, 10)
	busy.Store(false)
	if err := answered(t, "change back", change(p.server, 0, ext.GrantChange{})); err != nil {
		t.Fatal(err)
	}
	replaced := change(p.server, 0, ext.GrantChange{})
	change(p.server, 0, ext.GrantChange{})
	if err := answered(t, "replaced", replaced); err != nil && !strings.Contains(err.Error(), "replaced") {
		t.Errorf("the former request: %v", err)
	}
}

func TestStaleGrant(t *testing.T) {
	for _, tc := range []struct {
		rule creditRule
		now  int
		want bool
	}{
		{creditRule{}, 8, false}, // nothing has been said yet: the first reply will
		{creditRule{told: 8}, 8, false},
		{creditRule{told: 8}, 4, true},
		{creditRule{told: 8}, 16, true},
		{creditRule{told: 8, asked: 8}, 16, false}, // it takes no more
		{creditRule{told: 8, asked: 12}, 16, true},
	} {
		if got := tc.rule.stale(tc.now); got != tc.want {
			t.Errorf("%+v, now %d: %v", tc.rule, tc.now, got)
		}
	}
}
