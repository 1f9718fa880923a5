package hostile

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// TestTruncated cuts good calls at every byte (D-36): what cannot be believed is dropped, what names a call is refused,
// and where the transport header is whole it is RPC's turn.
func TestTruncated(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		h := serve(t, url)
		dom, addr := open(t, h.url)
		for v := uint32(1); v <= 2; v++ {
			for _, tm := range templates {
				t.Run(fmt.Sprintf("version %d, %s", v, tm.name), func(t *testing.T) {
					r := dial(t, dom, addr, good)
					latch(t, r, v)
					whole := tm.bytes(r, 0, v)
					header, err := new(wire.Header).Parse(whole, wire.ProfileCel04)
					if err != nil {
						t.Fatal(err)
					}
					smallest := []int{1: 28, 2: 36}[v]
					for n := range whole {
						xid := xids.Add(1) + 1000
						b := tm.bytes(r, xid, v)[:n]
						want := malformed(v)
						switch {
						case n < 16, v == 1 && n < smallest:
							want = nothing
						case n >= header && n < header+8:
							want = unknowable(v)
						case n >= header+8:
							want = garbage
						}
						out := r.probe(b, xid, v, v, want.kind)
						if out.kind == answered && want.kind == answered {
							continue // RPC has its own ways to say no
						}
						if out != want {
							t.Errorf("%d of %d bytes (header %d): %v, want %v", n, len(whole), header, out, want)
						}
					}
					r.Conn.Close()
				})
			}
		}
	})
}

// TestOrder: a version that is not the connection's, replies and errors to nobody, errors to errors.
func TestOrder(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		h := serve(t, url)
		dom, addr := open(t, h.url)
		for v := uint32(1); v <= 2; v++ {
			r := dial(t, dom, addr, good)
			latch(t, r, v)
			reply := &wire.Header{Version: v, Credit: 8, Proc: wire.Msg, Direction: wire.Reply}
			for _, tc := range []struct {
				name  string
				bytes func(xid uint32) []byte
				want  outcome
			}{
				{"RFC 8166 §4.5 RDMA_ERROR to a responder", func(xid uint32) []byte { return word(xid, v, 8, 4, 2) }, nothing},
				{"RFC 8166 §4.5 an error that nobody knows", func(xid uint32) []byte { return word(xid, v, 8, 4, 99, 1, 2) }, nothing},
				{"RFC 8166 §4.5 ERR_VERS to a responder", func(xid uint32) []byte { return word(xid, v, 8, 4, 1, 1, 1) }, nothing},
				{"RFC 8166 §4.5 ERR_VERS of version 9", func(xid uint32) []byte { return word(xid, 9, 8, 4, 1, 1, 1) }, nothing},
				{"a reply to nobody", func(xid uint32) []byte {
					reply.XID = xid
					return append(enc(reply), result(xid)...)
				}, nothing},
				{"more Write chunks than a server takes", func(xid uint32) []byte {
					h := head(xid, v, wire.Msg)
					for range 17 {
						h.Writes = append(h.Writes, wire.Chunk{{Handle: 1, Length: 1, Offset: 1}})
					}
					return append(enc(h), echo(xid)...)
				}, pick(v, wire.ErrorBody{Code: wire.ErrWriteChunks, Max: 16})},
				{"Read chunks that overlap", func(xid uint32) []byte {
					h := head(xid, v, wire.Msg)
					h.Reads = []wire.ReadSegment{{Position: 40, Segment: wire.Segment{Handle: 9, Length: 8}}, {Position: 44, Segment: wire.Segment{Handle: 9, Length: 8}}}
					return append(enc(h), echo(xid)...)
				}, malformed(v)},
				{"Read chunks out of order", func(xid uint32) []byte {
					h := head(xid, v, wire.Msg)
					h.Reads = []wire.ReadSegment{{Position: 80, Segment: wire.Segment{Handle: 9, Length: 8}}, {Position: 44, Segment: wire.Segment{Handle: 9, Length: 8}}}
					return append(enc(h), echo(xid)...)
				}, malformed(v)},
				{"arguments that claim more than there is", func(xid uint32) []byte {
					return append(enc(head(xid, v, wire.Msg)), call(xid, procEcho, word(1<<30)...)...)
				}, garbage},
				{"arguments with something behind them", func(xid uint32) []byte {
					return append(enc(head(xid, v, wire.Msg)), call(xid, procEcho, word(0, 0)...)...)
				}, garbage},
			} {
				t.Run(fmt.Sprintf("version %d, %s", v, tc.name), func(t *testing.T) {
					for range 100 { // more than there are credits
						xid := xids.Add(1) + 1000
						if out := r.probe(tc.bytes(xid), xid, v, v, tc.want.kind); out != tc.want {
							t.Fatalf("%v, want %v", out, tc.want)
						}
					}
					h.stand.served()
				})
			}
			r.Conn.Close()
			r.Ended()
		}
	})
}

