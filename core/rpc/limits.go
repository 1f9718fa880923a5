package rpc

import "time"

// Options that bound what peers can make a process hold, and for how long.

// WithBacklog bounds connections that are being set up, to 1 or more in all; one address may have as many as it leaves
// free. Default 256.
func WithBacklog(n int) ListenOption {
	return listenOption(func(o *listenOptions) error {
		o.backlog = n
		return atLeast("WithBacklog", n, 1)
	})
}

// WithConnectionLimit bounds a listener's connections, to 1 or more. Default 1024.
func WithConnectionLimit(n int) ListenOption {
	return listenOption(func(o *listenOptions) error {
		o.connsMax = n
		return atLeast("WithConnectionLimit", n, 1)
	})
}

// WithConnectionsPerAddress bounds a listener's connections from one address: an IPv4 address, or the
// /64 network of an IPv6 address. Default 0: an address may have as many as it leaves
// free, so that one alone takes half of WithConnectionLimit and there is always room for another.
func WithConnectionsPerAddress(n int) ListenOption {
	return listenOption(func(o *listenOptions) error {
		o.connsPeer = n
		return atLeast("WithConnectionsPerAddress", n, 0)
	})
}

// WithIdleTimeout ends connections that have carried no call for d, never while one is being served or
// awaited; negative: never. Callers do not notice: the next call connects
// again, and one that crosses the end has not been executed and is sent again. Default 6 minutes at
// listeners, 5 at clients.
func WithIdleTimeout(d time.Duration) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.IdleTimeout = d
		return orNever("WithIdleTimeout", d)
	})
}

// WithStallTimeout ends connections whose peer stays but does not take what is sent to it, or does not answer
// RDMA Reads: nothing of it has moved for d, and a second more per 64 KiB of the largest transfer, or a frame of its has
// begun to come and not ended; negative: never. Default 60 s.
func WithStallTimeout(d time.Duration) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.StallTimeout = d
		return orNever("WithStallTimeout", d)
	})
}

// WithKeepAlive detects a server that is connected but mute: when calls wait and nothing has come
// from it for d, a NULL call is sent, and when nothing comes for another d the connection ends and the calls are sent
// again on a new one; negative: never. Not on tcp://. Default 20 s.
func WithKeepAlive(d time.Duration) ClientOption {
	return clientOption(func(o *clientOptions) error {
		o.engine.KeepAlive = d
		return orNever("WithKeepAlive", d)
	})
}
