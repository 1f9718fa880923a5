package octets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// Config is what a Peer has and says.
type Config struct {
	Private  []byte        // its private data
	Receives int           // how many are posted, always
	Size     int           // of each receive
	Out      int           // memory for what is under way
	Patience time.Duration // with what must come: only a failure takes so long
}

// Message is what was received.
type Message struct {
	Bytes       []byte
	Invalidated uint32
}

// What ends the wait for something.
var (
	ErrEnded   = errors.New("the connection ended")
	ErrNothing = errors.New("nothing came")
)

// most is how many messages wait to be looked at.
const most = 4096

// Peer is one end of a connection.
type Peer struct {
	TB   testing.TB
	Dom  verbs.Domain
	Conn verbs.Conn
	In   chan Message
	Gone chan struct{}
	Cut  error // why it ended, once Gone

	config Config
	reads  chan verbs.Status

	mu   sync.Mutex // guards what follows
	recv verbs.Region
	out  verbs.Region
	at   int // where in out the next message goes
}

// Open opens the provider of a scheme, until the test ends.
func Open(t testing.TB, scheme string) verbs.Domain {
	t.Helper()
	p, ok := verbs.Lookup(scheme)
	if !ok {
		t.Fatalf("no provider %s", scheme)
	}
	dom, err := p.Open(context.Background(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dom.Close() })
	return dom
}

// Dial connects to a server of ours.
func Dial(t testing.TB, dom verbs.Domain, addr string, c Config) *Peer {
	t.Helper()
	p, err := newPeer(t, dom, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Patience)
	defer cancel()
	if _, err := dom.Dial(ctx, addr, p.options()); err != nil {
		t.Fatal(err)
	}
	return p
}

func newPeer(t testing.TB, dom verbs.Domain, c Config) (*Peer, error) {
	p := &Peer{TB: t, Dom: dom, config: c, In: make(chan Message, most), reads: make(chan verbs.Status, 16), Gone: make(chan struct{})}
	var err error
	if p.recv, err = dom.Alloc(c.Receives * c.Size); err == nil {
		p.out, err = dom.Alloc(c.Out)
	}
	return p, err
}

func (p *Peer) options() verbs.Options {
	return verbs.Options{
		Handler: p,
		Private: func(verbs.Caps, []byte) []byte { return p.config.Private },
		Ready: func(c verbs.Conn) error {
			p.Conn = c
			rs := make([]verbs.Recv, p.config.Receives)
			for i := range rs {
				rs[i] = p.receive(i)
			}
			_, err := c.PostRecv(rs)
			return err
		},
	}
}

func (p *Peer) receive(i int) verbs.Recv {
	return verbs.Recv{ID: uint64(i), Seg: verbs.Seg{R: p.recv, Off: i * p.config.Size, N: p.config.Size}}
}

// Complete implements verbs.Handler.
func (p *Peer) Complete(cs []verbs.Completion) {
	for _, c := range cs {
		switch {
		case c.Op == verbs.OpRecv && c.Status == verbs.OK:
			select {
			case p.In <- Message{bytes.Clone(c.Buf), c.Invalidated}:
			default: // nobody reads what a flood brings
			}
			p.Conn.PostRecv([]verbs.Recv{p.receive(int(c.ID))})
		case c.Op == verbs.OpRead:
			select {
			case p.reads <- c.Status:
			default: // nobody waits
			}
		}
	}
}

// Disconnected implements verbs.Handler.
func (p *Peer) Disconnected(err error) {
	p.Cut = err
	close(p.Gone)
}

// Memory is n octets that the other side may reach.
func (p *Peer) Memory(n int, a verbs.Access) ([]byte, wire.Segment) {
	p.TB.Helper()
	reg, err := p.Dom.Alloc(n)
	if err != nil {
		p.TB.Fatal(err)
	}
	w := new(verbs.Window)
	if err := p.Conn.Expose(w, reg, 0, n, a); err != nil {
		p.TB.Fatal(err)
	}
	return reg.Bytes(), wire.Segment{Handle: w.Key, Length: uint32(n), Offset: w.Addr}
}

// Send sends a message. An error: the connection has ended.
func (p *Peer) Send(parts ...[]byte) error {
	return p.Post(verbs.Work{Op: verbs.OpSend}, bytes.Join(parts, nil))
}

// Write places b in memory of the other side.
func (p *Peer) Write(b []byte, to wire.Segment) error {
	return p.Post(verbs.Work{Op: verbs.OpWrite, Key: to.Handle, Remote: to.Offset}, b)
}

// Post posts a work over a copy of b, and waits for a place in the queue.
func (p *Peer) Post(w verbs.Work, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at+len(b) > p.config.Out {
		p.at = 0
	}
	if len(b) > 0 {
		copy(p.out.Bytes()[p.at:], b)
		w.Segs = []verbs.Seg{{R: p.out, Off: p.at, N: len(b)}}
		p.at += len(b)
	}
	for {
		n, err := p.Conn.Post([]verbs.Work{w})
		p.Conn.Flush()
		if n == 1 || err != nil {
			return err
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// Read pulls n octets by RDMA Read.
func (p *Peer) Read(key uint32, remote uint64, n int) ([]byte, verbs.Status) {
	p.TB.Helper()
	reg, err := p.Dom.Alloc(n)
	if err != nil {
		p.TB.Fatal(err)
	}
	w := verbs.Work{Op: verbs.OpRead, Key: key, Remote: remote, Segs: []verbs.Seg{{R: reg, N: n}}}
	if _, err := p.Conn.Post([]verbs.Work{w}); err != nil {
		p.TB.Fatal(err)
	}
	p.Conn.Flush()
	select {
	case s := <-p.reads:
		return reg.Bytes(), s
	case <-time.After(p.config.Patience):
		p.TB.Fatal("an RDMA Read has no end")
	}
	return nil, 0
}

// Next is the next message.
func (p *Peer) Next() (Message, error) {
	select {
	case m := <-p.In:
		return m, nil
	default:
	}
	select {
	case m := <-p.In:
		return m, nil
	case <-p.Gone:
		select {
		case m := <-p.In: // it came before the end
			return m, nil
		default:
			return Message{}, fmt.Errorf("%w: %v", ErrEnded, p.Cut)
		}
	case <-time.After(p.config.Patience):
		return Message{}, ErrNothing
	}
}

// Parsed is the next message, which must come and be one of RPC-over-RDMA.
func (p *Peer) Parsed() (h wire.Header, payload []byte, m Message) {
	p.TB.Helper()
	m, err := p.Next()
	if err != nil {
		p.TB.Fatal(err)
	}
	n, err := h.Parse(m.Bytes, wire.ProfileCel04)
	if err != nil {
		p.TB.Fatalf("%x: %v", m.Bytes, err)
	}
	return h, m.Bytes[n:], m
}

// Ended waits for the end of the connection.
func (p *Peer) Ended() bool {
	select {
	case <-p.Gone:
		return true
	case <-time.After(p.config.Patience):
		return false
	}
}
