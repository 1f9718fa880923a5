package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/test/unhex"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// filled is the octets of a text in which XID stands for xid.
func filled(t testing.TB, text string, xid uint32) []byte {
	t.Helper()
	return unhex.Octets(t, strings.ReplaceAll(text, "XID", fmt.Sprintf("%08x", xid)))
}

// A backward call of ECHO "back", and its reply, after RFC 8167 §5.1 and §5.2: asked are 8 credits,
// granted 8. In version 2 rdma_direction and an rdma_inv_handle of 0 go before the lists (v2 draft §6.2).
const (
	rpcBackCall  = " XID 00000000 00000002 20000077 00000001 00000001 00000000 00000000 00000000 00000000 00000004 6261636b"
	rpcBackReply = " XID 00000001 00000000 00000000 00000000 00000000 00000004 6261636b"
)

var backwardOctets = []struct {
	version     uint32
	call, reply string
}{
	{1, "XID 00000001 00000008 00000000 00000000 00000000 00000000" + rpcBackCall,
		"XID 00000001 00000008 00000000 00000000 00000000 00000000" + rpcBackReply},
	{2, "XID 00000002 00000008 00000000 00000000 00000000 00000000 00000000 00000000" + rpcBackCall,
		"XID 00000002 00000008 00000000 00000001 00000000 00000000 00000000 00000000" + rpcBackReply},
}

// rawSubscribed is a raw client whose connection is bound.
func rawSubscribed(t testing.TB, d *duplex, version uint32) *raw {
	t.Helper()
	r := rawDial(t, d.url)
	var body bytes.Buffer
	body.Write(call(1, 1))
	copy(body.Bytes()[12:], word(subscriptions))
	r.send(enc(head(1, version, wire.Msg)), body.Bytes())
	if h, _, _ := r.Parsed(); h.XID != 1 || h.Credit != 64 {
		t.Fatalf("SUBSCRIBE was answered by %+v", h)
	}
	wait.For(t, "the connection to be counted", func() bool { return d.srv.Connections() == 1 })
	return r
}

// TestBackwardOctetsOfTheServer: RFC 8167 §2.4, §4.1, §5.1: the octets of its call, which may have the XID of a call
// that it is serving; its grant of forward credits is what it was, and the client's grant its own.
func TestBackwardOctetsOfTheServer(t *testing.T) {
	for _, tc := range backwardOctets {
		t.Run(fmt.Sprint("version ", tc.version), func(t *testing.T) {
			d := newDuplex(t, "loopback://127.0.0.1:0")
			r := rawSubscribed(t, d, tc.version)
			var got blob
			done := make(chan error)
			go func() { done <- d.back.Call(ctx(t), procEcho, blob("back"), &got) }()
			h, _, m := r.Parsed()
			if want := filled(t, tc.call, h.XID); !bytes.Equal(m.Bytes, want) {
				t.Fatalf("the call is\n%x, want\n%x", m.Bytes, want)
			}
			// A forward call with the same XID, answered first.
			r.good(h.XID, tc.version)
			r.send(filled(t, tc.reply, h.XID))
			if err := <-done; err != nil || string(got) != "back" {
				t.Fatalf("%q, %v", got, err)
			}
			if n := d.srv.Counters(); n.BackGranted != 8 || n.Dropped != 0 {
				t.Errorf("%+v", n)
			}
			r.send(filled(t, tc.reply, h.XID)) // once more: nobody waits
			wait.For(t, "the drop", func() bool { return d.srv.Counters().Dropped == 1 })
			r.good(9, tc.version)
		})
	}
}

