package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/watch"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ transport.Link     = (*Link)(nil)
	_ transport.Conn     = (*conn)(nil)
	_ transport.Listener = (*Listener)(nil)
)

// server serves what comes on its connections by f, on a goroutine for each call.
type server struct {
	*Listener
	f        func(*transport.Request)
	unsent   atomic.Int64
	handlers sync.WaitGroup
	accepts  sync.WaitGroup

	mu    sync.Mutex // guards what follows
	conns []transport.Conn
	ended []error
	over  int
}

func listen(t *testing.T, cfg Config, f func(*transport.Request)) *server {
	t.Helper()
	l, err := Listen(context.Background(), "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: l, f: f}
	s.accepts.Go(s.accept)
	t.Cleanup(func() {
		l.Close()
		s.accepts.Wait()
		s.handlers.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.conns); len(s.ended) != n || s.over != n {
			t.Errorf("of %d connections %d ended, and %d are over", n, len(s.ended), s.over)
		}
		if n := s.unsent.Load(); n != 0 {
			t.Errorf("%d bytes are counted as not read", n)
		}
	})
	return s
}

func (s *server) accept() {
	for {
		in, err := s.Accept(context.Background())
		if err != nil {
			return
		}
		c, err := in.Accept(context.Background(), transport.Service{
			Serve:  func(r *transport.Request) { s.handlers.Go(func() { s.f(r) }) },
			Unsent: &s.unsent,
			Ended: func(_ transport.Conn, err error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.ended = append(s.ended, err)
			},
			Over: func(transport.Conn) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.over++
			},
		})
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, c)
		s.mu.Unlock()
	}
}

// conn is the only connection, when it is up.
func (s *server) conn(t *testing.T) (c transport.Conn) {
	t.Helper()
	wait.For(t, "the connection", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.conns) > 0 {
			c = s.conns[0]
		}
		return c != nil
	})
	return c
}

// end is why the only connection has ended.
func (s *server) end(t *testing.T) (err error) {
	t.Helper()
	wait.For(t, "the connection's end", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.ended) > 0 {
			err = s.ended[0]
		}
		return len(s.ended) > 0
	})
	return err
}

// echo answers with the arguments, in memory of the connection's.
func echo(r *transport.Request) {
	h := rpcmsg.ReplyHeader{XID: binary.BigEndian.Uint32(r.Stream)}
	h.Append(&r.Results)
	args := r.Stream[40:]
	m, err := r.Memory(len(args))
	if err != nil {
		r.Drop()
		return
	}
	copy(m.Bytes(), args)
	r.Results.BulkItem(m.Bulk(len(args)))
	r.Reply(true, true)
}

func link(t *testing.T, s *server, cfg Config) *Link {
	t.Helper()
	l, err := Dial(context.Background(), s.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		<-l.Done()
	})
	return l
}

// message is a call of procedure 1 with n bytes of arguments.
func message(call *transport.Call, xid uint32, n int) *transport.Call {
	call.XID = xid
	h := rpcmsg.CallHeader{XID: xid, Program: 0x20000001, Version: 1, Proc: 1}
	h.Append(&call.Msg)
	call.Msg.Raw(bytes.Repeat([]byte{byte(xid)}, n))
	return call
}

func TestEcho(t *testing.T) {
	s := listen(t, Config{}, echo)
	l := link(t, s, Config{})
	var pool transport.CallPool
	var callers sync.WaitGroup
	for g := range uint32(8) {
		callers.Go(func() {
			for i := range uint32(50) {
				call := message(pool.Get(), g<<16|i, int(i*400))
				if err := l.Do(context.Background(), call); err != nil {
					t.Error(err)
				}
				want := message(new(transport.Call), g<<16|i, int(i*400)).Msg.Bytes()[40:]
				if got := call.Stream; len(got) != 28+len(want) || !bytes.Equal(got[28:], want) {
					t.Errorf("call %d.%d has the reply of %d bytes to another", g, i, len(got))
				}
				call.Free()
			}
		})
	}
	callers.Wait()
	c := s.conn(t)
	if n := c.Counters(); n.CallsRecv != 400 || n.RepliesSent != 400 {
		t.Errorf("%+v", n)
	}
	if n := l.Counters(); n.CallsSent != 400 || n.RepliesRecv != 400 || n.Outstanding != 0 {
		t.Errorf("%+v", n)
	}
	if c.RemoteAddr() != l.LocalAddr() || l.RemoteAddr() != s.Addr() || c.ID() == l.ID() || c.Version()+l.Version() != 0 {
		t.Errorf("%v and %v, %d and %d", c.RemoteAddr(), l.LocalAddr(), c.ID(), l.ID())
	}
	stats := verbs.Stats{RecvBytes: 1}
	if l.Fabric(&stats); stats != (verbs.Stats{}) {
		t.Errorf("%+v", stats)
	}
	l.Close()
	if err := s.end(t); err != nil {
		t.Errorf("an orderly end: %v", err)
	}
	wait.For(t, "the end", c.Closing)
	<-c.Done()
	if err := l.Do(context.Background(), message(new(transport.Call), 1, 0)); !errors.Is(err, net.ErrClosed) || !l.Closing() {
		t.Errorf("a call on a link that has ended: %v", err)
	}
}

