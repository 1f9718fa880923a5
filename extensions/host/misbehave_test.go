package host

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// TestHangs: a plugin whose session hangs, on one connection, loses what that connection has for it; others do not
// notice.
func TestHangs(t *testing.T) {
	p := mustStart(t, executable(t, "ok"), fast)
	hung, s := connect(t, p)
	fine, other := connect(t, p)
	s.Message(message(1, "hang"))
	for i := range 100 { // of which its queue holds 8
		s.Message(message(ext.Token(i+2), "more"))
	}
	hung.want("answer 101 0 ")
	if h := p.Health(); h.Waiting != 8 || h.Dropped != 93 {
		t.Errorf("%d wait, %d dropped, of 101 and a queue of 8", h.Waiting, h.Dropped)
	}
	other.Message(message(1, "hello"))
	fine.want("answer 1 2 hello")
}

// TestStopsReading: a process that stands still has its queues fill up, and no more.
func TestStopsReading(t *testing.T) {
	p := mustStart(t, executable(t, "ok"), fast)
	e, s := connect(t, p)
	s.Message(message(1, "stop"))
	for i := range 10_000 {
		s.(ext.Owner).PeerValue(exp+5, make([]byte, 1000), false)
		s.(ext.Watcher).Attached(uint32(i), "wrap", make([]byte, 1000))
	}
	s.Message(message(2, "hello"))
	e.want("answer 2 0 ")
	if h := p.Health(); h.Waiting != 8 {
		t.Errorf("%d wait, in a queue of 8", h.Waiting)
	}
}

// TestFloods: one that sends as much as it can is read at a rate, and others are served.
func TestFloods(t *testing.T) {
	flooding := mustStart(t, executable(t, "ok"), fast)
	p := mustStart(t, executable(t, "ok"), fast)
	e, s := connect(t, flooding)
	s.Message(message(1, "flood"))
	seen := 0
	wait.For(t, "a flood", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		seen += len(e.log)
		e.log = nil
		return seen > commandBurst
	})
	fine, other := connect(t, p)
	other.Message(message(1, "hello"))
	fine.want("answer 1 2 hello")
	if d := newBucket(commandRate, commandBurst).take(2*commandRate, time.Now()); d != time.Second {
		t.Errorf("twice the rate of a second is made to wait %v", d)
	}
}

// TestNonsense: what no SDK sends does nothing, is counted, and is the end of the plugin when there is enough of it.
func TestNonsense(t *testing.T) {
	p := mustStart(t, executable(t, "nonsense"), fast)
	e, s := connect2(p, t)
	s.Message(message(1, "lie"))
	wait.For(t, "all lies", func() bool { return p.Health().Nonsense == uint64(len(lies(1, 1, "")))-1 }) // it may start once
	s.Message(message(2, "honest"))
	e.want("answer 2 2 honest")
	e.mu.Lock()
	if len(e.log) != 0 {
		t.Errorf("the engine heard of nonsense: %q", e.log)
	}
	e.mu.Unlock()
	s.Message(message(3, "lie"))
	wait.For(t, "a quarantine", func() bool { return p.Health().State == Quarantined })
	e.want("answer 1 0 ")
	if h := p.Health(); !strings.Contains(h.LastError, "it sent nonsense 32 times, last ") {
		t.Errorf("%+v", h)
	}
}

// TestManyCalls: calls whose ends a plugin does not take are bounded.
func TestManyCalls(t *testing.T) {
	p := mustStart(t, executable(t, "nonsense"), fast)
	e, s := connect2(p, t)
	s.Message(message(1, "calls"))
	wait.For(t, "one call too many", func() bool { return p.Health().Nonsense == 1 })
	e.mu.Lock()
	if n := len(e.done); n != sdk.MaxCalls {
		t.Errorf("%d calls", n)
	}
	e.mu.Unlock()
	for range sdk.MaxCalls {
		e.outcome(ext.Outcome{Kind: ext.Consumed})
	}
	s.Message(message(2, "calls")) // it has not said that it took them
	wait.For(t, "a quarantine", func() bool { return p.Health().State == Quarantined })
}

