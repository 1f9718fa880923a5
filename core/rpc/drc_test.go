package rpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/faults"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// The program onceProgram counts: what must not be executed twice.
const onceProgram = program + 20

var (
	// procOnce takes a token and bulk data, and says how often it has been called and, in a bulk result, the data.
	procOnce = &rpc.Proc{Program: onceProgram, Version: 1, Number: 1, Name: "ONCE",
		Binding: binding.Binding{Args: true, Results: true, MaxReply: 16}}
	procAgain = &rpc.Proc{Program: onceProgram, Version: 1, Number: 2, Name: "AGAIN", Idempotent: true,
		Binding: binding.Binding{Args: true, Results: true, MaxReply: 16}}
)

type onceArgs struct {
	token uint32
	data  []byte
}

func (a onceArgs) MarshalXDR(w *xdr.Writer) {
	w.Uint32(a.token)
	w.BulkOpaque(a.data)
}

func (a onceArgs) MaxReply() (reduced, whole int) { return 12, 12 + len(a.data) + 3 }

type onceResult struct {
	total uint32
	data  []byte
}

func (o *onceResult) UnmarshalXDR(r *xdr.Reader) {
	o.total = r.Uint32()
	o.data = append([]byte(nil), r.Bulk(1<<20)...)
}

// counted is a server of onceProgram.
type counted struct {
	*fixture
	gate   chan struct{} // if set, each execution waits for it
	inside chan struct{}

	mu    sync.Mutex
	total uint32
	times map[uint32]int // executions by token
}

func count(t testing.TB, url string, opts ...any) *counted {
	c := &counted{fixture: serve(t, url, opts...), times: map[uint32]int{}, inside: make(chan struct{}, 1024)}
	c.srv.Register(onceProgram, 1, rpc.Method{Proc: procOnce, Handler: c.once}, rpc.Method{Proc: procAgain, Handler: c.once})
	return c
}

func (c *counted) once(ctx context.Context, r *rpc.Request) error {
	token := r.Args.Uint32()
	data := r.Args.Bulk(1 << 20)
	if err := r.Args.Done(); err != nil {
		return err
	}
	c.mu.Lock()
	c.total++
	c.times[token]++
	total, gate := c.total, c.gate
	c.mu.Unlock()
	c.inside <- struct{}{}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	} else {
		<-c.inside
	}
	buf, err := r.Buffer(max(len(data), 1))
	if err != nil {
		return err
	}
	copy(buf.Bytes(), data)
	r.Results.Uint32(total)
	r.Results.BulkItem(buf.Bulk(len(data)))
	return nil
}

func (c *counted) executions() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int(c.total)
}

// onceCall is the RPC message of a call of proc.
func onceCall(xid uint32, proc *rpc.Proc, machine string, token uint32, data []byte) []byte {
	var w xdr.Writer
	h := rpcmsg.CallHeader{XID: xid, Program: onceProgram, Version: 1, Proc: proc.Number}
	if machine != "" {
		h.Cred, _ = (&rpcmsg.Sys{Machine: machine, UID: 7}).Auth()
	}
	h.Append(&w)
	w.Uint32(token)
	w.Opaque(data)
	return bytes.Clone(w.Bytes())
}

// onceReply is the reply with a total.
func onceReply(xid, total uint32, data []byte) []byte {
	return result(xid, append(word(total), opaque(data)...)...)
}

// way is how a call is brought to the server and its reply back.
type way struct {
	name string
	call func(t *testing.T, f *counted, xid uint32, msg []byte) (reply []byte)
}

func inline(version uint32) way {
	return way{fmt.Sprintf("version %d inline", version), func(t *testing.T, f *counted, xid uint32, msg []byte) []byte {
		r := rawDial(t, f.url)
		r.send(enc(head(xid, version, wire.Msg)), msg)
		h, payload, _ := r.Parsed()
		r.Conn.Close()
		if h.XID != xid || h.Version != version || h.Proc != wire.Msg {
			t.Fatalf("answered by %v", &h)
		}
		return payload
	}}
}

