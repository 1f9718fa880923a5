package capture

import "bytes"

// flow puts one direction of a TCP connection in order. It begins with the SYN.
type flow struct {
	next  uint32            // sequence number of the first byte not yet delivered
	later map[uint32][]byte // segments behind a gap, by sequence number
	held  int               // bytes of later
	lost  bool              // a gap that can no longer be filled
}

// What waits behind a gap is bounded by more than any window leaves on the way, in bytes and in segments.
const (
	maxHeld  = 16 << 20
	maxLater = maxHeld / 1000
)

func (f *flow) begin(seq uint32) { *f = flow{next: seq + 1, later: map[uint32][]byte{}} }

// add calls deliver with the bytes that have become the next ones.
func (f *flow) add(seq uint32, b []byte, deliver func([]byte)) {
	if f.lost || len(b) == 0 {
		return
	}
	if ahead := int32(seq - f.next); ahead > 0 {
		if have, ok := f.later[seq]; !ok || len(have) < len(b) {
			f.later[seq] = bytes.Clone(b)
			f.held += len(b) - len(have)
		}
		if f.held > maxHeld || len(f.later) > maxLater {
			f.lost, f.later = true, nil
		}
		return
	}
	f.take(seq, b, deliver)
	for again := true; again; {
		for b, ok := f.later[f.next]; ok; b, ok = f.later[f.next] {
			f.held -= len(b)
			delete(f.later, f.next)
			f.take(f.next, b, deliver)
		}
		// What overlaps was cut otherwise when it was sent again: rare.
		again = false
		for seq, b := range f.later {
			if int32(seq-f.next) < 0 {
				f.held -= len(b)
				delete(f.later, seq)
				f.take(seq, b, deliver)
				again = true
			}
		}
	}
}

// take delivers what of b is new; the rest was sent again.
func (f *flow) take(seq uint32, b []byte, deliver func([]byte)) {
	if old := int32(f.next - seq); old < int32(len(b)) {
		b = b[old:]
		f.next += uint32(len(b))
		deliver(b)
	}
}