// connect2 is connect where nothing says Started.
func connect2(p *Plugin, t *testing.T) (*engine, ext.Session) {
	e := &engine{t: t}
	s := p.Connect(e)
	s.(ext.Starter).Starting(func() {})
	return e, s
}

// TestLies: a message longer than any is the end of the process, not of ours.
func TestLies(t *testing.T) {
	p := mustStart(t, executable(t, "lengths"), fast)
	e, s := connect2(p, t)
	s.Message(message(1, "length"))
	e.want("answer 1 0 ")
	wait.For(t, "another process", func() bool { return p.Health().Restarts == 1 })
	if h := p.Health(); !strings.Contains(h.LastError, "larger than max") {
		t.Errorf("%+v", h)
	}
}

// TestTalks: what it writes is logged at a rate.
func TestTalks(t *testing.T) {
	c := executable(t, "ok")
	log := &wait.Log{}
	c.Log = log.Logger()
	p := mustStart(t, c, fast)
	e, s := connect(t, p)
	s.Message(message(1, "warn"))
	e.want("answer 1 2 warned")
	wait.For(t, "a warning, as one", func() bool { return strings.Contains(log.String(), `level=WARN msg="odd n=1 who=\"a b\""`) })
	s.Message(message(2, "talk"))
	e.want("answer 2 2 said")
	wait.For(t, "lost lines", func() bool { return p.Health().LinesLost > 90_000 })
	if n := strings.Count(log.String(), "line "); n < 90 {
		t.Errorf("%d lines", n)
	}
	p.Close()
	if !strings.Contains(log.String(), "it writes too many") {
		t.Error("the log does not say that lines are missing")
	}
}

// TestLines: what a plugin writes, as the log has it.
func TestLines(t *testing.T) {
	log := &wait.Log{}
	var p Plugin
	l := newLines(log.Logger(), &p.linesLost)
	fmt.Fprint(l, "plain\nhalf")
	fmt.Fprint(l, " and half\n\n")
	fmt.Fprintln(l, `{"@level":"warn","@message":"hc","n":1}`)
	fmt.Fprintln(l, `{"time":"x","level":"ERROR","msg":"sl","who":"me","n":{"a":1}}`)
	fmt.Fprintln(l, `{"level":"WARN","msg":"\u001b[2J","who":"\u001b"}`)
	fmt.Fprintln(l, `{"level":"WARN","msg":"cut`)
	fmt.Fprintln(l, `{"@message":42}`)
	fmt.Fprintln(l, "\x1b[2Jescape \xff")
	fmt.Fprintln(l, strings.Repeat("x", 2*maxLine))
	fmt.Fprint(l, "no end")
	l.flush()
	for _, w := range []string{
		`level=INFO msg=plain`, `level=INFO msg="half and half"`, `level=WARN msg="hc n=1"`, `level=ERROR msg="sl who=me n={\"a\":1}"`,
		`level=WARN msg="?[2J who=?"`, `level=INFO msg="{\"level\":\"WARN\",\"msg\":\"cut"`,
		`level=INFO msg="{\"@message\":42}"`, `level=INFO msg="?[2Jescape ?"`,
		strings.Repeat("x", maxLine) + "…", `msg="no end"`,
	} {
		if !strings.Contains(log.String(), w+"\n") && !strings.Contains(log.String(), w+`"`+"\n") {
			t.Errorf("no %s in\n%s", w, log)
		}
	}
	fmt.Fprintln(l, "panic: oh\n\ngoroutine 1 [running]:\nmain.main()")
	if !strings.Contains(log.String(), `level=ERROR msg="panic: oh"`) || !strings.Contains(log.String(), `level=ERROR msg=main.main()`) {
		t.Errorf("a panic:\n%s", log)
	}
	if q := l.quoted(); strings.Count(q, `", "`) != keptLast-1 || !strings.HasSuffix(q, `"no end", "panic: oh"`) || len(q) > 1000 {
		t.Errorf("the last lines are %s", q)
	}
}