// chunked offers a Write chunk for the bulk result; long has the whole call in a Position-Zero Read chunk and offers a
// Reply chunk of its size.
var chunked = way{"version 2 with a Write chunk", func(t *testing.T, f *counted, xid uint32, msg []byte) []byte {
	r := rawDial(t, f.url)
	mem, s := r.Memory(8192, verbs.RemoteWrite)
	h := head(xid, 2, wire.Msg)
	h.Writes = []wire.Chunk{{s}}
	r.send(enc(h), msg)
	got, payload, _ := r.Parsed()
	r.Conn.Close()
	if got.XID != xid || got.Proc != wire.Msg || len(got.Writes) != 1 {
		t.Fatalf("answered by %v", &got)
	}
	return append(payload, mem[:(got.Writes[0].Len()+3)&^3]...)
}}

var long = way{"version 2 with Position-Zero and Reply chunks", func(t *testing.T, f *counted, xid uint32, msg []byte) []byte {
	r := rawDial(t, f.url)
	in, read := r.Memory(len(msg), verbs.RemoteRead)
	copy(in, msg)
	mem, s := r.Memory(8192, verbs.RemoteWrite)
	h := head(xid, 2, wire.NoMsg)
	h.Reads = []wire.ReadSegment{{Segment: read}}
	h.Reply, h.HasReply = wire.Chunk{s}, true
	r.send(enc(h))
	got, payload, _ := r.Parsed()
	r.Conn.Close()
	if got.Proc == wire.NoMsg {
		payload = mem[:got.Reply.Len()]
	}
	return payload
}}

// overTCP is what comes over a listener of the same server with record marks.
func overTCP(addr string) way { return overTCPFrom("127.0.0.1", addr) }

func overTCPFrom(from, addr string) way {
	return way{"tcp", func(t *testing.T, _ *counted, xid uint32, msg []byte) []byte {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		nc, err := d.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.Write(append(rpcmsg.AppendMark(nil, len(msg), true), msg...))
		nc.SetReadDeadline(time.Now().Add(time.Minute))
		var mark [4]byte
		if _, err := io.ReadFull(nc, mark[:]); err != nil {
			t.Fatal(err)
		}
		reply := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
		if _, err := io.ReadFull(nc, reply); err != nil {
			t.Fatal(err)
		}
		return reply
	}}
}

