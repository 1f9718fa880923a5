package hostile

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// TestReach: a server that reaches for memory of its client which no call of this connection has exposed, or not
// any more, or not for this, or not so much, loses the connection and has changed nothing (RFC 8166 §8.1).
func TestReach(t *testing.T) {
	write := func(r *raw, s wire.Segment, n int) {
		r.Post(verbs.Work{Op: verbs.OpWrite, Key: s.Handle, Remote: s.Offset}, bytes.Repeat([]byte{0xee}, n))
	}
	read := func(r *raw, s wire.Segment, n int) {
		r.Post(verbs.Work{Op: verbs.OpRead, Key: s.Handle, Remote: s.Offset}, make([]byte, n))
	}
	for _, tc := range []struct {
		name string
		kind *kind
		// before and after the good answer to the call; other is another connection's chunk.
		before, after func(r *raw, mine, other wire.Segment)
	}{
		{"a chunk of a call that is over", &kinds[1], nil, func(r *raw, mine, _ wire.Segment) { write(r, mine, 8) }},
		{"a byte beyond", &kinds[1], func(r *raw, mine, _ wire.Segment) { write(r, mine, chunkSize+1) }, nil},
		{"a byte before", &kinds[1], func(r *raw, mine, _ wire.Segment) { mine.Offset--; write(r, mine, 8) }, nil},
		{"an address that wraps", &kinds[1], func(r *raw, mine, _ wire.Segment) { mine.Offset = 1<<64 - 4; write(r, mine, 8) }, nil},
		{"reading what may be written", &kinds[1], func(r *raw, mine, _ wire.Segment) { read(r, mine, 8) }, nil},
		{"the chunk of another connection", &kinds[1], func(r *raw, _, other wire.Segment) { write(r, other, 8) }, nil},
		{"invalidating what is another connection's", &kinds[1], func(r *raw, _, other wire.Segment) {
			r.Post(verbs.Work{Op: verbs.OpSendInvalidate, Key: other.Handle}, word(1, 2, 3, 4))
		}, nil},
	} {
		for _, url := range bubbles {
			t.Run(fmt.Sprintf("%.8s, %s", url, tc.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var other wire.Segment // of the other client's call, which is under way
					hold := make(chan struct{})
					srv := beVillain(t, url, good, func(r *raw, n int, h *wire.Header, _ []byte) {
						switch {
						case n == 0 || len(h.Writes) == 0:
							r.Send(tc.kind.answer(r, h))
						case other.Handle == 0:
							other = h.Writes[0][0]
							answer := tc.kind.answer
							go func() {
								<-hold
								r.Send(answer(r, h))
							}()
						default:
							mine := h.Writes[0][0]
							if tc.before != nil {
								tc.before(r, mine, other)
							}
							r.Send(tc.kind.answer(r, h))
							if tc.after != nil {
								time.Sleep(time.Second)
								tc.after(r, mine, other)
							}
						}
					})
					defer srv.close()
					ctx := context.Background()
					client := func() *rpc.Client {
						c, err := rpc.NewClient(srv.url, rpc.WithRetransmits(-1))
						if err != nil {
							t.Fatal(err)
						}
						if err := kinds[1].call(ctx, c, make([]byte, chunkSize)); err != nil {
							t.Fatal(err)
						}
						return c
					}
					bystander, victim := client(), client()
					defer bystander.Close()
					defer victim.Close()
					theirs, mine := make([]byte, chunkSize), bytes.Repeat([]byte{0x5c}, 3*chunkSize)
					done := make(chan error, 1)
					go func() { done <- kinds[1].call(ctx, bystander, theirs) }()
					synctest.Wait()

					conn := victim.Conns()[0]
					err := kinds[1].call(ctx, victim, mine[chunkSize:2*chunkSize:2*chunkSize])
					if tc.after != nil && err != nil {
						t.Errorf("the call that was answered before the misdeed: %v", err)
					}
					if tc.before != nil && endOf(err) != lost {
						t.Errorf("%v, want the loss of the connection", err)
					}
					middle := bytes.Clone(mine[chunkSize : 2*chunkSize])
					time.Sleep(3 * time.Second)
					select {
					case <-conn.Done():
					default:
						t.Error("the connection lives")
					}
					if bytes.Contains(mine, []byte{0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee, 0xee}) && tc.name != "a byte beyond" {
						t.Error("memory was written")
					}
					if !bytes.Equal(mine[chunkSize:2*chunkSize], middle) {
						t.Error("the destination changed after the call had returned")
					}
					for i, b := range mine {
						if (i < chunkSize || i >= 2*chunkSize) && b != 0x5c {
							t.Fatalf("byte %d beside the destination was written", i)
						}
					}
					close(hold)
					if err := <-done; err != nil {
						t.Errorf("the bystander's call: %v", err)
					}
				})
			})
		}
	}
}

// TestGuess: keys that were guessed end the connections of who guessed them, on both sides, and nobody else's.
func TestGuess(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		h := serve(t, url)
		dom, addr := open(t, h.url)
		rng := rand.New(rand.NewPCG(8, 8))
		for i := range 60 {
			r := dial(t, dom, addr, good)
			latch(t, r, 1+uint32(i%2))
			op := []verbs.Op{verbs.OpWrite, verbs.OpRead, verbs.OpSendInvalidate}[i%3]
			r.Post(verbs.Work{Op: op, Key: rng.Uint32(), Remote: rng.Uint64()}, make([]byte, 64))
			if !r.Ended() {
				t.Errorf("%v with a guessed key, and the connection lives", op)
			}
		}
		h.stand.served()
	})
}