// TestBackwardOctetsOfTheClient: RFC 8167 §5.2: the octets of its reply, to a call with the XID of one of its own that
// is pending.
func TestBackwardOctetsOfTheClient(t *testing.T) {
	for _, tc := range backwardOctets {
		t.Run(fmt.Sprint("version ", tc.version), func(t *testing.T) {
			local := programs()
			t.Cleanup(func() { local.srv.Close() })
			var c *rpc.Client
			url := rawServe(t, func(r *raw, n int, h *wire.Header, payload []byte) {
				if n%2 == 0 { // its call: first ours, with its XID
					r.send(filled(t, tc.call, h.XID))
					return
				}
				want := filled(t, tc.reply, h.XID)
				if got := append(enc(h), payload...); !bytes.Equal(got, want) {
					t.Errorf("the reply is\n%x, want\n%x", got, want)
				}
				if v := c.Conns()[0].Version(); v != tc.version { // v2 draft §7: confirmed by a call, before any reply
					t.Errorf("version %d stands", v)
				}
				r.send(enc(&wire.Header{XID: h.XID, Version: h.Version, Credit: 3, Proc: wire.Msg, Direction: wire.Reply}), result(h.XID, opaque([]byte("x"))...))
			})
			c = dial(t, url, rpc.WithPrograms(local.srv), rpc.WithVersions(1, tc.version))
			for range 3 {
				if err := ask(t, c); err != nil {
					t.Fatal(err)
				}
			}
			if n := c.Counters(); n.Granted != 3 || n.BackCallsRecv != 3 || n.BackRepliesSent != 3 || n.Dropped != 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// TestBackwardGrants: RFC 8167 §4.1: what the client grants bounds the calls in flight, one before its first reply
// (RFC 8166 §3.3.3); 0 is 1 and counted, more than was asked for is cut (D-11). Forward grants stay as they are.
func TestBackwardGrants(t *testing.T) {
	for _, tc := range []struct{ grant, want, zeros uint64 }{{0, 1, 20}, {1, 1, 0}, {5, 5, 0}, {8, 8, 0}, {9, 8, 0}, {1<<32 - 1, 8, 0}} {
		for version := uint32(1); version <= 2; version++ {
			t.Run(fmt.Sprintf("version %d grant %d", version, tc.grant), func(t *testing.T) {
				d := newDuplex(t, "loopback://127.0.0.1:0")
				r := rawSubscribed(t, d, version)
				var calls sync.WaitGroup
				for range 20 {
					calls.Go(func() {
						if err := d.back.Call(ctx(t), procEcho, blob("back"), nil); err != nil {
							t.Error(err)
						}
					})
				}
				answer := func(xid uint32) {
					h := head(xid, version, wire.Msg)
					h.Credit, h.Direction = uint32(tc.grant), wire.Reply
					r.send(enc(h), result(xid, opaque([]byte("back"))...))
				}
				first, _, _ := r.Parsed()
				r.good(7, version) // forward replies grant nothing backward
				if n := len(r.In); n != 0 {
					t.Fatalf("%d calls before the first reply", n)
				}
				answer(first.XID)
				for left := 19; left > 0; {
					var xids []uint32
					for range min(left, int(tc.want)) {
						h, _, _ := r.Parsed()
						if h.Credit != 8 {
							t.Errorf("asked are %d credits", h.Credit)
						}
						xids = append(xids, h.XID)
					}
					r.good(8, version)
					if n := len(r.In); n != 0 {
						t.Fatalf("%d calls beyond a grant of %d", n, tc.want)
					}
					left -= len(xids)
					for _, xid := range xids {
						answer(xid)
					}
				}
				calls.Wait()
				wait.For(t, "the grants of 0 to be counted", func() bool { return d.srv.Counters().ZeroCredit == tc.zeros })
			})
		}
	}
}

// TestBackwardErrors: RFC 8166 §4.5, v2 draft §6.2.4: what a client may answer instead of a reply.
func TestBackwardErrors(t *testing.T) {
	for version := uint32(1); version <= 2; version++ {
		d := newDuplex(t, "loopback://127.0.0.1:0")
		r := rawSubscribed(t, d, version)
		codes := []wire.ErrorBody{{Code: wire.ErrVers, Low: 1, High: 1}, {Code: wire.ErrChunk}}
		if version == 2 {
			codes = append(codes, wire.ErrorBody{Code: wire.ErrInvalidProc}, wire.ErrorBody{Code: wire.ErrSystem})
		}
		for _, body := range codes {
			done := make(chan error)
			go func() { done <- d.back.Call(ctx(t), procEcho, blob("back"), nil) }()
			h, _, _ := r.Parsed()
			r.send(errorTo(&h, body))
			var refused *engine.TransportError
			if err := <-done; !errors.As(err, &refused) || refused.Body.Code != body.Code {
				t.Errorf("version %d, %v: %v", version, body, err)
			}
			r.good(h.XID, version)
		}
		// An error that means nobody, and a reply that is none, are dropped.
		before := d.srv.Counters().Dropped
		r.send(enc(&wire.Header{XID: 0x1234, Version: version, Credit: 1, Proc: wire.ErrorMsg, Err: wire.ErrorBody{Code: wire.ErrChunk}}))
		done := make(chan error)
		go func() { done <- d.back.Call(ctx(t), procEcho, blob("back"), nil) }()
		h, _, _ := r.Parsed()
		if version == 2 { // D-27: a reply by its header, a call by its message
			wrong := head(h.XID, 2, wire.Msg)
			wrong.Direction = wire.Reply
			r.send(enc(wrong), echo(h.XID))
			if err := <-done; !errors.Is(err, engine.ErrBadReply) {
				t.Errorf("%v", err)
			}
		} else { // by its message alone it is a call, and served
			r.good(h.XID, 1)
			r.send(filled(t, backwardOctets[0].reply, h.XID))
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if n := d.srv.Counters().Dropped - before; n != uint64(version) {
			t.Errorf("version %d: %d messages dropped", version, n)
		}
		r.good(5, version)
	}
}

// TestHostileBackwardCalls: what a client answers to calls that it cannot take, if it does: each after its own
// first call was answered, and nothing of its own suffers.
func TestHostileBackwardCalls(t *testing.T) {
	chunked := func(version uint32, p wire.Proc, set func(h *wire.Header)) func(uint32) []byte {
		return func(xid uint32) []byte {
			h := head(xid, version, p)
			set(h)
			b := enc(h)
			if p == wire.Msg {
				b = append(b, echo(xid)...)
			}
			return b
		}
	}
	one := wire.Chunk{{Handle: 77, Length: 100, Offset: 5}}
	reads := func(position uint32) func(*wire.Header) {
		return func(h *wire.Header) { h.Reads = []wire.ReadSegment{seg(position, 8)} }
	}
	writes := func(h *wire.Header) { h.Writes = []wire.Chunk{one} }
	replyChunk := func(h *wire.Header) { h.Reply, h.HasReply = one, true }
	for _, tc := range []struct {
		name    string
		version uint32
		bytes   func(xid uint32) []byte
		want    answer // nil: dropped
	}{
		{"RFC 8167 §5.3 version 1 Read list", 1, chunked(1, wire.Msg, reads(40)), code(wire.ErrChunk)},
		{"RFC 8167 §5.3 version 1 Write list", 1, chunked(1, wire.Msg, writes), code(wire.ErrChunk)},
		{"RFC 8167 §5.3 version 1 Reply chunk", 1, chunked(1, wire.Msg, replyChunk), code(wire.ErrChunk)},
		{"RFC 8167 §5.3 version 1 long call", 1, chunked(1, wire.NoMsg, reads(0)), code(wire.ErrChunk)},
		{"D-12 version 1 NOMSG without a Read list is a reply", 1, chunked(1, wire.NoMsg, replyChunk), nil},
		{"§5.2.2 INLINE: Read list", 2, chunked(2, wire.Msg, reads(40)), code(wire.ErrReadChunks)},
		{"§5.2.2 INLINE: Write list", 2, chunked(2, wire.Msg, writes), code(wire.ErrWriteChunks)},
		{"§5.2.2 INLINE: Reply chunk", 2, chunked(2, wire.Msg, replyChunk), code(wire.ErrSystem)},
		{"§5.2.2 INLINE: long call", 2, chunked(2, wire.NoMsg, reads(0)), code(wire.ErrSystem)},
		{"D-4 version 1 on a connection of version 2", 2, chunked(1, wire.Msg, func(*wire.Header) {}), errVers(2, 2)},
		{"version 2 at a client that knows version 1 only", 1, chunked(2, wire.Msg, func(*wire.Header) {}), nil},
		{"D-27 call by its header, reply by its message", 2, func(xid uint32) []byte {
			return append(enc(head(xid, 2, wire.Msg)), result(xid)...)
		}, code(wire.ErrBadXDR)},
		{"RFC 8166 §4.5.2 version 1 XID mismatch", 1, func(xid uint32) []byte { return append(enc(head(xid, 1, wire.Msg)), echo(xid+1)...) }, code(wire.ErrChunk)},
		{"RFC 8166 §4.5.2 version 2 XID mismatch", 2, func(xid uint32) []byte { return append(enc(head(xid, 2, wire.Msg)), echo(xid+1)...) }, code(wire.ErrBadXDR)},
		{"D-40 version 1 MSGP", 1, func(xid uint32) []byte { return rawWords(1, 32, 2, 0, 0, 0, 0, 0, 0, 0)(nil, xid) }, nil},
		{"D-40 version 1 DONE", 1, func(xid uint32) []byte { return rawWords(1, 32, 3)(nil, xid) }, nil},
		{"version 1 a message of no type", 1, func(xid uint32) []byte { return append(enc(head(xid, 1, wire.Msg)), 0, 0, 0, 1) }, nil},
		{"version 1 lists that end too soon", 1, func(xid uint32) []byte { return rawWords(1, 32, 0, 1, 1, 1)(nil, xid) }, nil},
		{"version 3", 1, func(xid uint32) []byte { return rawWords(3, 32, 0, 0, 0, 0, 0, 0)(nil, xid) }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			local := programs()
			t.Cleanup(func() { local.srv.Close() })
			type seen struct {
				h       wire.Header
				payload []byte
			}
			answers := make(chan seen, 16)
			var server *raw
			url := rawServe(t, func(r *raw, n int, h *wire.Header, payload []byte) {
				if h.Proc == wire.Msg && (h.Version == 1 && bytes.Equal(payload[4:8], word(0)) || h.Version == 2 && h.Direction == wire.Call) {
					server = r
					r.answerTo(h, 10)
					return
				}
				answers <- seen{*h, bytes.Clone(payload)}
			})
			c := dial(t, url, rpc.WithPrograms(local.srv), rpc.WithVersions(1, tc.version))
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
			const xid = 0x5ca1ab1e
			server.send(tc.bytes(xid))
			server.send(filled(t, backwardOctets[tc.version-1].call, xid+1)) // a good one, to see what came before
			next := func() seen {
				select {
				case a := <-answers:
					return a
				case <-time.After(time.Minute):
					t.Fatal("nothing came")
				}
				panic("not reached")
			}
			a := next()
			if tc.want != nil {
				if a.h.XID != xid || a.h.Proc != wire.ErrorMsg || a.h.Err != *tc.want || a.h.Credit != 8 {
					t.Errorf("answered by %+v, want %+v", a.h, *tc.want)
				}
				a = next()
			}
			if a.h.XID != xid+1 || a.h.Proc != wire.Msg {
				t.Errorf("the good call was answered by %+v", a.h)
			}
			if dropped := c.Counters().Dropped; (dropped == 1) != (tc.want == nil) {
				t.Errorf("%d messages dropped", dropped)
			}
			if err := ask(t, c); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBackwardTooEarly: a server that calls before its client, or in a version that the client did not try, is not
// served (D-4, RFC 8167 §5.1).
func TestBackwardTooEarly(t *testing.T) {
	local := programs()
	t.Cleanup(func() { local.srv.Close() })
	url := rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
		if n == 0 {
			r.send(filled(t, backwardOctets[0].call, 99)) // version 1 while 2 is tried
		}
		r.answerTo(h, 10)
	})
	c := dial(t, url, rpc.WithPrograms(local.srv))
	if err := ask(t, c); err != nil {
		t.Fatal(err)
	}
	if n := c.Counters(); n.Dropped != 1 || n.BackCallsRecv != 0 || c.Conns()[0].Version() != 2 {
		t.Errorf("%+v", n)
	}
}

// TestBackwardFlood: a server that calls beyond its grant loses the connection, and the client holds no more
// than the grant and what is reserved besides.
func TestBackwardFlood(t *testing.T) {
	for version := uint32(1); version <= 2; version++ {
		local := programs()
		t.Cleanup(func() { local.srv.Close() })
		first := true
		url := rawServe(t, func(r *raw, n int, h *wire.Header, _ []byte) {
			if h.Proc != wire.Msg || n > 0 {
				return
			}
			r.answerTo(h, 10)
			if !first {
				return
			}
			first = false
			for xid := uint32(1000); ; xid++ { // WAIT, which nobody ends
				if r.Send(enc(head(xid, version, wire.Msg)), call(xid, 5, opaque([]byte("x"))...)) != nil {
					return
				}
				time.Sleep(10 * time.Microsecond)
			}
		})
		c := dial(t, url, rpc.WithPrograms(local.srv), rpc.WithVersions(1, version), rpc.WithBackwardCredits(4))
		if err := ask(t, c); err != nil {
			t.Fatal(err)
		}
		conn := c.Conns()
		if len(conn) > 0 {
			<-conn[0].Done()
			if err := conn[0].Err(); !errors.Is(err, engine.ErrCreditOverrun) {
				t.Errorf("it ended with %v", err)
			}
			if n := len(local.inside); n > 4+6 {
				t.Errorf("%d calls were served, 4 granted", n)
			}
		}
		if err := ask(t, c); err != nil { // a new one
			t.Error(err)
		}
	}
}

// TestBackwardLostInEachState: a call whose connection ends ends too, or waits, wherever it stands.
func TestBackwardLostInEachState(t *testing.T) {
	for version := uint32(1); version <= 2; version++ {
		d := newDuplex(t, "loopback://127.0.0.1:0")
		impatient, err := rpc.NewBackchannel(rpc.WithRetransmits(-1))
		if err != nil {
			t.Fatal(err)
		}
		bind := &rpc.Proc{Program: subscriptions, Version: 5, Number: 1}
		d.srv.Register(subscriptions, 5, rpc.Method{Proc: bind, Handler: func(_ context.Context, r *rpc.Request) error { return impatient.Bind(r.Peer()) }})
		r := rawDial(t, d.url)
		body := call(1, 1)
		copy(body[12:], word(subscriptions))
		copy(body[16:], word(5))
		r.send(enc(head(1, version, wire.Msg)), body)
		r.Parsed()
		wait.For(t, "the connection to be counted", func() bool { return d.srv.Connections() == 1 })
		sent, waits := make(chan error, 1), make(chan error, 1)
		go func() { sent <- impatient.Call(ctx(t), procEcho, blob("back"), nil) }()
		r.Parsed() // it is sent, and has the only credit
		go func() { waits <- impatient.Call(ctx(t), procEcho, blob("back"), nil) }()
		wait.For(t, "a call to wait for a credit", func() bool { return d.srv.Counters().CreditWaits == 1 })
		r.Conn.Abort(errors.New("cut"))
		var lost *transport.LostError
		if err := <-sent; !errors.As(err, &lost) || !lost.Sent {
			t.Errorf("a call that was sent: %v", err)
		}
		if err := <-waits; !errors.As(err, &lost) || lost.Sent {
			t.Errorf("a call that waited for its credit: %v", err)
		}
	}
}

// FuzzBackward: whatever a server sends to a client with programs, the client lives, and so does its next call.
func FuzzBackward(f *testing.F) {
	const xid = 0x5ca1ab1e
	for _, o := range backwardOctets {
		f.Add(o.version, filled(f, o.call, xid), filled(f, o.reply, xid))
	}
	h := head(xid, 2, wire.NoMsg)
	h.Reads = []wire.ReadSegment{seg(0, 80)}
	f.Add(uint32(2), enc(h), append(enc(head(xid, 2, wire.Msg)), result(xid)...))
	f.Fuzz(func(t *testing.T, version uint32, one, two []byte) {
		version = version%2 + 1
		if len(one) > 4096 || len(two) > 4096 {
			return
		}
		local := programs()
		defer local.srv.Close()
		url := rawServe(t, func(r *raw, n int, h *wire.Header, payload []byte) {
			_, isReply, _ := rpcmsg.PeekType(payload)
			if h.Proc != wire.Msg || isReply {
				return
			}
			r.send(one)
			r.send(two)
			r.answerTo(h, 10)
		})
		c := dial(t, url, rpc.WithPrograms(local.srv), rpc.WithVersions(version, version), rpc.WithBackwardChunks())
		for range 2 {
			var got blob
			short, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			c.Call(short, procEcho, blob("x"), &got, rpc.MaxReply(16)) // it may have been answered by what was made up
			cancel()
		}
	})
}
