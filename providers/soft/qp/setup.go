package qp

import (
	"context"
	"fmt"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Half is a provider's connection while it is set up. Its QP has Abandon.
type Half interface {
	verbs.Conn
	Abandon(err error) bool
	// Start follows Ready, and the answer: it calls Begin.
	Start() error
	// Drop follows Abandon: it gives up what the fabric holds.
	Drop()
}

// Dialler is the dialling side's.
type Dialler interface {
	Half
	// Connect reaches addr, sends our private data, waits for the answer, and calls Meet. It ends when ctx does.
	// Where it returns an error, a *verbs.RejectedError if the peer refused, it has given up what the fabric held.
	Connect(ctx context.Context, addr string, private []byte) error
}

// Acceptor is the accepting side's. Meet has been called.
type Acceptor interface {
	Half
	// Answer accepts, with our private data. It ends when ctx does.
	Answer(ctx context.Context, private []byte) error
}

// Connect is verbs.Domain's Dial: it carries c, which make returns, through its set-up.
func (d *Domain) Connect(ctx context.Context, addr string, o *verbs.Options, make func() (Dialler, error)) (verbs.Conn, error) {
	c, err := d.connect(ctx, addr, o, make)
	if err != nil {
		return nil, fmt.Errorf("%s: dial %s: %w", d.config.Provider, addr, err)
	}
	return c, nil
}

func (d *Domain) connect(ctx context.Context, addr string, o *verbs.Options, make func() (Dialler, error)) (verbs.Conn, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, d.errDomainClosed
	}
	d.gone.Add(1)
	d.mu.Unlock()
	defer d.gone.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.ctx, func() { cancel(d.errDomainClosed) })()

	c, err := make()
	if err != nil {
		return nil, err
	}
	private, err := private(o, c.Caps(), "dial", nil, c.Caps().PrivateDial)
	if err != nil {
		return nil, err
	}
	if err := c.Connect(ctx, addr, private); err != nil {
		return nil, cause(ctx, err)
	}
	if err = ready(o, c); err == nil {
		err = c.Start()
	}
	if err != nil && c.Abandon(err) {
		c.Drop()
		return nil, err
	}
	return c, nil
}

// accept is verbs.Request's.
func (r *Request) accept(ctx context.Context, o *verbs.Options) (verbs.Conn, error) {
	err := ctx.Err()
	var c Acceptor
	var answer []byte
	if err == nil {
		c, err = r.caller.Half(o)
	}
	if err == nil {
		if answer, err = private(o, c.Caps(), "accept", r.private, c.Caps().PrivateAccept); err == nil {
			err = ready(o, c)
		}
		if err != nil {
			c.Abandon(err)
		}
	}
	if err != nil {
		_ = r.caller.Reject(nil)
		return nil, err
	}
	if err = c.Answer(ctx, answer); err != nil {
		err = cause(ctx, err)
	} else {
		err = c.Start()
	}
	if err != nil && c.Abandon(err) {
		c.Drop()
		return nil, err
	}
	return c, nil // it may have begun while Answer gave up
}

// cause is why what ctx limits failed.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// private asks for our private data.
func private(o *verbs.Options, caps verbs.Caps, step string, peer []byte, most int) ([]byte, error) {
	if o.Private == nil {
		return nil, nil
	}
	p := o.Private(caps, peer)
	return p, Fits(step, p, most)
}

// Fits checks private data against the limit of a step of the set-up: "dial", "accept" or "reject".
func Fits(step string, private []byte, most int) error {
	if n := len(private); n > most {
		return &verbs.PrivateDataError{Step: step, Len: n, Max: most}
	}
	return nil
}

func ready(o *verbs.Options, c verbs.Conn) error {
	if o.Ready == nil {
		return nil
	}
	return o.Ready(c)
}

// Into is the domain that a request of own's listener is accepted into.
func Into[D verbs.Domain](own D, o *verbs.Options) (D, error) {
	if o.Domain == nil {
		return own, nil
	}
	d, ok := o.Domain.(D)
	if !ok {
		return own, verbs.ErrForeignDomain
	}
	return d, nil
}

// Depth is verbs.Options.Reads or Reading in plain numbers: 0 asks for the default, below 0 for none.
func Depth(n, byDefault, most int) int {
	switch {
	case n == 0:
		return byDefault
	case n < 0:
		return 0
	}
	return min(n, most)
}

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Bound limits what waits on a socket to d from now, and to ctx: set sets the socket's deadline. done
// ends the limit and clears the deadline.
func Bound(ctx context.Context, d time.Duration, set func(deadline time.Time) error) (done func()) {
	_ = set(time.Now().Add(d))
	struck := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = set(past)
		close(struck)
	})
	return func() {
		if !stop() {
			<-struck // it has touched the deadline for the last time
		}
		_ = set(time.Time{})
	}
}
