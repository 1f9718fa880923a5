package iwarp

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

// attempt is one system call. While memory of windows is among what it takes, the windows are
// held; it is the only time that answers to Reads touch them.
func (o *outbound) attempt() {
	if o.err = o.hold(); o.err != nil {
		return
	}
	n, err := o.c.stream.Writev(o.vec[o.next:])
	o.release(len(o.wins))
	o.stats.WriteCalls++
	o.taken += uint64(n)
	for n > 0 {
		b := o.vec[o.next]
		k := min(n, len(b))
		if n -= k; k == len(b) {
			if at := o.places[o.next]; at.off > 0 {
				o.wins[at.win].left--
			}
			o.vec[o.next] = nil
			o.places[o.next] = place{}
			o.next++
		} else {
			o.vec[o.next] = b[k:]
		}
	}
	o.err = err
}

// hold locks the windows that bytes are still to be taken from. What has moved since is taken from where it is
// now: Detach has copied it. Nobody else holds more than one window, nor waits for anything while it
// holds it.
func (o *outbound) hold() error {
	for i := range o.wins {
		w := &o.wins[i]
		if w.left == 0 {
			continue
		}
		if !w.s.Hold(w.key) {
			o.release(i)
			return errRevokedMidway
		}
		if w.s.Moves == w.moves {
			continue
		}
		w.moves = w.s.Moves
		for j, at := range o.places {
			if at.off > 0 && at.win == i {
				o.vec[j] = w.s.Mem[at.off-len(o.vec[j]) : at.off]
			}
		}
	}
	return nil
}

// release unlocks those of the first n windows that hold has locked.
func (o *outbound) release(n int) {
	for i := range o.wins[:n] {
		if w := &o.wins[i]; w.left > 0 {
			w.s.Unlock()
		}
	}
}

// farewell ends the output with message, a frame, if the stream takes it without waiting: a
// frame that was begun is ended first, what follows it is dropped. It is called by
// whoever has both roles, after the connection's end.
func (o *outbound) farewell(message []byte) bool {
	vec, places, rest := o.vec[o.next:], o.places[o.next:], o.begun()
	o.vec, o.places, o.next = nil, nil, 0
	for i := range o.wins {
		o.wins[i].left = 0
	}
	for i := 0; rest > 0; i++ {
		b := vec[i][:min(len(vec[i]), rest)]
		at := places[i]
		if at.off > 0 {
			at.off -= len(vec[i]) - len(b)
			o.wins[at.win].left++
		}
		o.vec, o.places = append(o.vec, b), append(o.places, at)
		rest -= len(b)
	}
	o.vec, o.places = append(o.vec, message), append(o.places, place{})
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
