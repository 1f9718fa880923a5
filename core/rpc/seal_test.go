package rpc_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// toyFlavor is a mechanism as a real one is built: it signs each call and each reply with a sequence number, refuses
// numbers that it has seen, wraps arguments and results if it is to, and has a call of its own.
const toyFlavor rpcmsg.Flavor = 390_099

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// cover is its wrapping: the bytes, changed, as an opaque, and a checksum. uncover undoes it.
func cover(dst, key, b []byte) []byte {
	var w xdr.Writer
	c := bytes.Clone(b)
	for i := range c {
		c[i] ^= key[i%len(key)]
	}
	w.Opaque(c)
	w.Opaque(mac(key, c))
	return append(dst, w.Bytes()...)
}

func uncover(dst, key, b []byte) ([]byte, error) {
	r := xdr.NewReader(b)
	c, sum := r.OpaqueView(1<<24), r.OpaqueView(32)
	if err := r.Done(); err != nil {
		return nil, err
	}
	if !hmac.Equal(sum, mac(key, c)) {
		return nil, errors.New("the checksum is wrong")
	}
	at := len(dst)
	dst = append(dst, c...)
	for i := range dst[at:] {
		dst[at+i] ^= key[i%len(key)]
	}
	return dst, nil
}

type toyClient struct {
	user  string
	key   []byte
	wraps bool
	seq   atomic.Uint32
}

func (c *toyClient) Cred(h *rpcmsg.CallHeader) error {
	var w xdr.Writer
	w.Uint32(c.seq.Add(1))
	w.Bool(c.wraps)
	w.String(c.user)
	h.Cred = rpcmsg.Auth{Flavor: toyFlavor, Body: w.Bytes()}
	return nil
}

func (c *toyClient) Verf(h *rpcmsg.CallHeader, signed []byte) error {
	h.Verf = rpcmsg.Auth{Flavor: toyFlavor, Body: mac(c.key, signed)}
	return nil
}

func (c *toyClient) Check(h *rpcmsg.CallHeader, reply *rpcmsg.ReplyHeader) error {
	if reply.Verf.Flavor != toyFlavor || !hmac.Equal(reply.Verf.Body, mac(c.key, h.Cred.Body[:4])) {
		return errors.New("not from that server, or not to that call")
	}
	return nil
}

func (c *toyClient) Protects() bool { return c.wraps }
func (c *toyClient) Wrap(_ *rpcmsg.CallHeader, dst, args []byte) ([]byte, error) {
	return cover(dst, c.key, args), nil
}
func (c *toyClient) Unwrap(_ *rpcmsg.CallHeader, dst, results []byte) ([]byte, error) {
	return uncover(dst, c.key, results)
}

type toyServer struct {
	keys map[string][]byte

	mu   sync.Mutex
	seen map[string]bool
}

type toyIdentity struct {
	user  string
	wraps bool
}

func (s *toyServer) Flavor() rpcmsg.Flavor { return toyFlavor }

