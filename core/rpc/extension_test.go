package rpc_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// Ids of the extensions that these tests make.
const (
	idAsk   = ext.ExperimentalFirst + 0x10 + iota // answered by idTold
	idTold                                        // its answer
	idSelf                                        // answers itself
	idNote                                        // one-way, either side
	idHint                                        // one-way, the server's
	idGrant                                       // unasked, direction REPLY
	idProp
)

// fake is an extension that records what it hears. What a session does with a message is act's.
type fake struct {
	decl    ext.Declaration
	act     func(*fakeSession, ext.Message)
	refuses bool // Connect gives no session

	mu       sync.Mutex
	sessions []*fakeSession
	up       chan *fakeSession
}

type fakeSession struct {
	fake *fake
	conn ext.Conn

	mu     sync.Mutex
	heard  []ext.Message
	closed int
	err    error
	done   chan struct{}
	inside int
}

func fakeDecl() ext.Declaration {
	return ext.Declaration{
		Name: "fake", Version: "1", Document: "",
		Ops: []ext.Op{
			{Name: "ask", Type: idAsk, Proc: idAsk, Answer: "told", Window: 4, Deadline: time.Minute},
			{Name: "told", Type: idTold, Proc: idTold, Reply: true},
			{Name: "self", Type: idSelf, Answer: "self", From: ext.Client, Window: 2, Deadline: time.Minute},
			{Name: "note", Type: idNote, Window: 3, Deadline: time.Minute},
			{Name: "hint", Proc: idHint, From: ext.Server, Window: 2},
			{Name: "grant", Type: idGrant, Reply: true, From: ext.Server, Credit: true},
		},
		Props: []ext.Prop{{ID: idProp, Name: "level", Type: ext.Uint32, Default: []byte{0, 0, 0, 0}, Mutable: true}},
	}
}

func newFake(act func(*fakeSession, ext.Message)) *fake {
	return &fake{decl: fakeDecl(), act: act, up: make(chan *fakeSession, 64)}
}

func (f *fake) Declare() ext.Declaration { return f.decl }

func (f *fake) Connect(c ext.Conn) ext.Session {
	if f.refuses {
		return nil
	}
	s := &fakeSession{fake: f, conn: c, done: make(chan struct{})}
	f.mu.Lock()
	f.sessions = append(f.sessions, s)
	f.mu.Unlock()
	f.up <- s
	return s
}

func (s *fakeSession) Message(m ext.Message) {
	s.mu.Lock()
	s.heard = append(s.heard, m)
	s.inside++
	if s.inside > 1 {
		panic("two at a time")
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.inside--
		s.mu.Unlock()
	}()
	if s.fake.act != nil {
		s.fake.act(s, m)
	}
}

func (s *fakeSession) Closed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	s.err = err
	close(s.done)
}

// echoes answers what can be answered with what it said.
func echoes(s *fakeSession, m ext.Message) {
	switch m.Op {
	case "ask", "self":
		s.conn.Answer(m.Token, ext.Verdict{Kind: ext.Answer, Info: m.Info})
	default:
		if m.Token != 0 {
			s.conn.Answer(m.Token, ext.Verdict{Kind: ext.Accept})
		}
	}
}

func (s *fakeSession) messages(op string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.heard {
		if m.Op == op {
			n++
		}
	}
	return n
}

// send sends and waits for the outcome.
func (s *fakeSession) send(t testing.TB, m ext.Outgoing) ext.Outcome {
	t.Helper()
	got := make(chan ext.Outcome, 2)
	s.conn.Send(m, func(o ext.Outcome) { got <- o })
	select {
	case o := <-got:
		return o
	case <-time.After(2 * time.Minute):
		t.Fatalf("no outcome of %s", m.Op)
	}
	return ext.Outcome{}
}

