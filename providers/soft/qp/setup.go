package qp

import (
	"context"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// PrivateDial is a dialler's private data.
func (q *QP[X]) PrivateDial(o *verbs.Options) ([]byte, error) {
	if o.Private == nil {
		return nil, nil
	}
	p := o.Private(q.caps, nil)
	return p, Fits("dial", p, q.caps.PrivateDial)
}

// PrivateAccept is the accepting side's, which answers peer.
func (q *QP[X]) PrivateAccept(o *verbs.Options, peer []byte) ([]byte, error) {
	if o.Private == nil {
		return nil, nil
	}
	p := o.Private(q.caps, peer)
	return p, Fits("accept", p, q.caps.PrivateAccept)
}

// Fits checks private data against the limit of a step of the set-up: "dial", "accept" or "reject".
func Fits(step string, private []byte, most int) error {
	if n := len(private); n > most {
		return &verbs.PrivateDataError{Step: step, Len: n, Max: most}
	}
	return nil
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

// GetReady runs the user's Ready. When it returns the peer may be allowed to send.
func (q *QP[X]) GetReady(o *verbs.Options, c verbs.Conn) error {
	if o.Ready == nil {
		return nil
	}
	return o.Ready(c)
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
// ends the limit, clears the deadline, and returns ctx's cause if it has ended.
func Bound(ctx context.Context, d time.Duration, set func(deadline time.Time) error) (done func() error) {
	_ = set(time.Now().Add(d))
	struck := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = set(past)
		close(struck)
	})
	return func() error {
		if !stop() {
			<-struck // it has touched the deadline for the last time
		}
		_ = set(time.Time{})
		return context.Cause(ctx)
	}
}

// Dialling is the context of a Dial: it ends with ctx and with the domain. Close waits for done. The error says that
// the domain is closed.
func (d *Domain) Dialling(ctx context.Context) (_ context.Context, done func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil, d.errDomainClosed
	}
	d.gone.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(d.ctx, func() { cancel(d.errDomainClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		d.gone.Done()
	}, nil
}
