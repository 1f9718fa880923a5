package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/watch"
)

// limitFlags bound what clients can make a server hold (docs/limits.md).
type limitFlags struct {
	conns, perAddr int
	idle           time.Duration
}

func (f *limitFlags) addLimits(flags *pflag.FlagSet) {
	f.addLimitsOf(flags, rpc.DefaultConnectionLimit, "as many as it leaves free")
}

// addLimitsOf has so many connections by default, and says what 0 from one address stands for.
func (f *limitFlags) addLimitsOf(flags *pflag.FlagSet, conns int, perAddr string) {
	flags.IntVar(&f.conns, "max-conns", conns, "most connections on each address it listens on")
	flags.IntVar(&f.perAddr, "max-conns-per-addr", 0, "most of them from one client address (default: "+perAddr+")")
	flags.DurationVar(&f.idle, "idle-timeout", watch.DefaultServerIdle, "end connections that carry no call for so long; 0 for never")
}

// limits are the options that the flags stand for.
func (f *limitFlags) limits() ([]rpc.ListenOption, error) {
	switch {
	case f.conns < 1:
		return nil, usagef("--max-conns %d: want 1 at least", f.conns)
	case f.perAddr < 0:
		return nil, usagef("--max-conns-per-addr %d: want a number of connections, or 0 for as many as it leaves free", f.perAddr)
	case f.idle != 0 && f.idle < time.Second:
		return nil, usagef("--idle-timeout %v: want a second at least, or 0 for never", f.idle)
	}
	idle := f.idle
	if idle == 0 {
		idle = -1
	}
	return []rpc.ListenOption{
		rpc.WithConnectionLimit(f.conns), rpc.WithConnectionsPerAddress(f.perAddr), rpc.WithIdleTimeout(idle),
	}, nil
}
