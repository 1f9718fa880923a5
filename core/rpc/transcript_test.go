package rpc_test

import (
	"encoding/binary"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// transcript is what a hostile client says, written down in few bytes so that a fuzzer varies it: messages
// of the tables and good ones, spoilt or not, with XIDs of their own or of calls before, in any order.
type transcript struct {
	r       *raw
	version uint32
	table   []hostile
	xid     uint32
	reads   wire.Segment // memory of ours that the server may read, and such that it may write
	writes  wire.Segment
}

// stepLen is the bytes of a step: what is said, which of its kind, which XID, where it is spoilt (2) and how.
const stepLen = 6

func (s *transcript) message(step []byte) []byte {
	kind, which, xid, at, how := step[0], int(step[1]), uint32(step[2]), int(binary.BigEndian.Uint16(step[3:])), step[5]
	if s.xid++; xid < 128 {
		xid = s.xid
	}
	var b []byte
	switch h := head(xid, s.version, wire.Msg); kind % 8 {
	case 0, 1:
		b = append(enc(h), echo(xid)...)
	case 2: // READ into a Write chunk, WRITE from a Read chunk
		h.Writes = []wire.Chunk{{s.writes}}
		b = append(enc(h), call(xid, procRead.Number, word(uint32(at))...)...)
	case 3:
		h.Reads = []wire.ReadSegment{{Position: 44, Segment: s.reads}}
		b = append(enc(h), call(xid, procWrite.Number, word(s.reads.Length)...)...)
	case 4: // a call that is all in a Position-Zero Read chunk, with a Reply chunk: of what lies there
		h.Proc, h.Reads = wire.NoMsg, []wire.ReadSegment{{Segment: s.reads}}
		h.Reply, h.HasReply = wire.Chunk{s.writes}, true
		b = enc(h)
	default:
		b = s.table[which%len(s.table)].bytes(s.r, xid)
	}
	switch how % 4 { // 0: as it is
	case 1:
		b = b[:at%(len(b)+1)]
	case 2:
		b[at%len(b)] ^= how
	case 3:
		w := b[at%(len(b)/4)*4:]
		binary.BigEndian.PutUint32(w, []uint32{0, 1, 0x7fffffff, 0xffffffff, uint32(which), s.reads.Handle, s.writes.Handle, binary.BigEndian.Uint32(w) + 1}[how>>2&7])
	}
	return b
}

// FuzzTranscript: whatever a client says, and in whatever order, the server lives, answers who stands by, and keeps nothing of it.
func FuzzTranscript(f *testing.F) {
	table := hostileMessages()
	var every []byte
	for i := range table {
		every = append(every, 5, byte(i), 0, 0, 0, 0)
	}
	good := []byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 200, 0, 3, 0, 0, 0, 0, 0, 4, 0, 150, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for version := range byte(2) {
		f.Add(version, good)
		f.Add(version, every)
		f.Add(version, []byte{0, 0, 0, 0, 0, 0, 0, 0, 201, 0, 0, 0, 0, 0, 201, 0, 3, 2, 3, 0, 0, 0, 20, 3, 2, 0, 0, 0, 44, 7, 4, 0, 150, 0, 9, 1})
	}
	srv := serve(f, "loopback://127.0.0.1:0", rpc.WithInline(16<<10), rpc.WithCredits(8))
	close(srv.wait)
	stander := dial(f, srv.url)
	f.Fuzz(func(t *testing.T, version byte, script []byte) {
		s := &transcript{r: rawDial(t, srv.url), version: uint32(version%2) + 1, table: table, xid: 0x100}
		var mem []byte
		mem, s.reads = s.r.Memory(4096, verbs.RemoteRead)
		copy(mem, call(150, 1, opaque(pattern(2000))...))
		_, s.writes = s.r.Memory(4096, verbs.RemoteWrite)
		for n := 0; n < 64 && len(script) >= stepLen; n++ {
			b := s.message(script)
			script = script[stepLen:]
			ended := s.r.Send(b) != nil
			if ended {
				break
			}
		}
		if err := ask(t, stander); err != nil {
			t.Fatalf("who stands by: %v", err)
		}
		s.r.Conn.Abort(nil)
		<-s.r.Gone
		wait.For(t, "one connection only", func() bool { return srv.srv.Connections() == 1 })
		for len(srv.inside) > 0 {
			<-srv.inside
		}
	})
}
