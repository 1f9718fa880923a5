package rpc_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// seenHeaders are the headers of the calls that a raw server got.
type seenHeaders struct {
	mu  sync.Mutex
	all []*wire.Header
}

func (s *seenHeaders) add(h *wire.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := *h
	s.all = append(s.all, &c)
}

func (s *seenHeaders) take() []*wire.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}

// argumentChunks is how many Read chunks are no Position-Zero one, longest the segments of the longest chunk.
func argumentChunks(h *wire.Header) (chunks int) {
	for i, s := range h.Reads {
		if s.Position != 0 && (i == 0 || h.Reads[i-1].Position != s.Position) {
			chunks++
		}
	}
	return chunks
}

func longest(h *wire.Header) (n int) {
	run := 0
	for i, s := range h.Reads {
		if i > 0 && h.Reads[i-1].Position != s.Position {
			run = 0
		}
		run++
		n = max(n, run)
	}
	for _, w := range h.Writes {
		n = max(n, len(w))
	}
	return max(n, len(h.Reply))
}

// place writes msg into a Reply chunk of a single or more segments and returns the chunk as it goes back.
func (r *raw) place(msg []byte, c wire.Chunk) (back wire.Chunk) {
	for _, s := range c {
		n := min(len(msg), int(s.Length))
		if n > 0 {
			r.Write(msg[:n], s)
		}
		msg = msg[n:]
		s.Length = uint32(n)
		back = append(back, s)
	}
	return back
}

// TestChunkLimits: a peer's limits on chunks are kept to: the call is planned anew with the same XID, and the next
// call keeps to them from the start (v2 draft §6.2.4, D-34). The first message of a connection is no exception.
func TestChunkLimits(t *testing.T) {
	for _, settled := range []bool{true, false} {
		for _, tc := range []struct {
			name    string
			opts    rpc.ConnOption
			read    bool
			tooMuch func(h *wire.Header) (wire.ErrorBody, bool)
			want    func(h *wire.Header) bool
		}{
			{"no Read chunks", none, false, func(h *wire.Header) (wire.ErrorBody, bool) {
				return wire.ErrorBody{Code: wire.ErrReadChunks, Max: 0}, argumentChunks(h) > 0
			}, func(h *wire.Header) bool {
				return h.Proc == wire.NoMsg && len(h.Reads) > 0 && h.Reads[0].Position == 0
			}},
			{"no Write chunks", none, true, func(h *wire.Header) (wire.ErrorBody, bool) {
				return wire.ErrorBody{Code: wire.ErrWriteChunks, Max: 0}, len(h.Writes) > 0
			}, func(h *wire.Header) bool { return h.HasReply && h.Reply.Len() >= 9000 }},
			{"three segments in a Read chunk", rpc.WithSegmentLength(1000), false, func(h *wire.Header) (wire.ErrorBody, bool) {
				return wire.ErrorBody{Code: wire.ErrSegments, Max: 3}, longest(h) > 3
			}, func(h *wire.Header) bool { return longest(h) == 3 }},
			{"a segment in a Write chunk", rpc.WithSegmentLength(1000), true, func(h *wire.Header) (wire.ErrorBody, bool) {
				return wire.ErrorBody{Code: wire.ErrSegments, Max: 1}, longest(h) > 1
			}, func(h *wire.Header) bool { return longest(h) == 1 && len(h.Writes) == 1 }},
		} {
			t.Run(fmt.Sprintf("%s, settled %v", tc.name, settled), func(t *testing.T) {
				var seen seenHeaders
				c := dial(t, rawServe(t, func(r *raw, _ int, h *wire.Header, payload []byte) {
					switch {
					case len(payload) == 40+8 && h.Lists.Empty(): // ECHO of "x"
						r.answerTo(h, 8)
						return
					case len(payload) == 40 && h.Lists.Empty(): // NULL goes ahead of what is not fit to be first (D-3)
						r.send(enc(reply(h, 8)), result(h.XID))
						return
					}
					seen.add(h)
					if e, bad := tc.tooMuch(h); bad {
						r.send(errorTo(h, e))
						return
					}
					a := reply(h, 8)
					switch {
					case !tc.read:
						r.send(enc(a), result(h.XID, word(77)...))
					case len(h.Writes) > 0:
						a.Writes[0] = r.place(pattern(9000), h.Writes[0])
						r.send(enc(a), result(h.XID, word(9000)...))
					default:
						a.Proc = wire.NoMsg
						a.Reply = r.place(result(h.XID, opaque(pattern(9000))...), h.Reply)
						r.send(enc(a))
					}
				}), tc.opts, rpc.WithVersions(2, 2))
				if settled {
					if err := ask(t, c); err != nil {
						t.Fatal(err)
					}
				}
				for i := range 2 {
					var err error
					if tc.read {
						var got bulk
						dst := make([]byte, 9000)
						if err = c.Call(ctx(t), procRead, readArgs(9000), &got, rpc.Into(dst)); err == nil && (!bytes.Equal(got, pattern(9000)) || &got[0] != &dst[0]) {
							t.Errorf("wrong bytes, or elsewhere")
						}
					} else {
						var got number
						err = c.Call(ctx(t), procWrite, bulk(pattern(9000)), &got)
					}
					if err != nil {
						t.Fatalf("call %d: %v", i, err)
					}
					hs := seen.take()
					if len(hs) != 2-i || !tc.want(hs[1-i]) || hs[0].XID != hs[1-i].XID {
						t.Fatalf("call %d: the server got %v", i, hs)
					}
				}
				if n := len(c.Conns()); n != 1 {
					t.Errorf("%d connections", n)
				}
			})
		}
	}
}

