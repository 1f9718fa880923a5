package rpc

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/fair"
	"github.com/rpcrdma/rpcrdma/core/obs"
)

// DefaultConnectionLimit is WithConnectionLimit's where none is set.
const DefaultConnectionLimit = 1024

// WithAdmit refuses connections from addresses for which admit returns false, before anything is kept for them: on
// tcp:// and iwarp:// they are closed as soon as the kernel hands them over. Listener.Refused counts them. IPv4 addresses
// come in their own form; IPv6 addresses may have a zone. It is called by several goroutines, for every connection, and must not block.
// Default: all are admitted.
func WithAdmit(admit func(netip.Addr) bool) ListenOption {
	return listenOption(func(o *listenOptions) error {
		if o.admit = admit; admit == nil {
			return isNil("WithAdmit", "a function")
		}
		return nil
	})
}

// admission decides who may connect to a listener, and counts its connections, each from before its set-up to its end.
type admission struct {
	admit    func(netip.Addr) bool // nil: all
	refused  atomic.Uint64
	recorder obs.Recorder // of the listener's connections; nil: none

	mu    sync.Mutex
	quota fair.Quota
}

// door is what the fabric asks: nil admits all.
func (a *admission) door() func(netip.Addr) bool {
	if a.admit == nil {
		return nil
	}
	return func(peer netip.Addr) bool {
		ok := a.admit(peer)
		if !ok {
			a.refused.Add(1)
			a.turnedAway(obs.RefusedPolicy)
		}
		return ok
	}
}

// enter counts a connection of peer in, or reports why there is no place for it.
func (a *admission) enter(peer netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.quota.Take(peer, 1) {
		return nil
	}
	a.refused.Add(1)
	a.turnedAway(obs.RefusedLimit)
	return fmt.Errorf("too many connections: %d of %d are up, %d of them from there", a.quota.Used(), a.quota.Limit, a.quota.Held(peer))
}

func (a *admission) leave(peer netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.quota.Give(peer, 1)
}

// complaints is a log that strangers cannot flood: a burst of lines, then one every few seconds, which
// tells how many it stands for.
type complaints struct {
	log *slog.Logger

	mu     sync.Mutex
	tokens int
	filled time.Time
	silent int
}

const (
	complaintBurst = 20
	complaintEvery = 5 * time.Second
)

// warn logs what a peer has brought about.
func (c *complaints) warn(msg string, args ...any) {
	silent, ok := c.allow(time.Now())
	if !ok {
		return
	}
	if silent > 0 {
		args = append(args, "suppressed", silent)
	}
	c.log.Warn(msg, args...)
}

// allow tells whether a line may be logged, and how many were not since the last one.
func (c *complaints) allow(now time.Time) (silent int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := int(now.Sub(c.filled) / complaintEvery); n > 0 {
		c.tokens = min(c.tokens+n, complaintBurst)
		if c.filled = c.filled.Add(time.Duration(n) * complaintEvery); c.tokens == complaintBurst {
			c.filled = now
		}
	}
	if c.tokens == 0 {
		c.silent++
		return 0, false
	}
	c.tokens--
	silent, c.silent = c.silent, 0
	return silent, true
}
