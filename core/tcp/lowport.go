package tcp

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
)

// The reserved ports that callers take, as other RPC libraries do: not those of well-known services.
const (
	firstReserved = 600
	lastReserved  = 1023
)

// reservedPort dials from a reserved port; from any where that is not allowed, or none is free.
func reservedPort(d net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		var local net.TCPAddr
		if a, ok := d.LocalAddr.(*net.TCPAddr); ok {
			local = *a
		}
		const n = lastReserved - firstReserved + 1
		for i, from := 0, rand.IntN(n); i < n; i++ {
			local.Port = firstReserved + (from+i)%n
			try := d
			try.LocalAddr = &local
			conn, err := try.DialContext(ctx, network, address)
			switch {
			case isAny(err, portTaken):
				continue // or it was in use towards this very server a moment ago
			case isAny(err, portDenied):
				return d.DialContext(ctx, network, address)
			}
			return conn, err
		}
		return d.DialContext(ctx, network, address)
	}
}

// isAny reports whether err is one of errs.
func isAny(err error, errs []error) bool {
	return slices.ContainsFunc(errs, func(e error) bool { return errors.Is(err, e) })
}