// TestRefusalsWithoutWayOut: refusals that another plan does not answer, and peers that never have enough, end
// the call, not the connection.
func TestRefusalsWithoutWayOut(t *testing.T) {
	longer := uint32(100_000)
	for _, tc := range []struct {
		name string
		say  func(h *wire.Header, n int) wire.ErrorBody
		most int // messages
		text string
	}{
		{"READ_CHUNKS as many as there were", func(h *wire.Header, _ int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrReadChunks, Max: uint32(argumentChunks(h))}
		}, 1, "keeps within"},
		{"READ_CHUNKS none although there are none", func(*wire.Header, int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrReadChunks}
		}, 2, "keeps within"},
		{"WRITE_CHUNKS none although there are none", func(*wire.Header, int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrWriteChunks}
		}, 2, "keeps within"},
		{"SEGMENTS none", func(*wire.Header, int) wire.ErrorBody { return wire.ErrorBody{Code: wire.ErrSegments} }, 1, "keeps within"},
		{"SEGMENTS as many as there were", func(h *wire.Header, _ int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrSegments, Max: uint32(longest(h))}
		}, 1, "keeps within"},
		{"SEGMENTS ever fewer", func(h *wire.Header, _ int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrSegments, Max: uint32(longest(h) - 1)}
		}, 9, "keeps within"},
		{"WRITE_RESOURCE of chunk 0", func(*wire.Header, int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrWriteResource, Needed: longer}
		}, 1, "grow"},
		{"WRITE_RESOURCE of chunk 9", func(*wire.Header, int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrWriteResource, Index: 9, Needed: longer}
		}, 1, "grow"},
		{"WRITE_RESOURCE of what there is", func(h *wire.Header, _ int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrWriteResource, Index: 1, Needed: uint32(h.Writes[0].Len())}
		}, 1, "grow"},
		{"WRITE_RESOURCE ever more", func(h *wire.Header, n int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrWriteResource, Index: 1, Needed: uint32(h.Writes[0].Len()) + 5}
		}, 9, "grow"},
		{"WRITE_RESOURCE more than allowed", func(h *wire.Header, n int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrWriteResource, Index: 1, Needed: longer + 1}
		}, 1, "grow"},
		{"REPLY_RESOURCE ever more", func(h *wire.Header, n int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrReplyResource, Needed: uint32(h.Reply.Len()) + 1}
		}, 9, "grow"},
		{"REPLY_RESOURCE more than allowed", func(*wire.Header, int) wire.ErrorBody {
			return wire.ErrorBody{Code: wire.ErrReplyResource, Needed: 1<<32 - 1}
		}, 1, "grow"},
		{"REPLY_RESOURCE unknown", func(*wire.Header, int) wire.ErrorBody { return wire.ErrorBody{Code: wire.ErrReplyResource} }, 1, "grow"},
		{"BAD_XDR", func(*wire.Header, int) wire.ErrorBody { return wire.ErrorBody{Code: wire.ErrBadXDR} }, 1, "capture"},
		{"INVALID_PROC", func(*wire.Header, int) wire.ErrorBody { return wire.ErrorBody{Code: wire.ErrInvalidProc} }, 1, "not support"},
		{"INVALID_OPTION", func(*wire.Header, int) wire.ErrorBody { return wire.ErrorBody{Code: wire.ErrInvalidOption} }, 1, "not support"},
		{"SYSTEM", func(*wire.Header, int) wire.ErrorBody { return wire.ErrorBody{Code: wire.ErrSystem} }, 1, "less"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var seen seenHeaders
			n := 0
			c := dial(t, rawServe(t, func(r *raw, _ int, h *wire.Header, payload []byte) {
				if len(payload) == 40+8 && h.Lists.Empty() {
					r.answerTo(h, 8)
					return
				}
				seen.add(h)
				r.send(errorTo(h, tc.say(h, n)))
				n++
			}), rpc.WithVersions(2, 2), rpc.WithSegmentLength(500))
			if err := ask(t, c); err != nil {
				t.Fatal(err)
			}
			var got bulk
			dst := make([]byte, 9000)
			err := c.Call(ctx(t), procWait, bulk(pattern(9000)), &got, rpc.Into(dst), rpc.MayGrow(int(longer)))
			var te *engine.TransportError
			if !errors.As(err, &te) || !errors.Is(err, transport.ErrRefused) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%v, want a TransportError that says %q", err, tc.text)
			}
			if hs := seen.take(); len(hs) > tc.most || tc.most == 1 && len(hs) != 1 {
				t.Errorf("%d messages, want %d at most", len(hs), tc.most)
			}
			if err := ask(t, c); err != nil || len(c.Conns()) != 1 {
				t.Errorf("the connection did not survive: %v", err)
			}
		})
	}
}

