//go:build invariants && !race

package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// keeper keeps views of what it reads.
type keeper struct{ text, data []byte }

func (k *keeper) UnmarshalXDR(r *xdr.Reader) {
	k.text = r.OpaqueView(1 << 20)
	k.data = r.Bulk(1 << 20)
}

// poisoned reports whether nothing is left of what a view showed.
func poisoned(b []byte) bool { return len(b) > 0 && len(bytes.Trim(b, "\xdb")) == 0 }

// TestPoisoned: with -tags invariants a view shows nothing any more when the handler, or UnmarshalXDR, has returned: of inline
// messages, Read chunks, Write chunks and Reply chunks. Not with -race: who looks at a view that has ended races with its owner.
func TestPoisoned(t *testing.T) {
	for _, tr := range transports {
		for _, n := range []int{16, 64 << 10} {
			t.Run(fmt.Sprint(tr.name, " ", n), func(t *testing.T) {
				var served keeper
				f := serve(t, tr.url, tr.opts)
				f.srv.Register(viewsProgram, 1, rpc.Method{Proc: procData, Handler: func(_ context.Context, r *rpc.Request) error {
					served.UnmarshalXDR(r.Args)
					if err := r.Args.Done(); err != nil {
						return err
					}
					r.Results.Opaque(served.text)
					r.Results.Opaque(served.data)
					return nil
				}})
				c := dial(t, f.url, tr.opts)
				args := pair{bytes.Repeat([]byte("t"), 100), bytes.Repeat([]byte("d"), n)}
				var kept keeper
				if err := c.Call(ctx(t), procData, args, &kept); err != nil {
					t.Fatal(err)
				}
				if !poisoned(kept.text) || !poisoned(kept.data) {
					t.Errorf("the caller still sees %.8q and %.8q", kept.text, kept.data)
				}
				// Chunk memory is given back when the reply has left, which its caller may come before.
				for end := time.Now().Add(10 * time.Second); !poisoned(served.text) || !poisoned(served.data); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("the handler's views still show %.8q and %.8q", served.text, served.data)
					}
				}
			})
		}
	}
}
