package properties

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rpcrdma/rpcrdma/cli/capture"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/props"
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"    // iwarp://
	_ "github.com/rpcrdma/rpcrdma/providers/loopback" // loopback://
)

const program = 0x20000077

var (
	procNull = &rpc.Proc{Program: program, Version: 1, Number: 0, Name: "NULL", Idempotent: true}
	procEcho = &rpc.Proc{Program: program, Version: 1, Number: 1, Name: "ECHO", Idempotent: true}
)

// Make makes the extension under test from options as a configuration has them (props.ParseOptions).
type Make func(tb testing.TB, options map[string]string) ext.Extension

// plan is a world to be made.
type plan struct {
	scheme  string
	tested  side
	make    Make
	options map[string]string // of the extension under test
	other   props.Options     // of its peer
	lonely  bool              // the peer has no extensions at all
	host    string            // of the server; "": 127.0.0.1
	client  []rpc.ClientOption
	server  []rpc.ListenOption
}

type side int

const (
	atClient side = iota
	atServer
)

func (s side) String() string {
	if s == atClient {
		return "at the client"
	}
	return "at the server"
}

// world is a client and a server, connected.
type world struct {
	t      *testing.T
	client *rpc.Client
	// probes and sessions are those at the client and at the server; tested and other are those beside the extension under test
	// and beside its peer.
	probes        [2]*probe
	tested, other *probe
	ref           *props.Extension // the peer
	tap           *tap
	file          *capture.File // what the fabric carries, where it is no loopback
	name          string
	gaps          bool // wire lacks something
	ctx           context.Context
}

// message is a Send.
type message struct {
	client bool // the client's
	size   int
	header wire.Header
}

// tap keeps what passes the client, as loopback gives it: whole messages.
type tap struct {
	mu  sync.Mutex
	all []message
}

func (p *tap) Frame(fr verbs.Frame) {
	p.add(fr.Sent, bytes.Join(fr.Parts, nil))
}

func (p *tap) add(client bool, b []byte) {
	m := message{client: client, size: len(b)}
	if _, err := m.header.Parse(b, wire.ProfileCel04); err != nil {
		return // it is looked at for operations and sizes
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, m)
}

// wire ends the client and gives all that its fabric has carried.
func (w *world) wire() []message {
	w.t.Helper()
	w.client.Close()
	if w.file == nil {
		return w.tap.all
	}
	w.gaps = w.file.Close() != nil // it leaves out what it cannot keep up with
	f, err := os.Open(w.name)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	in, err := capture.NewReader(f)
	if err != nil {
		w.t.Fatal(err)
	}
	find := capture.NewFinder(func(e capture.Event) {
		if e.Send != nil {
			w.tap.add(e.Asked, bytes.Clone(e.Send)) // the header has views into it
		}
	})
	for p, err := in.Next(); err == nil; p, err = in.Next() {
		find.Packet(p)
	}
	return w.tap.all
}

// prepare makes the parts of a world; connect connects them.
func prepare(t *testing.T, p plan) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, tap: new(tap), ref: props.New(p.other)}
	for i := range w.probes {
		w.probes[i] = newProbe(t)
	}
	if p.scheme != "loopback" {
		w.name = filepath.Join(t.TempDir(), "wire.pcapng")
		var err error
		if w.file, err = capture.Create(w.name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.file.Close() })
	}
	w.tested, w.other = w.probes[p.tested], w.probes[1-p.tested]
	return w
}

func (w *world) connect(p plan) {
	w.t.Helper()
	exts := [2]ext.Extension{w.ref, w.ref}
	exts[p.tested] = p.make(w.t, p.options)
	option := func(i side) rpc.ConnOption {
		if p.lonely && i != p.tested {
			return rpc.WithExtensions(nil)
		}
		set, err := ext.NewSet(exts[i], w.probes[i])
		if err != nil {
			w.t.Fatal(err)
		}
		return rpc.WithExtensions(set)
	}
	srv := rpc.NewServer()
	srv.Register(program, 1,
		rpc.Method{Proc: procNull, Inline: true, Handler: func(context.Context, *rpc.Request) error { return nil }},
		rpc.Method{Proc: procEcho, Handler: func(_ context.Context, r *rpc.Request) error {
			b := r.Args.OpaqueView(1 << 20)
			if err := r.Args.Done(); err != nil {
				return err
			}
			r.Results.Opaque(b)
			return nil
		}})
	l, err := rpc.Listen(w.ctx, p.scheme+"://"+cmp.Or(p.host, "127.0.0.1")+":0", append([]rpc.ListenOption{option(atServer)}, p.server...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), l) }()
	w.t.Cleanup(func() {
		srv.Close()
		if err := <-served; err != nil {
			w.t.Errorf("Serve: %v", err)
		}
	})
	var t verbs.Tap = w.tap
	if w.file != nil {
		t = w.file
	}
	w.client, err = rpc.NewClient(l.URL(), append([]rpc.ClientOption{option(atClient), rpc.WithTap(t)}, p.client...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.client.Close() })
	if err := w.client.Call(w.ctx, procNull, nil, nil); err != nil {
		w.t.Fatal(err)
	}
}

// refConn waits until the peer's exchange is over, and gives its connection's number.
func (w *world) refConn(s *probed) uint64 {
	w.t.Helper()
	id := s.conn.Facts().ID
	if err := w.ref.Wait(w.ctx, id); err != nil {
		w.t.Fatal(err)
	}
	return id
}

// calls makes calls until stop has been called, n at a time, and reports each that fails. Stop waits for them.
func (w *world) calls(n, size int) (stop func()) {
	w.t.Helper()
	var (
		over atomic.Bool
		wg   sync.WaitGroup
	)
	for i := range n {
		wg.Go(func() {
			data := bytes.Repeat([]byte{byte(i)}, size)
			for first := true; first || !over.Load(); first = false {
				var got opaque
				if err := w.client.Call(context.Background(), procEcho, opaque(data), &got, rpc.MaxReply(size+64)); err != nil || !bytes.Equal(got, data) {
					w.t.Errorf("a call of %d bytes: %d back, %v", len(data), len(got), err)
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		over.Store(true)
		wg.Wait()
	})
}

// opaque is bytes as arguments and results.
type opaque []byte

func (o opaque) MarshalXDR(w *xdr.Writer)    { w.Opaque(o) }
func (o *opaque) UnmarshalXDR(r *xdr.Reader) { *o = r.Opaque(1 << 20) }

// some makes n calls more, at the same time.
func (w *world) some(n int) {
	w.t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := w.client.Call(w.ctx, procEcho, opaque(make([]byte, 10000)), new(opaque), rpc.MaxReply(10100)); err != nil {
				w.t.Error(err)
			}
		})
	}
	wg.Wait()
}
