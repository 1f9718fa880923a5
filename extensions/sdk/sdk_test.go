package sdk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/rpcrdma/rpcrdma/core/ext"
	pb "github.com/rpcrdma/rpcrdma/extensions/sdk/extensionpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const exp = ext.ExperimentalFirst

// scripted is an extension whose sessions are the test's functions.
type scripted struct {
	carrier bool
	connect func(ext.Conn) ext.Session
}

func (s *scripted) Declare() ext.Declaration {
	return ext.Declaration{Name: "scripted", Carrier: s.carrier, Document: "a test", Ops: []ext.Op{{Name: "op", Type: exp}}}
}

func (s *scripted) Connect(c ext.Conn) ext.Session { return s.connect(c) }

// session is one whose calls go into a channel.
type session struct{ calls chan string }

func newSession() *session { return &session{make(chan string, 10_000)} }

func (s *session) Message(m ext.Message) { s.calls <- fmt.Sprintf("message %s %s", m.Op, m.Info) }
func (s *session) Closed(err error)      { s.calls <- fmt.Sprintf("closed %v", err) }

// host is the program's end of a stream to an extension that runs in the test.
type host struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[pb.Events, pb.Commands]
	queue  []*pb.Command
	end    func()
}

func newHost(t *testing.T, x ext.Extension, version int) *host {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	g := grpc.NewServer(grpc.MaxRecvMsgSize(MaxMessage))
	pb.RegisterExtensionServer(g, &server{make: func(map[string]string) (ext.Extension, error) { return x, nil }, version: version})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = g.Serve(l)
	}()
	c, err := grpc.NewClient("passthrough:plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	api := pb.NewExtensionClient(c)
	if _, err := api.Describe(context.Background(), &pb.DescribeRequest{}); err != nil {
		t.Fatal(err)
	}
	stream, err := api.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, stream: stream}
	h.end = sync.OnceFunc(func() {
		_ = c.Close()
		g.GracefulStop()
		<-served
	})
	t.Cleanup(h.end)
	return h
}

