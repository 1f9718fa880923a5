package providertest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

func (w *world) alloc(d verbs.Domain, n int) verbs.Region {
	w.Helper()
	r, err := d.Alloc(n)
	if err != nil {
		w.Fatalf("Alloc(%d): %v", n, err)
	}
	if len(r.Bytes()) != n {
		w.Fatalf("Alloc(%d) gave %d bytes", n, len(r.Bytes()))
	}
	return r
}

// arena hands out registered memory for small things, never the same twice.
type arena struct {
	mu   sync.Mutex
	r    verbs.Region
	next int
}

const arenaSize = 1 << 20

// mem gives n registered bytes of e's domain, filled with b.
func (e *end) mem(b []byte) verbs.Seg {
	e.w.Helper()
	if len(b) > arenaSize {
		r := e.w.alloc(e.dom, len(b))
		copy(r.Bytes(), b)
		return verbs.Seg{R: r, N: len(b)}
	}
	e.arena.mu.Lock()
	defer e.arena.mu.Unlock()
	if e.arena.r == nil || e.arena.next+len(b) > arenaSize {
		e.arena.r, e.arena.next = e.w.alloc(e.dom, arenaSize), 0
	}
	s := verbs.Seg{R: e.arena.r, Off: e.arena.next, N: len(b)}
	e.arena.next += len(b)
	copy(s.Bytes(), b)
	return s
}

// pattern is n bytes that differ by seed and position.
func pattern(seed, n int) []byte {
	b := make([]byte, n)
	x := uint64(seed)*0x9E3779B97F4A7C15 + 1
	for i := range b {
		if i&7 == 0 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		b[i] = byte(x >> (8 * (i & 7)))
	}
	return b
}

func send(segs ...verbs.Seg) verbs.Work { return verbs.Work{Op: verbs.OpSend, Segs: segs} }

func sendInvalidate(key uint32, segs ...verbs.Seg) verbs.Work {
	return verbs.Work{Op: verbs.OpSendInvalidate, Key: key, Segs: segs}
}

func write(w *verbs.Window, off int, segs ...verbs.Seg) verbs.Work {
	return verbs.Work{Op: verbs.OpWrite, Key: w.Key, Remote: w.Addr + uint64(off), Segs: segs}
}

func read(w *verbs.Window, off int, segs ...verbs.Seg) verbs.Work {
	return verbs.Work{Op: verbs.OpRead, Key: w.Key, Remote: w.Addr + uint64(off), Segs: segs}
}

func invalidate(w *verbs.Window) verbs.Work {
	return verbs.Work{Op: verbs.OpInvalidate, Window: w}
}

// split cuts s into segments of the given sizes, the last taking the rest.
func split(s verbs.Seg, sizes ...int) []verbs.Seg {
	var segs []verbs.Seg
	for _, n := range sizes {
		segs = append(segs, verbs.Seg{R: s.R, Off: s.Off, N: n})
		s.Off += n
		s.N -= n
	}
	return append(segs, s)
}

// same fails the check where got differs from want, and tells where.
func (w *world) same(what string, got, want []byte) {
	w.Helper()
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		w.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			w.Fatalf("%s: byte %d of %d is %#02x, want %#02x", what, i, len(got), got[i], want[i])
		}
	}
}

// ping shows that messages pass both ways.
func (w *world) ping(a, b *end) {
	w.Helper()
	for _, d := range [][2]*end{{a, b}, {b, a}} {
		n := d[1].count()
		text := fmt.Appendf(nil, "ping %d from %s", n, d[0].name)
		d[0].do(send(d[0].mem(text)))
		w.same("ping", d[1].message(n).data, text)
	}
}

// meet lets a, who dialled, send first: some fabrics need it before b may.
func (w *world) meet(a, b *end) {
	w.Helper()
	w.ping(a, b)
}
