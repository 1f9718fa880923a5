package rpc

import (
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
)

// WithServerInterceptor wraps handlers; the first given is the outermost. Inline methods
// included: it must keep their promise.
func WithServerInterceptor(i ServerInterceptor) ServerOption {
	return serverOption(func(o *serverOptions) error {
		if i == nil {
			return isNil("WithServerInterceptor", "an interceptor")
		}
		o.servers = append(o.servers, i)
		return nil
	})
}

// WithWorkers bounds the goroutines that run handlers, to 1 or more. One connection gets a quarter of them, one
// address as many as it leaves free: slow calls of one do not keep others waiting. Below 8 a connection is served one
// call at a time, so no handler may wait for another call of the same connection. Default 256.
func WithWorkers(n int) ServerOption {
	return serverOption(func(o *serverOptions) error {
		o.workers = n
		return atLeast("WithWorkers", n, 1)
	})
}

// WithAuthFlavor lets a take the calls of its flavor: it identifies callers (Request.Identity), refuses calls, and
// unwraps arguments and wraps results. Without one, AUTH_NONE and AUTH_SYS are left to the procedures, and calls of other
// flavors are refused with AUTH_REJECTEDCRED; rpcmsg.PlainServer lets a flavor through as it is.
func WithAuthFlavor(a rpcmsg.ServerAuth) ServerOption {
	return serverOption(func(o *serverOptions) error {
		if a == nil {
			return isNil("WithAuthFlavor", "an authentication mechanism")
		}
		if o.flavors == nil {
			o.flavors = make(map[rpcmsg.Flavor]rpcmsg.ServerAuth)
		}
		o.flavors[a.Flavor()] = a
		return nil
	})
}

// WithReplyCache sets up the duplicate request cache: see ReplyCache for its defaults.
func WithReplyCache(c ReplyCache) ServerOption {
	return serverOption(func(o *serverOptions) error {
		o.replies = c
		if c.Bytes < 0 || c.Largest < 0 || c.Age < 0 {
			return &OptionError{Option: "WithReplyCache", Value: fmt.Sprintf("%+v", c), Want: "no negative Bytes, Largest or Age; 0 is the default"}
		}
		return nil
	})
}
