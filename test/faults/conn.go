package faults

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// conn stands before a provider's connection. Works pass it on their way down, unless one is
// picked to fail: that one and those behind it stay here. Completions pass it on their
// way up, by the courier.
type conn struct {
	dom     *domain
	number  int
	dice    *dice
	inner   verbs.Conn
	face    verbs.Conn // what users get: c with the powers that inner has
	handler verbs.Handler

	driverWake, courierWake chan struct{}

	// post keeps the order of works: it is held over inner.Post, and never by a completion.
	post sync.Mutex

	mu      sync.Mutex
	posted  int // accepted and not reported: bounded by Caps.Queue
	below   int // accepted by inner and not completed by it
	fail    *failure
	held    []letter // behind the failed work
	streams [3][]letter
	last    [3]time.Time // when the latest letter of a stream is due
	arrived uint64
	read    uint64 // the number of the latest letter reported, to count overtaking
	batch   []verbs.Completion

	flushDue time.Time // zero: no Flush is held back
	cutDue   time.Time // zero: never
	gone     bool      // inner has said Disconnected
	cause    error

	started    bool // the courier runs
	unborn     bool // the set-up failed
	completing bool
	driving    bool
	kicked     bool
}

// failure is the work that was picked.
type failure struct {
	letter   letter
	cause    error
	reported bool
}

func (c *conn) wear(inner verbs.Conn) {
	plan := &c.dom.p.plan
	c.inner = inner
	_, drives := inner.(verbs.Driver)
	_, detaches := inner.(verbs.Detacher)
	drives, detaches = drives && !plan.NoDriver, detaches && !plan.NoDetach
	switch {
	case drives && detaches:
		c.face = struct {
			*conn
			driver
			detacher
		}{c, driver{c}, detacher{c}}
	case drives:
		c.face = struct {
			*conn
			driver
		}{c, driver{c}}
	case detaches:
		c.face = struct {
			*conn
			detacher
		}{c, detacher{c}}
	default:
		c.face = c
	}
}

// up starts what a connection that came up needs.
func (c *conn) up(inner verbs.Conn, err error) (verbs.Conn, error) {
	if err != nil {
		c.mu.Lock()
		c.gone, c.unborn = true, true // should the courier run it goes, without a word
		c.mu.Unlock()
		poke(c.courierWake)
		return nil, err
	}
	c.start()
	return c.face, nil
}

// start is called when the first completion comes, or when the set-up has returned.
func (c *conn) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		return
	}
	c.started = true
	p := c.dom.p
	p.tally.conns.Add(1)
	p.mu.Lock()
	p.conns[c] = struct{}{}
	p.mu.Unlock()
	if w := p.plan.CutWithin; w > 0 {
		c.cutDue = time.Now().Add(time.Duration(c.dice.below(int(w)) + 1))
	}
	c.dom.couriers.Add(1)
	go c.carry()
}

func (c *conn) cut() {
	c.dom.p.tally.cuts.Add(1)
	c.inner.Abort(ErrCut)
}

// verdict is asked with post held.
func (c *conn) verdict(w *verbs.Work) Verdict {
	plan := &c.dom.p.plan
	switch {
	case plan.Judge != nil:
		return plan.Judge(c.number, w)
	case c.dice.once(plan.FailEvery):
		return Fail
	case c.dice.once(plan.CutEvery):
		return Cut
	}
	return Pass
}

func (c *conn) Post(ws []verbs.Work) (int, error) {
	c.post.Lock()
	defer c.post.Unlock()
	total := 0
	for total < len(ws) {
		c.mu.Lock()
		room := c.Caps().Queue - c.posted
		failing := c.fail != nil && !c.gone
		if room <= 0 || failing {
			if failing { // never reaches the fabric; reported after the failed work
				for total < len(ws) && room > 0 {
					c.held = append(c.held, letter{c: verbs.Completion{ID: ws[total].ID, Op: ws[total].Op, Status: verbs.Flushed}})
					c.posted++
					room--
					total++
				}
			}
			c.mu.Unlock()
			return total, nil
		}
		c.mu.Unlock()

		// As many as pass, then the one that does not.
		n, v := 0, Pass
		for v == Pass && n < min(room, len(ws)-total) {
			if v = c.verdict(&ws[total+n]); v != Fail && v != FailRA {
				n++
			}
		}
		c.mu.Lock()
		c.posted += n
		c.below += n
		c.mu.Unlock()
		k, err := c.inner.Post(ws[total : total+n])
		c.mu.Lock()
		c.posted -= n - k
		c.below -= n - k
		total += k
		if k < n || err != nil {
			c.mu.Unlock()
			return total, err
		}
		if v == Fail || v == FailRA {
			w := ws[total]
			w.Segs = nil
			if _, bad := c.inner.Post(ws[total:total]); bad != nil { // ended meanwhile
				c.mu.Unlock()
				return total, bad
			}
			c.posted++
			total++
			c.pick(&w, v)
		}
		c.mu.Unlock()
		if v == Cut {
			c.cut()
		}
	}
	return total, nil
}

// pick makes w the work that fails. mu is held.
func (c *conn) pick(w *verbs.Work, v Verdict) {
	c.dom.p.tally.fails.Add(1)
	status := []verbs.Status{verbs.LocalError, verbs.RemoteError, verbs.RemoteAccess}[c.dice.below(3)]
	if w.Op == verbs.OpInvalidate {
		status = verbs.LocalError
	}
	err := verbs.ErrProtocol
	if v == FailRA {
		status = verbs.RemoteAccess
	}
	if status == verbs.RemoteAccess {
		err = verbs.ErrRemoteAccess
	}
	cause := &verbs.TerminatedError{Remote: status != verbs.LocalError, Layer: "faults", Code: fmt.Sprintf("%v was picked to fail", w.Op), Err: err}
	c.fail = &failure{letter: letter{c: verbs.Completion{ID: w.ID, Op: w.Op, Status: status}}, cause: cause}
	poke(c.courierWake) // which ends the connection when what was before it is done
}

func (c *conn) Flush() {
	t := c.dice.upTo(c.dom.p.plan.LateFlush)
	if t == 0 {
		c.inner.Flush()
		return
	}
	c.dom.p.tally.lateFlushes.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := time.Now().Add(t); c.flushDue.IsZero() || at.Before(c.flushDue) {
		c.flushDue = at
	}
	poke(c.courierWake)
}

func (c *conn) Caps() verbs.Caps { return c.dom.p.caps(c.inner.Caps()) }

func (c *conn) Expose(w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
	return c.inner.Expose(w, r, off, n, a)
}
func (c *conn) PostRecv(rs []verbs.Recv) (int, error) { return c.inner.PostRecv(rs) }
func (c *conn) PeerPrivateData() []byte               { return c.inner.PeerPrivateData() }
func (c *conn) LocalAddr() netip.AddrPort             { return c.inner.LocalAddr() }
func (c *conn) RemoteAddr() netip.AddrPort            { return c.inner.RemoteAddr() }
func (c *conn) Stats(s *verbs.Stats)                  { c.inner.Stats(s) }
func (c *conn) Close() error                          { return c.inner.Close() }
func (c *conn) Abort(err error)                       { c.inner.Abort(err) }

type detacher struct{ c *conn }

func (d detacher) Detach(w *verbs.Window, spare []byte) bool {
	return d.c.inner.(verbs.Detacher).Detach(w, spare)
}