func (s *toyServer) Accept(h *rpcmsg.CallHeader, signed []byte) (any, error) {
	r := xdr.NewReader(h.Cred.Body)
	seq, wraps, user := r.Uint32(), r.Bool(), r.String(100)
	key := s.keys[user]
	switch {
	case r.Done() != nil || key == nil:
		return nil, &rpcmsg.AuthError{Stat: rpcmsg.AuthBadCred}
	case !hmac.Equal(h.Verf.Body, mac(key, signed)):
		return nil, &rpcmsg.AuthError{Stat: rpcmsg.AuthBadVerf}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := fmt.Sprint(user, seq); s.seen[k] {
		return nil, rpcmsg.ErrDiscard
	} else {
		s.seen[k] = true
	}
	return toyIdentity{user, wraps}, nil
}

func (s *toyServer) key(id any) []byte { return s.keys[id.(toyIdentity).user] }

func (s *toyServer) Verf(h *rpcmsg.CallHeader, id any) (rpcmsg.Auth, error) {
	return rpcmsg.Auth{Flavor: toyFlavor, Body: mac(s.key(id), h.Cred.Body[:4])}, nil
}
func (s *toyServer) Protects(id any) bool { return id.(toyIdentity).wraps }
func (s *toyServer) Unwrap(_ *rpcmsg.CallHeader, id any, dst, args []byte) ([]byte, error) {
	return uncover(dst, s.key(id), args)
}
func (s *toyServer) Wrap(_ *rpcmsg.CallHeader, id any, dst, results []byte) ([]byte, error) {
	return cover(dst, s.key(id), results), nil
}

// Controls: procedure 99 of any program is the mechanism's.
func (s *toyServer) Controls(h *rpcmsg.CallHeader) bool { return h.Proc == 99 }
func (s *toyServer) Control(_ *rpcmsg.CallHeader, id any, args []byte) ([]byte, error) {
	if len(args) != 4 {
		return nil, rpcmsg.ErrGarbageArgs
	}
	return args, nil
}

func toys(wraps bool) (*toyClient, rpc.ServerOption) {
	key := []byte("between us")
	return &toyClient{user: "anna", key: key, wraps: wraps},
		rpc.WithAuthFlavor(&toyServer{keys: map[string][]byte{"anna": key}, seen: map[string]bool{}})
}

// TestMechanism: a mechanism that signs, with and without wrapping, over every transport. What is wrapped is
// never moved by itself; what is not, is.
func TestMechanism(t *testing.T) {
	for _, tr := range transports {
		for _, wraps := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, wraps %v", tr.name, wraps), func(t *testing.T) {
				toy, server := toys(wraps)
				f := count(t, tr.url, tr.opts, server)
				c := dial(t, f.url, tr.opts, rpc.WithAuth(toy))
				for _, n := range []int{0, 3, 900, 4000, 9000, 100_000} {
					checkCalls(t, c, n)
					var res onceResult
					if err := c.Call(ctx(t), procOnce, onceArgs{1, pattern(n)}, &res, rpc.Into(make([]byte, n))); err != nil || !bytes.Equal(res.data, pattern(n)) {
						t.Fatalf("%d bytes: %v", n, err)
					}
				}
				for arg, want := range map[number]error{0: rpcmsg.ErrGarbageArgs, 1: rpcmsg.ErrSystem, 2: rpcmsg.ErrAuth} {
					if err := c.Call(ctx(t), procFail, arg, nil); !errors.Is(err, want) {
						t.Errorf("FAIL(%d): %v", arg, err)
					}
				}
				n := c.Counters()
				switch moved := n.ReadChunks - n.Long + n.WriteChunks; {
				case tr.version == 0:
				case wraps && (n.WriteChunks > 0 || n.Chunked > 0 && n.ReadChunks > n.Long):
					t.Errorf("wrapped items were moved: %+v", n)
				case !wraps && moved == 0:
					t.Errorf("nothing was moved: %+v", n)
				}
			})
		}
	}
}

