package loopback

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

type listener struct {
	qp.Backlog
	dom  *domain
	addr netip.AddrPort
}

func (d *domain) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, err := names.split(addr, d.from(netip.Addr{}))
	if err != nil {
		return nil, fmt.Errorf("loopback: listen %s: %w", addr, err)
	}
	l := &listener{dom: d}
	err = l.Init(&d.Domain, o, true, func() error { names.unbind(l); return nil })
	if err == nil {
		if err = names.bind(l, at); err != nil {
			l.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("loopback: listen %s: %w", addr, err)
	}
	return l, nil
}

func (l *listener) Addr() netip.AddrPort { return l.addr }