// alsoTCP serves f on tcp as well.
func (f *counted) alsoTCP(t *testing.T) (addr string) {
	l, err := rpc.Listen(context.Background(), "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- f.srv.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		f.srv.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestAnsweredFromTheCache: whatever a call came by, and whatever it comes by again, it is executed once, and
// the reply fits what the repetition offers.
func TestAnsweredFromTheCache(t *testing.T) {
	f := count(t, "loopback://127.0.0.1:0")
	ways := []way{inline(1), inline(2), chunked, long, overTCP(f.alsoTCP(t))}
	xid := uint32(0x5000)
	for i, first := range ways {
		for _, second := range ways {
			for _, n := range []int{0, 3, 900} {
				xid++
				msg := onceCall(xid, procOnce, "here", 1, pattern(n))
				want := onceReply(xid, uint32(f.executions())+1, pattern(n))
				for k, w := range []way{first, second, ways[(i+2)%len(ways)]} {
					if got := w.call(t, f, xid, msg); !bytes.Equal(got, want) {
						t.Fatalf("%s, %s, %d bytes: time %d: got %x, want %x", first.name, second.name, n, k, got, want)
					}
				}
			}
		}
	}
	if n := f.executions(); n != int(xid-0x5000) {
		t.Errorf("%d calls were executed %d times", xid-0x5000, n)
	}
}

// TestCallersAreToldApart: one address, one XID, and yet not the same call.
func TestCallersAreToldApart(t *testing.T) {
	f := count(t, "loopback://127.0.0.1:0")
	big, other := pattern(900), pattern(900)
	other[899]++
	addr := f.alsoTCP(t)
	tcp := overTCP(addr)
	for i, msg := range [][]byte{
		onceCall(9, procOnce, "here", 1, big),
		onceCall(9, procOnce, "there", 1, big), // another machine
		onceCall(9, procOnce, "", 1, big),      // another flavour
		onceCall(9, procOnce, "here", 2, big),  // other arguments
		onceCall(9, procOnce, "here", 1, other),
		onceCall(9, procOnce, "here", 1, big[:899]),
		onceCall(9, procOnce, "here", 1, append(pattern(2000), 1)), // the beginning and the length of what is long
		onceCall(9, procOnce, "here", 1, append(pattern(2000), 1, 2)),
	} {
		for range 2 {
			if got := binary.BigEndian.Uint32(tcp.call(t, f, 9, msg)[24:]); got != uint32(i+1) {
				t.Errorf("call %d got the reply of execution %d", i+1, got)
			}
		}
	}
	msg, before := onceCall(9, procOnce, "here", 1, big), f.executions()
	if got := binary.BigEndian.Uint32(overTCPFrom("127.0.0.2", addr).call(t, f, 9, msg)[24:]); int(got) != before+1 {
		t.Errorf("a call from another address got the reply of execution %d", got)
	}
	// The length counts where the bytes that are looked at are the same.
	msg = onceCall(9, procOnce, "here", 1, pattern(3000))
	tcp.call(t, f, 9, msg)
	if got := tcp.call(t, f, 9, append(msg, 0, 0, 0, 0)); !bytes.Equal(got[len(got)-4:], word(uint32(rpcmsg.GarbageArgs))) {
		t.Errorf("a call with four bytes more got %x", got)
	}
}

// TestLostDuringExecution: the connection goes while the call is executed. The client sends it again on another;
// it is carried through once, and that connection gets the reply.
func TestLostDuringExecution(t *testing.T) {
	for _, tr := range transports {
		if tr.version == 0 {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			f := count(t, tr.url, tr.opts)
			f.gate = make(chan struct{})
			c := dial(t, f.url, tr.opts)
			data, dst := pattern(9000), make([]byte, 9000)
			var res onceResult
			done := make(chan error, 1)
			go func() {
				done <- c.Call(ctx(t), procOnce, onceArgs{1, data}, &res, rpc.Into(dst))
			}()
			<-f.inside
			for i := range uint64(3) {
				c.Conns()[0].Abort(errors.New("cut by the test"))
				wait.For(t, "the repetition", func() bool { return f.srv.Counters().CallsRecv == i+2 && len(c.Conns()) == 1 })
			}
			wait.For(t, "the old connections to be gone", func() bool { return f.srv.Connections() == 1 })
			close(f.gate)
			if err := <-done; err != nil || res.total != 1 || !bytes.Equal(res.data, data) {
				t.Errorf("%v, execution %d, %d bytes", err, res.total, len(res.data))
			}
			if n := f.executions(); n != 1 {
				t.Errorf("executed %d times", n)
			}
		})
	}
}

// TestRepeatedWhileExecuted: on the same connection a repetition is dropped; on another it takes the place of
// an earlier one.
func TestRepeatedWhileExecuted(t *testing.T) {
	f := count(t, "loopback://127.0.0.1:0")
	f.gate = make(chan struct{})
	msg, want := onceCall(7, procOnce, "", 1, nil), onceReply(7, 1, nil)
	rs := []*raw{rawDial(t, f.url), rawDial(t, f.url), rawDial(t, f.url)}
	sent := uint64(0)
	send := func(r *raw) {
		r.send(enc(head(7, 2, wire.Msg)), msg)
		sent++
		wait.For(t, "the call to come in", func() bool { return f.srv.Counters().CallsRecv == sent })
	}
	send(rs[0])
	<-f.inside
	for _, i := range []int{0, 1, 1, 2, 2, 0} {
		send(rs[i])
	}
	close(f.gate)
	for _, i := range []int{0, 2} {
		if _, got, _ := rs[i].Parsed(); !bytes.Equal(got, want) {
			t.Errorf("connection %d got %x", i, got)
		}
	}
	for i, r := range rs {
		r.good(0x100, 2) // nothing else is under way
		if len(r.In) > 0 {
			t.Errorf("connection %d was answered twice", i)
		}
	}
	if n := f.executions(); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// TestShutdownDuringExecution: what is carried through without its connection is waited for, as long as Shutdown's
// context allows.
func TestShutdownDuringExecution(t *testing.T) {
	for _, patient := range []bool{true, false} {
		f := count(t, "loopback://127.0.0.1:0")
		f.gate = make(chan struct{})
		r := rawDial(t, f.url)
		r.send(enc(head(7, 2, wire.Msg)), onceCall(7, procOnce, "", 1, nil))
		<-f.inside
		r.Conn.Close()
		wait.For(t, "the connection's end", func() bool { return f.srv.Connections() == 0 })
		cctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		if patient {
			cancel()
			cctx, cancel = context.WithCancel(context.Background())
			time.AfterFunc(50*time.Millisecond, func() { close(f.gate) })
		}
		if err := f.srv.Shutdown(cctx); patient != (err == nil) {
			t.Errorf("patient %v: %v", patient, err)
		}
		cancel()
	}
}

// TestNotKept: what is executed again.
func TestNotKept(t *testing.T) {
	for _, tc := range []struct {
		name  string
		cache rpc.ReplyCache
		proc  *rpc.Proc
		want  int
	}{
		{"kept", rpc.ReplyCache{}, procOnce, 1},
		{"idempotent", rpc.ReplyCache{}, procAgain, 2},
		{"no cache", rpc.ReplyCache{Entries: -1}, procOnce, 2},
		{"a long reply", rpc.ReplyCache{Largest: 900}, procOnce, 2},
		{"a long reply that fits", rpc.ReplyCache{Largest: 932}, procOnce, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := count(t, "loopback://127.0.0.1:0", rpc.WithReplyCache(tc.cache))
			for range 2 {
				inline(2).call(t, f, 5, onceCall(5, tc.proc, "", 1, pattern(900)))
			}
			if n := f.executions(); n != tc.want {
				t.Errorf("executed %d times, want %d", n, tc.want)
			}
		})
	}
}

// TestAge: a reply is forgotten when it has not been asked for in a while.
func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := count(t, "loopback://127.0.0.1:0", rpc.WithReplyCache(rpc.ReplyCache{Age: time.Minute}))
		msg := onceCall(5, procOnce, "", 1, nil)
		for i, after := range []time.Duration{0, 50 * time.Second, 50 * time.Second, 61 * time.Second} {
			time.Sleep(after)
			inline(2).call(t, f, 5, msg)
			if want := 1 + i/3; f.executions() != want {
				t.Errorf("after %v more: executed %d times, want %d", after, f.executions(), want)
			}
		}
	})
}

