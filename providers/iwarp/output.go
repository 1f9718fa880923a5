package iwarp

import "github.com/rpcrdma/rpcrdma/core/verbs"

// write gives the batch to the stream until it is taken or would have to wait.
func (o *outbound) write() {
	for !o.written() && o.err == nil {
		if err := o.c.stream.Write(o.try); err != nil {
			o.err = err
		}
	}
}

// await waits for room once, and uses it.
func (o *outbound) await() {
	if err := o.c.stream.Write(o.wait); err != nil {
		o.err = err
	}
}

// attempt is one system call. While memory of a window is among what it takes, the window is
// held; it is the only time that an answer to a Read touches it. What has moved since is
// taken from where it is now: Detach has copied it.
func (o *outbound) attempt() {
	o.err = nil
	if s := o.win; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.key != o.winKey {
			o.err = errRevokedMidway
			return
		}
		if s.moves != o.winMoves {
			o.winMoves = s.moves
			for i, off := range o.offs {
				if off > 0 {
					o.vec[i] = s.mem[off-len(o.vec[i]) : off]
				}
			}
		}
	}
	n, err := o.c.stream.Writev(o.vec[o.next:])
	o.stats.WriteCalls++
	o.taken += uint64(n)
	for n > 0 {
		b := o.vec[o.next]
		k := min(n, len(b))
		if n -= k; k == len(b) {
			o.vec[o.next] = nil
			o.offs[o.next] = 0
			o.next++
		} else {
			o.vec[o.next] = b[k:]
		}
	}
	o.err = err
}

// publish adds what was counted to the connection's counters. The connection's mu is held.
func (o *outbound) publish(s *verbs.Stats) {
	add(s, &o.stats)
}

func add(to, from *verbs.Stats) {
	to.SentBytes += from.SentBytes
	to.RecvBytes += from.RecvBytes
	to.SentFrames += from.SentFrames
	to.RecvFrames += from.RecvFrames
	to.Sends += from.Sends
	to.Writes += from.Writes
	to.Reads += from.Reads
	to.Recvs += from.Recvs
	to.WriteCalls += from.WriteCalls
	to.ReadCalls += from.ReadCalls
	to.CopiedBytes += from.CopiedBytes
	*from = verbs.Stats{}
}

// farewell ends the output with message, a frame, if the stream takes it without waiting: a
// frame that was begun is ended first, what follows it is dropped. It is called by
// whoever has both roles, after the connection's end.
func (o *outbound) farewell(message []byte) bool {
	vec, offs, rest := o.vec[o.next:], o.offs[o.next:], o.begun()
	o.vec, o.offs, o.next = nil, nil, 0
	for i := 0; rest > 0; i++ {
		b := vec[i][:min(len(vec[i]), rest)]
		off := offs[i]
		if off > 0 {
			off -= len(vec[i]) - len(b)
		}
		o.vec, o.offs = append(o.vec, b), append(o.offs, off)
		rest -= len(b)
	}
	o.vec, o.offs = append(o.vec, message), append(o.offs, 0)
	o.queued = o.taken
	for _, b := range o.vec {
		o.queued += uint64(len(b))
	}
	o.stats.SentFrames++
	o.stats.SentBytes += uint64(len(message))
	o.err = nil
	o.write()
	return o.err == nil
}

// begun is how many bytes are missing of the frame that was taken in part.
func (o *outbound) begun() int {
	start := o.started
	for _, end := range o.ends {
		if end > o.taken {
			if start == o.taken {
				return 0
			}
			return int(end - o.taken)
		}
		start = end
	}
	return 0
}
