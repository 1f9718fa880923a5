package rpc_test

import (
	"context"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

func benchEcho(b *testing.B, url string, parallel int) {
	f := serve(b, url)
	c := dial(b, f.url)
	bg := context.Background()
	if err := c.Call(bg, procEcho, blob("x"), nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(parallel)
	b.RunParallel(func(pb *testing.PB) {
		in, out := blob(pattern(64)), make(blob, 0, 64)
		for pb.Next() {
			if err := c.Call(bg, procEcho, &in, &out); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkIWARPEcho2(b *testing.B)   { benchEcho(b, "iwarp://127.0.0.1:0", 1) }
func BenchmarkIWARPEcho64(b *testing.B)  { benchEcho(b, "iwarp://127.0.0.1:0", 32) }
func BenchmarkIWARPEcho256(b *testing.B) { benchEcho(b, "iwarp://127.0.0.1:0", 128) }

func BenchmarkIWARPRead1M(b *testing.B) {
	for _, q := range []string{"?crc=true", "?crc=false"} {
		b.Run(q, func(b *testing.B) {
			f := serve(b, "iwarp://127.0.0.1:0"+q)
			c := dial(b, f.url+q)
			buf, err := rpc.NewBuffer(1 << 20)
			if err != nil {
				b.Fatal(err)
			}
			defer buf.Free()
			args, res := readArgs(1<<20), bulk(nil)
			b.ReportAllocs()
			b.SetBytes(1 << 20)
			for b.Loop() {
				if err := c.Call(context.Background(), procRead, &args, &res, rpc.IntoBuffer(buf, 0, 1<<20)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
