package hostauth

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// end is one side's ext.Conn, and the carrier of properties behind it.
type end struct {
	t      testing.TB
	peer   *end
	facts  ext.Facts
	s      *session
	offer  []byte
	asking []byte
	asked  func(ext.Change)
	change *ext.Change // that Settle was told

	mu     sync.Mutex // the timer's goroutine calls Fail
	opened int
	failed *Error
}

var (
	keyOne = strings.Repeat("1f", 32)
	keyTwo = strings.Repeat("2e", 64)
	fileID int
)

// keyFile writes a key file.
func keyFile(t testing.TB, text string) string {
	t.Helper()
	fileID++
	path := filepath.Join(t.TempDir(), fmt.Sprint("keys", fileID))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// with makes an extension whose key file has text.
func with(t testing.TB, text string, o Options) *Extension {
	t.Helper()
	o.KeyFile = keyFile(t, text)
	x, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// join connects a client with c and a server with s.
func join(t testing.TB, c, s *Extension) (client, server *end) {
	a, b := netip.MustParseAddrPort("192.0.2.1:700"), netip.MustParseAddrPort("[2001:db8::2]:20049")
	client = &end{t: t, facts: ext.Facts{Client: true, Local: a, Remote: b}}
	server = &end{t: t, facts: ext.Facts{Local: b, Remote: a}}
	client.peer, server.peer = server, client
	client.s, server.s = c.Connect(client).(*session), s.Connect(server).(*session)
	t.Cleanup(func() {
		client.s.Closed(nil)
		server.s.Closed(nil)
	})
	return client, server
}

// run exchanges what the two have to say, each thing changed on its way by the functions that are not nil.
func run(client, server *end, hello, proof func([]byte) []byte, answer func(ext.Change) ext.Change) {
	through := func(f func([]byte) []byte, b []byte) []byte {
		if b = append([]byte(nil), b...); f == nil {
			return b
		}
		return f(b)
	}
	server.s.PeerValue(PropertyID, through(hello, client.offer), false)
	client.s.PeerValue(PropertyID, through(nil, server.offer), false)
	if client.asked == nil {
		return
	}
	server.s.Requested(1, PropertyID, through(proof, client.asking))
	c := *server.change
	if answer != nil {
		c = answer(c)
	}
	client.asked(c)
}

// outcome is why neither is open, or nil where both are.
func (e *end) outcome() (open bool, why *Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opened == 1 && e.failed == nil, e.failed
}

func (e *end) Offer(id uint32, value []byte, fixed bool) {
	if id != PropertyID || fixed {
		e.t.Errorf("offered %d, fixed %t", id, fixed)
	}
	e.offer = value
}

func (e *end) Ask(id uint32, value []byte, done func(ext.Change)) {
	if id != PropertyID || e.asked != nil {
		e.t.Errorf("asked for %d, again %t", id, e.asked != nil)
	}
	e.asking, e.asked = value, done
}

func (e *end) Settle(_ ext.Token, c ext.Change) { e.change = &c }

func (e *end) Open() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened++
}

func (e *end) Fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failed == nil {
		e.failed = err.(*Error)
	}
}

func (e *end) Facts() ext.Facts                     { return e.facts }
func (e *end) Send(ext.Outgoing, func(ext.Outcome)) { e.t.Error("something is sent") }
func (e *end) Answer(ext.Token, ext.Verdict)        { e.t.Error("something is answered") }
func (e *end) Request(ext.Request, func(error))     { e.t.Error("something is asked for") }
func (e *end) Attach(string, []byte)                { e.t.Error("something is attached") }
func (e *end) Consumed(string, int)                 { e.t.Error("something is consumed") }
