package rpc_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// answer is what a server is to say; nil: nothing.
type answer = *wire.ErrorBody

func errVers(low, high uint32) answer {
	return &wire.ErrorBody{Code: wire.ErrVers, Low: low, High: high}
}
func code(c wire.Code) answer { return &wire.ErrorBody{Code: c} }

// hostile is one message that no client of ours sends. Each comes as the first on a connection, and once the
// connection has a version.
type hostile struct {
	name    string
	version uint32
	bytes   func(r *raw, xid uint32) []byte
	want    answer
	// latched is the answer once the connection talks version; nil: want.
	latched answer
}

func plain(h func(xid uint32) *wire.Header, body ...func(xid uint32) []byte) func(*raw, uint32) []byte {
	return func(_ *raw, xid uint32) []byte {
		b := enc(h(xid))
		for _, f := range body {
			b = append(b, f(xid)...)
		}
		return b
	}
}

func proc(version uint32, p wire.Proc) func(uint32) *wire.Header {
	return func(xid uint32) *wire.Header { return head(xid, version, p) }
}

func echo(xid uint32) []byte { return call(xid, 1, opaque([]byte("echo"))...) }

func rawWords(ws ...uint32) func(*raw, uint32) []byte {
	return func(_ *raw, xid uint32) []byte {
		b := word(xid)
		for _, w := range ws {
			b = append(b, word(w)...)
		}
		return b
	}
}

// reads is a MSG with a Read list.
func reads(version uint32, p wire.Proc, body func(uint32) []byte, list ...wire.ReadSegment) func(*raw, uint32) []byte {
	return func(_ *raw, xid uint32) []byte {
		h := head(xid, version, p)
		h.Reads = list
		return append(enc(h), body(xid)...)
	}
}

func seg(position, length uint32) wire.ReadSegment {
	return wire.ReadSegment{Position: position, Segment: wire.Segment{Handle: 0x1234, Length: length, Offset: 77}}
}

