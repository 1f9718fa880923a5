package stream

import (
	"runtime"
	"time"
)

// MaxSpin is the longest that TCP.Spin may be: beyond it sleeping is cheaper in every respect.
const MaxSpin = time.Millisecond

// maxSkip is how many waits go by without polling where polling has not paid for long.
const maxSkip = 255

// spinner polls for a while before who waits is put to sleep. It pays where the other end runs on
// another core; where it does not, it only keeps the core from it. So each miss is followed
// by waits without polling, 1, 3, 7 and up to maxSkip of them, and a hit forgets the misses: an end
// that polls in vain loses one limit in 256 waits.
type spinner struct {
	limit         time.Duration // 0: never
	skip, penalty int
}

// try polls, and tells whether try has returned true. Other goroutines have their turn between
// two attempts. It ends early when over says so.
func (s *spinner) try(try, over func() bool) bool {
	switch {
	case s.limit == 0:
		return false
	case s.skip > 0:
		s.skip--
		return false
	}
	for start := time.Now(); time.Since(start) < s.limit; {
		if over() {
			return false
		}
		runtime.Gosched()
		if try() {
			s.penalty = 0
			return true
		}
	}
	s.penalty = min(2*s.penalty+1, maxSkip)
	s.skip = s.penalty
	return false
}
