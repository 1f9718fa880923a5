package load

import (
	"math/bits"
	"time"
)

// Hist counts durations in buckets 3 % wide (32 to an octave).
type Hist [64 * 32]uint32

// Add counts d.
func (h *Hist) Add(d time.Duration) {
	v := uint64(max(d, 0)) + 32
	e := bits.Len64(v) - 6
	h[e*32+int(v>>e)-32]++
}

// Merge adds o's counts.
func (h *Hist) Merge(o *Hist) {
	for i, n := range o {
		h[i] += n
	}
}

// Quantile is the duration that a share p of what was counted does not exceed.
func (h *Hist) Quantile(p float64) time.Duration {
	var total, sum uint64
	for _, n := range h {
		total += uint64(n)
	}
	for i, n := range h {
		sum += uint64(n)
		if n > 0 && float64(sum) >= p*float64(total) {
			e, m := i/32, uint64(i%32)+32
			return time.Duration((m<<e)+(1<<e)/2) - 32
		}
	}
	return 0
}
