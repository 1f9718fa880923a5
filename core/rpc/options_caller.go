package rpc

import (
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
)

// WithConnections spreads calls over n connections to the server, 1 to 65536. Default 1.
func WithConnections(n int) ClientOption {
	return clientOption(func(o *clientOptions) error {
		o.conns = n
		return between("WithConnections", n, 1, 1<<16)
	})
}

// WithRetransmits bounds how often a call is sent again after its connection was lost, on a new one
// and with the same XID, attempts to connect included. Default 5; negative: never. Between two of them the
// call waits, 20 ms at first and 2 s at most, a random half of it; its caller's goroutine is all that is queued, and
// its context ends the wait. A call that finds no connection at its start is not tried again.
// Connections lost in a row end a call too: see WithLossLimit.
func WithRetransmits(n int) CallerOption {
	return callerOption(func(o *callerOptions) error {
		o.retries = n
		return nil
	})
}

// WithLossLimit ends a call with a *GaveUpError when n connections in a row, 1 or more, were lost while they carried it:
// the call may be what ends them. From the third on it is sent while no other such call is. Default 5.
func WithLossLimit(n int) ClientOption {
	return clientOption(func(o *clientOptions) error {
		o.losses = n
		return atLeast("WithLossLimit", n, 1)
	})
}

// WithAuth sets the authentication of calls. Default AUTH_NONE. A mechanism that wraps keeps bulk data
// from being moved by itself: the call goes inline, or as a whole (RFC 8166 §6.1).
func WithAuth(a rpcmsg.ClientAuth) CallerOption {
	return callerOption(func(o *callerOptions) error {
		o.auth = a
		if a == nil {
			return isNil("WithAuth", "an authentication mechanism; without the option it is AUTH_NONE")
		}
		return nil
	})
}

// WithAuthSys sends AUTH_SYS credentials.
func WithAuthSys(s rpcmsg.Sys) CallerOption {
	return callerOption(func(o *callerOptions) error {
		a, err := rpcmsg.NewSys(&s)
		if err != nil {
			return &OptionError{Option: "WithAuthSys", Want: err.Error(), Err: err}
		}
		o.auth = a
		return nil
	})
}

// WithInterceptor wraps calls; the first given is the outermost.
func WithInterceptor(i ClientInterceptor) CallerOption {
	return callerOption(func(o *callerOptions) error {
		if i == nil {
			return isNil("WithInterceptor", "an interceptor")
		}
		o.intercs = append(o.intercs, i)
		return nil
	})
}

// WithReservedPort calls from a port below 1024 on tcp://, where the process may: servers that
// trust AUTH_SYS require one (Linux's exports do, unless they are "insecure"). Without the privilege any
// port is used.
func WithReservedPort() ClientOption {
	return clientOption(func(o *clientOptions) error {
		o.lowPort = true
		return nil
	})
}
