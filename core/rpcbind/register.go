package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// TakenError: rpcbind has another address for a program, and something listens there.
type TakenError struct{ Mapping Mapping }

func (e *TakenError) Error() string {
	return fmt.Sprintf("rpcbind has %v already, and something listens there: end it", e.Mapping)
}

// RefusedError: rpcbind does not take a registration.
type RefusedError struct{ Mapping Mapping }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("rpcbind refuses %v: it changes what others registered for root only", e.Mapping)
}

// Registration is what Register has registered.
type Registration struct {
	path string
	ours []Mapping
}

// Register registers mappings with the rpcbind of this machine at path (Socket), all or none. One of a server that was
// killed, whose port nobody listens on, is replaced; one of a server that is there is a *TakenError.
func Register(ctx context.Context, path string, want []Mapping) (*Registration, error) {
	c, err := DialLocal(ctx, path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r := &Registration{path: path}
	for _, m := range want {
		if err := c.put(ctx, m); err != nil {
			r.remove(context.WithoutCancel(ctx), c)
			return nil, err
		}
		r.ours = append(r.ours, m)
	}
	return r, nil
}

// put registers one mapping.
func (c *Client) put(ctx context.Context, m Mapping) error {
	// A SET of what is there already succeeds; of another address it does not.
	ok, err := c.Set(ctx, m)
	if ok || err != nil {
		return err
	}
	all, err := c.Dump(ctx)
	if err != nil {
		return err
	}
	for _, old := range all {
		if old.same(m) && old.Addr != m.Addr && alive(ctx, old.Addr) {
			return &TakenError{old}
		}
	}
	if _, err := c.Unset(ctx, m); err != nil {
		return err
	}
	if ok, err = c.Set(ctx, m); !ok && err == nil {
		err = &RefusedError{m}
	}
	return err
}

// same tells whether rpcbind can have but one of the two.
func (m Mapping) same(o Mapping) bool {
	return m.Program == o.Program && m.Version == o.Version && m.Netid == o.Netid
}

// alive tells whether something listens at a universal address by TCP, as iWARP and plain RPC do. What it cannot
// tell counts as alive.
func alive(ctx context.Context, universal string) bool {
	a, err := ParseUniversalAddr(universal)
	if err != nil {
		return true
	}
	if a.Addr().IsUnspecified() {
		loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if a.Addr().Is6() {
			loopback = netip.IPv6Loopback()
		}
		a = netip.AddrPortFrom(loopback, a.Port())
	}
	d := net.Dialer{Timeout: 2 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", a.String())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// Unregister removes what is still as it was registered: another server may have taken its place.
func (r *Registration) Unregister(ctx context.Context) error {
	c, err := DialLocal(ctx, r.path)
	if err != nil {
		return err
	}
	defer c.Close()
	return r.remove(ctx, c)
}

func (r *Registration) remove(ctx context.Context, c *Client) error {
	if len(r.ours) == 0 {
		return nil
	}
	all, err := c.Dump(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range r.ours {
		there := slices.ContainsFunc(all, func(o Mapping) bool { return o.same(m) && o.Addr == m.Addr })
		if there {
			_, err := c.Unset(ctx, m)
			errs = append(errs, err)
		}
	}
	r.ours = nil
	return errors.Join(errs...)
}
