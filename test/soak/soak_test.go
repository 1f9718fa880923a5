package soak

import (
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Seeds of each run, and what sets them.
const (
	seedVariable  = "RPCRDMA_SOAK_SEED"
	seedsVariable = "RPCRDMA_SOAK_SEEDS"
	timeVariable  = "RPCRDMA_SOAK_TIME"
	someSeeds     = 400
)

// TestWorldsThatFailed: worlds in which something went wrong once, where no smaller test says it all.
func TestWorldsThatFailed(t *testing.T) {
	for _, seed := range []uint64{
		572532559858, // a bit of an FPDU's length changed, and a backward call kept the server from closing
	} {
		one(t, newStage(), seed)
	}
}

// TestWorlds plays worlds: a few hundred by themselves, as many as the environment says, or for as long.
func TestWorlds(t *testing.T) {
	if v := os.Getenv(seedVariable); v != "" {
		seed, err := strconv.ParseUint(v, 0, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		for range 20 { // scheduling is not the seed's
			one(t, newStage(), seed)
			if t.Failed() {
				return
			}
		}
		return
	}
	seeds, first := uint64(someSeeds), uint64(0)
	if v := os.Getenv(seedsVariable); v != "" {
		n, err := strconv.ParseUint(v, 0, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedsVariable, err)
		}
		seeds = n
	}
	var until time.Time
	if v := os.Getenv(timeVariable); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatalf("%s: %v", timeVariable, err)
		}
		// Other seeds each time.
		until, seeds, first = time.Now().Add(d), 1<<62, uint64(time.Now().UnixNano())&(1<<40-1)
	}
	var next, played atomic.Uint64
	next.Store(first)
	t.Run("stages", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				s := newStage()
				for !t.Failed() && (until.IsZero() || time.Now().Before(until)) {
					seed := next.Add(1) - 1
					if seed-first >= seeds {
						break
					}
					one(t, s, seed)
					played.Add(1)
				}
			})
		}
	})
	t.Logf("%d worlds from seed %d on", played.Load(), first)
}

// TestOneWorldAgain: a world can be played again by its seed.
func TestOneWorldAgain(t *testing.T) {
	t.Setenv(seedVariable, "1")
	TestWorlds(t)
}

// one plays the world of a seed in a bubble of its own.
func one(t *testing.T, s *stage, seed uint64) {
	w := newWorld(seed)
	synctest.Test(t, func(t *testing.T) { s.play(t, w) })
	if faults := w.book.Faults(); len(faults) > 0 {
		t.Errorf("%s=%d: %v", seedVariable, seed, w)
		for _, f := range faults {
			t.Log("  " + f)
		}
	}
}
