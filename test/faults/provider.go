package faults

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Provider is another provider with faults.
type Provider struct {
	verbs.Provider
	plan  Plan
	tally tally

	mu    sync.Mutex
	conns map[*conn]struct{}
	seats int // connections so far: numbers the dice
}

// Wrap gives p faults. The seed is printed if the test fails.
func Wrap(tb testing.TB, p verbs.Provider, plan Plan) *Provider {
	chooseSeed(tb, &plan)
	return &Provider{Provider: p, plan: plan, conns: map[*conn]struct{}{}}
}

// Seed repeats the run.
func (p *Provider) Seed() uint64 { return p.plan.Seed }

// Done tells what has happened so far.
func (p *Provider) Done() Done {
	t := &p.tally
	return Done{
		Conns: int(t.conns.Load()), Refused: int(t.refused.Load()), Cuts: int(t.cuts.Load()), Fails: int(t.fails.Load()),
		Late: int(t.late.Load()), LateFlushes: int(t.lateFlushes.Load()), Overtaken: int(t.overtaken.Load()),
	}
}

// CutAll aborts every connection that lives and returns how many there were.
func (p *Provider) CutAll() int {
	p.mu.Lock()
	var live []*conn
	for c := range p.conns {
		live = append(live, c)
	}
	p.mu.Unlock()
	for _, c := range live {
		c.cut()
	}
	return len(live)
}

func (p *Provider) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	d, err := p.Provider.Open(ctx, local, options)
	if err != nil {
		return nil, err
	}
	return &domain{Domain: d, p: p}, nil
}

// caps are c as far as the plan leaves them.
func (p *Provider) caps(c verbs.Caps) verbs.Caps {
	if p.plan.Queue > 0 {
		c.Queue = min(c.Queue, p.plan.Queue)
	}
	c.Detach = c.Detach && !p.plan.NoDetach
	return c
}

type domain struct {
	verbs.Domain
	p        *Provider
	couriers sync.WaitGroup
}

func (d *domain) Caps() verbs.Caps { return d.p.caps(d.Domain.Caps()) }

func (d *domain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	c := d.conn(&o)
	if t := c.dice.upTo(d.p.plan.SlowDial); t > 0 {
		late := time.NewTimer(t)
		defer late.Stop()
		select {
		case <-late.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if c.dice.once(d.p.plan.RefuseEvery) {
		d.p.tally.refused.Add(1)
		return nil, fmt.Errorf("faults: dial %s: %w", addr, syscall.ECONNREFUSED)
	}
	inner, err := d.Domain.Dial(ctx, addr, o)
	return c.up(inner, err)
}

func (d *domain) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	l, err := d.Domain.Listen(ctx, addr, o)
	if err != nil {
		return nil, err
	}
	return &listener{Listener: l, d: d}, nil
}

func (d *domain) Close() error {
	err := d.Domain.Close()
	d.couriers.Wait()
	return err
}

type listener struct {
	verbs.Listener
	d *domain
}

func (l *listener) Accept(ctx context.Context) (verbs.Request, error) {
	r, err := l.Listener.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &request{Request: r, d: l.d}, nil
}

type request struct {
	verbs.Request
	d *domain
}

func (r *request) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	d := r.d
	if own, ok := o.Domain.(*domain); ok {
		d, o.Domain = own, own.Domain
	}
	c := d.conn(&o)
	inner, err := r.Request.Accept(ctx, o)
	return c.up(inner, err)
}

// conn makes the wrapper of a connection and puts it between o and the provider.
func (d *domain) conn(o *verbs.Options) *conn {
	p := d.p
	p.mu.Lock()
	p.seats++
	n := p.seats
	p.mu.Unlock()
	c := &conn{
		dom: d, number: n, dice: newDice(p.plan.Seed, n), handler: o.Handler,
		driverWake: make(chan struct{}, 1), courierWake: make(chan struct{}, 1),
	}
	if o.Handler != nil {
		o.Handler = (*inbox)(c)
	}
	if private := o.Private; private != nil {
		o.Private = func(caps verbs.Caps, peer []byte) []byte { return private(p.caps(caps), peer) }
	}
	ready := o.Ready
	o.Ready = func(inner verbs.Conn) error {
		c.wear(inner)
		if ready == nil {
			return nil
		}
		return ready(c.face)
	}
	return c
}

var _ verbs.Provider = (*Provider)(nil)
