package providertest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// seedVariable repeats a random check.
const seedVariable = "PROVIDERTEST_SEED"

func (w *world) random() *rand.Rand {
	w.Helper()
	seed := rand.Uint64()
	if v := os.Getenv(seedVariable); v != "" {
		n, err := strconv.ParseUint(v, 0, 64)
		if err != nil {
			w.Fatalf("%s: %v", seedVariable, err)
		}
		seed = n
	}
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("repeat with %s=%#x", seedVariable, seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// length favours small ones, and the neighbourhood of powers of two, where frames and pages end.
func length(r *rand.Rand, most int) int {
	n := r.IntN(most + 1)
	switch r.IntN(4) {
	case 0:
		n = r.IntN(min(most, 20) + 1)
	case 1:
		n = 1<<r.IntN(18) + r.IntN(5) - 2
	}
	return max(0, min(n, most))
}

// shuffled cuts s into up to eight segments, empty ones among them.
func shuffled(r *rand.Rand, s verbs.Seg) []verbs.Seg {
	var segs []verbs.Seg
	for range r.IntN(8) {
		n := r.IntN(s.N + 1)
		segs = append(segs, verbs.Seg{R: s.R, Off: s.Off, N: n})
		s.Off, s.N = s.Off+n, s.N-n
	}
	return append(segs, s)
}

var modelChecks = []check{
	{name: "random Writes, Reads and Sends do what a model does", needs: needsReads, run: func(w *world) {
		const size, rounds = 200000, 60
		r := w.random()
		a, b := w.connect(link{size: 8192, options: w.o.SmallBuffers})
		w.meet(a, b)
		ends := [2]*end{a, b}
		var mem [2]verbs.Region // each is the other's to write
		var model [2][]byte
		var win [2]*verbs.Window
		for i, e := range ends {
			mem[i], model[i] = w.alloc(e.dom, size), make([]byte, size)
		}
		seen := [2]int{1, 1}
		for round := range rounds {
			at := r.IntN(2) // whose memory
			by := 1 - at
			if win[at] == nil || r.IntN(4) == 0 {
				if win[at] != nil {
					ends[at].do(invalidate(win[at]))
				}
				win[at] = ends[at].expose(mem[at], 0, size, verbs.RemoteRead|verbs.RemoteWrite)
			}

			// Writes in any number, in one doorbell or several, then a Send that says so.
			var ids []uint64
			for range r.IntN(6) {
				n := length(r, size)
				off, data := r.IntN(size-n+1), pattern(r.IntN(1<<30), n)
				copy(model[at][off:], data)
				ids = append(ids, ends[by].post(write(win[at], off, shuffled(r, ends[by].mem(data))...))...)
				if r.IntN(3) == 0 {
					ends[by].conn.Flush()
				}
			}
			text := pattern(round, length(r, 8192))
			ids = append(ids, ends[by].post(send(shuffled(r, ends[by].mem(text))...))...)
			ends[by].conn.Flush()
			w.same(fmt.Sprintf("round %d: the message", round), ends[at].message(seen[at]).data, text)
			seen[at]++
			w.same(fmt.Sprintf("round %d: the memory", round), mem[at].Bytes(), model[at])
			ends[by].done(ids...)

			// Reads of anything, at once.
			type sink struct {
				seg verbs.Seg
				off int
			}
			var sinks []sink
			ids = nil
			for range r.IntN(6) {
				n := length(r, size)
				s := sink{ends[by].mem(make([]byte, n)), r.IntN(size - n + 1)}
				sinks = append(sinks, s)
				ids = append(ids, ends[by].post(read(win[at], s.off, shuffled(r, s.seg)...))...)
			}
			ends[by].conn.Flush()
			ends[by].done(ids...)
			for _, s := range sinks {
				w.same(fmt.Sprintf("round %d: %d bytes read from %d", round, s.seg.N, s.off), s.seg.Bytes(), model[at][s.off:s.off+s.seg.N])
			}
		}
	}},
}
