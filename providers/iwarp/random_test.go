package iwarp_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/test/memory"
)

// TestAnyFault: both ends send, write and read at random while the stream is cut, changed,
// silenced, closed or aborted somewhere. Whatever comes, each work and receive completes once,
// Disconnected comes once and last, and nobody waits longer than a lingering close.
// IWARP_SEED repeats one run.
func TestAnyFault(t *testing.T) {
	seeds := make([]uint64, 300)
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	if s := os.Getenv("IWARP_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		if !t.Run(fmt.Sprintf("IWARP_SEED=%d", seed), func(t *testing.T) { anyFault(t, rand.New(rand.NewPCG(seed, 1))) }) {
			break
		}
	}
}

func anyFault(t *testing.T, r *rand.Rand) {
	bubble(t, map[string]string{"crc": strconv.FormatBool(r.IntN(4) > 0)}, func(t *testing.T, n *memory.Network, o *ours) {
		n.Buffer = 1 << (11 + r.IntN(8))
		n.Delay = time.Duration(r.IntN(3)) * time.Millisecond
		n.Segment = []int{536, 1448, 9000, 32741}[r.IntN(4)]
		fault, at := r.IntN(6), int64(24+r.IntN(100_000))
		n.Made = func(dialled, _ *memory.Stream) {
			switch fault {
			case 0:
				dialled.CutAt(at)
			case 1:
				dialled.Flip(at, 1<<r.IntN(8))
			}
		}
		const recvs = 20
		ends := [2]*ours{o, {end: end{dom: o.dom, reg: o.reg, gone: make(chan error, 1)}}}
		if _, err := o.dom.Dial(t.Context(), ends[1].listen(t, ends[1].options(recvs)), o.options(recvs)); err != nil {
			return // the fault struck the set-up
		}
		synctest.Wait()
		var windows [2]verbs.Window // each is at one end, for the other
		for i, e := range ends {
			if err := e.conn.Expose(&windows[i], e.reg, mib/2, mib/4, verbs.RemoteRead|verbs.RemoteWrite); err != nil {
				return
			}
		}
		posted := [2]int{}
		for step := range 30 {
			i := r.IntN(2)
			e, w := ends[i], &windows[1-i]
			size := r.IntN([]int{100, 5000, 200_000}[r.IntN(3)])
			work := verbs.Work{ID: uint64(1000 + step), Key: w.Key, Remote: w.Addr}
			switch r.IntN(4) {
			case 0, 1:
				work.Op, size = verbs.OpSend, size%recvSize
			case 2:
				work.Op = verbs.OpWrite
			case 3:
				work.Op = verbs.OpRead
			}
			for size > 0 && r.IntN(3) == 0 {
				k := r.IntN(size + 1)
				work.Segs = append(work.Segs, verbs.Seg{R: e.reg, Off: mib*3/4 + r.IntN(1000), N: k})
				size -= k
			}
			work.Segs = append(work.Segs, verbs.Seg{R: e.reg, Off: mib * 3 / 4, N: size})
			k, _ := e.conn.Post([]verbs.Work{work})
			posted[i] += k
			e.conn.Flush()
			switch r.IntN(5) {
			case 0:
				time.Sleep(time.Duration(r.IntN(5)) * time.Millisecond)
			case 1:
				e.conn.(verbs.Driver).Kick()
			case 2:
				until := time.Now().Add(time.Millisecond)
				timer := time.AfterFunc(time.Millisecond, e.conn.(verbs.Driver).Kick)
				e.conn.(verbs.Driver).Drive(func() bool { return !time.Now().Before(until) })
				timer.Stop()
			}
			if step == 20 {
				switch fault {
				case 2:
					e.conn.Close()
				case 3:
					e.conn.Abort(nil)
				case 4:
					e.conn.Post([]verbs.Work{{ID: 5000, Op: verbs.OpWrite, Key: w.Key ^ 1, Remote: w.Addr, Segs: []verbs.Seg{{R: e.reg, N: 9}}}})
					posted[i]++
					e.conn.Flush()
				}
			}
		}
		began := time.Now()
		for _, e := range ends {
			e.conn.Close()
		}
		for i, e := range ends {
			<-e.gone
			seen := map[string]int{}
			for _, cp := range e.all {
				seen[fmt.Sprintf("%v %d", cp.Op == verbs.OpRecv, cp.ID)]++
			}
			for id, k := range seen {
				if k != 1 {
					t.Errorf("end %d: receive? %s completed %d times", i, id, k)
				}
			}
			if want := posted[i] + recvs; len(seen) != want && fault != 4 {
				t.Errorf("end %d: %d completed of %d", i, len(seen), want)
			}
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the end took %v", took)
		}
	})
}
