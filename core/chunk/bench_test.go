package chunk

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// BenchmarkCall plans, on the sender's side, and checks and joins, on the receiver's, what
// an NFS client sends most: a small call and a WRITE of 1 MiB.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct {
		name string
		msg  *xdr.Writer
	}{
		{"small", write(word(7), opaque(100))},
		{"write 1 MiB", write(word(7), opaque(100), bulk(1<<20))},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := Limits{Version: wire.Version2, Send: 4096, MoveAbove: 2048, MaxReads: -1, MaxWrites: -1}
			spec := ReplySpec{Max: 200}
			var p CallPlan
			o, err := p.Plan(c.msg, true, l, spec, 4096)
			if err != nil {
				b.Fatal(err)
			}
			m := memory{}
			h, _, _ := exposeCall(m, &p, o, l, c.msg, false)
			chunks, data, _ := pull(m, &h)
			var moved []xdr.Moved
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Plan(c.msg, true, l, spec, 4096); err != nil {
					b.Fatal(err)
				}
				if err := CheckCall(&h, p.Len, RecvLimits{MaxReads: -1}); err != nil {
					b.Fatal(err)
				}
				chunks = ReadChunks(chunks[:0], h.Reads)
				_, moved = JoinCall(moved[:0], &h, chunks, data, nil)
			}
		})
	}
}

// BenchmarkReply is the other way: a small reply and a READ of 1 MiB.
func BenchmarkReply(b *testing.B) {
	for _, c := range []struct {
		name  string
		msg   *xdr.Writer
		lists *wire.Lists
	}{
		{"small", write(word(7), opaque(100)), lists(nil)},
		{"read 1 MiB", write(word(7), opaque(100), bulk(1<<20)), lists(nil, []int{1 << 20})},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := Limits{Version: wire.Version2, Send: 4096}
			var p ReplyPlan
			h := wire.Header{Version: wire.Version2, Proc: wire.Msg}
			writes := [][]byte{make([]byte, 1<<20)}
			var moved []xdr.Moved
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Plan(c.msg, true, l, c.lists); err != nil {
					b.Fatal(err)
				}
				h.Lists = p.Returned
				if err := CheckReply(&h, c.lists, p.Len); err != nil {
					b.Fatal(err)
				}
				_, moved = JoinReply(moved[:0], &h.Lists, writes, nil, nil, nil)
			}
		})
	}
}