func hostileMessages() []hostile {
	var hs []hostile
	for _, v := range []uint32{0, 3, 7} {
		hs = append(hs, hostile{
			name: fmt.Sprintf("§7 version %d", v), version: v,
			bytes: rawWords(v, 32, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6), want: errVers(1, 2),
		})
	}
	for v, c := range map[uint32]wire.Code{1: wire.ErrChunk, 2: wire.ErrInvalidProc} {
		for _, p := range []uint32{2, 9 + uint32(v), 10, 1 << 31} {
			if v == 2 && p == 11 {
				continue
			}
			hs = append(hs, hostile{fmt.Sprintf("D-40 version %d procedure %d", v, p), v, rawWords(v, 32, p, 0, 0, 0, 0, 0, 0, 0), code(c), nil})
		}
		hs = append(hs,
			hostile{fmt.Sprintf("RFC 8166 §4.5 version %d RDMA_ERROR to a responder", v), v, rawWords(v, 32, 4, 2), nil, nil},
			hostile{fmt.Sprintf("RFC 8166 §4.5 version %d ERR_VERS to a responder", v), v, rawWords(v, 32, 4, 1, 1, 1), nil, nil},
			hostile{fmt.Sprintf("RFC 8166 §4.5 version %d unknown error to a responder", v), v, rawWords(v, 32, 4, 99), nil, nil},
			hostile{fmt.Sprintf("RFC 8166 §4.5.2 version %d XID mismatch", v), v,
				plain(proc(v, wire.Msg), func(xid uint32) []byte { return echo(xid + 1) }), code(wire.ErrBadXDR), nil},
			hostile{fmt.Sprintf("RFC 8166 §3.4.5 version %d odd position", v), v,
				reads(v, wire.Msg, echo, seg(42, 8)), code(wire.ErrBadXDR), nil},
			hostile{fmt.Sprintf("RFC 8166 §3.4.5 version %d positions decrease", v), v,
				reads(v, wire.Msg, echo, seg(44, 8), seg(40, 8)), code(wire.ErrBadXDR), nil},
			hostile{fmt.Sprintf("RFC 8166 §3.4.5 version %d chunks overlap", v), v,
				reads(v, wire.Msg, echo, seg(40, 8), seg(44, 8)), code(wire.ErrBadXDR), nil},
			hostile{fmt.Sprintf("RFC 8166 §3.5.3 version %d position-zero chunk beside a payload", v), v,
				reads(v, wire.Msg, echo, seg(0, 80)), code(wire.ErrBadXDR), nil},
			hostile{fmt.Sprintf("RFC 8166 §4.5.2 version %d NOMSG without chunks", v), v,
				rawNoMsg(v), code(wire.ErrBadXDR), nil},
			hostile{fmt.Sprintf("RFC 8166 §4.2.4 version %d NOMSG without the position-zero chunk", v), v,
				func(_ *raw, xid uint32) []byte {
					h := head(xid, v, wire.NoMsg)
					h.Writes = []wire.Chunk{{{Handle: 1, Length: 100, Offset: 1}}}
					return enc(h)
				}, code(wire.ErrBadXDR), nil},
		)
	}
	hs = append(hs,
		hostile{"D-40 version 1 DONE", 1, rawWords(1, 32, 3), nil, nil},
		hostile{"D-40 version 2 DONE", 2, rawWords(2, 32, 3), code(wire.ErrInvalidProc), nil},
		hostile{"D-2 CONNPROP", 2, plain(proc(2, wire.ConnProp)), code(wire.ErrInvalidProc), nil},
		hostile{"D-2 REQPROP", 2, plain(proc(2, wire.ReqProp)), code(wire.ErrInvalidProc), nil},
		hostile{"D-2 UPDPROP", 2, plain(proc(2, wire.UpdProp)), code(wire.ErrInvalidProc), nil},
		hostile{"D-12 RESPROP", 2, plain(proc(2, wire.RespProp)), nil, nil},
		hostile{"D-2 OPTIONAL", 2, plain(proc(2, wire.Optional)), code(wire.ErrInvalidOption), nil},
		hostile{"D-12 OPTIONAL as a reply", 2, plain(func(xid uint32) *wire.Header {
			h := head(xid, 2, wire.Optional)
			h.Direction = wire.Reply
			return h
		}), nil, nil},
		hostile{"D-12 a reply nobody waits for", 2, plain(func(xid uint32) *wire.Header {
			h := head(xid, 2, wire.Msg)
			h.Direction = wire.Reply
			return h
		}, func(xid uint32) []byte { return result(xid) }), nil, nil},
		hostile{"version 1 reply nobody waits for", 1, plain(proc(1, wire.Msg), func(xid uint32) []byte { return result(xid) }), nil, nil},
		hostile{"D-27 a reply in a header that says CALL", 2, plain(proc(2, wire.Msg), func(xid uint32) []byte { return result(xid) }), code(wire.ErrBadXDR), nil},
		hostile{"direction 2", 2, rawWords(2, 32, 0, 2, 0, 0, 0, 0, 1, 2, 3), code(wire.ErrBadXDR), nil},
		hostile{"D-26 bytes behind NOMSG", 2, func(_ *raw, xid uint32) []byte {
			h := head(xid, 2, wire.NoMsg)
			h.Reads = []wire.ReadSegment{seg(0, 80)}
			return append(enc(h), 0, 0, 0, 0)
		}, code(wire.ErrBadXDR), nil},
		hostile{"a bool of 2", 2, rawWords(2, 32, 0, 0, 0, 2, 0, 0), code(wire.ErrBadXDR), nil},
		hostile{"more segments than there are bytes", 1, rawWords(1, 32, 0, 0, 1, 1<<30), code(wire.ErrChunk), nil},
	)
	return append(hs, tooMuch()...)
}

func rawNoMsg(v uint32) func(*raw, uint32) []byte {
	if v == 1 {
		return rawWords(1, 32, 1, 0, 0, 0)
	}
	return rawWords(2, 32, 1, 0, 0, 0, 0, 0)
}

