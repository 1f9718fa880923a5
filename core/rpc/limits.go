package rpc

// Options that bound what peers can make a process hold, and for how long.

// WithBacklog bounds connections that are being set up, in all; one address may have as many as it leaves free (listeners). Default 256.
func WithBacklog(n int) Option { return func(o *options) { o.backlog = n } }

// WithConnectionLimit bounds a listener's connections (listeners). Default 1024.
func WithConnectionLimit(n int) Option { return func(o *options) { o.connsMax = max(n, 1) } }

// WithConnectionsPerAddress bounds a listener's connections from one address: an IPv4 address, or the
// /64 network of an IPv6 address (listeners). Default 0: an address may have as many as it leaves
// free, so that one alone takes half of WithConnectionLimit and there is always room for another.
func WithConnectionsPerAddress(n int) Option { return func(o *options) { o.connsPeer = max(n, 0) } }
