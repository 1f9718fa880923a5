package loopback

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

const defaultBacklog = 256

type listener struct {
	dom     *domain
	addr    netip.AddrPort
	backlog int
	more    chan struct{} // poked when waiting is not empty
	done    chan struct{} // closed by Close

	mu      sync.Mutex
	closed  bool
	waiting []*request
}

var errListenerClosed = fmt.Errorf("loopback: the listener is closed: %w", net.ErrClosed)

func newListener(d *domain, o verbs.ListenOptions) *listener {
	l := &listener{dom: d, backlog: o.Backlog, more: make(chan struct{}, 1), done: make(chan struct{})}
	if l.backlog <= 0 {
		l.backlog = defaultBacklog
	}
	return l
}

func (l *listener) Addr() netip.AddrPort { return l.addr }

func (l *listener) Accept(ctx context.Context) (verbs.Request, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, errListenerClosed
		}
		if len(l.waiting) > 0 {
			r := l.waiting[0]
			l.waiting = slices.Delete(l.waiting, 0, 1)
			if len(l.waiting) > 0 {
				poke(l.more) // for another Accept
			}
			l.mu.Unlock()
			return r, nil
		}
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-l.done:
		case <-ctx.Done():
		}
	}
}

func (l *listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errListenerClosed
	}
	names.unbind(l) // first: who sees that it is closed may listen there again
	l.closed = true
	close(l.done)
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()

	l.dom.mu.Lock()
	delete(l.dom.listeners, l)
	l.dom.mu.Unlock()
	for _, r := range waiting {
		if r.take() == nil {
			r.answer <- answer{err: syscall.ECONNREFUSED}
		}
	}
	return nil
}

// enqueue puts r before Accept; false: the backlog is full or the listener closed.
func (l *listener) enqueue(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.waiting) >= l.backlog {
		return false
	}
	l.waiting = append(l.waiting, r)
	poke(l.more)
	return true
}

// forget takes back a request that its dialler gave up.
func (l *listener) forget(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, r); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
}

// request is a set-up under way, shared by its two goroutines: the dialler waits for answer,
// then the accepting side for ready. Either may give up meanwhile.
type request struct {
	l       *listener
	from    *conn
	at      netip.AddrPort // as dialled
	private []byte
	answer  chan answer // room for one
	ready   chan error  // room for one: nil when the connection is up

	mu    sync.Mutex
	taken bool  // Accept, Reject or the listener's Close answers
	gone  error // why the dialler gave up
}

type answer struct {
	conn    *conn
	private []byte
	err     error
}

// take makes the caller the one who answers.
func (r *request) take() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.gone != nil:
		return fmt.Errorf("loopback: the peer gave up: %w", r.gone)
	case r.taken:
		return fmt.Errorf("loopback: the request has been answered")
	}
	r.taken = true
	return nil
}

// giveUp is the dialler's: its Dial returns err.
func (r *request) giveUp(err error) {
	r.mu.Lock()
	r.gone = err
	r.mu.Unlock()
	r.l.forget(r)
	r.ready <- err
}

func (r *request) PeerPrivateData() []byte    { return r.private }
func (r *request) RemoteAddr() netip.AddrPort { return r.from.local }

func (r *request) Reject(private []byte) error {
	if err := r.take(); err != nil {
		return err
	}
	no := &verbs.RejectedError{Reason: "by the application"}
	err := fits("reject", private, r.l.dom.caps.PrivateReject)
	if err != nil {
		err = fmt.Errorf("loopback: reject: %w", err)
	} else {
		no.Private = slices.Clone(private)
	}
	r.answer <- answer{err: no}
	return err
}

func (r *request) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	if err := r.take(); err != nil {
		return nil, err
	}
	c, private, err := r.prepare(ctx, &o)
	if err != nil {
		r.answer <- answer{err: &verbs.RejectedError{Reason: "set-up failed there"}}
		return nil, err
	}
	r.answer <- answer{conn: c, private: private}

	late := time.NewTimer(r.l.dom.setup)
	defer late.Stop()
	select {
	case err = <-r.ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = context.DeadlineExceeded
	case <-r.l.dom.done:
		err = errDomainClosed
	}
	if err != nil && c.abandon(err) {
		return nil, fmt.Errorf("loopback: accept: %w", err)
	}
	return c, nil // came up while we gave up
}

// prepare makes our end, up to Ready.
func (r *request) prepare(ctx context.Context, o *verbs.Options) (*conn, []byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	c, err := newConn(r.l.dom, o)
	if err != nil {
		return nil, nil, err
	}
	c.peer, c.local, c.remote, c.private = r.from, r.at, r.from.local, r.private
	c.caps.MaxReads = min(c.caps.MaxReads, r.from.reading)
	private, err := c.say(o, r.private)
	if err != nil {
		return nil, nil, fmt.Errorf("loopback: accept: %w", err)
	}
	if err := c.getReady(o); err != nil {
		return nil, nil, err
	}
	return c, private, nil
}
