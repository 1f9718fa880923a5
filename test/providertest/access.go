package providertest

import (
	"bytes"
	"fmt"
	"math"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// A violation is tried on a connection of its own. It must end that connection and no other, at both
// ends with ErrRemoteAccess; the poster's completion is RemoteAccess, where it does not
// come before the peer has seen anything (a Write's and a Send's may).
type violation struct {
	name   string
	rights verbs.Access
	guess  bool // KeysDevice do not promise it: keys may be guessed, and may work on other connections
	// work gets the victim's window, which is n bytes, and one of the same on another connection.
	work func(by, at *end, win, foreign *verbs.Window, n int) verbs.Work
}

const victimSize = 8192

var violations = func() []violation {
	both := verbs.RemoteRead | verbs.RemoteWrite
	one := func(e *end, n int) verbs.Seg { return e.mem(bytes.Repeat([]byte{0xBD}, n)) }
	type op struct {
		name string
		make func(*verbs.Window, int, ...verbs.Seg) verbs.Work
	}
	var vs []violation
	for _, op := range []op{{"Write", write}, {"Read", read}} {
		add := func(name string, rights verbs.Access, work func(by, at *end, win, foreign *verbs.Window, n int) verbs.Work) {
			vs = append(vs, violation{name: op.name + " " + name, rights: rights, work: work})
		}
		at := func(name string, off func(n int) int, size func(n int) int) {
			add(name, both, func(by, _ *end, win, _ *verbs.Window, n int) verbs.Work {
				return op.make(win, off(n), one(by, size(n)))
			})
		}
		num := func(k int) func(int) int { return func(int) int { return k } }
		at("one byte beyond the range", func(n int) int { return n }, num(1))
		at("across the end", func(n int) int { return n - 9 }, num(10))
		at("longer than the range", num(0), func(n int) int { return n + 1 })
		at("from before the range", num(-1), num(10))
		at("far below the range", num(-victimSize), num(10))
		at("from the far side of the address space", num(math.MinInt), num(10))
		add("at an address that wraps past 2^64", both, func(by, _ *end, win, _ *verbs.Window, n int) verbs.Work {
			w := op.make(win, 0, one(by, 64))
			w.Remote = math.MaxUint64 - 31
			return w
		})
		add("at address 0", both, func(by, _ *end, win, _ *verbs.Window, n int) verbs.Work {
			w := op.make(win, 0, one(by, 64))
			w.Remote = 0
			return w
		})
		add("with a key that was invalidated", both, func(by, at *end, win, _ *verbs.Window, n int) verbs.Work {
			w := op.make(win, 0, one(by, 10))
			at.do(invalidate(win))
			return w
		})
		add("with a key that was invalidated and its slot used anew", both, func(by, at *end, win, _ *verbs.Window, n int) verbs.Work {
			w := op.make(win, 0, one(by, 10))
			at.do(invalidate(win))
			at.expose(at.w.alloc(at.dom, n), 0, n, both)
			return w
		})
		vs = append(vs, violation{name: op.name + " with another connection's key", rights: both, guess: true,
			work: func(by, _ *end, _, foreign *verbs.Window, n int) verbs.Work {
				return op.make(foreign, 0, one(by, 10))
			}})
		add("with key 0", both, func(by, _ *end, win, _ *verbs.Window, n int) verbs.Work {
			w := op.make(win, 0, one(by, 10))
			w.Key = 0
			return w
		})
		for _, flip := range []uint32{1, 1 << 8, 1 << 16, 1 << 31} {
			vs = append(vs, violation{name: fmt.Sprintf("%s with a guessed key, off by %#x", op.name, flip), rights: both, guess: true,
				work: func(by, _ *end, win, _ *verbs.Window, n int) verbs.Work {
					w := op.make(win, 0, one(by, 10))
					w.Key ^= flip
					return w
				}})
		}
	}
	return append(vs,
		violation{name: "Write to what may only be read", rights: verbs.RemoteRead, work: func(by, _ *end, win, _ *verbs.Window, n int) verbs.Work {
			return write(win, 0, one(by, 10))
		}},
		violation{name: "Read of what may only be written", rights: verbs.RemoteWrite, work: func(by, _ *end, win, _ *verbs.Window, n int) verbs.Work {
			return read(win, 0, one(by, 10))
		}})
}()

var accessChecks = func() []check {
	var cs []check
	for _, v := range violations {
		cs = append(cs, check{name: v.name, run: v.try, needs: func(c verbs.Caps, _ *Options) string {
			switch {
			case v.guess && c.Keys != verbs.KeysRandom:
				return "Caps: KeysDevice"
			case c.MaxReads == 0:
				return "Caps: the provider has no RDMA Read"
			}
			return ""
		}})
	}
	return append(cs, check{name: "an exposure ends with its connection, for every other connection too", run: func(w *world) {
		domA, domB := w.open(), w.open()
		l := w.listen(domB)
		a, b := w.connect(link{domA: domA, domB: domB, listener: l})
		c, d := w.connect(link{domA: domA, domB: domB, listener: l})
		w.meet(a, b)
		w.meet(c, d)
		r := w.alloc(domB, 4096)
		win := b.expose(r, 0, 4096, verbs.RemoteWrite)
		a.conn.Close()
		b.disconnected()
		c.post(write(win, 0, c.mem([]byte("from another"))))
		c.conn.Flush()
		w.refusedAccess(c, d)
		w.same("the memory", r.Bytes(), make([]byte, 4096))
	}})
}()

func (v violation) try(w *world) {
	domA, domB := w.open(), w.open()
	l := w.listen(domB)
	a, b := w.connect(link{domA: domA, domB: domB, listener: l})
	c, d := w.connect(link{domA: domA, domB: domB, listener: l})
	w.meet(a, b)
	w.meet(c, d)

	// The window lies in the middle of its region: what is around it must not change either.
	const n = victimSize
	r := w.alloc(domB, 3*n)
	copy(r.Bytes(), pattern(9, 3*n))
	win, foreign := b.expose(r, n, n, v.rights), d.expose(r, n, n, v.rights)

	work := v.work(a, b, win, foreign, n)
	sink := bytes.Clone(work.Segs[0].Bytes())
	id := a.post(work)[0]
	a.conn.Flush()
	s := a.status(id)
	w.refusedAccess(a, b)
	switch {
	case s == verbs.RemoteAccess:
	case work.Op == verbs.OpWrite && (s == verbs.OK || s == verbs.Flushed):
	default:
		w.Errorf("the work completed: %v, want %v", s, verbs.RemoteAccess)
	}
	around := pattern(9, 3*n)
	w.same("the memory before the window", r.Bytes()[:n], around[:n])
	w.same("the memory behind the window", r.Bytes()[2*n:], around[2*n:])
	if work.Op == verbs.OpRead {
		w.same("the sink", work.Segs[0].Bytes(), sink)
	}
	w.ping(c, d) // none but its own connection
	c.do(write(foreignFor(v, foreign, d, r), 0, c.mem([]byte("alive"))))
}

// foreignFor is a window of the surviving connection that may be written.
func foreignFor(v violation, foreign *verbs.Window, d *end, r verbs.Region) *verbs.Window {
	if v.rights&verbs.RemoteWrite != 0 {
		return foreign
	}
	return d.expose(r, 0, 100, verbs.RemoteWrite)
}
