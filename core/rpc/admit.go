package rpc

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/fair"
)

// DefaultConnectionLimit is WithConnectionLimit's where none is set.
const DefaultConnectionLimit = 1024

// admission counts a listener's connections, each from before its set-up to its end.
type admission struct {
	mu    sync.Mutex
	quota fair.Quota
}

// enter admits a connection of peer, or tells why not.
func (a *admission) enter(peer netip.Addr) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.quota.Take(peer, 1) {
		return nil
	}
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
