package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// testCase is one line of the run's output.
type testCase struct {
	name, what string
	smoke      bool
	run        func(*T)
	after      func(*T, *decoded) // looks at the capture, if not nil
	// faulty cases cut connections or kill processes: their captures may hold connections
	// without an end.
	faulty bool
	// alarm matches lines of a guest's log that this case brings about on purpose.
	alarm string
}

var cases []*testCase

func add(c *testCase) struct{} { cases = append(cases, c); return struct{}{} }

// T is a case being run.
type T struct {
	*lab
	ctx     context.Context
	c       *testCase
	dir     string
	notes   []string
	failure string
	cleanup []func()
	touched map[string]*guest
	wrap    []string // what our programs are started by, beside the namespace's own
}

type failed struct{}

func (t *T) fatal(format string, args ...any) {
	t.failure = fmt.Sprintf(format, args...)
	panic(failed{})
}

func (t *T) check(err error) {
	if err != nil {
		t.fatal("%v", err)
	}
}

func (t *T) note(format string, args ...any) { t.notes = append(t.notes, fmt.Sprintf(format, args...)) }

func (t *T) defer_(f func()) { t.cleanup = append(t.cleanup, f) }

// run runs a case between the start and the end of its capture, and then judges the capture.
func (l *lab) run(ctx context.Context, c *testCase) (t *T) {
	t = &T{lab: l, ctx: ctx, c: c, dir: filepath.Join(l.out, c.name), touched: map[string]*guest{}}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		t.failure = err.Error()
		return t
	}
	defer func() {
		_ = os.WriteFile(filepath.Join(t.dir, "notes"), []byte(strings.Join(append(t.notes, t.failure), "\n")+"\n"), 0o644)
	}()
	s, err := l.sniff(filepath.Join(t.dir, "bridge.pcap"))
	if err != nil {
		t.failure = "no capture: " + err.Error()
		return t
	}
	t.protect(func() { c.run(t) })
	t.unwind()
	if n := s.stop(); n != "" && t.failure == "" {
		t.note("the capture lacks %s packets", n)
	}
	if t.failure == "" {
		t.protect(t.guestLogs)
	}
	if t.failure == "" {
		t.protect(func() { t.judge(s.file) })
	} else {
		// What a failed case left in a guest would fail the next ones too.
		for _, g := range t.touched {
			t.note("%s's console: %s", g.name, tail(filepath.Join(g.dir, "console.log"), 5))
			g.kill()
		}
	}
	return t
}

// unwind runs what was deferred, the last first.
func (t *T) unwind() {
	for i := len(t.cleanup) - 1; i >= 0; i-- {
		t.cleanup[i]()
	}
	t.cleanup = nil
}

func (t *T) protect(f func()) {
	defer func() {
		switch r := recover().(type) {
		case nil, failed:
		default:
			panic(r)
		}
	}()
	f()
}

// guestLogs fails a case in which a guest's kernel said something alarming.
func (t *T) guestLogs() {
	for name, g := range t.touched {
		if t.guests[name] != g {
			continue // killed on purpose
		}
		script := "alarms"
		if t.c.alarm != "" {
			script += " | grep -vE '" + t.c.alarm + "'"
		}
		out, _ := g.run(20*time.Second, script+"; dmesg -c >>/host/dmesg; true")
		if out != "" {
			t.fatal("the kernel of guest %s says: %s", name, out)
		}
	}
}

// guest is a running guest of that name, booted if need be, and no other of our two cores' worth
// beside it unless both are asked for.
func (t *T) guest(name string) *guest {
	g := t.guests[name]
	if g == nil {
		for other, og := range t.guests {
			if t.touched[other] == nil {
				og.kill()
			}
		}
		var err error
		g, err = t.boot(name, false)
		t.check(err)
		setup := "siw_up"
		if name == "srv" {
			setup = "knfsd_up 8"
		}
		out, err := g.run(60*time.Second, setup+" && dmesg -c >/host/dmesg")
		if err != nil {
			t.fatal("%s: %v\n%s", setup, err, out)
		}
	}
	t.touched[name] = g
	return g
}

// script runs a script in a guest; its failure is the case's.
func (t *T) script(g *guest, d time.Duration, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	out, err := g.run(d, text)
	if err != nil {
		t.fatal("%v\n--- script\n%s\n--- output\n%s", err, text, out)
	}
	return out
}

func tail(file string, n int) string {
	b, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
