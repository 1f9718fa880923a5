package host

import (
	"sync"
	"time"
)

// bucket is a rate with a burst.
type bucket struct {
	rate, burst float64

	mu   sync.Mutex
	left float64
	at   time.Time
}

func newBucket(rate, burst float64) *bucket { return &bucket{rate: rate, burst: burst, left: burst} }

func (b *bucket) fill(now time.Time) {
	if !b.at.IsZero() {
		b.left = min(b.burst, b.left+now.Sub(b.at).Seconds()*b.rate)
	}
	b.at = now
}

// spend takes one, if there is one.
func (b *bucket) spend(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// take takes n in any case, and tells how long to wait so that the rate is kept.
func (b *bucket) take(n int, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	b.left -= float64(n)
	if b.left >= 0 {
		return 0
	}
	return time.Duration(-b.left / b.rate * float64(time.Second))
}
