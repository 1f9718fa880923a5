package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcbind"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// rpcbindWait is how long registering, and removing it again, may take.
const rpcbindWait = 5 * time.Second

// mappings are what rpcbind is to know of NFS and MOUNT, which every listener serves. It has room for one address
// of a program on each kind of network: the first listener's.
func mappings(listeners []*rpc.Listener) (all []rpcbind.Mapping) {
	for _, l := range listeners {
		if strings.HasPrefix(l.URL(), "loopback:") {
			continue
		}
		rdma := !strings.HasPrefix(l.URL(), "tcp:")
		for _, a := range familiesOf(l.Addr()) {
			netid := rpcbind.NetidFor(a.Addr(), rdma)
			if slices.ContainsFunc(all, func(m rpcbind.Mapping) bool { return m.Netid == netid }) {
				continue
			}
			for _, p := range [][2]uint32{{nfs3.Program, nfs3.Version}, {mount3.Program, mount3.Version}} {
				all = append(all, rpcbind.Mapping{Program: p[0], Version: p[1], Netid: netid, Addr: rpcbind.UniversalAddr(a)})
			}
		}
	}
	return all
}

// familiesOf are the addresses that a bound one stands for: [::] is IPv4, too.
func familiesOf(a netip.AddrPort) []netip.AddrPort {
	if a.Addr() != netip.IPv6Unspecified() {
		return []netip.AddrPort{a}
	}
	return []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port()), a}
}

// register tells this machine's rpcbind where listeners serve. unregister takes it back.
func register(ctx context.Context, listeners []*rpc.Listener) (unregister func() error, err error) {
	dial, cancel := context.WithTimeout(ctx, rpcbindWait)
	defer cancel()
	r, err := rpcbind.Register(dial, rpcbind.Socket, mappings(listeners))
	var taken *rpcbind.TakenError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, errInterrupted
	case errors.As(err, &taken):
		return nil, fmt.Errorf("--rpcbind: %w, or serve without --rpcbind: the mount command printed needs none", err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("--rpcbind: no rpcbind answers at %s: start it (Debian: apt-get install rpcbind), or serve without --rpcbind: the mount command printed needs none", rpcbind.Socket)
	default:
		return nil, fmt.Errorf("--rpcbind: %w", err)
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rpcbindWait)
		defer cancel()
		if err := r.Unregister(ctx); err != nil {
			return fmt.Errorf("what is registered with rpcbind stays there: %w", err)
		}
		return nil
	}, nil
}

// lookup asks the rpcbind of t's host where a program is on t's kind of network, and puts that port into t.
func lookup(ctx context.Context, t rpc.Target, program, version uint32) (rpc.Target, error) {
	host, _, err := net.SplitHostPort(t.Address)
	if err != nil {
		return t, err
	}
	c, err := rpcbind.DialTCP(ctx, host)
	at := net.JoinHostPort(host, strconv.Itoa(rpcbind.Port))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, context.DeadlineExceeded):
		return t, fmt.Errorf("no rpcbind answers at %s", at)
	case err != nil:
		return t, advise(rpc.Target{Scheme: "rpcbind", Address: at}, err)
	}
	defer c.Close()
	a, err := c.Lookup(ctx, program, version, rpcbind.NetidFor(c.Host(), t.Scheme != "tcp"))
	if err == nil {
		t.Address = net.JoinHostPort(host, strconv.Itoa(int(a.Port())))
		return t, nil
	}
	if errors.Is(err, rpcbind.ErrNotRegistered) {
		return t, fmt.Errorf("the rpcbind of %s: %w", host, err)
	}
	return t, fmt.Errorf("the rpcbind of %s: %w", host, err)
}
