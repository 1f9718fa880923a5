package loopback

import (
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// stats counts messages as frames: there is no framing and no system call.
type stats struct {
	sentBytes, recvBytes, sentFrames, recvFrames atomic.Uint64
	sends, writes, reads, recvs, copied          atomic.Uint64
}

func (s *stats) sent(kind *atomic.Uint64, n int) {
	s.sentBytes.Add(uint64(n))
	s.sentFrames.Add(1)
	if kind != nil {
		kind.Add(1)
	}
}

func (s *stats) received(kind *atomic.Uint64, n int) {
	s.recvBytes.Add(uint64(n))
	s.recvFrames.Add(1)
	if kind != nil {
		kind.Add(1)
	}
}

func (s *stats) read(v *verbs.Stats) {
	*v = verbs.Stats{
		SentBytes:   s.sentBytes.Load(),
		RecvBytes:   s.recvBytes.Load(),
		SentFrames:  s.sentFrames.Load(),
		RecvFrames:  s.recvFrames.Load(),
		Sends:       s.sends.Load(),
		Writes:      s.writes.Load(),
		Reads:       s.reads.Load(),
		Recvs:       s.recvs.Load(),
		CopiedBytes: s.copied.Load(),
	}
}