// tooMuch is what goes beyond the server's limits: version 2 tells which (v2 draft §6.2.4).
func tooMuch() (hs []hostile) {
	many := func(n int, f func(i int) wire.ReadSegment) (l []wire.ReadSegment) {
		for i := range n {
			l = append(l, f(i))
		}
		return l
	}
	chunks := func(n, segs int) func(*raw, uint32, uint32) []byte {
		return func(_ *raw, xid, v uint32) []byte {
			h := head(xid, v, wire.Msg)
			for range n {
				h.Writes = append(h.Writes, make(wire.Chunk, segs))
			}
			return append(enc(h), echo(xid)...)
		}
	}
	for _, tc := range []struct {
		name  string
		bytes func(r *raw, xid, v uint32) []byte
		want  wire.ErrorBody
	}{
		{"17 Read chunks", func(r *raw, xid, v uint32) []byte {
			return reads(v, wire.Msg, echo, many(17, func(i int) wire.ReadSegment { return seg(uint32(40+8*i), 8) })...)(r, xid)
		}, wire.ErrorBody{Code: wire.ErrReadChunks, Max: 16}},
		{"17 Write chunks", chunks(17, 1), wire.ErrorBody{Code: wire.ErrWriteChunks, Max: 16}},
		{"257 Write chunks", chunks(257, 0), wire.ErrorBody{Code: wire.ErrWriteChunks, Max: 16}},
		{"513 segments in a Read chunk", func(r *raw, xid, v uint32) []byte {
			return reads(v, wire.Msg, echo, many(513, func(int) wire.ReadSegment { return seg(44, 8) })...)(r, xid)
		}, wire.ErrorBody{Code: wire.ErrSegments, Max: 512}},
		{"16 MiB and a byte in Read chunks", func(r *raw, xid, v uint32) []byte {
			return reads(v, wire.Msg, echo, seg(44, 16<<20+1))(r, xid)
		}, wire.ErrorBody{Code: wire.ErrSystem}},
		{"lengths that wrap", func(r *raw, xid, v uint32) []byte {
			return reads(v, wire.Msg, echo, seg(44, 1<<31), seg(44, 1<<31), seg(44, 4))(r, xid)
		}, wire.ErrorBody{Code: wire.ErrSystem}},
		{"lists too long to return", chunks(2, 300), wire.ErrorBody{Code: wire.ErrSystem}},
	} {
		for _, v := range []uint32{1, 2} {
			want := tc.want
			if v == 1 {
				want = wire.ErrorBody{Code: wire.ErrChunk}
			}
			hs = append(hs, hostile{fmt.Sprintf("version %d %s", v, tc.name), v, func(r *raw, xid uint32) []byte { return tc.bytes(r, xid, v) }, &want, nil})
		}
	}
	return hs
}

// TestHostileClient: each message gets the answer that the specifications name, and the connection
// then serves a good call.
func TestHostileClient(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithInline(16<<10))
	for _, tc := range hostileMessages() {
		t.Run(tc.name, func(t *testing.T) {
			speak := tc.version
			if speak < 1 || speak > 2 {
				speak = 2
			}
			r := rawDial(t, f.url)
			r.send(tc.bytes(r, 0x100))
			r.expect(0x100, tc.version, tc.want)
			r.good(0x101, speak)
			want := tc.want
			if tc.version != speak {
				want = errVers(speak, speak)
			}
			for xid := uint32(0x200); xid < 0x200+80; xid++ { // more than there are credits
				r.send(tc.bytes(r, xid))
				r.expect(xid, tc.version, want)
			}
			r.good(0x300, speak)
		})
	}
	wait.For(t, "the server to be idle", func() bool { return f.srv.Connections() == 0 })
}

// expect takes the answer to a bad message; with silence, whatever comes next must be of a later one.
func (r *raw) expect(xid, version uint32, want answer) {
	r.TB.Helper()
	if want == nil {
		return
	}
	h, rest, m := r.Parsed()
	if h.XID != xid || h.Version != version || h.Proc != wire.ErrorMsg || h.Err != *want || len(rest) > 0 || h.Credit == 0 {
		r.TB.Fatalf("got %x, want XID %#x version %d error %+v", m.Bytes, xid, version, *want)
	}
}

func TestVersionIsLatched(t *testing.T) { // D-4
	for v := uint32(1); v <= 2; v++ {
		f := serve(t, "loopback://127.0.0.1:0")
		r := rawDial(t, f.url)
		r.good(1, v)
		other := 3 - v
		r.send(enc(head(2, other, wire.Msg)), echo(2))
		r.expect(2, other, errVers(v, v))
		r.send(rawWords(other, 32, 77, 0, 0, 0)(r, 3)) // bad in another way as well: the version comes first
		r.expect(3, other, errVers(v, v))
		r.good(4, v)
	}
}

