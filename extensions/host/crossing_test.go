package host

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// TestCrossing: all of the contract reaches the plugin, and what it does the engine.
func TestCrossing(t *testing.T) {
	c := executable(t, "ok")
	log := &wait.Log{}
	c.Log = log.Logger()
	p := mustStart(t, c, fast)
	e, s := connect(t, p)
	if !e.has("offer 4294967045 red false") {
		t.Error("what it offered at once came after it had started")
	}

	e.mu.Lock()
	e.facts = ext.Facts{ID: 9, Client: true, RecvSize: 4096, Remote: netip.MustParseAddrPort("[2001:db8::1]:20049")}
	e.mu.Unlock()
	s.Message(message(11, "facts"))
	e.want("answer 11 2 9 true 4096 [2001:db8::1]:20049")
	s.Message(message(12, "plain"))
	e.want("answer 12 2 plain")
	s.Message(message(13, "twice"))
	e.want("answer 13 2 one")

	s.Message(message(14, "send it"))
	e.want("send note it")
	e.outcome(ext.Outcome{Kind: ext.Answered, Info: []byte("and back")})
	e.want("answer 14 2 answered and back")
	s.Message(message(15, "request"))
	e.want("request receive size 8192")
	e.want("answer 15 2 receive size 8192: no true")
	s.Message(message(16, "ask blue"))
	e.want("ask 4294967045 blue")
	e.want("answer 16 2 another value other")
	s.Message(message(17, "attach it"))
	e.want("attach wrap true")
	e.want("consumed note 3")
	e.want("answer 17 2 ")
	s.Message(message(18, "fail enough of it"))
	e.want(`fail extension "acme": enough of it`)

	s.(ext.Owner).PeerValue(exp+5, []byte("green"), true)
	e.want("send note peer has 5 green true")
	s.(ext.Owner).Requested(19, exp+5, []byte("black"))
	e.want("settle 19 done")
	s.(ext.Watcher).Attached(20, "wrap", []byte("x"))
	e.want("send note attached 20 wrap x")
	if _, ok := s.(ext.Carrier); ok {
		t.Error("it carries properties, which it has not declared")
	}

	h := p.Health()
	if h.State != Up || h.PID == 0 || h.Protocol != 2 || h.Connections != 1 || h.Dropped != 0 || h.Late != 1 || h.Nonsense != 0 || h.Restarts != 0 {
		t.Errorf("%+v, of one connection with one answer too many", h)
	}
	wait.For(t, "everything taken", func() bool { return p.Health().Waiting == 0 })
	s.Closed(errors.New("pulled"))
	wait.For(t, "its last line", func() bool { return strings.Contains(log.String(), "closed: pulled true") })
	s.Message(message(21, "after the end"))
	e.want("answer 21 0 ")
	if h := p.Health(); h.Connections != 0 {
		t.Errorf("%d connections after the last has closed", h.Connections)
	}
}

// TestCarrier: the carrier role crosses too.
func TestCarrier(t *testing.T) {
	p := mustStart(t, executable(t, "carrier"), fast)
	e := &engine{t: t, props: []ext.Prop{{ID: 1}, {ID: 2, Type: ext.Enum, Default: []byte{0, 0, 0, 1}}}}
	s := p.Connect(e).(ext.Carrier)
	s.Offered(2, []byte("v"), true)
	s.Begin()
	e.want("peer 2 v true")
	e.want("send note begin with 2")
	s.Asked(5, 1, []byte("w"))
	e.want("peer requests 1 w")
	e.want("settle 5 done")
}

// TestOldProtocol: a plugin of the version before works, without what came after it.
func TestOldProtocol(t *testing.T) {
	p := mustStart(t, executable(t, "old"), fast)
	if v := p.Health().Protocol; v != 1 {
		t.Fatalf("version %d", v)
	}
	e, s := connect(t, p) // begins at once: nothing says Started
	e.want("offer 4294967045 red false")
	s.Message(message(1, "hello"))
	e.want("answer 1 2 hello")
	if h := p.Health(); h.Nonsense != 0 {
		t.Errorf("%d commands that version 1 does not have", h.Nonsense)
	}
}

// TestOldProgram: a new plugin works in a program that speaks only the version before.
func TestOldProgram(t *testing.T) {
	p := mustStart(t, executable(t, "ok"), tune{versions: []int{1}})
	if v := p.Health().Protocol; v != 1 {
		t.Fatalf("version %d", v)
	}
	e, s := connect(t, p)
	s.Message(message(1, "hello"))
	e.want("answer 1 2 hello")
	if h := p.Health(); h.Nonsense != 0 {
		t.Errorf("%d commands that version 1 does not have", h.Nonsense)
	}
	wantRefused(t, executable(t, "carrier"), tune{versions: []int{1}},
		[]string{"it carries properties, which version 1 of the plugin protocol cannot: the program is older than the plugin"})
}

// TestNoSession: a plugin that has nothing to do with a connection leaves it as if it were not loaded.
func TestNoSession(t *testing.T) {
	p := mustStart(t, executable(t, "nosession"), fast)
	e, s := connect(t, p)
	s.Message(message(1, "hello"))
	e.want("answer 1 0 ")
	s.(ext.Owner).Requested(2, exp+5, nil)
	e.want("settle 2 rejected")
}

// TestSlowConnect: a plugin that takes long to begin holds up nothing but itself: the engine waits for it as long as
// Timeout says.
func TestSlowConnect(t *testing.T) {
	c := executable(t, "slowconnect")
	p := mustStart(t, c, fast)
	e := &engine{t: t}
	s := p.Connect(e)
	if most := s.(ext.Starter).Starting(func() { e.note("started") }); most != DefaultTimeout {
		t.Errorf("the engine waits %v", most)
	}
	if e.has("started") {
		t.Error("it has started")
	}
	p.Close()
	e.want("started")
}
