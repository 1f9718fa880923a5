package rpc_test

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

const idSplit = ext.ExperimentalFirst + 0x38

// splitter is a payload extension: messages in several Sends, put together by their XID.
type splitter struct {
	raw    bool // rdma_optinfo in a layout of its own
	reach  int
	window int                           // of pieces; 0: 200
	spoil  func([]ext.Piece) []ext.Piece // what Wrap does wrong
	up     chan *splitSession
	out    atomic.Int64 // messages that are somebody's
	bad    atomic.Int64 // released twice, or not what was expected
}

type splitSession struct {
	*splitter
	conn  ext.Conn
	noted chan struct{}

	peer atomic.Pointer[splitSession] // the other end: what it has taken it says without a message

	mu   sync.Mutex
	open map[uint64][]byte
}

func newSplitter() *splitter { return &splitter{reach: 100000, up: make(chan *splitSession, 64)} }

func (x *splitter) Declare() ext.Declaration {
	window := 200
	if x.window > 0 {
		window = x.window
	}
	return ext.Declaration{
		Name: "splitter", Version: "1", Class: ext.Payload,
		Ops: []ext.Op{
			{Name: "more", Type: idSplit, Payload: ext.Part, Window: window, Info: 8, Proves: true},
			{Name: "end", Type: idSplit + 1, Payload: ext.Wraps, Info: 8},
			{Name: "note", Type: idSplit + 2},
		},
	}
}

func (x *splitter) Connect(c ext.Conn) ext.Session {
	s := x.session(c)
	if x.raw {
		return struct {
			*splitSession
			layout
		}{s, layout{}}
	}
	return s
}

func (x *splitter) session(c ext.Conn) *splitSession {
	s := &splitSession{splitter: x, conn: c, noted: make(chan struct{}, 8), open: make(map[uint64][]byte)}
	x.up <- s
	return s
}

// layout is a Cutter's.
type layout struct{}

func (layout) Cut(op string, info []byte) (int, error) {
	if op != "end" || !bytes.HasPrefix(info, []byte("splitter")) {
		return 0, errors.New("not ours")
	}
	return 8, nil
}

func (s *splitSession) Message(m ext.Message) {
	s.conn.Answer(m.Token, ext.Verdict{Kind: ext.Accept})
	s.noted <- struct{}{}
}

func (s *splitSession) Closed(error) {}

func (s *splitSession) Reach() (send, recv int) { return s.reach, s.reach }

func (s *splitSession) Wrap(into []ext.Piece, xid uint32, n, part, last int) []ext.Piece {
	for at := 0; at < n; {
		p := ext.Piece{Op: "more", From: at, To: at + min(part, n-at-1)}
		if n-at <= last {
			p = ext.Piece{Op: "end", Info: []byte("splitter"), From: at, To: n}
		}
		into = append(into, p)
		at = p.To
	}
	if s.spoil != nil {
		return s.spoil(into)
	}
	return into
}

func (s *splitSession) Unwrap(p ext.Piece, xid uint32, reply bool, payload []byte) ([]byte, func(), ext.Verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := uint64(xid) << 1
	if reply {
		k++
	}
	b := append(s.open[k], payload...)
	if p.Op != "end" {
		s.open[k] = b
		if to := s.peer.Load(); to != nil {
			to.conn.Consumed("more", 1)
		}
		return nil, nil, ext.Verdict{Kind: ext.Accept}
	}
	if string(p.Info) != "splitter" {
		s.bad.Add(1)
	}
	delete(s.open, k)
	s.out.Add(1)
	var once atomic.Bool
	return b, func() {
		if once.Swap(true) {
			s.bad.Add(1)
		}
		clear(b) // whoever looks now sees it
		s.out.Add(-1)
	}, ext.Verdict{}
}

func splitPair(t *testing.T, url string, here, there *splitter, opts rpc.ConnOption) (*fixture, *rpc.Client) {
	t.Helper()
	f := serve(t, url, opts, rpc.WithExtensions(setOf(t, there)))
	c := dial(t, f.url, opts, rpc.WithExtensions(setOf(t, here)))
	if err := c.Call(ctx(t), procEcho, blob("first"), nil, rpc.MaxReply(64)); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the server to count the connection", func() bool { return f.srv.Connections() == 1 })
	greet(<-here.up, <-there.up)
	return f, c
}

// greet makes the two ends of a connection known to each other.
func greet(client, server *splitSession) {
	client.peer.Store(server)
	server.peer.Store(client)
	client.conn.Send(ext.Outgoing{Op: "note"}, nil)
	<-server.noted
	server.conn.Send(ext.Outgoing{Op: "note"}, nil)
	<-client.noted
}

