package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// peer is the other side of a script. It knows verbs and octets, and nothing of RPC-over-RDMA.
type peer struct {
	t       testing.TB
	dom     verbs.Domain
	conn    verbs.Conn
	private []byte // what it says of itself
	in      chan message
	reads   chan verbs.Status
	gone    chan struct{}
	cut     error // why it ended, once gone

	mu   sync.Mutex // guards what follows
	recv verbs.Region
	out  verbs.Region
	at   int
}

type message struct {
	octets      []byte
	invalidated uint32
}

const (
	peerReceives = 128
	peerSize     = 8 << 10
	peerOut      = 1 << 20
)

// patience is how long what must come may take. A defect on purpose is waited for less long: what it keeps back does not come.
var patience = func() time.Duration {
	if os.Getenv(provoked) != "" {
		return 5 * time.Second
	}
	return time.Minute
}()

func newPeer(t testing.TB, dom verbs.Domain, private []byte) *peer {
	t.Helper()
	p := &peer{
		t: t, dom: dom, private: private,
		in: make(chan message, peerReceives), reads: make(chan verbs.Status, 16), gone: make(chan struct{}),
	}
	var err error
	if p.recv, err = dom.Alloc(peerReceives * peerSize); err != nil {
		t.Fatal(err)
	}
	if p.out, err = dom.Alloc(peerOut); err != nil {
		t.Fatal(err)
	}
	return p
}

func openDomain(t testing.TB, scheme string) verbs.Domain {
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

func (p *peer) options() verbs.Options {
	return verbs.Options{
		Handler: p,
		Private: func(verbs.Caps, []byte) []byte { return p.private },
		Ready: func(c verbs.Conn) error {
			p.conn = c
			rs := make([]verbs.Recv, peerReceives)
			for i := range rs {
				rs[i] = p.receive(i)
			}
			_, err := c.PostRecv(rs)
			return err
		},
	}
}

func (p *peer) receive(i int) verbs.Recv {
	return verbs.Recv{ID: uint64(i), Seg: verbs.Seg{R: p.recv, Off: i * peerSize, N: peerSize}}
}

// Complete implements verbs.Handler.
func (p *peer) Complete(cs []verbs.Completion) {
	for _, c := range cs {
		switch {
		case c.Op == verbs.OpRecv && c.Status == verbs.OK:
			p.in <- message{bytes.Clone(c.Buf), c.Invalidated}
			p.conn.PostRecv([]verbs.Recv{p.receive(int(c.ID))})
		case c.Op == verbs.OpRead:
			p.reads <- c.Status
		}
	}
}

// Disconnected implements verbs.Handler.
func (p *peer) Disconnected(err error) {
	p.cut = err
	close(p.gone)
}

// dialPeer connects to a server of ours.
func dialPeer(t testing.TB, dom verbs.Domain, target string, private []byte) *peer {
	t.Helper()
	p := newPeer(t, dom, private)
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dom.Dial(context.Background(), u.Host, p.options()); err != nil {
		t.Fatal(err)
	}
	return p
}

// listener hands out the peers that clients of ours have connected to.
type listener struct {
	url     string
	peers   chan *peer
	private atomic.Pointer[[]byte] // what the next peer says of itself
}

var servers atomic.Uint32

// listenPeer listens as a server; each connection becomes a peer.
func listenPeer(t testing.TB, scheme string, dom verbs.Domain, private []byte) *listener {
	t.Helper()
	// An address of its own: clients remember for a while, by address, who knows only version 1 (D-5).
	n := servers.Add(1)
	vl, err := dom.Listen(context.Background(), fmt.Sprintf("127.1.%d.%d:0", n>>8&0xff, n&0xff), verbs.ListenOptions{})
	if err != nil { // not every system has more than one
		vl, err = dom.Listen(context.Background(), "127.0.0.1:0", verbs.ListenOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{url: scheme + "://" + vl.Addr().String(), peers: make(chan *peer, 16)}
	l.private.Store(&private)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			req, err := vl.Accept(context.Background())
			if err != nil {
				return
			}
			p := newPeer(t, dom, *l.private.Load())
			if _, err := req.Accept(context.Background(), p.options()); err != nil {
				continue
			}
			l.peers <- p
		}
	})
	t.Cleanup(func() {
		vl.Close()
		wg.Wait()
	})
	return l
}

// post sends b, with a Send, a Send With Invalidate of key, or an RDMA Write.
func (p *peer) post(op verbs.Op, key uint32, remote uint64, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at+len(b) > peerOut {
		p.at = 0
	}
	w := verbs.Work{Op: op, Key: key, Remote: remote}
	if len(b) > 0 {
		copy(p.out.Bytes()[p.at:], b)
		w.Segs = []verbs.Seg{{R: p.out, Off: p.at, N: len(b)}}
		p.at += len(b)
	}
	_, err := p.conn.Post([]verbs.Work{w})
	p.conn.Flush()
	return err
}

// read pulls n octets by RDMA Read.
func (p *peer) read(key uint32, remote uint64, n int) ([]byte, verbs.Status) {
	p.t.Helper()
	reg, err := p.dom.Alloc(n)
	if err != nil {
		p.t.Fatal(err)
	}
	w := verbs.Work{Op: verbs.OpRead, Key: key, Remote: remote, Segs: []verbs.Seg{{R: reg, N: n}}}
	if _, err := p.conn.Post([]verbs.Work{w}); err != nil {
		p.t.Fatal(err)
	}
	p.conn.Flush()
	select {
	case s := <-p.reads:
		return reg.Bytes(), s
	case <-time.After(patience):
		p.t.Fatal("an RDMA Read has no end")
	}
	return nil, 0
}

// next is the next message.
func (p *peer) next() (message, error) {
	select {
	case m := <-p.in:
		return m, nil
	default:
	}
	select {
	case m := <-p.in:
		return m, nil
	case <-p.gone:
		select {
		case m := <-p.in: // it came before the end
			return m, nil
		default:
			return message{}, fmt.Errorf("the connection ended: %w", p.cut)
		}
	case <-time.After(patience):
		return message{}, errors.New("nothing came")
	}
}