func TestVersionOfTheServer(t *testing.T) {
	for v := uint32(1); v <= 2; v++ {
		f := serve(t, "loopback://127.0.0.1:0", rpc.WithVersions(v, v))
		r := rawDial(t, f.url)
		other := 3 - v
		r.send(enc(head(2, other, wire.Msg)), echo(2))
		r.expect(2, other, errVers(v, v))
		r.good(4, v)
	}
}

// TestShortMessages cuts a good call: D-36.
func TestShortMessages(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	for v := uint32(1); v <= 2; v++ {
		r := rawDial(t, f.url)
		r.good(9, v)
		for n := range []int{1: 36, 2: 44}[v] { // from there on the two words of an RPC message are whole, and RPC answers
			xid := uint32(100 + n)
			b := append(enc(head(xid, v, wire.Msg)), echo(xid)...)
			var want answer
			if v == 2 && n >= 16 {
				want = code(wire.ErrBadXDR)
			}
			r.send(b[:n])
			r.expect(xid, v, want)
		}
		r.good(999, v)
	}
}

// TestResources: replies that do not fit where they are to go (D-33).
func TestResources(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	for v := uint32(1); v <= 2; v++ {
		r := rawDial(t, f.url)
		want := func(b wire.ErrorBody) answer {
			if v == 1 {
				return code(wire.ErrChunk)
			}
			return &b
		}
		_, small := r.Memory(100, verbs.RemoteWrite)
		h := head(1, v, wire.Msg)
		h.Writes = []wire.Chunk{{small}}
		r.send(enc(h), call(1, 2, word(200)...)) // READ 200
		r.expect(1, v, want(wire.ErrorBody{Code: wire.ErrWriteResource, Index: 1, Needed: 200}))

		whole := call(2, 1, opaque(pattern(9000))...)
		src, pz := r.Memory(len(whole), verbs.RemoteRead)
		copy(src, whole)
		h = head(2, v, wire.NoMsg)
		h.Reads = []wire.ReadSegment{{Segment: pz}}
		h.Reply, h.HasReply = wire.Chunk{small}, true
		r.send(enc(h))
		r.expect(2, v, want(wire.ErrorBody{Code: wire.ErrReplyResource, Needed: uint32(len(result(2, opaque(pattern(9000))...)))}))

		h = head(2, v, wire.NoMsg)
		h.Reads = []wire.ReadSegment{{Segment: pz}}
		r.send(enc(h), bytes.Repeat([]byte{7}, int(2-v)*8)) // version 1 ignores surplus bytes (D-26)
		r.expect(2, v, want(wire.ErrorBody{Code: wire.ErrReplyResource, Needed: uint32(len(result(2, opaque(pattern(9000))...)))}))
		r.good(3, v)
	}
}

// TestChunksAgainstPayload: what only the arguments' decoder can see is GARBAGE_ARGS (D-37).
func TestChunksAgainstPayload(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	for v := uint32(1); v <= 2; v++ {
		r := rawDial(t, f.url)
		r.good(9, v)
		for i, tc := range []struct {
			position, length, said int
			ok                     bool
		}{
			{44, 100, 100, true}, {44, 99, 99, true}, {44, 100, 99, true}, // its round-up included (T-7)
			{48, 100, 100, false}, {40, 100, 100, false}, {44, 96, 100, false}, {44, 104, 100, false}, {400, 100, 100, false},
			{44, 100, 0, false},
		} {
			xid := uint32(50 + i)
			src, s := r.Memory(tc.length, verbs.RemoteRead)
			fill(src)
			h := head(xid, v, wire.Msg)
			h.Reads = []wire.ReadSegment{{Position: uint32(tc.position), Segment: s}}
			r.send(enc(h), call(xid, 3, word(uint32(tc.said))...)) // WRITE
			got, payload, _ := r.Parsed()
			var rh rpcmsg.ReplyHeader
			if err := rh.Parse(xdr.NewReader(payload)); err != nil || got.Proc != wire.Msg || got.XID != xid {
				t.Fatalf("%+v: %+v, %v", tc, got, err)
			}
			if (rh.Accept == rpcmsg.Success) != tc.ok || !tc.ok && rh.Accept != rpcmsg.GarbageArgs {
				t.Errorf("version %d %+v: accept_stat %d", v, tc, rh.Accept)
			}
			if !tc.ok {
				continue
			}
			if want := result(xid, word(sum(src[:tc.said]))...); !bytes.Equal(payload, want) {
				t.Errorf("version %d %+v: %x, want %x", v, tc, payload, want)
			}
		}
		r.good(99, v)
	}
}