func (h *host) send(conn uint64, e *pb.Event) {
	h.t.Helper()
	e.Conn = conn
	if err := h.stream.Send(&pb.Events{Events: []*pb.Event{e}}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) next() *pb.Command {
	h.t.Helper()
	for len(h.queue) == 0 {
		m, err := h.stream.Recv()
		if err != nil {
			h.t.Fatal(err)
		}
		h.queue = m.GetCommands()
	}
	c := h.queue[0]
	h.queue = h.queue[1:]
	return c
}

func (h *host) connect(conn uint64) {
	h.t.Helper()
	h.send(conn, &pb.Event{Facts: pb.FromFacts(ext.Facts{ID: 5}), Kind: &pb.Event_Connect{Connect: &pb.Connect{}}})
}

func messageEvent(info string, token uint64) *pb.Event {
	return &pb.Event{Kind: &pb.Event_Message{Message: &pb.Message{Op: "op", Info: []byte(info), Token: token}}}
}

func wantCall(t *testing.T, s *session, want string) {
	t.Helper()
	select {
	case got := <-s.calls:
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("no %q in a minute", want)
	}
}

// TestOrder: what is offered in Connect comes before Started; events are dealt with in order, and counted.
func TestOrder(t *testing.T) {
	s := newSession()
	h := newHost(t, &scripted{connect: func(c ext.Conn) ext.Session {
		c.Offer(exp, []byte{1}, true)
		c.Offer(exp, nil, false)
		return s
	}}, Version)
	h.connect(1)
	if o := h.next().GetOffer(); o.GetNone() || !o.GetFixed() {
		t.Errorf("first %v", o)
	}
	if o := h.next().GetOffer(); !o.GetNone() {
		t.Errorf("second %v", o)
	}
	if st := h.next().GetStarted(); st == nil || st.GetRefused() || st.GetWatcher() {
		t.Errorf("third %v", st)
	}
	for i := range 100 {
		h.send(1, messageEvent(fmt.Sprint(i), 0))
	}
	for i := range 100 {
		wantCall(t, s, fmt.Sprintf("message op %d", i))
	}
	for n := uint32(0); n < 100; {
		n += h.next().GetTook().GetEvents()
	}
	h.send(1, &pb.Event{Kind: &pb.Event_Closed{Closed: &pb.Closed{Error: "pulled"}}})
	wantCall(t, s, "closed pulled")
}

// TestCalls: a call ends once, on the session's goroutine, whatever becomes of the connection.
func TestCalls(t *testing.T) {
	s := newSession()
	var conn ext.Conn
	h := newHost(t, &scripted{connect: func(c ext.Conn) ext.Session { conn = c; return s }}, Version)
	h.connect(1)
	h.next() // Started
	note := func(format string) func(ext.Outcome) {
		return func(o ext.Outcome) { s.calls <- fmt.Sprintf(format, o.Kind) }
	}
	conn.Send(ext.Outgoing{Op: "op"}, note("a %v"))
	a := h.next().GetSend().GetCall()
	h.send(1, &pb.Event{Facts: pb.FromFacts(ext.Facts{ID: 6}), Kind: &pb.Event_Sent{Sent: pb.FromOutcome(a, ext.Outcome{Kind: ext.Consumed})}})
	wantCall(t, s, "a consumed")
	if c := h.next().GetTook().GetCalls(); c != 1 {
		t.Errorf("%d calls taken", c)
	}
	if id := conn.Facts().ID; id != 6 {
		t.Errorf("facts of %d", id)
	}

	conn.Request(ext.ReceiveSize(1), func(err error) {
		var r *ext.RequestError
		s.calls <- fmt.Sprint(err, errors.As(err, &r) && r.Request == ext.ReceiveSize(1))
	})
	r := h.next().GetRequest()
	h.send(1, &pb.Event{Kind: &pb.Event_RequestDone{RequestDone: &pb.RequestDone{Call: r.GetCall(), Refused: true, Why: "small"}}})
	wantCall(t, s, "receive size 1: small true")
	conn.Ask(exp, make([]byte, ext.MaxInfo+1), func(c ext.Change) { s.calls <- c.Kind.String() })
	wantCall(t, s, "not supported")
	conn.Send(ext.Outgoing{Op: "op", Info: make([]byte, ext.MaxInfo+1)}, note("long %v"))
	wantCall(t, s, "long not sent")

	for range MaxCalls {
		conn.Send(ext.Outgoing{Op: "op"}, note("b %v"))
	}
	conn.Send(ext.Outgoing{Op: "op"}, note("c %v"))
	wantCall(t, s, "c not sent")
	conn.Request(ext.ReceiveSize(1), func(err error) { s.calls <- err.Error() })
	wantCall(t, s, errCalls.Error())
	conn.Ask(exp, nil, func(c ext.Change) { s.calls <- "ask " + c.Kind.String() })
	wantCall(t, s, "ask not supported")
	h.send(1, &pb.Event{Kind: &pb.Event_Closed{Closed: &pb.Closed{Ok: true}}})
	for range MaxCalls {
		wantCall(t, s, "b lost with the connection")
	}
	wantCall(t, s, "closed <nil>")
	conn.Send(ext.Outgoing{Op: "op"}, note("after %v")) // does nothing
	if len(s.calls) != 0 {
		t.Errorf("after the end: %s", <-s.calls)
	}
}

// TestNoSession: a connection that the extension has nothing to do with answers for it.
func TestNoSession(t *testing.T) {
	h := newHost(t, &scripted{connect: func(ext.Conn) ext.Session { return nil }}, Version)
	h.connect(1)
	if !h.next().GetStarted().GetRefused() {
		t.Error("it has a session")
	}
	h.send(1, messageEvent("", 7))
	if a := h.next().GetAnswer(); a.GetToken() != 7 || a.GetVerdict().GetKind() != 0 {
		t.Errorf("%v", a)
	}
}

// TestStuck: a session that hangs holds up its own connection.
func TestStuck(t *testing.T) {
	free := make(chan struct{})
	s := newSession()
	h := newHost(t, &scripted{connect: func(c ext.Conn) ext.Session {
		if c.Facts().ID == 5 && c.(*conn).id == 1 {
			<-free
		}
		return s
	}}, Version)
	h.connect(1)
	h.connect(2)
	h.send(2, messageEvent("free", 0))
	wantCall(t, s, "message op free")
	close(free)
}

// TestFlood: of what a program does not read only so much is kept, and all of what frees its queues.
func TestFlood(t *testing.T) {
	l := &link{ready: make(chan struct{}, 1)}
	for range maxOut + 10 {
		l.send(&pb.Command{Conn: 1, Kind: &pb.Command_Open{Open: &pb.Open{}}})
	}
	l.send(&pb.Command{Conn: 1, Kind: &pb.Command_Took{Took: &pb.Took{Events: 3}}})
	l.send(&pb.Command{Conn: 1, Kind: &pb.Command_Open{Open: &pb.Open{}}})
	if n := len(l.out); n != maxOut+1 || l.out[n-1].GetTook().GetEvents() != 3 {
		t.Errorf("%d commands wait, the last one is %v", n, l.out[n-1])
	}
}

// TestStreamEnds: every session hears of it.
func TestStreamEnds(t *testing.T) {
	s := newSession()
	h := newHost(t, &scripted{connect: func(ext.Conn) ext.Session { return s }}, PreviousVersion)
	h.connect(1)
	h.connect(2)
	h.send(1, messageEvent("x", 0))
	wantCall(t, s, "message op x")
	go h.end()
	wantCall(t, s, "closed "+net.ErrClosed.Error())
	wantCall(t, s, "closed "+net.ErrClosed.Error())
	h.end()
}

// TestOnce: the two calls of the protocol come once, in their order.
func TestOnce(t *testing.T) {
	s := &server{make: func(map[string]string) (ext.Extension, error) { return &scripted{}, nil }, version: Version}
	if err := s.Run(nil); err == nil {
		t.Error("Run before Describe")
	}
	if _, err := s.Describe(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Describe(t.Context(), nil); err == nil {
		t.Error("described twice")
	}
	s.runs = true
	if err := s.Run(nil); err == nil {
		t.Error("it runs twice")
	}
	s = &server{make: func(map[string]string) (ext.Extension, error) { return &scripted{carrier: true}, nil }, version: PreviousVersion}
	if _, err := s.Describe(t.Context(), nil); err == nil {
		t.Error("a carrier in version 1")
	}
	s = &server{make: func(map[string]string) (ext.Extension, error) { return nil, nil }, version: Version}
	if _, err := s.Describe(t.Context(), nil); err == nil {
		t.Error("no extension, no error")
	}
}

// TestLostCommands: a command that the program does not take ends its call, in its turn, with an outcome that says so.
func TestLostCommands(t *testing.T) {
	begun, ends := make(chan ext.Conn, 1), make(chan string, 4)
	x := &scripted{carrier: true, connect: func(c ext.Conn) ext.Session {
		begun <- c
		return newSession()
	}}
	l := &link{x: x, decl: x.Declare(), version: 2, ready: make(chan struct{}, 1)}
	c := newConn(l, &pb.Event{Conn: 1, Facts: pb.FromFacts(ext.Facts{ID: 5}), Kind: &pb.Event_Connect{Connect: &pb.Connect{}}})
	var run sync.WaitGroup
	run.Go(c.run)
	defer run.Wait()
	defer c.push(item{close: net.ErrClosed})
	conn := (<-begun).(ext.CarrierConn)
	l.mu.Lock()
	l.bytes = maxOutBytes // nobody reads
	l.mu.Unlock()
	for _, tc := range []struct {
		want string
		do   func()
	}{
		{"not sent", func() { conn.Send(ext.Outgoing{Op: "op"}, func(o ext.Outcome) { ends <- o.Kind.String() }) }},
		{errNotRead.Error(), func() { conn.Request(ext.SendLimit(4096), func(err error) { ends <- err.Error() }) }},
		{"not supported", func() { conn.Ask(exp, []byte{0, 0, 0, 1}, func(c ext.Change) { ends <- c.Kind.String() }) }},
		{"not supported", func() { conn.Requested(exp, []byte{0, 0, 0, 1}, func(c ext.Change) { ends <- c.Kind.String() }) }},
	} {
		tc.do()
		select {
		case got := <-ends:
			if got != tc.want {
				t.Errorf("it ended with %q, want %q", got, tc.want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nobody was told %q", tc.want)
		}
	}
	conn.Open() // one without a call
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) != 0 {
		t.Errorf("%d calls are open", len(c.calls))
	}
}