// TestFloodOfCalls: what a peer can make the cache hold is bounded, and the newest replies are those that it has.
func TestFloodOfCalls(t *testing.T) {
	for _, limits := range []rpc.ReplyCache{
		{Entries: 50},
		{Bytes: 100 << 10},
		{Entries: 50, Bytes: 20 << 10, Largest: 8 << 10},
	} {
		f := count(t, "loopback://127.0.0.1:0", rpc.WithReplyCache(limits))
		c := dial(t, f.url)
		rounds := 60
		if raceEnabled {
			rounds = 15
		}
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for i := range rounds {
					n := (g*577 + i*7919) % 9000
					var res onceResult
					if err := c.Call(ctx(t), procOnce, onceArgs{1, pattern(n)}, &res, rpc.Into(make([]byte, n))); err != nil || !bytes.Equal(res.data, pattern(n)) {
						t.Errorf("%d bytes: %v", n, err)
					}
					calls, size := f.srv.Replies()
					if limits.Entries > 0 && calls > limits.Entries+16 || limits.Bytes > 0 && size > limits.Bytes+16*1600 {
						t.Errorf("%+v: %d calls in %d bytes", limits, calls, size)
						return
					}
				}
			})
		}
		wg.Wait()
		calls, size := f.srv.Replies()
		if limits.Entries > 0 && calls > limits.Entries || limits.Bytes > 0 && size > limits.Bytes || calls == 0 {
			t.Errorf("%+v: %d calls in %d bytes at the end", limits, calls, size)
		}
		before := f.executions()
		for range 2 {
			inline(2).call(t, f, 5, onceCall(5, procOnce, "", 1, nil))
		}
		if f.executions() != before+1 {
			t.Errorf("%+v: the newest reply is not kept", limits)
		}
	}
}

