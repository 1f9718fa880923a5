package qp

import (
	"sync/atomic"
	"time"
)

// residentAfter is how long nobody must have driven before the resident reader takes over.
const residentAfter = time.Millisecond

// Input is how a provider's connection is read, by one goroutine at a time: a caller that waits for
// its answer (Drive), or the resident reader (Read). Whoever reads may leave between any two calls of
// Receive, so what is under way lies in the connection.
type Input interface {
	Port
	// Receive waits for input, once, and reports what came of it. It returns at once after Interrupt.
	Receive()
	// Interrupt makes the present and each later Receive return, until Resume. Mu is held, as by Resume.
	Interrupt()
	Resume()
	// Bury is called by the resident reader as its last step: it gives up the fabric's resources, and
	// calls QP.Bury.
	Bury()
}

// Reader says who reads a connection. A provider's connection embeds it beside its QP, which makes it a
// verbs.Driver, and runs Read. While calls follow one another their callers read, and the resident
// reader only looks up once in a millisecond; when nobody has driven for so long it reads.
type Reader struct {
	life    *Life
	input   Input
	wake    chan struct{} // look again
	evicted chan struct{} // the resident reader has given up the role

	// Changed with Mu held, and read without it as well.
	driving  atomic.Bool // somebody is in Drive
	resident atomic.Bool // it is the resident reader's turn

	// Guarded by Mu.
	kicked  bool
	evict   bool // the leader waits for the resident reader to leave
	ticking bool // it measures how long nobody has driven
	deaf    bool
	poked   bool // Interrupt is in force
	drives  uint64
}

// Init makes r the reader of in's connection. resident says that the resident reader begins: nobody
// is going to drive soon.
func (r *Reader) Init(l *Life, in Input, resident bool) {
	r.life, r.input = l, in
	r.resident.Store(resident)
	r.wake, r.evicted = make(chan struct{}, 1), make(chan struct{}, 1)
}

// Resident reports whether nobody drives, nor did lately. It takes no lock.
func (r *Reader) Resident() bool { return r.resident.Load() }

// Reading reports whether a goroutine reads: it may wait in Receive. One that begins to read calls Receive first. It takes no lock.
func (r *Reader) Reading() bool { return r.driving.Load() || r.resident.Load() }

// Deafen says that no more input comes, though the connection has not ended. Mu is held.
func (r *Reader) Deafen() { r.deaf = true }

// Drive implements verbs.Driver.
func (r *Reader) Drive(stop func() bool) bool {
	l := r.life
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if r.driving.Load() || l.state == SetUp {
		return false
	}
	if l.state == Ended || r.deaf {
		return true
	}
	r.driving.Store(true)
	r.kicked = false
	r.drives++
	if r.resident.Load() {
		r.evict = true
		r.interrupt()
		l.Mu.Unlock()
		<-r.evicted
		l.Mu.Lock()
	}
	for l.state != Ended && !r.kicked && !r.deaf {
		l.Mu.Unlock()
		if stop() {
			l.Mu.Lock()
			break
		}
		r.input.Receive()
		l.Mu.Lock()
		r.resume()
	}
	r.resume()
	r.driving.Store(false)
	if l.state >= Closing || !r.ticking {
		r.ticking = true
		Poke(r.wake) // to bury the connection, or to begin its millisecond
	}
	return true
}

// Kick implements verbs.Driver. It does nothing where nobody drives.
func (r *Reader) Kick() {
	r.life.Mu.Lock()
	defer r.life.Mu.Unlock()
	if r.driving.Load() && !r.kicked {
		r.kicked = true
		r.interrupt()
	}
}

// Read is the resident reader, a goroutine of the connection's until it is buried.
func (r *Reader) Read() {
	tick := time.NewTimer(time.Hour)
	tick.Stop()
	l := r.life
	l.Mu.Lock()
	for {
		switch {
		case r.evict:
			r.evict = false
			r.resident.Store(false)
			r.resume()
			r.evicted <- struct{}{}
		case l.state == Ended:
			r.resident.Store(false)
			if !r.driving.Load() && l.holds == 0 {
				l.Mu.Unlock()
				r.input.Bury()
				return
			}
			r.sleep(nil)
		case r.driving.Load():
			r.ticking = false
			r.sleep(nil)
		case r.deaf:
			r.sleep(nil)
		case !r.resident.Load() && l.state != Closing:
			r.ticking = true
			seen := r.drives
			tick.Reset(residentAfter)
			if idle := r.sleep(tick.C); idle && !r.driving.Load() && r.drives == seen {
				r.ticking = false
				r.resident.Store(true)
				l.flying = 0
			}
			tick.Stop()
		default:
			r.ticking = false
			if !r.resident.Load() {
				r.resident.Store(true)
			}
			l.Mu.Unlock()
			r.input.Receive()
			l.Mu.Lock()
			r.resume()
		}
	}
}

// interrupt makes whoever reads look at the connection's state, once. Mu is held, as by resume.
func (r *Reader) interrupt() {
	r.poked = true
	r.input.Interrupt()
}

func (r *Reader) resume() {
	if r.poked && r.life.state != Ended {
		r.poked = false
		r.input.Resume()
	}
}

// sleep waits for a poke, or for tick: then it returns true. Mu is released meanwhile.
func (r *Reader) sleep(tick <-chan time.Time) bool {
	r.life.Mu.Unlock()
	defer r.life.Mu.Lock()
	select {
	case <-tick:
		return true
	case <-r.wake:
		return false
	}
}

// Idle implements Port.
func (r *Reader) Idle() { Poke(r.wake) }

// Wake makes the resident reader look at the connection's state. Mu is held.
func (r *Reader) Wake() { Poke(r.wake) }

func (r *Reader) stop() {
	r.interrupt()
	Poke(r.wake)
}

// look takes no lock where nobody drives: a driver that begins after the completion calls its stop before it waits.
func (r *Reader) look() {
	if !r.driving.Load() {
		return
	}
	r.life.Mu.Lock()
	if r.driving.Load() {
		r.interrupt()
	}
	r.life.Mu.Unlock()
}

// Poke wakes the goroutine that waits on wake, a channel with room for one.
func Poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
