package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/transport"
)

// TestXIDTable does at random what a map does as well: XIDs in sequence, far apart in it, and anywhere.
func TestXIDTable(t *testing.T) {
	for _, step := range []uint32{1, 64, 1 << 16, 0} {
		rng := rand.New(rand.NewPCG(1, uint64(step)))
		var table xidTable
		want := make(map[uint32]*call)
		var all []*call
		xid := uint32(1<<32 - 500)
		for range 20000 {
			if xid += step; step == 0 {
				xid = rng.Uint32()
			}
			if len(all) < 300 && rng.IntN(2) == 0 {
				call := newCallOf(xid)
				table.add(call)
				want[xid] = call
				all = append(all, call)
			} else if n := len(all); n > 0 {
				i := rng.IntN(n)
				call := all[i]
				all[i], all = all[n-1], all[:n-1]
				table.remove(call)
				table.remove(call) // does nothing
				delete(want, call.XID)
				if table.at(call.XID) != nil {
					t.Fatalf("step %d: %#x is still there", step, call.XID)
				}
			}
			if table.n != len(want) {
				t.Fatalf("step %d: %d calls, want %d", step, table.n, len(want))
			}
		}
		for xid, call := range want {
			if table.at(xid) != call {
				t.Fatalf("step %d: %#x not found", step, xid)
			}
		}
	}
}

// TestXIDRows: every 64th XID, as a client of 64 connections deals them out, spreads over the rows.
func TestXIDRows(t *testing.T) {
	for _, step := range []uint32{1, 2, 64, 1024} {
		var table xidTable
		for i := range uint32(128) {
			table.add(newCallOf(12345 + i*step))
		}
		longest := 0
		for _, call := range table.rows {
			n := 0
			for ; call != nil; call = call.sameRow {
				n++
			}
			longest = max(longest, n)
		}
		if longest > 4 {
			t.Errorf("every %d. XID: %d of 128 calls share a row", step, longest)
		}
	}
}

func newCallOf(xid uint32) *call { return callOf(&transport.Call{XID: xid}) }