// TestAtMostOnce: connections are cut, works fail, completions come late: no call is executed twice, and one that
// is answered has been executed.
func TestAtMostOnce(t *testing.T) {
	for name, plan := range map[string]faults.Plan{
		"cut":      {Late: 2 * time.Millisecond, CutEvery: 60, SlowDial: time.Millisecond},
		"cut soon": {Late: 2 * time.Millisecond, CutWithin: 10 * time.Millisecond},
		"fail":     {Late: time.Millisecond, Reorder: true, FailEvery: 80},
	} {
		for _, version := range []uint32{1, 2} {
			t.Run(fmt.Sprintf("%s, version %d", name, version), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { atMostOnce(t, plan, version) })
			})
		}
	}
}

func atMostOnce(t *testing.T, plan faults.Plan, version uint32) {
	url, p := faulty(t, plan)
	versions := rpc.WithVersions(version, version)
	f := count(t, url, versions)
	c := dial(t, f.url, versions, rpc.WithRetransmits(1000), rpc.WithLossLimit(1000))
	var wg sync.WaitGroup
	var answered atomic.Int64
	calls := 30
	if raceEnabled {
		calls = 10 // ten times slower
	}
	for g := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(6, uint64(g)))
			for i := range calls {
				token, n := uint32(g<<16|i), rng.IntN(9000)
				var res onceResult
				cctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				err := c.Call(cctx, procOnce, onceArgs{token, pattern(n)}, &res, rpc.Into(make([]byte, n)))
				cancel()
				f.mu.Lock()
				times := f.times[token]
				f.mu.Unlock()
				switch {
				case times > 1:
					t.Errorf("executed %d times", times)
				case err == nil && (times != 1 || !bytes.Equal(res.data, pattern(n))):
					t.Errorf("answered, and executed %d times", times)
				case err == nil:
					answered.Add(1)
				case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, transport.ErrRefused):
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	again := f.srv.Counters().CallsRecv - uint64(f.executions())
	t.Logf("%d of %d answered, %d repetitions came; %+v", answered.Load(), 16*calls, again, p.Done())
	if again == 0 {
		t.Error("no call came twice: nothing was tried")
	}
}

// TestCacheAllocations: a cache in its steady state allocates nothing.
func TestCacheAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithReplyCache(rpc.ReplyCache{Entries: 64}))
	p := &rpc.Proc{Program: onceProgram, Version: 1, Number: 1, Name: "COUNT", Binding: binding.Binding{MaxReply: 4}}
	n := uint32(0)
	f.srv.Register(onceProgram, 1, rpc.Method{Proc: p, Inline: true, Handler: func(_ context.Context, r *rpc.Request) error {
		n++
		r.Results.Uint32(n)
		return nil
	}})
	c := dial(t, f.url)
	var got number
	call := func() {
		if err := c.Call(context.Background(), p, nil, &got); err != nil {
			t.Fatal(err)
		}
	}
	for range 200 {
		call()
	}
	if n := testing.AllocsPerRun(2000, call); n > 0 {
		t.Errorf("%v allocations a call", n)
	}
}
