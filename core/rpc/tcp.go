package rpc

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/rpcrdma/rpcrdma/core/tcp"
	"github.com/rpcrdma/rpcrdma/core/transport"
)

// tcpConfig is what the options mean on tcp://.
func (o *connOptions) tcpConfig() tcp.Config {
	return tcp.Config{
		MaxRecord: o.tcpMax, Recorder: o.engine.Recorder,
		CallTimeout: o.engine.CallTimeout, IdleTimeout: o.engine.IdleTimeout, StallTimeout: o.engine.StallTimeout,
	}
}

func dialTCP(ctx context.Context, r *Route, o *connOptions, lowPort bool) (transport.Link, error) {
	cfg := o.tcpConfig()
	cfg.ReservedPort = lowPort
	if r.Local != "" {
		var err error
		if cfg.Local, err = netip.ParseAddr(r.Local); err != nil {
			return nil, fmt.Errorf("local address %q: want an IP address of this machine", r.Local)
		}
	}
	l, err := tcp.Dial(ctx, r.Address, cfg)
	if err != nil {
		return nil, err // a nil *Link must not become a Link
	}
	return l, nil
}

func listenTCP(ctx context.Context, r *Route, o *listenOptions, admit func(netip.Addr) bool) (transport.Listener, error) {
	cfg := o.tcpConfig()
	cfg.Admit = admit
	at := r.Address
	if host, port, err := net.SplitHostPort(at); err == nil && host == "" {
		at = net.JoinHostPort(r.Local, port)
	}
	l, err := tcp.Listen(ctx, at, cfg)
	if err != nil {
		return nil, err
	}
	return l, nil
}