// TestEnds: why a call ends, and what its link then is good for.
func TestEnds(t *testing.T) {
	told := errors.New("told to")
	for name, tc := range map[string]struct {
		cfg  Config
		n    int
		end  func(*server, *Link, context.CancelFunc)
		want error
		lost bool
	}{
		"cancelled":      {end: func(_ *server, _ *Link, cancel context.CancelFunc) { cancel() }, want: context.Canceled},
		"timed out":      {cfg: Config{CallTimeout: 20 * time.Millisecond}, want: transport.ErrTimeout},
		"link closed":    {end: func(_ *server, l *Link, _ context.CancelFunc) { l.Close() }, want: net.ErrClosed, lost: true},
		"link aborted":   {end: func(_ *server, l *Link, _ context.CancelFunc) { l.Abort(told) }, want: told, lost: true},
		"server's end":   {end: func(s *server, _ *Link, _ context.CancelFunc) { s.conns[0].Abort(told) }, want: net.ErrClosed, lost: true},
		"server's close": {end: func(s *server, _ *Link, _ context.CancelFunc) { s.conns[0].Close() }, want: net.ErrClosed, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			free, got := make(chan struct{}), make(chan struct{}, 1)
			s := listen(t, Config{}, func(r *transport.Request) {
				got <- struct{}{}
				<-free
				echo(r)
			})
			l := link(t, s, tc.cfg)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- l.Do(ctx, message(new(transport.Call), 5, 100)) }()
			<-got
			c := s.conn(t)
			if tc.end != nil {
				tc.end(s, l, cancel)
			}
			err := <-done
			var lost *transport.LostError
			if !errors.Is(err, tc.want) || errors.As(err, &lost) != tc.lost || tc.lost && !lost.Sent {
				t.Errorf("%v, want %v", err, tc.want)
			}
			if n := c.Serving(); n != 1 {
				t.Errorf("%d requests served", n)
			}
			close(free)
			wait.For(t, "the request's end", func() bool { return c.Serving() == 0 || tc.lost })
			if tc.lost {
				if wait.For(t, "the end", l.Closing); tc.want == told && !errors.Is(l.Err(), told) {
					t.Errorf("it ended by %v", l.Err())
				}
				return
			}
			wait.For(t, "the late reply", func() bool { return l.Counters().Dropped == 1 })
			s.f = echo
			if err := l.Do(context.Background(), message(new(transport.Call), 6, 100)); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// TestRecordLimit: a longer record is refused where it is made, and ends the connection where it comes.
func TestRecordLimit(t *testing.T) {
	s := listen(t, Config{MaxRecord: 1000}, echo)
	if err := link(t, s, Config{MaxRecord: 1000}).Do(context.Background(), message(new(transport.Call), 1, 961)); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
	l := link(t, s, Config{})
	for n, ok := range map[int]bool{960: true, 964: false} {
		err := l.Do(context.Background(), message(new(transport.Call), 1, n))
		if (err == nil) != ok {
			t.Errorf("%d bytes of arguments: %v", n, err)
		}
		if err != nil {
			break
		}
		l = link(t, s, Config{})
	}
}

// raw is a client that writes octets.
func raw(t *testing.T, s *server) *net.TCPConn {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc.(*net.TCPConn)
}

func record(xid uint32, n int) []byte {
	call := message(new(transport.Call), xid, n)
	return appendRecord(nil, &call.Msg)
}

// TestCallsInFlight: beyond maxCalls nothing is read, until one of them is answered.
func TestCallsInFlight(t *testing.T) {
	free := make(chan struct{})
	s := listen(t, Config{}, func(r *transport.Request) {
		<-free
		r.Drop()
	})
	nc := raw(t, s)
	for xid := range uint32(maxCalls + 10) {
		if _, err := nc.Write(record(xid, 10)); err != nil {
			t.Fatal(err)
		}
	}
	c := s.conn(t)
	wait.For(t, "calls", func() bool { return c.Counters().CallsRecv == maxCalls })
	time.Sleep(20 * time.Millisecond)
	if n := c.Counters().CallsRecv; n != maxCalls || c.Serving() != maxCalls {
		t.Errorf("%d calls taken, %d served", n, c.Serving())
	}
	free <- struct{}{}
	wait.For(t, "one more", func() bool { return c.Counters().CallsRecv == maxCalls+1 })
	close(free)
	wait.For(t, "the others", func() bool { return c.Counters().CallsRecv == maxCalls+10 && c.Serving() == 0 })
}

// TestUnsent: when replies of more than maxUnsent bytes wait for peers to read, a connection that has one waiting ends
// with the next. One alone may be as long as it is.
func TestUnsent(t *testing.T) {
	s := listen(t, Config{}, echo)
	nc := raw(t, s)
	nc.SetReadBuffer(4096)
	c := s.conn(t)
	const long = 7 << 20 // more than sockets' buffers take
	ask := func(xid uint32) {
		t.Helper()
		if _, err := nc.Write(record(xid, long)); err != nil {
			t.Fatal(err)
		}
		wait.For(t, "the call", func() bool { return c.Counters().RepliesSent == uint64(xid) })
	}
	ask(1)
	ask(2)
	ask(3)
	select {
	case <-c.Done():
		t.Fatal("ended early")
	case <-time.After(10 * time.Millisecond):
	}
	s.unsent.Add(maxUnsent) // as if of other connections
	ask(4)
	select {
	case <-c.Done():
	case <-time.After(writeWait / 3): // beyond writeWait it ends in any case
		t.Fatal("the connection lives")
	}
	wait.For(t, "the replies dropped", func() bool { return s.unsent.Load() == maxUnsent })
	s.unsent.Add(-maxUnsent)
}

// TestCloseSendsReplies: replies that wait for the peer to read leave before the connection ends in order.
func TestCloseSendsReplies(t *testing.T) {
	s := listen(t, Config{}, echo)
	nc := raw(t, s)
	c := s.conn(t)
	const long, calls = 7 << 20, 3 // more than sockets' buffers take
	for xid := range uint32(calls) {
		if _, err := nc.Write(record(xid, long)); err != nil {
			t.Fatal(err)
		}
	}
	wait.For(t, "the replies", func() bool { return c.Counters().RepliesSent == calls })
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !c.Closing() {
		t.Error("calls are taken after Close")
	}
	n, err := io.Copy(io.Discard, nc)
	if n < calls*long || err != nil {
		t.Errorf("%d bytes came, then %v; want %d replies of %d and more", n, err, calls, long)
	}
	if err := s.end(t); err != nil {
		t.Errorf("the connection ended by %v", err)
	}
}

// TestIdleAndTrickle: a connection without calls ends in order, at either end; one whose record does not become whole by
// ErrStalled; neither while a call is served, or where it is switched off.
func TestIdleAndTrickle(t *testing.T) {
	const short, never = 40 * time.Millisecond, -1
	t.Run("idle server", func(t *testing.T) {
		s := listen(t, Config{IdleTimeout: short}, echo)
		raw(t, s)
		if err := s.end(t); err != nil {
			t.Errorf("%v", err)
		}
	})
	t.Run("idle client", func(t *testing.T) {
		s := listen(t, Config{}, echo)
		l := link(t, s, Config{IdleTimeout: short})
		if <-l.Done(); l.Err() != nil || !l.Closing() {
			t.Errorf("%v", l.Err())
		}
		if err := l.Do(context.Background(), message(new(transport.Call), 1, 0)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
	t.Run("served for long", func(t *testing.T) {
		s := listen(t, Config{IdleTimeout: short, StallTimeout: short}, func(r *transport.Request) {
			time.Sleep(5 * short)
			echo(r)
		})
		l := link(t, s, Config{IdleTimeout: short, StallTimeout: short})
		if err := l.Do(context.Background(), message(new(transport.Call), 1, 0)); err != nil {
			t.Error(err)
		}
	})
	t.Run("half a record", func(t *testing.T) {
		s := listen(t, Config{IdleTimeout: never, StallTimeout: short, MaxRecord: 60 << 10}, echo)
		nc := raw(t, s)
		go func() {
			for _, b := range record(1, 10_000) {
				if _, err := nc.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}()
		if err := s.end(t); !errors.Is(err, transport.ErrStalled) || !errors.Is(s.conn(t).Err(), transport.ErrStalled) {
			t.Errorf("%v", err)
		}
	})
	t.Run("half a reply", func(t *testing.T) {
		s := listen(t, Config{}, func(r *transport.Request) {
			c := r.Conn().(*conn)
			c.conn.Write(rpcmsg.AppendMark(nil, 100, true))
			<-c.Done()
			r.Drop()
		})
		l := link(t, s, Config{StallTimeout: short, MaxRecord: 60 << 10})
		if err := l.Do(context.Background(), message(new(transport.Call), 1, 0)); !errors.Is(err, transport.ErrStalled) {
			t.Errorf("%v", err)
		}
	})
	t.Run("never", func(t *testing.T) {
		s := listen(t, Config{IdleTimeout: never, StallTimeout: never}, echo)
		nc := raw(t, s)
		nc.Write([]byte{0x80, 0})
		nc.SetReadDeadline(time.Now().Add(3 * short))
		if _, err := nc.Read(make([]byte, 1)); err == io.EOF {
			t.Error("it ended")
		}
	})
	for _, idle := range []time.Duration{watch.DefaultClientIdle, watch.DefaultServerIdle} {
		if c := (Config{}).withDefaults(idle); c.IdleTimeout != idle || c.StallTimeout != watch.DefaultStall || c.MaxRecord != DefaultMaxRecord || c.CallTimeout != transport.DefaultCallTimeout {
			t.Errorf("%+v", c)
		}
	}
}

// TestNoCalls: what is no call gets no answer, and takes no place.
func TestNoCalls(t *testing.T) {
	s := listen(t, Config{}, echo)
	nc := raw(t, s)
	for range maxCalls + 1 {
		nc.Write(append(rpcmsg.AppendMark(nil, 8, true), 0, 0, 0, 1, 0, 0, 0, 1)) // a reply
		nc.Write(append(rpcmsg.AppendMark(nil, 4, true), 0, 0, 0, 1))
	}
	nc.Write(record(9, 0))
	nc.SetReadDeadline(time.Now().Add(time.Minute))
	var b [8]byte
	if _, err := io.ReadFull(nc, b[:]); err != nil || binary.BigEndian.Uint32(b[4:]) != 9 {
		t.Errorf("%x, %v", b, err)
	}
}

// TestAdmit: who is not admitted is reset, and the next one gets in.
func TestAdmit(t *testing.T) {
	var asked atomic.Int32
	s := listen(t, Config{Admit: func(a netip.Addr) bool {
		if !a.Is4() {
			t.Errorf("%v", a)
		}
		return asked.Add(1) > 1
	}}, echo)
	if nc, err := net.Dial("tcp", s.Addr().String()); err == nil { // else it has been reset already
		nc.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := nc.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%v, want a reset", err)
		}
		nc.Close()
	}
	if err := link(t, s, Config{}).Do(context.Background(), message(new(transport.Call), 1, 0)); err != nil {
		t.Error(err)
	}
}

// TestListenerClose ends connections, waits for their handlers, and takes no more.
func TestListenerClose(t *testing.T) {
	inside, free := make(chan struct{}), make(chan struct{})
	s := listen(t, Config{}, func(r *transport.Request) {
		close(inside)
		<-r.Conn().Done()
		<-free
		echo(r)
	})
	l := link(t, s, Config{})
	done := make(chan error, 1)
	go func() { done <- l.Do(context.Background(), message(new(transport.Call), 1, 0)) }()
	<-inside
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
	select {
	case <-closed:
		t.Error("Close does not wait for the handler")
	case <-time.After(20 * time.Millisecond):
	}
	close(free)
	<-closed
	if _, err := s.Accept(context.Background()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
	a, b := net.Pipe()
	defer b.Close()
	if _, err := (&incoming{s.Listener, a}).Accept(context.Background(), transport.Service{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("one that came late: %v", err)
	}
}
