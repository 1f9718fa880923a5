package bench

import (
	"math"
	"math/bits"
	"time"
)

// Hist counts durations: extremes, mean and deviation exactly, percentiles by buckets 3 % wide (32 to an
// octave). Its zero value is empty.
type Hist struct {
	buckets        [64 * 32]uint32
	n              uint64
	min, max       time.Duration
	total, squares float64 // nanoseconds
}

// Add counts d.
func (h *Hist) Add(d time.Duration) {
	d = max(d, 0)
	if h.n == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.n++
	h.total += float64(d)
	h.squares += float64(d) * float64(d)
	v := uint64(d) + 32
	e := bits.Len64(v) - 6
	h.buckets[e*32+int(v>>e)-32]++
}

// Merge adds o's counts.
func (h *Hist) Merge(o *Hist) {
	if o.n == 0 {
		return
	}
	if h.n == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	h.n += o.n
	h.total += o.total
	h.squares += o.squares
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
}

// N is how many durations were counted.
func (h *Hist) N() uint64 { return h.n }

// Min, Max, Mean and Deviation are 0 if nothing was counted.
func (h *Hist) Min() time.Duration { return h.min }

// Max is the longest.
func (h *Hist) Max() time.Duration { return h.max }

// Mean is the average.
func (h *Hist) Mean() time.Duration { return time.Duration(h.total / float64(max(h.n, 1))) }

// Deviation is the standard deviation.
func (h *Hist) Deviation() time.Duration {
	n := float64(max(h.n, 1))
	mean := h.total / n
	return time.Duration(math.Sqrt(max(0, h.squares/n-mean*mean)))
}

// Quantile is the duration that a share p of what was counted does not exceed: the middle
// of its bucket, within the extremes.
func (h *Hist) Quantile(p float64) time.Duration {
	var sum uint64
	for i, n := range h.buckets {
		sum += uint64(n)
		if n > 0 && float64(sum) >= p*float64(h.n) {
			return min(max(middle(i), h.min), h.max)
		}
	}
	return h.max
}

func middle(bucket int) time.Duration {
	e, m := bucket/32, uint64(bucket%32)+32
	return time.Duration((m<<e)+(1<<e)/2) - 32
}

// Bucket is one line of a histogram: so many calls took about so long.
type Bucket struct {
	Took  time.Duration
	Calls uint64
}

// Buckets are those that are not empty, in order.
func (h *Hist) Buckets() (all []Bucket) {
	for i, n := range h.buckets {
		if n > 0 {
			all = append(all, Bucket{middle(i), uint64(n)})
		}
	}
	return all
}