// TestMechanismRefuses: what does not verify, on either side.
func TestMechanismRefuses(t *testing.T) {
	for _, wraps := range []bool{false, true} {
		_, server := toys(wraps)
		var who atomic.Value
		f := count(t, "loopback://127.0.0.1:0", server, rpc.WithServerInterceptor(func(ctx context.Context, r *rpc.Request, next rpc.HandlerFunc) error {
			who.Store(r.Identity)
			return next(ctx, r)
		}))
		call := func(toy rpcmsg.ClientAuth, opts ...rpc.CallOption) error {
			c := dial(t, f.url, rpc.WithAuth(toy))
			return c.Call(ctx(t), procEcho, blob("x"), new(blob), opts...)
		}
		good, _ := toys(wraps)
		if err := call(good); err != nil || who.Load() != any(toyIdentity{"anna", wraps}) {
			t.Errorf("%v; the server saw %+v", err, who.Load())
		}
		otherKey := &toyClient{user: "anna", key: []byte("guessed"), wraps: wraps}
		otherKey.seq.Store(1000)
		for name, tc := range map[string]struct {
			toy  rpcmsg.ClientAuth
			want error
		}{
			"another key":   {otherKey, &rpcmsg.AuthError{Stat: rpcmsg.AuthBadVerf}},
			"unknown user":  {&toyClient{user: "bert", key: []byte("x")}, &rpcmsg.AuthError{Stat: rpcmsg.AuthBadCred}},
			"other flavour": {&rpcmsg.Plain{Credential: rpcmsg.Auth{Flavor: 77}}, &rpcmsg.AuthError{Stat: rpcmsg.AuthRejectedCred}},
		} {
			if err := call(tc.toy); !errors.Is(err, tc.want) {
				t.Errorf("%s: %v, want %v", name, err, tc.want)
			}
		}
		deaf := &deafToy{toyClient: &toyClient{user: "anna", key: []byte("between us"), wraps: wraps}}
		deaf.seq.Store(2000)
		if err := call(deaf); err == nil || !errors.Is(err, errDeaf) {
			t.Errorf("a reply that does not verify: %v", err)
		}
		replay := &toyClient{user: "anna", key: []byte("between us"), wraps: wraps} // begins at 1 again
		short := dial(t, f.url, rpc.WithAuth(replay), rpc.WithCallTimeout(50*time.Millisecond), rpc.WithVersions(1, 1))
		if err := short.Call(context.Background(), procEcho, blob("x"), nil); err == nil {
			t.Error("a sequence number was taken twice")
		}
	}
}

type deafToy struct{ *toyClient }

var errDeaf = errors.New("nobody is believed")

func (deafToy) Check(*rpcmsg.CallHeader, *rpcmsg.ReplyHeader) error { return errDeaf }

// TestMechanismControl: a call of the mechanism's own never reaches a procedure.
func TestMechanismControl(t *testing.T) {
	toy, server := toys(false)
	f := serve(t, "loopback://127.0.0.1:0", server)
	c := dial(t, f.url, rpc.WithAuth(toy))
	own := &rpc.Proc{Program: 12345, Version: 6, Number: 99}
	var got number
	if err := c.Call(ctx(t), own, number(7), &got); err != nil || got != 7 {
		t.Errorf("%d, %v", got, err)
	}
	if err := c.Call(ctx(t), own, nil, &got); !errors.Is(err, rpcmsg.ErrGarbageArgs) {
		t.Error(err)
	}
}

// TestMechanismAgain: a call that is sent again is signed anew, executed once, and its reply is verified for the
// number that it was sent with at last.
func TestMechanismAgain(t *testing.T) {
	for _, wraps := range []bool{false, true} {
		toy, server := toys(wraps)
		f := count(t, "loopback://127.0.0.1:0", server)
		f.gate = make(chan struct{})
		c := dial(t, f.url, rpc.WithAuth(toy))
		var res onceResult
		done := make(chan error, 1)
		released := 0
		args := released1{onceArgs{1, pattern(9000)}, &released}
		go func() { done <- c.Call(ctx(t), procOnce, args, &res, rpc.Into(make([]byte, 9000))) }()
		<-f.inside
		for i := range uint64(2) {
			c.Conns()[0].Abort(errors.New("cut by the test"))
			wait.For(t, "the repetition", func() bool { return f.srv.Counters().CallsRecv >= i+2 && len(c.Conns()) == 1 })
		}
		close(f.gate)
		if err := <-done; err != nil || res.total != 1 || !bytes.Equal(res.data, pattern(9000)) {
			t.Errorf("wraps %v: %v, execution %d, %d bytes", wraps, err, res.total, len(res.data))
		}
		if n := f.executions(); n != 1 || released != 1 {
			t.Errorf("wraps %v: executed %d times, the argument released %d times", wraps, n, released)
		}
	}
}

// released1 counts the releases of its bulk argument.
type released1 struct {
	onceArgs
	n *int
}

