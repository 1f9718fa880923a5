package tcp

import (
	"net/netip"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/watch"
)

// Config is what connections are to do. The zero value of a field is its default.
type Config struct {
	Local        netip.Addr // to dial from; default: as the system chooses
	ReservedPort bool       // dial from a port below 1024, where the process may
	// MaxRecord is the bytes of one RPC message. Default 8 MiB.
	MaxRecord int
	// Admit, if not nil, is called for every connection that comes, with an address without its IPv4-in-IPv6 form: one
	// for which it returns false is reset. It must not block.
	Admit func(netip.Addr) bool
	// CallTimeout ends a call whose context has no deadline. Default 60 s.
	CallTimeout time.Duration
	// IdleTimeout ends a connection that has carried no call for so long; never while one is being served or awaited.
	// Negative: never. Default 6 minutes where we accepted it, 5 where we dialled.
	IdleTimeout time.Duration
	// StallTimeout ends a connection on which a record that has begun is not whole after so long, and a second more
	// per 64 KiB of MaxRecord. Negative: never. Default 60 s.
	StallTimeout time.Duration
	// Recorder, if not nil, takes the events of the connections.
	Recorder obs.Recorder
}

// DefaultMaxRecord is Config.MaxRecord where none is set.
const DefaultMaxRecord = 8 << 20

func (c Config) withDefaults(idle time.Duration) Config {
	if c.MaxRecord == 0 {
		c.MaxRecord = DefaultMaxRecord
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = transport.DefaultCallTimeout
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = idle
	}
	if c.StallTimeout == 0 {
		c.StallTimeout = watch.DefaultStall
	}
	return c
}