// TestCreditOverrun: a client with more calls in flight than it was granted, and than there are
// receives, loses its connection, and nobody else theirs (RFC 8166 §3.3.1).
func TestCreditOverrun(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithCredits(4))
	other := rawDial(t, f.url)
	other.good(1, 2)
	r := rawDial(t, f.url)
	r.good(1, 2)
	for xid := uint32(10); xid < 20; xid++ { // the six receives for operations are lent
		r.send(enc(head(xid, 2, wire.Msg)), call(xid, 5, opaque(nil)...)) // WAIT
	}
	for range 10 {
		<-f.inside
	}
	r.send(enc(head(20, 2, wire.Msg)), call(20, 5, opaque(nil)...))
	select {
	case <-r.Gone:
	case <-time.After(time.Minute):
		t.Fatal("eleven calls on four credits, and the connection lives")
	}
	close(f.wait)
	other.good(2, 2)
}

// TestBadKey: a chunk whose memory may not be reached ends the connection; the call that is sent again
// is answered, once (RFC 8166 §4.5.3, D-41).
func TestBadKey(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0")
	for v := uint32(1); v <= 2; v++ {
		for _, bad := range []func(h *wire.Header) []byte{
			func(h *wire.Header) []byte {
				h.Reads = []wire.ReadSegment{seg(44, 100)}
				return call(h.XID, 3, word(100)...)
			},
			func(h *wire.Header) []byte {
				h.Writes = []wire.Chunk{{{Handle: 0x999, Length: 5000, Offset: 3}}}
				return call(h.XID, 2, word(5000)...)
			},
		} {
			h := head(0x77, v, wire.Msg)
			body := bad(h)
			r := rawDial(t, f.url)
			r.good(1, v)
			wait.For(t, "the server to count the connection", func() bool { return f.srv.Connections() == 1 })
			r.send(enc(h), body)
			select {
			case <-r.Gone:
			case <-time.After(time.Minute):
				t.Fatal("the connection lives")
			}
			wait.For(t, "the server to know why", func() bool { return f.srv.Connections() == 0 })
			want := wire.ErrorBody{Code: wire.ErrSystem}
			if v == 1 {
				want.Code = wire.ErrChunk
			}
			r = rawDial(t, f.url)
			r.send(enc(h), body)
			r.expect(0x77, v, &want)
			r.good(0x77, v)
			r.Conn.Close()
			<-r.Gone
		}
	}
}

// TestManyRefusedCallsInARow: errors cost their requester no credit.
func TestManyRefusedCallsInARow(t *testing.T) {
	f := serve(t, "loopback://127.0.0.1:0", rpc.WithCredits(2))
	r := rawDial(t, f.url)
	r.good(1, 1)
	for xid := uint32(100); xid < 1000; xid++ {
		r.send(rawWords(1, 32, 9, 0, 0, 0)(r, xid))
		r.expect(xid, 1, code(wire.ErrChunk))
	}
	r.good(2, 1)
}

// TestDeafClient: a client that takes no answers is cut off before they fill memory, whether its calls are good
// or bad.
func TestDeafClient(t *testing.T) {
	f := serve(t, "bare-stuck://127.0.0.1:0", rpc.WithCredits(4))
	for name, msg := range map[string]func(r *raw, xid uint32) []byte{
		"bad":  rawWords(1, 32, 9, 0, 0, 0),
		"good": func(_ *raw, xid uint32) []byte { return append(enc(head(xid, 1, wire.Msg)), echo(xid)...) },
		"long": func(_ *raw, xid uint32) []byte {
			return append(enc(head(xid, 1, wire.Msg)), call(xid, 1, opaque(pattern(3000))...)...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rawDial(t, f.url)
			for xid := uint32(1); xid <= 100; xid++ {
				select {
				case <-r.Gone:
					if xid > 4+6+3+1 { // credits, receives for operations, what the queue holds
						t.Logf("cut off after %d", xid)
					}
					return
				default:
					if r.Send(msg(r, xid)) != nil {
						return
					}
				}
			}
			select {
			case <-r.Gone:
			case <-time.After(time.Minute):
				t.Error("a hundred calls without taking an answer, and the connection lives")
			}
		})
	}
}
