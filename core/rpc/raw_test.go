package rpc_test

import (
	"bytes"
	"context"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// raw is a peer that knows verbs and bytes only: it sends what no engine would.
type raw struct {
	t    testing.TB
	dom  verbs.Domain
	conn verbs.Conn
	in   chan message // what was received
	gone chan struct{}
	cut  error // why it ended, once gone
	up   chan struct{}

	mu   sync.Mutex
	recv verbs.Region
	out  verbs.Region
	at   int                           // where in out the next message goes
	hold atomic.Pointer[chan struct{}] // not nil: completions wait for it
}

type message struct {
	bytes       []byte
	invalidated uint32
}

const (
	rawReceives = 200
	rawSize     = 16 << 10
	rawOut      = 8 << 20
)

func newRaw(t testing.TB, scheme string) *raw {
	t.Helper()
	p, _ := verbs.Lookup(scheme)
	dom, err := p.Open(context.Background(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t: t, dom: dom, in: make(chan message, 1024), gone: make(chan struct{}), up: make(chan struct{})}
	t.Cleanup(func() { dom.Close() })
	if r.recv, err = dom.Alloc(rawReceives * rawSize); err != nil {
		t.Fatal(err)
	}
	if r.out, err = dom.Alloc(rawOut); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *raw) options() verbs.Options {
	return verbs.Options{
		Handler: r,
		Private: func(verbs.Caps, []byte) []byte {
			return wire.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}.Append(nil)
		},
		Ready: func(c verbs.Conn) error {
			r.conn = c
			rs := make([]verbs.Recv, rawReceives)
			for i := range rs {
				rs[i] = r.receive(i)
			}
			_, err := c.PostRecv(rs)
			return err
		},
	}
}

func (r *raw) receive(i int) verbs.Recv {
	return verbs.Recv{ID: uint64(i), Seg: verbs.Seg{R: r.recv, Off: i * rawSize, N: rawSize}}
}

func (r *raw) Complete(cs []verbs.Completion) {
	if hold := r.hold.Load(); hold != nil {
		<-*hold
	}
	for _, c := range cs {
		if c.Op == verbs.OpRecv && c.Status == verbs.OK {
			r.in <- message{bytes.Clone(c.Buf), c.Invalidated}
			r.conn.PostRecv([]verbs.Recv{r.receive(int(c.ID))})
		}
	}
}

func (r *raw) Disconnected(err error) {
	r.cut = err
	close(r.gone)
}

// rawDial connects to a server of ours.
func rawDial(t testing.TB, target string) *raw {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	over := "loopback" // what the wrappers of it are servers on, too
	if strings.HasPrefix(u.Scheme, "iwarp") {
		over = u.Scheme
	}
	r := newRaw(t, over)
	if _, err := r.dom.Dial(context.Background(), u.Host, r.options()); err != nil {
		t.Fatal(err)
	}
	return r
}

// memory is n bytes that the other side may reach.
func (r *raw) memory(n int, a verbs.Access) ([]byte, wire.Segment) {
	r.t.Helper()
	reg, err := r.dom.Alloc(n)
	if err != nil {
		r.t.Fatal(err)
	}
	w := new(verbs.Window)
	if err := r.conn.Expose(w, reg, 0, n, a); err != nil {
		r.t.Fatal(err)
	}
	return reg.Bytes(), wire.Segment{Handle: w.Key, Length: uint32(n), Offset: w.Addr}
}

func (r *raw) send(parts ...[]byte) { r.post(verbs.OpSend, 0, parts...) }

func (r *raw) post(op verbs.Op, key uint32, parts ...[]byte) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	b := bytes.Join(parts, nil)
	if r.at+len(b) > rawOut {
		r.at = 0
	}
	w := verbs.Work{Op: op, Key: key}
	if len(b) > 0 {
		copy(r.out.Bytes()[r.at:], b)
		w.Segs = []verbs.Seg{{R: r.out, Off: r.at, N: len(b)}}
		r.at += len(b)
	}
	if _, err := r.conn.Post([]verbs.Work{w}); err != nil {
		r.t.Errorf("post: %v", err)
	}
	r.conn.Flush()
}

// tryPost sends b; true: the connection has ended. mu is held.
func (r *raw) tryPost(b []byte) bool {
	copy(r.out.Bytes()[r.at:], b)
	n, err := r.conn.Post([]verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: r.out, Off: r.at, N: len(b)}}}})
	r.at += n * len(b) // where the queue is full it may come again and again
	r.conn.Flush()
	return err != nil
}

// write places b in memory of the other side.
func (r *raw) write(b []byte, s wire.Segment) {
	r.t.Helper()
	r.mu.Lock()
	copy(r.out.Bytes()[r.at:], b)
	w := verbs.Work{Op: verbs.OpWrite, Key: s.Handle, Remote: s.Offset, Segs: []verbs.Seg{{R: r.out, Off: r.at, N: len(b)}}}
	r.at += len(b)
	r.mu.Unlock()
	r.conn.Post([]verbs.Work{w})
	r.conn.Flush()
}

// next is the next message, parsed.
func (r *raw) next() (h wire.Header, payload []byte, m message) {
	r.t.Helper()
	select {
	case m = <-r.in:
	case <-r.gone:
		select {
		case m = <-r.in: // it came before the end
		default:
			r.t.Fatalf("the connection ended: %v", r.cut)
		}
	case <-time.After(time.Minute):
		r.t.Fatal("nothing came")
	}
	n, err := h.Parse(m.bytes, wire.ProfileCel04)
	if err != nil {
		r.t.Fatalf("%x: %v", m.bytes, err)
	}
	return h, m.bytes[n:], m
}

// head is a transport header without chunks.
func head(xid, version uint32, p wire.Proc) *wire.Header {
	return &wire.Header{XID: xid, Version: version, Credit: 32, Proc: p}
}

func enc(h *wire.Header) []byte { return h.Append(nil) }

// call is the RPC message of a call; args is XDR.
func call(xid, proc uint32, args ...byte) []byte {
	var w xdr.Writer
	h := rpcmsg.CallHeader{XID: xid, Program: program, Version: 1, Proc: proc}
	h.Append(&w)
	return append(bytes.Clone(w.Bytes()), args...)
}

// result is the RPC message of a reply with success.
func result(xid uint32, results ...byte) []byte {
	var w xdr.Writer
	h := rpcmsg.ReplyHeader{XID: xid}
	h.Append(&w)
	return append(bytes.Clone(w.Bytes()), results...)
}

func opaque(b []byte) []byte {
	var w xdr.Writer
	w.Opaque(b)
	return bytes.Clone(w.Bytes())
}

func word(n uint32) []byte {
	var w xdr.Writer
	w.Uint32(n)
	return bytes.Clone(w.Bytes())
}

// good calls ECHO and expects its reply to be what comes next.
func (r *raw) good(xid, version uint32) {
	r.t.Helper()
	r.send(enc(head(xid, version, wire.Msg)), call(xid, 1, opaque([]byte("good"))...))
	h, payload, _ := r.next()
	if h.XID != xid || h.Version != version || h.Proc != wire.Msg || !bytes.Equal(payload, result(xid, opaque([]byte("good"))...)) {
		r.t.Fatalf("a good call of version %d was answered by %+v, %x", version, h, payload)
	}
	if h.Credit == 0 {
		r.t.Error("a grant of 0")
	}
}
