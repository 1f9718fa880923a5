package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// raw is one connection of the hostile peer.
type raw struct {
	tb      testing.TB
	dom     verbs.Domain
	private []byte
	conn    verbs.Conn
	in      chan message
	gone    chan struct{}
	cut     error // why it ended, once gone

	mu   sync.Mutex
	recv verbs.Region
	out  verbs.Region
	at   int // where in out the next message goes
}

// message is what was received.
type message struct {
	bytes       []byte
	invalidated uint32
}

const (
	receives = 160
	recvSize = 8 << 10
	outSize  = 4 << 20
)

// patience is how long the peer waits for what must come; only a failure takes so long.
const patience = time.Minute

// good is private data as our own ends send it (RFC 8797 §4).
var good = wire.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}.Append(nil)

func newRaw(tb testing.TB, dom verbs.Domain, private []byte) *raw {
	tb.Helper()
	r := &raw{tb: tb, dom: dom, private: private, in: make(chan message, 4096), gone: make(chan struct{})}
	var err error
	if r.recv, err = dom.Alloc(receives * recvSize); err == nil {
		r.out, err = dom.Alloc(outSize)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// open is the fabric of a target, and what to dial or bind there.
func open(tb testing.TB, target string) (dom verbs.Domain, addr string) {
	tb.Helper()
	u, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	p, ok := verbs.Lookup(u.Scheme)
	if !ok {
		tb.Fatalf("no provider %s", u.Scheme)
	}
	if dom, err = p.Open(context.Background(), "", nil); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { dom.Close() })
	return dom, u.Host
}

// dial connects to a server of ours.
func dial(tb testing.TB, dom verbs.Domain, addr string, private []byte) *raw {
	tb.Helper()
	r := newRaw(tb, dom, private)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := dom.Dial(ctx, addr, r.options()); err != nil {
		tb.Fatal(err)
	}
	return r
}

func (r *raw) options() verbs.Options {
	return verbs.Options{
		Handler: r,
		Private: func(verbs.Caps, []byte) []byte { return r.private },
		Ready: func(c verbs.Conn) error {
			r.conn = c
			rs := make([]verbs.Recv, receives)
			for i := range rs {
				rs[i] = r.receive(i)
			}
			_, err := c.PostRecv(rs)
			return err
		},
	}
}

func (r *raw) receive(i int) verbs.Recv {
	return verbs.Recv{ID: uint64(i), Seg: verbs.Seg{R: r.recv, Off: i * recvSize, N: recvSize}}
}

func (r *raw) Complete(cs []verbs.Completion) {
	for _, c := range cs {
		if c.Op == verbs.OpRecv && c.Status == verbs.OK {
			select {
			case r.in <- message{bytes.Clone(c.Buf), c.Invalidated}:
			default: // nobody reads what a flood brings
			}
			r.conn.PostRecv([]verbs.Recv{r.receive(int(c.ID))})
		}
	}
}

func (r *raw) Disconnected(err error) {
	r.cut = err
	close(r.gone)
}

// memory is n bytes that the other side may reach.
func (r *raw) memory(n int, a verbs.Access) ([]byte, wire.Segment) {
	r.tb.Helper()
	reg, err := r.dom.Alloc(n)
	if err != nil {
		r.tb.Fatal(err)
	}
	w := new(verbs.Window)
	if err := r.conn.Expose(w, reg, 0, n, a); err != nil {
		r.tb.Fatal(err)
	}
	return reg.Bytes(), wire.Segment{Handle: w.Key, Length: uint32(n), Offset: w.Addr}
}

// send sends a message. False: the connection has ended.
func (r *raw) send(parts ...[]byte) bool {
	return r.post(verbs.Work{Op: verbs.OpSend}, bytes.Join(parts, nil))
}

// post posts a work over b.
func (r *raw) post(w verbs.Work, b []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at+len(b) > outSize {
		r.at = 0
	}
	if len(b) > 0 {
		copy(r.out.Bytes()[r.at:], b)
		w.Segs = []verbs.Seg{{R: r.out, Off: r.at, N: len(b)}}
		r.at += len(b)
	}
	for {
		n, err := r.conn.Post([]verbs.Work{w})
		r.conn.Flush()
		if n == 1 || err != nil {
			return err == nil
		}
		time.Sleep(100 * time.Microsecond) // the queue is full
	}
}

var (
	errEnded   = errors.New("the connection ended")
	errNothing = errors.New("nothing came")
)

// next is the next message.
func (r *raw) next() (message, error) {
	select {
	case m := <-r.in:
		return m, nil
	default:
	}
	select {
	case m := <-r.in:
		return m, nil
	case <-r.gone:
		select {
		case m := <-r.in: // it came before the end
			return m, nil
		default:
			return message{}, fmt.Errorf("%w: %v", errEnded, r.cut)
		}
	case <-time.After(patience):
		return message{}, errNothing
	}
}

// ended waits for the end of the connection.
func (r *raw) ended() bool {
	select {
	case <-r.gone:
		return true
	case <-time.After(patience):
		return false
	}
}