// TestVersion1RefusesForGood: version 1 has one error for all of it, and no second try (RFC 8166 §4.5).
func TestVersion1RefusesForGood(t *testing.T) {
	n := 0
	c := dial(t, rawServe(t, func(r *raw, _ int, h *wire.Header, _ []byte) {
		n++
		r.send(errorTo(h, wire.ErrorBody{Code: wire.ErrChunk}))
	}), rpc.WithVersions(1, 1))
	err := c.Call(ctx(t), procRead, readArgs(9000), new(bulk), rpc.Into(make([]byte, 9000)), rpc.MayGrow(1<<20))
	if !errors.Is(err, transport.ErrRefused) || errors.Is(err, transport.ErrTooShort) || n != 1 {
		t.Errorf("%v after %d messages", err, n)
	}
}

// TestMayGrow: the call is sent again with the room that the server asks for, and not executed again (D-33).
func TestMayGrow(t *testing.T) {
	for _, url := range []string{"loopback://127.0.0.1:0", "iwarp://127.0.0.1:0", "bare-rdtqi://127.0.0.1:0", "tcp://127.0.0.1:0"} {
		scheme, _, _ := strings.Cut(url, ":")
		t.Run(scheme, func(t *testing.T) {
			f := count(t, url)
			c := dial(t, f.url)
			if err := c.Call(ctx(t), procEcho, blob("x"), nil); err != nil {
				t.Fatal(err)
			}
			for i, tc := range []struct {
				name string
				n    int
				opts []rpc.CallOption
			}{
				{"a result longer than its destination", 9000, []rpc.CallOption{rpc.Into(make([]byte, 5000))}},
				{"a short result longer than its destination", 90, []rpc.CallOption{rpc.Into(make([]byte, 50))}},
				{"a reply longer than expected", 9000, []rpc.CallOption{rpc.MaxReply(100)}},
				{"a reply longer than its chunk", 9000, []rpc.CallOption{rpc.MaxReply(6000)}},
				{"all that it may", 20_000, []rpc.CallOption{rpc.Into(make([]byte, 9000))}},
			} {
				before := f.executions()
				var res onceResult
				args := blobArgs{uint32(i), pattern(tc.n)}
				err := c.Call(ctx(t), procOnce, args, &res, append(tc.opts, rpc.MayGrow(20_000+200))...)
				if err != nil || !bytes.Equal(res.data, pattern(tc.n)) {
					t.Errorf("%s: %v, %d bytes", tc.name, err, len(res.data))
				}
				if n := f.executions() - before; n != 1 {
					t.Errorf("%s: executed %d times", tc.name, n)
				}
				if scheme == "tcp" {
					continue
				}
				if tc.n > 100 {
					if err := c.Call(ctx(t), procOnce, args, &res, tc.opts...); !errors.Is(err, transport.ErrTooShort) {
						t.Errorf("%s, not allowed to grow: %v", tc.name, err)
					}
					if err := c.Call(ctx(t), procOnce, args, &res, append(tc.opts, rpc.MayGrow(tc.n-1))...); !errors.Is(err, transport.ErrTooShort) {
						t.Errorf("%s, not allowed to grow so far: %v", tc.name, err)
					}
				}
			}
			for range 100 { // what they grew by is given back
				err := c.Call(ctx(t), procAgain, blobArgs{1, pattern(15_000)}, new(onceResult), rpc.Into(make([]byte, 5000)), rpc.MayGrow(20_000))
				if err != nil {
					t.Fatal(err)
				}
			}
			if scheme != "tcp" {
				if used := c.Endpoint().MemoryInUse(); used > 1<<20 {
					t.Errorf("%d bytes in use at the end", used)
				}
			}
		})
	}
}