func setOf(t testing.TB, exts ...ext.Extension) *ext.Set {
	t.Helper()
	set, err := ext.NewSet(exts...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (f *fake) session(t testing.TB) *fakeSession {
	t.Helper()
	select {
	case s := <-f.up:
		return s
	case <-time.After(2 * time.Minute):
		t.Fatal("no session began")
	}
	return nil
}

// extended is a client and a server with a fake on each side, and one call made.
type extended struct {
	f              *fixture
	c              *rpc.Client
	client, server *fakeSession
}

// extend takes options of clients; those that are listeners' too are for both ends.
func extend(t testing.TB, url string, here, there *fake, opts ...rpc.ClientOption) *extended {
	t.Helper()
	listen := []any{rpc.WithExtensions(setOf(t, there))}
	for _, opt := range opts {
		if both, ok := opt.(rpc.ListenOption); ok {
			listen = append(listen, both)
		}
	}
	e := &extended{f: serve(t, url, listen...)}
	e.c = dial(t, e.f.url, append(opts, rpc.WithExtensions(setOf(t, here)))...)
	e.call(t, 1)
	e.client, e.server = here.session(t), there.session(t)
	return e
}

func (e *extended) call(t testing.TB, n int) {
	t.Helper()
	for range n {
		in, out := blob(pattern(64)), blob(nil)
		if err := e.c.Call(ctx(t), procEcho, &in, &out); err != nil {
			t.Fatal(err)
		}
	}
}

var extendedURLs = []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0"}

func TestExtensionOperations(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			e := extend(t, url, newFake(echoes), newFake(echoes))
			for _, m := range []ext.Outgoing{
				{Op: "ask", Info: []byte("as a procedure")},
				{Op: "ask", Info: []byte("as an option"), Optional: true},
				{Op: "self", Info: []byte("itself")},
				{Op: "self"},
			} {
				o := e.client.send(t, m)
				if o.Kind != ext.Answered || string(o.Info) != string(m.Info) || o.Optional != (m.Optional || m.Op == "self") || o.XID == 0 {
					t.Errorf("%+v: %+v", m, o)
				}
			}
			if o := e.server.send(t, ext.Outgoing{Op: "ask", Info: []byte{1, 2, 3}}); o.Kind != ext.Answered || len(o.Info) != 3 {
				t.Errorf("the server asks: %+v", o)
			}
			for i := range 5 {
				got := make(chan ext.Outcome, 1)
				e.client.conn.Send(ext.Outgoing{Op: "note", Info: binary.BigEndian.AppendUint32(nil, uint32(i))}, func(o ext.Outcome) { got <- o })
				e.call(t, 1) // D-8: the reply to a call sent later proves it
				if o := <-got; o.Kind != ext.Consumed {
					t.Errorf("note: %+v", o)
				}
			}
			wait.For(t, "the notes", func() bool { return e.server.messages("note") == 5 })
			for _, op := range []string{"hint", "grant"} { // one-way, the server's: CALL and REPLY
				got := make(chan ext.Outcome, 1)
				e.server.conn.Send(ext.Outgoing{Op: op, Info: []byte(op)}, func(o ext.Outcome) { got <- o })
				wait.For(t, op, func() bool { return e.client.messages(op) == 1 })
				e.call(t, 65) // one more than are granted
				if o := <-got; o.Kind != ext.Consumed {
					t.Errorf("%s: %+v", op, o)
				}
			}
			for _, m := range e.client.heard {
				if m.Op == "grant" && (!m.Reply || m.Token != 0 || m.Credit != 64) || m.Op == "hint" && (m.Reply || m.Token == 0 || string(m.Info) != "hint") {
					t.Errorf("%+v", m)
				}
			}
			if o := e.client.send(t, ext.Outgoing{Op: "hint"}); o.Kind != ext.NotSent {
				t.Errorf("the server's operation sent by a client: %+v", o)
			}
		})
	}
}

// TestExtensionsAsideOfCalls: operations and calls of many at once do not disturb each other.
func TestExtensionsAsideOfCalls(t *testing.T) {
	for _, url := range extendedURLs {
		t.Run(url[:5], func(t *testing.T) {
			e := extend(t, url, newFake(echoes), newFake(echoes), rpc.WithCredits(8))
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for range 50 {
						in, out := blob(pattern(64)), blob(nil)
						if err := e.c.Call(context.Background(), procEcho, &in, &out); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			for i := range 4 {
				for _, s := range []*fakeSession{e.client, e.server} {
					wg.Go(func() {
						for j := range 50 {
							want := fmt.Sprint(i, j)
							if o := s.send(t, ext.Outgoing{Op: "ask", Info: []byte(want), Optional: j%2 == 1}); o.Kind != ext.Answered || string(o.Info) != want {
								t.Errorf("%s: %+v", want, o)
							}
						}
					})
				}
			}
			wg.Wait()
		})
	}
}
