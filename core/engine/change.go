package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// defaultSize is the bytes of a Send in version 2 that nobody has said anything else of (v2 draft §2.3).
const defaultSize = 4096

var (
	// errShrunk: the peer takes shorter Sends than when this one was planned.
	errShrunk = errors.New("the limit on Sends was lowered")
	// errNoRoom: there is no memory for a long Send.
	errNoRoom = errors.New("send buffer")
	errEnded  = errors.New("the connection has ended")
)

// sizes are the bytes of Sends in version 2, header included. They are read without a lock.
type sizes struct {
	send atomic.Int32 // to the peer at most; changed with Conn.mu held: who finds it kept then may post

	mu   sync.Mutex   // for changing what follows
	recv atomic.Int32 // of our receives, as far as it may be announced
	// seen is the longest that the peer has sent, or the default: that it does send so long is known by this
	// only. It may not have heard yet what was announced to it, or keep to less; and a reply for which neither place
	// was offered nor inline room is left cannot be sent at all.
	seen atomic.Int32
}

func (s *sizes) init(inline int) {
	s.send.Store(int32(min(defaultSize, inline)))
	s.recv.Store(int32(inline))
	s.seen.Store(int32(min(defaultSize, inline)))
}

// thresholds are those of Conn.thresholds.
func (s *sizes) thresholds() (send, recv int) {
	return int(s.send.Load()), int(min(s.seen.Load(), s.recv.Load()))
}

// longer tells whether a message of n bytes is longer than any before.
func (s *sizes) longer(n int) bool { return n > int(s.seen.Load()) }

// came notes a message of n bytes, which proves that the peer sends so long.
func (s *sizes) came(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.Store(max(s.seen.Load(), min(int32(n), s.recv.Load())))
}

// receive changes the receive size.
func (s *sizes) receive(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recv.Store(int32(n))
	s.seen.Store(min(s.seen.Load(), int32(n)))
}

// recvMost is how long extensions may have receives grow.
func (c *Conn) recvMost() int {
	s := &c.ep.shared
	if s.fixed {
		return s.base
	}
	return max(min(s.most, c.caps.MaxMessage), s.base)
}

// request carries out what extension number of asks for. done, once: nil when it is in force, else a
// *ext.RequestError. It is called here or later, from any goroutine, without mu held, and must not block.
func (c *Conn) request(of int, r ext.Request, done func(error)) {
	err, later := c.change(of, r, done)
	switch {
	case err != nil:
		done(&ext.RequestError{Request: r, Why: err.Error()})
	case !later:
		done(nil)
	}
}

func (c *Conn) change(of int, r ext.Request, done func(error)) (err error, later bool) {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	down, version := c.down, c.stands()
	c.mu.Unlock()
	switch {
	case down:
		return errEnded, false
	case version != wire.Version2:
		return errors.New("version 2 does not stand"), false
	}
	switch r := r.(type) {
	case ext.SendLimit:
		return c.setSendLimit(int(r)), false
	case ext.ReceiveSize:
		return c.setReceiveSize(r, done)
	case ext.BackwardLevel:
		if r > ext.BackwardGeneral {
			return errors.New("want 0, none; 1, inline; or 2, general (v2 draft §5.2.2)"), false
		}
		return c.SetBackward(transport.BackwardNone + transport.BackwardLevel(r)), false
	case ext.Invalidation:
		return c.setInvalidation(bool(r)), false
	case ext.CreditAlgorithm:
		return c.setCredits(r), false
	case ext.ExtraReceives:
		return c.setExtra(of, int(r)), false
	case ext.Silence:
		return c.ext.awaitSilence(of, r, done)
	case ext.GrantChange:
		return c.ext.awaitGrant(of, done)
	}
	return errors.New("the engine knows no such request"), false
}

// setSendLimit counts for what is posted from now on. Calls and replies that are planned and do not keep to it are
// planned anew.
func (c *Conn) setSendLimit(n int) error {
	most := min(MaxSend, c.caps.MaxMessage)
	if n < ProbeSize || n > most {
		return fmt.Errorf("want %d to %d", ProbeSize, most)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sizes.send.Store(int32(n))
	return nil
}

// setReceiveSize: later means that done is called when the last shorter receive has been consumed (D-22).
func (c *Conn) setReceiveSize(size ext.ReceiveSize, done func(error)) (err error, later bool) {
	n, most := int(size), c.recvMost()
	switch {
	case n < defaultSize:
		return fmt.Errorf("want %d at least, which version 2 promises (v2 draft §2.3)", defaultSize), false
	case n > most && c.ep.shared.fixed:
		return fmt.Errorf("the device's receives cannot be replaced: %d is the most, and a longer Inline of the endpoint gives more from the start", most), false
	case n > most:
		return fmt.Errorf("want %d at most (EndpointConfig.MaxInline, rpc.WithMaxInline)", most), false
	}
	if c.ep.recv != nil { // drawn when a message begins to arrive: the next one is long enough
		if n > max(c.grown, c.ep.shared.base) {
			if err := c.ep.shared.grow(c.grown, n); err != nil {
				return err, false
			}
			c.grown = n
		}
		c.sizes.receive(n)
		return nil, false
	}
	old, now, err := c.in.own.grow(c.ep, &raise{size: n, sizes: &c.sizes, done: done})
	if old != nil {
		old.fail("another size was asked for meanwhile")
	}
	return err, err == nil && !now
}

func (r *raise) fail(why string) {
	r.done(&ext.RequestError{Request: ext.ReceiveSize(r.size), Why: why})
}

// endRaise is called when the connection has ended.
func (c *Conn) endRaise() {
	if r := c.in.own.cancel(); r != nil {
		r.fail(errEnded.Error())
	}
}

// setInvalidation counts for calls planned from now on. The peer may still answer those before as they asked.
func (c *Conn) setInvalidation(on bool) error {
	if on && !c.caps.RemoteInvalidate {
		return errors.New("the device cannot have its memory invalidated by the peer")
	}
	c.uninvited.Store(!on)
	return nil
}

// invites tells whether our calls name memory for the peer to invalidate, in version 2.
func (c *Conn) invites() bool { return c.caps.RemoteInvalidate && !c.uninvited.Load() }

func (c *Conn) setCredits(a ext.CreditAlgorithm) error {
	if a > ext.CreditsSplit {
		return errors.New("want 0, plain; or 1, split")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rule.set(a == ext.CreditsSplit, c.client)
	return nil
}

// maxExtra is the most receives that one extension may ask for.
const maxExtra = 1024

// setExtra has n receives for extension number of, instead of those that the extension asked for before.
func (c *Conn) setExtra(of, n int) error {
	if n < 0 || n > maxExtra {
		return fmt.Errorf("want 0 to %d", maxExtra)
	}
	more := n - c.extra[of]
	if c.extra == nil {
		c.extra = make(map[int]int)
	}
	shared := c.ep.recv != nil
	if more > 0 {
		var err error
		if shared {
			err = c.ep.shared.reserve(more)
		} else {
			err = c.in.own.add(c.ep, c.vc, more)
		}
		if err != nil {
			return fmt.Errorf("%w: the endpoint needs more Receives, or its connections fewer credits", err)
		}
	}
	c.reserved += more
	c.extra[of] = n
	switch {
	case more >= 0:
	case shared:
		c.ep.shared.unreserve(-more)
	default:
		c.in.own.giveUp(-more)
	}
	return nil
}