// TestReplyChunkOnDemand: a server that wants a Reply chunk for what we would take inline gets one.
func TestReplyChunkOnDemand(t *testing.T) {
	c := dial(t, rawServe(t, func(r *raw, _ int, h *wire.Header, _ []byte) {
		if h.Reply.Len() < 200 {
			r.send(errorTo(h, wire.ErrorBody{Code: wire.ErrReplyResource, Needed: 200}))
			return
		}
		a := reply(h, 8)
		a.Proc = wire.NoMsg
		a.Reply = r.place(result(h.XID, opaque([]byte("x"))...), h.Reply)
		r.send(enc(a))
	}), rpc.WithVersions(2, 2))
	if err := ask(t, c); !errors.Is(err, transport.ErrTooShort) {
		t.Errorf("not allowed to grow: %v", err)
	}
	if err := ask(t, c, rpc.MayGrow(200)); err != nil {
		t.Error(err)
	}
}

// blobArgs is onceArgs without a bound on the reply.
type blobArgs onceArgs

func (a blobArgs) MarshalXDR(w *xdr.Writer) { onceArgs(a).MarshalXDR(w) }

// TestResourceErrors: what a responder says when a result or the reply does not fit, with index and needed length
// (v2 draft §6.2.4), and that the same XID with more room is answered, not executed again.
func TestResourceErrors(t *testing.T) {
	f := count(t, "loopback://127.0.0.1:0")
	for _, version := range []uint32{1, 2} {
		r := rawDial(t, f.url)
		r.good(1, version)
		chunks := func(n ...int) (cs []wire.Chunk, mems [][]byte) {
			for _, n := range n {
				mem, s := r.Memory(n, verbs.RemoteWrite)
				cs, mems = append(cs, wire.Chunk{s}), append(mems, mem)
			}
			return cs, mems
		}
		for i, tc := range []struct {
			name   string
			writes []int
			reply  int
			want   wire.ErrorBody
		}{
			{"a Write chunk too short", []int{100}, 0, wire.ErrorBody{Code: wire.ErrWriteResource, Index: 1, Needed: 3001}},
			{"a Write chunk too short by one", []int{3000}, 9000, wire.ErrorBody{Code: wire.ErrWriteResource, Index: 1, Needed: 3001}},
		} {
			xid := 0x900*version + uint32(i)
			before := f.executions()
			h := head(xid, version, wire.Msg)
			h.Writes, _ = chunks(tc.writes...)
			if tc.reply > 0 {
				c, _ := chunks(tc.reply)
				h.Reply, h.HasReply = c[0], true
			}
			msg := onceCall(xid, procOnce, "", 5, pattern(3001))
			r.send(enc(h), msg)
			want := tc.want
			if version == 1 {
				want = wire.ErrorBody{Code: wire.ErrChunk}
			}
			r.expect(xid, version, &want)
			h = head(xid, version, wire.Msg)
			cs, mems := chunks(3001)
			h.Writes = cs
			r.send(enc(h), msg)
			got, payload, _ := r.Parsed()
			if got.XID != xid || got.Proc != wire.Msg || !bytes.Equal(mems[0], pattern(3001)) || len(payload) == 0 {
				t.Errorf("%s: with more room: %v", tc.name, &got)
			}
			if n := f.executions() - before; n != 1 {
				t.Errorf("%s: executed %d times", tc.name, n)
			}
		}
		for i, n := range []int{-1, 0, 100, 4123} { // -1: no Reply chunk
			xid := 0xa00*version + uint32(i)
			msg := onceCall(xid, procOnce, "", 5, pattern(4090))
			in, read := r.Memory(len(msg), verbs.RemoteRead)
			copy(in, msg)
			h := head(xid, version, wire.NoMsg)
			h.Reads = []wire.ReadSegment{{Segment: read}}
			if n > 0 {
				c, _ := chunks(n)
				h.Reply, h.HasReply = c[0], true
			}
			if n == 0 {
				h.HasReply = version == 2
			}
			r.send(enc(h))
			full := uint32(24 + 4 + 4 + 4092)
			want := wire.ErrorBody{Code: wire.ErrReplyResource, Needed: full}
			if version == 1 {
				want = wire.ErrorBody{Code: wire.ErrChunk}
			}
			r.expect(xid, version, &want)
		}
		r.good(2, version)
	}
}