func (a released1) MarshalXDR(w *xdr.Writer) {
	w.Uint32(a.token)
	w.BulkItem(rpc.Bulk(a.data, func() { *a.n++ }))
}

// TestRPCSECGSSPassesThrough: with integrity or privacy nothing is moved by itself, by whoever does the wrapping;
// calls and replies pass as they are.
func TestRPCSECGSSPassesThrough(t *testing.T) {
	gss := func(proc, service uint32) rpcmsg.Auth {
		var w xdr.Writer
		for _, v := range []uint32{1, proc, 17, service} {
			w.Uint32(v)
		}
		w.Opaque([]byte("context"))
		return rpcmsg.Auth{Flavor: rpcmsg.AuthRPCGSS, Body: w.Bytes()}
	}
	f := count(t, "loopback://127.0.0.1:0", rpc.WithAuthFlavor(rpcmsg.PlainServer(rpcmsg.AuthRPCGSS)))
	for service, protected := range map[uint32]bool{1: false, 2: true, 3: true} {
		cred := gss(0, service)
		c := dial(t, f.url)
		var res onceResult
		before := c.Counters()
		err := c.Call(ctx(t), procOnce, onceArgs{1, pattern(9000)}, &res, rpc.Into(make([]byte, 9000)), rpc.WithCred(&cred))
		n := c.Counters()
		if err != nil || !bytes.Equal(res.data, pattern(9000)) {
			t.Fatalf("service %d: %v", service, err)
		}
		if moved := n.WriteChunks > before.WriteChunks; moved == protected {
			t.Errorf("service %d: %+v", service, n)
		}
		// Our server does not use a Write chunk that somebody offers for such a call.
		r := rawDial(t, f.url)
		_, s := r.Memory(8192, verbs.RemoteWrite)
		h := head(0x88, 2, wire.Msg)
		h.Writes = []wire.Chunk{{s}}
		var w xdr.Writer
		ch := rpcmsg.CallHeader{XID: 0x88, Program: onceProgram, Version: 1, Proc: procAgain.Number, Cred: cred}
		ch.Append(&w)
		onceArgs{1, pattern(700)}.MarshalXDR(&w)
		r.send(enc(h), w.AppendUnreduced(nil))
		got, payload, _ := r.Parsed()
		used := len(got.Writes) == 1 && got.Writes[0].Len() > 0
		if used == protected || protected && len(payload) < 700 {
			t.Errorf("service %d: a Write chunk used: %v, %d bytes inline", service, used, len(payload))
		}
		r.Conn.Close()
	}
}

// TestMovedAndWrapped: arguments that are wrapped and yet moved in part are garbage, not unwrapped in part.
func TestMovedAndWrapped(t *testing.T) {
	toy, server := toys(true)
	f := count(t, "loopback://127.0.0.1:0", server)
	var w xdr.Writer
	h := rpcmsg.CallHeader{XID: 5, Program: onceProgram, Version: 1, Proc: procAgain.Number}
	if err := rpcmsg.AppendCall(&w, &h, toy); err != nil {
		t.Fatal(err)
	}
	var args xdr.Writer
	args.Uint32(1)
	args.Opaque(pattern(100))
	msg := append(bytes.Clone(w.Bytes()), cover(nil, toy.key, args.Bytes())...)
	r := rawDial(t, f.url)
	at := len(w.Bytes()) + 4
	n := int(binary.BigEndian.Uint32(msg[at-4:]))
	mem, s := r.Memory(n, verbs.RemoteRead)
	copy(mem, msg[at:])
	th := head(5, 2, wire.Msg)
	th.Reads = []wire.ReadSegment{{Position: uint32(at), Segment: s}}
	r.send(enc(th), msg[:at], msg[at+n:])
	_, payload, _ := r.Parsed()
	var reply rpcmsg.ReplyHeader
	if err := reply.Parse(xdr.NewReader(payload)); err != nil || reply.Accept != rpcmsg.GarbageArgs {
		t.Errorf("%+v, %v", reply, err)
	}
	if f.executions() != 0 {
		t.Error("executed")
	}
}
