package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

// waitPatience is how long a server may be silent before the user is told.
const waitPatience = 5 * time.Second

// waiting tells who looks at a verb that does nothing what it waits for: once for each time that a server answers no call for a while.
type waiting struct {
	w    io.Writer
	text string
	most time.Duration

	mu    sync.Mutex
	busy  int // connecting, and calls
	turn  int // of step
	timer *time.Timer
}

func newWaiting(w io.Writer, t rpc.Target, most time.Duration) *waiting {
	return &waiting{w: w, most: most, text: fmt.Sprintf("rpcrdma: %s://%s has not answered for %v; waiting for it", t.Scheme, t.Address, most)}
}

// begin is called before something is waited for, the function that it returns behind it.
func (p *waiting) begin() (end func()) {
	p.step(1)
	return func() { p.step(-1) }
}

// step counts, and waits anew: something has ended, or has begun where nothing was.
func (p *waiting) step(by int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy += by
	if by > 0 && p.busy > 1 {
		return
	}
	p.turn++
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.busy > 0 {
		turn := p.turn
		p.timer = time.AfterFunc(p.most, func() { p.tell(turn) })
	}
}

func (p *waiting) tell(turn int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turn == turn {
		fmt.Fprintln(p.w, p.text)
	}
}

// call is a rpc.ClientInterceptor.
func (p *waiting) call(ctx context.Context, _ *rpc.CallInfo, next func(context.Context) error) error {
	defer p.begin()()
	return next(ctx)
}