// TestPieces: messages of all sizes in pieces, over whatever fabric, in either layout; all that was assembled is released.
func TestPieces(t *testing.T) {
	for _, tr := range transports {
		if tr.version != 2 {
			continue
		}
		for name, raw := range map[string]bool{"": false, " own layout": true} {
			t.Run(tr.name+name, func(t *testing.T) {
				here, there := newSplitter(), newSplitter()
				here.raw, there.raw = raw, raw
				f, c := splitPair(t, tr.url, here, there, tr.opts)
				for _, n := range sizes {
					checkCalls(t, c, n)
				}
				var wg sync.WaitGroup
				for i := range 16 {
					wg.Go(func() { checkCalls(t, c, 3000+i*2000) })
				}
				wg.Wait()
				n, m := c.Counters(), f.srv.Counters()
				if n.Parts == 0 || n.Wrapped < 16 || n.ErrorsRecv+n.ErrorsSent+n.ExtIgnored > 0 {
					t.Errorf("%+v", n)
				}
				if n.Parts != m.Parts || n.Wrapped != m.Wrapped {
					t.Errorf("%d and %d here, %d and %d there", n.Parts, n.Wrapped, m.Parts, m.Wrapped)
				}
				wait.For(t, "everything to be released", func() bool { return here.out.Load()+there.out.Load() == 0 })
				if n := here.bad.Load() + there.bad.Load(); n > 0 {
					t.Errorf("%d mistakes", n)
				}
			})
		}
	}
}

// TestPiecesRefused: a server that knows nothing of them refuses each; then the call goes again, once, and no later one
// is cut.
func TestPiecesRefused(t *testing.T) {
	here := newSplitter()
	f := serve(t, "loopback://127.0.0.1:0")
	c := dial(t, f.url, rpc.WithExtensions(setOf(t, here)))
	if err := c.Call(ctx(t), procEcho, blob("first"), nil, rpc.MaxReply(64)); err != nil {
		t.Fatal(err)
	}
	<-here.up
	wait.For(t, "a call in pieces", func() bool {
		checkCalls(t, c, 20000)
		return c.Counters().Parts > 0
	})
	n := c.Counters()
	if n.ErrorsRecv != n.Parts+n.Wrapped || n.Wrapped != 1 {
		t.Errorf("%d errors of %d pieces of %d calls", n.ErrorsRecv, n.Parts+n.Wrapped, n.Wrapped)
	}
	wait.For(t, "each call to be counted once", func() bool { return f.srv.Counters().CallsRecv == n.CallsSent-n.Wrapped })
	checkCalls(t, c, 20000)
	if m := c.Counters(); m.Wrapped != n.Wrapped {
		t.Errorf("%+v", m)
	}
}

// TestPiecesRefusedWhileOthersWait: a reply in pieces that waits for places goes another way when the peer turns out to take none: here
// its requester is told how long it is.
func TestPiecesRefusedWhileOthersWait(t *testing.T) {
	here := newSplitter()
	here.window = 2
	up, back := make(chan struct{}), make(chan wire.Header, 1)
	pieces := 0
	local := programs()
	t.Cleanup(func() { local.srv.Close() })
	var c *rpc.Client
	url := rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
		switch {
		case n > 0 && h.OptType == idSplit+2:
			close(up)
		case h.Proc == wire.Optional && h.Direction == wire.Call:
			if pieces++; h.OptType != idSplit+1 {
				return
			}
			ours := head(h.XID^1<<31, 2, wire.Msg)
			r.send(enc(ours), call(ours.XID, procRead.Number, word(6000)...))
			for start := time.Now(); c.Counters().Unplaced == 0 && time.Since(start) < 10*time.Second; {
				time.Sleep(time.Millisecond)
			}
			for range pieces {
				e := head(h.XID, 2, wire.ErrorMsg)
				e.Err.Code = wire.ErrInvalidOption
				r.send(enc(e))
			}
		case h.Proc == wire.ErrorMsg:
			back <- *h
		default:
			r.answerTo(h, 9)
		}
	})
	c = dial(t, url, rpc.WithPrograms(local.srv), rpc.WithExtensions(setOf(t, here)))
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	s := <-here.up
	s.conn.Send(ext.Outgoing{Op: "note"}, nil)
	<-up
	if err := c.Call(ctx(t), procEcho, blob(pattern(10000)), new(blob), rpc.MaxReply(16)); err != nil || pieces != 3 {
		t.Fatalf("%v, %d pieces", err, pieces)
	}
	select {
	case h := <-back:
		if h.Err.Code != wire.ErrReplyResource || h.Err.Needed < 6000 {
			t.Errorf("%+v", h.Err)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("the reply still waits: %+v", c.Counters())
	}
	if n := c.Counters(); n.Unplaced != 1 {
		t.Errorf("%+v", n)
	}
}

