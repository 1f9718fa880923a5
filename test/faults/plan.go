package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Plan says what may happen. An "every" of n means: once in n times, on average; 0: never.
type Plan struct {
	Seed uint64 // 0: RPCRDMA_FAULT_SEED, else by chance

	// Late holds completions back by up to this, LateFlush what a Flush would send.
	// Each is held with even odds, by a time of its own.
	Late, LateFlush time.Duration
	// Reorder lets receives, Reads and other works be reported in any interleaving; each of the
	// three kinds stays in order. Needs Late.
	Reorder bool
	// FailEvery counts works that are posted: one fails, which ends its connection.
	FailEvery int
	// CutEvery counts works posted and messages received: the connection is aborted.
	CutEvery int
	// CutWithin aborts each connection at some moment before that age.
	CutWithin time.Duration
	// RefuseEvery counts calls of Dial. SlowDial delays each by up to this.
	RefuseEvery int
	SlowDial    time.Duration

	// Judge, if set, decides about each posted work instead of chance.
	Judge func(conn int, w *verbs.Work) Verdict
	// Queue lowers Caps.Queue.
	Queue int
	// NoDriver hides verbs.Driver, NoDetach verbs.Detacher: as a fabric without them.
	NoDriver, NoDetach bool
}

// Verdict is what becomes of a posted work.
type Verdict uint8

const (
	Pass   Verdict = iota
	Fail           // completes with LocalError, RemoteError or RemoteAccess; the connection ends
	Cut            // the connection is aborted just after the work was posted
	FailRA         // completes with RemoteAccess
)

// Done counts what was done to whom.
type Done struct {
	Conns, Refused, Cuts, Fails, Late, LateFlushes, Overtaken int
}

// tally is Done while it is counted.
type tally struct{ conns, refused, cuts, fails, late, lateFlushes, overtaken atomic.Int64 }

// ErrCut is what a cut looks like at the end that was cut; the other one sees what its
// fabric makes of an abort.
var ErrCut = fmt.Errorf("faults: connection cut: %w", syscall.ECONNRESET)

// SeedVariable names the environment variable that repeats a run.
const SeedVariable = "RPCRDMA_FAULT_SEED"

func chooseSeed(tb testing.TB, p *Plan) {
	if p.Seed == 0 {
		if v := os.Getenv(SeedVariable); v != "" {
			n, err := strconv.ParseUint(v, 0, 64)
			if err != nil {
				tb.Fatalf("%s: %v", SeedVariable, err)
			}
			p.Seed = n
		}
	}
	if p.Seed == 0 {
		p.Seed = rand.Uint64()
	}
	seed := p.Seed
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("faults: repeat with %s=%#x", SeedVariable, seed)
		}
	})
}

// dice are one connection's chance: the same seed and number throw the same.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newDice(seed uint64, conn int) *dice {
	return &dice{r: rand.New(rand.NewPCG(seed, uint64(conn)))}
}

// once says yes one time in every.
func (d *dice) once(every int) bool {
	if every <= 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(every) == 0
}

// upTo is a time below most, zero every other time.
func (d *dice) upTo(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.r.IntN(2) == 0 {
		return 0
	}
	return time.Duration(d.r.Int64N(int64(most)) + 1)
}

// below is a number from 0 to n-1.
func (d *dice) below(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}
