package faults

import (
	"slices"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// letter is a completion on its way up.
type letter struct {
	c      verbs.Completion
	due    time.Time
	number uint64 // in the order of arrival
}

// The streams that stay in order. One may overtake another if the plan says Reorder.
const (
	streamRecv = iota
	streamWork
	streamRead
)

func (c *conn) stream(op verbs.Op) int {
	switch {
	case !c.dom.p.plan.Reorder:
		return streamRecv
	case op == verbs.OpRecv:
		return streamRecv
	case op == verbs.OpRead:
		return streamRead
	}
	return streamWork
}

// inbox is conn as the provider's Handler.
type inbox conn

func (b *inbox) Complete(cs []verbs.Completion) {
	c := (*conn)(b)
	c.start()
	cut := false
	c.mu.Lock()
	for i := range cs {
		if cs[i].Op != verbs.OpRecv {
			c.below--
		} else if cs[i].Status == verbs.OK && c.dice.once(c.dom.p.plan.CutEvery) {
			cut = true
		}
		c.enqueue(letter{c: cs[i]})
	}
	c.mu.Unlock()
	poke(c.courierWake)
	poke(c.driverWake)
	if cut {
		c.cut()
	}
}

func (b *inbox) Disconnected(err error) {
	c := (*conn)(b)
	c.start()
	c.mu.Lock()
	c.gone, c.cause = true, err
	if c.fail != nil {
		c.reportFailure()
		c.cause = c.fail.cause
	}
	c.mu.Unlock()
	poke(c.courierWake)
	poke(c.driverWake)
}

// enqueue gives l its time. mu is held.
func (c *conn) enqueue(l letter) {
	late := c.dice.upTo(c.dom.p.plan.Late)
	if late > 0 {
		c.dom.p.tally.late.Add(1)
	}
	s := c.stream(l.c.Op)
	l.due = time.Now().Add(late)
	if l.due.Before(c.last[s]) {
		l.due = c.last[s]
	}
	c.last[s] = l.due
	c.arrived++
	l.number = c.arrived
	c.streams[s] = append(c.streams[s], l)
}

// reportFailure says that the picked work failed and those behind it are flushed. mu is held.
func (c *conn) reportFailure() {
	if !c.fail.reported {
		c.fail.reported = true
		c.enqueue(c.fail.letter)
	}
	for _, l := range c.held {
		c.enqueue(l)
	}
	c.held = nil
}

// next is the stream whose head is due first; -1: all are empty. mu is held.
func (c *conn) next() int {
	s := -1
	for i := range c.streams {
		if len(c.streams[i]) > 0 && (s < 0 || c.streams[i][0].due.Before(c.streams[s][0].due)) {
			s = i
		}
	}
	return s
}

// deliver reports what is due, a few at a time. mu is held, and released meanwhile.
func (c *conn) deliver() bool {
	if c.completing {
		return false
	}
	now, most := time.Now(), 1+c.dice.below(16)
	for len(c.batch) < most {
		s := c.next()
		if s < 0 || !c.gone && c.streams[s][0].due.After(now) {
			break
		}
		l := c.streams[s][0]
		c.streams[s] = slices.Delete(c.streams[s], 0, 1)
		if l.number < c.read {
			c.dom.p.tally.overtaken.Add(1)
		}
		c.read = max(c.read, l.number)
		if l.c.Op != verbs.OpRecv {
			c.posted--
		}
		c.batch = append(c.batch, l.c)
	}
	if len(c.batch) == 0 {
		return false
	}
	c.completing = true
	c.mu.Unlock()
	c.handler.Complete(c.batch)
	c.mu.Lock()
	clear(c.batch)
	c.batch = c.batch[:0]
	c.completing = false
	poke(c.courierWake)
	poke(c.driverWake)
	return true
}

// over says that nothing is left to report. mu is held.
func (c *conn) over() bool { return c.gone && c.next() < 0 }

// carry is the courier: it delivers when nobody drives, does what is due, and says good-bye.
func (c *conn) carry() {
	defer c.dom.couriers.Done()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	c.mu.Lock()
	for !c.over() || c.completing || c.driving {
		c.chores()
		if !c.driving && c.deliver() {
			continue
		}
		c.sleep(alarm, c.courierWake, true)
	}
	cause, unborn := c.cause, c.unborn
	c.mu.Unlock()
	p := c.dom.p
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	if !unborn {
		c.handler.Disconnected(cause)
	}
}

// chores are the Flush that was held back, the cut that is due, and the end that a failed
// work brings once those before it are done. mu is held, and released meanwhile.
func (c *conn) chores() {
	if c.gone {
		return
	}
	now := time.Now()
	if !c.flushDue.IsZero() && !c.flushDue.After(now) {
		c.flushDue = time.Time{}
		c.mu.Unlock()
		c.inner.Flush()
		c.mu.Lock()
	}
	if !c.cutDue.IsZero() && !c.cutDue.After(now) {
		c.cutDue = time.Time{}
		c.mu.Unlock()
		c.cut()
		c.mu.Lock()
	}
	if f := c.fail; f != nil && !f.reported && c.below == 0 {
		f.reported = true
		c.enqueue(f.letter)
		c.mu.Unlock()
		c.inner.Abort(f.cause)
		c.mu.Lock()
	}
}

// sleep waits for a poke or for what is due next. mu is held, and released meanwhile.
func (c *conn) sleep(alarm *time.Timer, wake chan struct{}, chores bool) {
	var due time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (due.IsZero() || t.Before(due)) {
			due = t
		}
	}
	if s := c.next(); s >= 0 && !c.completing && (!chores || !c.driving) {
		sooner(c.streams[s][0].due)
	}
	if chores {
		sooner(c.flushDue)
		sooner(c.cutDue)
	}
	c.mu.Unlock()
	if due.IsZero() {
		<-wake
	} else {
		alarm.Reset(time.Until(due))
		select {
		case <-wake:
			alarm.Stop()
		case <-alarm.C:
		}
	}
	c.mu.Lock()
}

type driver struct{ c *conn }

// Drive delivers on this goroutine. The courier stands back meanwhile and returns at once after.
func (d driver) Drive(stop func() bool) bool {
	c := d.c
	c.start()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.driving {
		return false
	}
	c.driving, c.kicked = true, false
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	for {
		did := c.deliver()
		c.mu.Unlock()
		enough := stop()
		c.mu.Lock()
		if enough || c.kicked || c.over() {
			break
		}
		if !did {
			c.sleep(alarm, c.driverWake, false)
		}
	}
	c.driving = false
	poke(c.courierWake)
	return true
}

func (d driver) Kick() {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	d.c.kicked = true
	poke(d.c.driverWake)
}

func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
