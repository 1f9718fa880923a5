package rpc_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// bare is a provider with powers taken away, as devices have fewer: no shared receives, nobody
// but its own reader reads, memory cannot be detached, a short send queue.
type bare struct {
	verbs.Provider
	ownReceives, driver, detach bool
	queue                       int
	noInvalidate                bool
	stuck                       bool // nothing leaves: as when the peer takes no bytes
}

// The schemes of the rows of transports. The letters: r own receives, d no Driver, t no Detach,
// q a queue of 3 works, i no SendInvalidate.
func init() {
	loopback, _ := verbs.Lookup("loopback")
	for name, b := range map[string]bare{
		"bare-r":     {ownReceives: true, driver: true, detach: true},
		"bare-d":     {detach: true},
		"bare-dt":    {},
		"bare-t":     {driver: true},
		"bare-q":     {driver: true, detach: true, queue: 3},
		"bare-stuck": {detach: true, queue: 3, stuck: true},
		"bare-rdtqi": {ownReceives: true, queue: 3, noInvalidate: true},
	} {
		b.Provider = loopback
		verbs.Register(name, b)
	}
}

func (p bare) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	if p.queue > 0 {
		options = map[string]string{"queue": fmt.Sprint(p.queue)}
	}
	d, err := p.Provider.Open(ctx, local, options)
	if err != nil {
		return nil, err
	}
	return &bareDomain{d, p}, nil
}

func (p bare) caps(c verbs.Caps) verbs.Caps {
	c.Detach = c.Detach && p.detach
	if p.noInvalidate {
		c.SendInvalidate, c.RemoteInvalidate = false, false
	}
	return c
}

func (p bare) options(o verbs.Options) verbs.Options {
	private, ready := o.Private, o.Ready
	o.Private = func(c verbs.Caps, peer []byte) []byte { return private(p.caps(c), peer) }
	o.Ready = func(c verbs.Conn) error { return ready(p.face(c)) }
	return o
}

// face is c with what is left of its powers.
func (p bare) face(c verbs.Conn) verbs.Conn {
	b := bareConn{c, p}
	switch {
	case p.driver && p.detach:
		return struct {
			bareConn
			verbs.Driver
			verbs.Detacher
		}{b, c.(verbs.Driver), c.(verbs.Detacher)}
	case p.driver:
		return struct {
			bareConn
			verbs.Driver
		}{b, c.(verbs.Driver)}
	case p.detach:
		return struct {
			bareConn
			verbs.Detacher
		}{b, c.(verbs.Detacher)}
	}
	return b
}

type bareDomain struct {
	verbs.Domain
	p bare
}

func (d *bareDomain) Caps() verbs.Caps { return d.p.caps(d.Domain.Caps()) }

func (d *bareDomain) NewRecvPool(n, size int) (verbs.RecvPool, error) {
	if d.p.ownReceives {
		return nil, fmt.Errorf("bare: %w", errors.ErrUnsupported)
	}
	return d.Domain.NewRecvPool(n, size)
}

func (d *bareDomain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	c, err := d.Domain.Dial(ctx, addr, d.p.options(o))
	if err != nil {
		return nil, err
	}
	return d.p.face(c), nil
}

func (d *bareDomain) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	l, err := d.Domain.Listen(ctx, addr, o)
	if err != nil {
		return nil, err
	}
	return &bareListener{l, d.p}, nil
}

type bareListener struct {
	verbs.Listener
	p bare
}

func (l *bareListener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &bareRequest{r, l.p}, nil
}

type bareRequest struct {
	verbs.Request
	p bare
}

func (r *bareRequest) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	c, err := r.Request.Accept(ctx, r.p.options(o))
	if err != nil {
		return nil, err
	}
	return r.p.face(c), nil
}

type bareConn struct {
	verbs.Conn
	p bare
}

func (c bareConn) Flush() {
	if !c.p.stuck {
		c.Conn.Flush()
	}
}

func (c bareConn) Caps() verbs.Caps { return c.p.caps(c.Conn.Caps()) }