// TestBadCuts: pieces that are none are not sent; the message goes as if there were no extension.
func TestBadCuts(t *testing.T) {
	for name, spoil := range map[string]func([]ext.Piece) []ext.Piece{
		"none":                     func(p []ext.Piece) []ext.Piece { return p[:0] },
		"no end":                   func(p []ext.Piece) []ext.Piece { return p[:len(p)-1] },
		"ends alone":               func(p []ext.Piece) []ext.Piece { return p[len(p)-1:] },
		"an operation not known":   func(p []ext.Piece) []ext.Piece { p[0].Op = "less"; return p },
		"an operation without RPC": func(p []ext.Piece) []ext.Piece { p[0].Op = "note"; return p },
		"two ends":                 func(p []ext.Piece) []ext.Piece { p[0].Op = "end"; return p },
		"a gap":                    func(p []ext.Piece) []ext.Piece { p[1].From++; return p },
		"an empty one":             func(p []ext.Piece) []ext.Piece { p[0].To = 0; return p },
		"too long":                 func(p []ext.Piece) []ext.Piece { p[0].To += 100; p[1].From += 100; return p },
		"beyond the end":           func(p []ext.Piece) []ext.Piece { p[len(p)-1].To++; return p },
		"too short":                func(p []ext.Piece) []ext.Piece { p[len(p)-1].To--; return p },
		"too much of its own":      func(p []ext.Piece) []ext.Piece { p[0].Info = make([]byte, 9); return p },
		"too many": func(p []ext.Piece) []ext.Piece {
			n := p[len(p)-1].To
			p = p[:0]
			for at := range 201 {
				p = append(p, ext.Piece{Op: "more", From: at, To: at + 1})
			}
			return append(p, ext.Piece{Op: "end", Info: []byte("splitter"), From: 201, To: n})
		},
	} {
		t.Run(name, func(t *testing.T) {
			here, there := newSplitter(), newSplitter()
			here.spoil, there.spoil = spoil, spoil
			f, c := splitPair(t, "loopback://127.0.0.1:0", here, there, none)
			if err := c.Call(ctx(t), procWrite, bulk(pattern(9000)), new(number)); err != nil {
				t.Error(err)
			}
			// A reply that was to come in pieces is refused with what it needs, and fetched by a Reply chunk.
			var got blob
			if err := c.Call(ctx(t), procRead, readArgs(5000), &got); err != nil || !bytes.Equal(got, pattern(5000)) {
				t.Error(err)
			}
			if n := c.Counters(); n.Parts+n.Wrapped > 0 || n.ReadChunks != 1 || n.ReplyChunks != 1 || n.ErrorsRecv != 1 {
				t.Errorf("%+v", n)
			}
			if n := f.srv.Counters(); n.CallsRecv != n.RepliesSent+1 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestHostileReplyInPieces: of a server's pieces what is not the reply is dropped, and released.
func TestHostileReplyInPieces(t *testing.T) {
	here := newSplitter()
	up := make(chan struct{})
	c := dial(t, rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
		switch {
		case n == 0:
			r.answerTo(h, 9)
			return
		case h.OptType == idSplit+2:
			close(up)
			return
		}
		piece := func(xid, op uint32, payload []byte) {
			o := head(xid, 2, wire.Optional)
			o.Direction, o.OptType = wire.Reply, op
			if op == idSplit+1 {
				o.OptInfo = reply(h, 9).AppendChunkLists([]byte("\x00\x00\x00\x08splitter"))
			}
			r.send(enc(o), payload)
		}
		msg := result(h.XID, opaque([]byte("x"))...)
		piece(h.XID+77, idSplit, msg[:8]) // nobody's
		piece(h.XID+77, idSplit+1, msg[8:])
		piece(h.XID, idSplit, nil) // empty
		piece(h.XID, idSplit, msg[:8])
		piece(h.XID, idSplit, msg[8:12])
		piece(h.XID, idSplit+1, msg[12:])
		piece(h.XID, idSplit, msg[:8]) // once more
		piece(h.XID, idSplit+1, msg[8:])
	}), rpc.WithExtensions(setOf(t, here)))
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	s := <-here.up
	s.conn.Send(ext.Outgoing{Op: "note"}, nil)
	<-up
	for range 3 {
		if err := ask(t, c); err != nil {
			t.Fatal(err)
		}
	}
	wait.For(t, "what came late", func() bool { return c.Counters().Dropped == 9 })
	if here.out.Load() != 0 || here.bad.Load() != 0 {
		t.Errorf("%d messages not released, %d mistakes", here.out.Load(), here.bad.Load())
	}
	if n := c.Counters(); n.ErrorsSent != 0 || n.Wrapped != 3 {
		t.Errorf("%+v", n)
	}
}