// TestPrivateData: garbage in the connection's private data is as good as none (RFC 8797 §5).
func TestPrivateData(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		h := serve(t, url)
		dom, addr := open(t, h.url)
		magic := binary.BigEndian.AppendUint32(nil, 0xf6ab0e18)
		long := dom.Caps().PrivateDial
		for _, tc := range []struct {
			name    string
			private []byte
		}{
			{"none", nil}, {"one byte", []byte{0xf6}}, {"the magic alone", magic}, {"cut short", good[:7]},
			{"another magic", append([]byte{1, 2, 3, 4}, good[4:]...)}, {"version 2 of the format", append(append([]byte{}, magic...), 2, 1, 3, 3)},
			{"all bits set", append(append([]byte{}, magic...), 1, 0xff, 0xff, 0xff)}, {"padded", append(append([]byte{}, good...), make([]byte, long-len(good))...)},
			{"foreign and long", pattern(long)},
		} {
			for v := uint32(1); v <= 2; v++ {
				t.Run(fmt.Sprintf("%s, version %d", tc.name, v), func(t *testing.T) {
					r := dial(t, dom, addr, tc.private)
					latch(t, r, v)
					// A reply of 1024 bytes and more needs a Reply chunk where nothing larger was agreed on: it must not come inline.
					xid := xids.Add(1) + 1000
					hd := head(xid, v, wire.Msg)
					_, d := r.Memory(4096, verbs.RemoteWrite)
					hd.Reply, hd.HasReply = wire.Chunk{d}, true
					r.Send(enc(hd), call(xid, procEcho, opaque(pattern(880))...))
					m, err := r.Next()
					if err != nil {
						t.Fatal(err)
					}
					if _, err := classify(m.Bytes, xid, v); err != nil {
						t.Error(err)
					}
					if limit := inlineLimit(v, tc.private); len(m.Bytes) > limit {
						t.Errorf("a Send of %d bytes to a peer that takes %d", len(m.Bytes), limit)
					}
					r.Conn.Close()
					r.Ended()
				})
			}
		}
	})
}

// inlineLimit is the largest Send to a peer with that private data.
func inlineLimit(version uint32, private []byte) int {
	if version == wire.Version2 {
		return 4096
	}
	if len(private) >= len(good) && string(private[:5]) == string(good[:5]) {
		return 1024 * (1 + int(private[7]))
	}
	return 1024
}

// TestOverrun: a client with more calls in flight than it was granted loses its connection (RFC 8166 §3.3.1).
func TestOverrun(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		h := serveBy(t, rpc.NewServer(rpc.WithWorkers(64)), url, rpc.WithCredits(4))
		defer close(h.wake)
		dom, addr := open(t, h.url)
		for v := uint32(1); v <= 2; v++ {
			r := dial(t, dom, addr, good)
			latch(t, r, v)
			for range 100 {
				xid := xids.Add(1) + 1000
				if r.Send(enc(head(xid, v, wire.Msg)), call(xid, procSleep)) != nil {
					break
				}
			}
			if !r.Ended() {
				t.Errorf("version %d: a hundred calls on four credits, and the connection lives", v)
			}
			h.stand.served()
		}
	})
}

// TestFlood: whatever a client sends as fast as it can, others are served.
func TestFlood(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		h := serve(t, url)
		dom, addr := open(t, h.url)
		for _, tc := range []struct {
			name  string
			bytes func(i uint32) []byte
		}{
			{"empty messages", func(uint32) []byte { return nil }},
			{"noise", func(i uint32) []byte { return pattern(int(i % 4096)) }},
			{"bad headers", func(i uint32) []byte { return word(i, 1, 8, 77, 0, 0, 0) }},
			{"unknown versions", func(i uint32) []byte { return word(i, 77, 8, 0, 0, 0, 0) }},
			{"errors", func(i uint32) []byte { return word(i, 1, 8, 4, 2) }},
			{"replies to nobody", func(i uint32) []byte { return append(word(i, 1, 8, 0, 0, 0, 0), result(i)...) }},
			{"operations", func(i uint32) []byte { return enc(head(i, 2, wire.ConnProp)) }},
		} {
			t.Run(tc.name, func(t *testing.T) {
				r := dial(t, dom, addr, good)
				end := time.Now().Add(200 * time.Millisecond)
				for i := uint32(0); time.Now().Before(end) && r.Send(tc.bytes(i)) == nil; i++ {
				}
				h.stand.served()
				r.Conn.Abort(nil)
				r.Ended()
			})
		}
		t.Run("connections", func(t *testing.T) {
			for range 300 {
				r := dial(t, dom, addr, good)
				r.Conn.Abort(nil)
				r.Ended()
			}
			h.stand.served()
		})
	})
}
