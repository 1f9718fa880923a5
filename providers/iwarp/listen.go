package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/fair"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
)

const defaultBacklog = 256

// listener takes streams, reads each one's request on a goroutine of its own, and hands
// out those that are whole.
type listener struct {
	dom *domain
	in  stream.Listener

	mu     sync.Mutex // guards what follows
	closed bool
	asking []*request // in set-up, oldest first
	ready  []*request // whole, not accepted yet
	quota  fair.Quota // who has how many of both
	more   chan struct{}
	done   chan struct{} // closed with the listener
}

// request is one stream that wants to become a connection.
type request struct {
	l     *listener
	s     stream.Stream
	frame mpa.Frame
	bytes []byte // the frame's, for the tap

	mu    sync.Mutex
	taken bool        // Accept, Reject, time or the listener's end answers
	late  *time.Timer // rejects
}

var (
	errListenerClosed = fmt.Errorf("iwarp: listener closed: %w", net.ErrClosed)
	errAnswered       = errors.New("iwarp: the request has been answered, or was given up")
)

// Listen implements verbs.Domain.
func (d *domain) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	at, err := d.hostOr(addr)
	if err != nil {
		return nil, fmt.Errorf("iwarp: listen: %w", err)
	}
	in, err := d.net.Listen(ctx, at, o.Admit)
	if err != nil {
		return nil, fmt.Errorf("iwarp: listen %s: %w", addr, err)
	}
	l := &listener{dom: d, in: in, more: make(chan struct{}, 1), done: make(chan struct{})}
	if l.quota.Limit = o.Backlog; o.Backlog <= 0 {
		l.quota.Limit = defaultBacklog
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		in.Close()
		return nil, errDomainClosed
	}
	d.listeners[l] = struct{}{}
	d.gone.Add(1)
	go l.run()
	return l, nil
}

func (l *listener) Addr() netip.AddrPort { return l.in.Addr() }

// run takes streams until the listener ends.
func (l *listener) run() {
	defer l.dom.gone.Done()
	for {
		s, err := l.in.Accept()
		if err == nil {
			l.admit(&request{l: l, s: s})
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Out of descriptors, or the peer has gone already: neither is ours to mend.
		select {
		case <-time.After(5 * time.Millisecond):
		case <-l.done:
			return
		}
	}
}

// admit begins a set-up. A peer that has its share of the backlog gives up one of its own, the oldest that
// is still in set-up: it has shown least. Where the backlog is full of many peers' the one with the most does.
func (l *listener) admit(r *request) {
	l.mu.Lock()
	var out *request
	switch {
	case l.closed:
		out = r
	case !l.enter(r):
		if out = l.victim(r); out == nil {
			out = r
			break
		}
		l.asking, _ = remove(l.asking, out)
		l.leave(out)
		if !l.enter(r) {
			l.mu.Unlock()
			out.drop()
			r.drop()
			return
		}
	}
	if out != r {
		l.asking = append(l.asking, r)
		l.dom.gone.Add(1) // run is counted, so the domain is waiting for us too
		go r.read()
	}
	l.mu.Unlock()
	if out != nil {
		out.drop()
	}
}

// enter and leave count a request in the lists. mu is held.
func (l *listener) enter(r *request) bool {
	if l.quota.Take(r.RemoteAddr().Addr(), 1) {
		return true
	}
	l.ready = slices.DeleteFunc(l.ready, func(r *request) bool { // some may have given up since
		dead := !r.alive()
		if dead {
			l.leave(r)
			if r.take() {
				r.drop()
			}
		}
		return dead
	})
	return l.quota.Take(r.RemoteAddr().Addr(), 1)
}

func (l *listener) leave(r *request) { l.quota.Give(r.RemoteAddr().Addr(), 1) }

// victim is the request in set-up that makes room for r, or nil. mu is held.
func (l *listener) victim(r *request) *request {
	var out *request
	most := 0
	peer := fair.PeerKey(r.RemoteAddr().Addr())
	for _, a := range l.asking {
		addr := a.RemoteAddr().Addr()
		if fair.PeerKey(addr) == peer {
			return a
		}
		if n := l.quota.Held(addr); n > most {
			out, most = a, n
		}
	}
	return out
}

// drop ends the request without a word; its reader notices.
func (r *request) drop() { _ = r.s.Reset() }

// read waits for the peer's request.
func (r *request) read() {
	defer r.l.dom.gone.Done()
	_ = r.s.SetReadDeadline(time.Now().Add(r.l.dom.opt.setup))
	f, b, err := readFrame(r.s, false)
	if err == nil {
		err = mpa.Check(f)
	}
	if errors.Is(err, mpa.ErrMarkers) {
		_ = r.s.SetWriteDeadline(time.Now().Add(r.l.dom.opt.setup / 2))
		_ = writeAll(r.s, mpa.Refusal(f, nil).Append(nil))
		r.l.forget(r)
		_ = r.s.Close()
		return
	}
	if err != nil {
		r.l.forget(r)
		r.drop()
		return
	}
	_ = r.s.SetReadDeadline(time.Time{})
	r.frame, r.bytes = f, b
	if !r.l.offer(r) {
		r.drop()
	}
}

func remove(list []*request, r *request) ([]*request, bool) {
	i := slices.Index(list, r)
	if i < 0 {
		return list, false
	}
	return slices.Delete(list, i, i+1), true
}

func (l *listener) forget(r *request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var asked, offered bool
	l.asking, asked = remove(l.asking, r)
	l.ready, offered = remove(l.ready, r)
	if asked || offered {
		l.leave(r)
	}
}

// offer hands r to Accept. From here on it is rejected if nobody answers it in time.
func (l *listener) offer(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var had bool
	if l.asking, had = remove(l.asking, r); !had || l.closed {
		return false // shut counts nothing any more
	}
	l.ready = append(l.ready, r)
	r.mu.Lock()
	r.late = time.AfterFunc(r.l.dom.opt.setup, func() { _ = r.Reject(nil) })
	r.mu.Unlock()
	poke(l.more)
	return true
}

// Accept implements verbs.Listener.
func (l *listener) Accept(ctx context.Context) (verbs.Request, error) {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, errListenerClosed
		}
		if len(l.ready) > 0 {
			r := l.ready[0]
			l.ready = l.ready[1:]
			l.leave(r)
			if len(l.ready) > 0 {
				poke(l.more)
			}
			l.mu.Unlock()
			if r.handOut() {
				return r, nil
			}
			continue
		}
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-l.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// handOut gives r to the user, if it makes sense: from here on the domain's end is the only
// one that answers it for him.
func (r *request) handOut() bool {
	d := r.l.dom
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.requests[r] = struct{}{}
	}
	d.mu.Unlock()
	if !closed && r.alive() {
		return true
	}
	if r.take() {
		r.drop()
	}
	d.mu.Lock()
	delete(d.requests, r) // time may have rejected it before it was there
	d.mu.Unlock()
	return false
}

// alive says whether the peer still waits for an answer. It must not say anything before
// (RFC 5044 §7.1.2), so a word is as good as its end.
func (r *request) alive() bool {
	var err error
	e := r.s.Read(func() bool {
		_, err = r.s.Readv([][]byte{make([]byte, 1)})
		return true
	})
	return e == nil && err == stream.ErrAgain
}

// Close implements verbs.Listener. Who was not accepted is turned away; requests that were
// handed out are their holders'.
func (l *listener) Close() error {
	l.dom.mu.Lock()
	delete(l.dom.listeners, l)
	l.dom.mu.Unlock()
	return l.shut()
}

func (l *listener) shut() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	asking, ready := l.asking, l.ready
	l.asking, l.ready = nil, nil
	close(l.done)
	l.mu.Unlock()
	err := l.in.Close()
	for _, r := range asking {
		r.drop()
	}
	for _, r := range ready {
		_ = r.Reject(nil)
	}
	return err
}

func (r *request) PeerPrivateData() []byte    { return r.frame.Private }
func (r *request) RemoteAddr() netip.AddrPort { return r.s.RemoteAddr() }

// take makes the caller the one who answers.
func (r *request) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken {
		return false
	}
	r.taken = true
	r.late.Stop()
	d := r.l.dom
	d.mu.Lock()
	delete(d.requests, r)
	d.mu.Unlock()
	return true
}

// Reject implements verbs.Request.
func (r *request) Reject(private []byte) error {
	if !r.take() {
		return errAnswered
	}
	err := fits("reject", private, r.l.dom.caps.PrivateReject)
	if err != nil {
		private = nil
	}
	r.l.forget(r)
	_ = r.s.SetWriteDeadline(time.Now().Add(r.l.dom.opt.setup / 2))
	if e := writeAll(r.s, mpa.Refusal(r.frame, private).Append(nil)); err == nil {
		err = e
	}
	if e := r.s.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("iwarp: reject: %w", err)
	}
	return nil
}

// Accept implements verbs.Request.
func (r *request) Accept(ctx context.Context, o verbs.Options) (verbs.Conn, error) {
	if !r.take() {
		return nil, errAnswered
	}
	c, err := r.accept(ctx, &o)
	if err != nil {
		return nil, fmt.Errorf("iwarp: accept: %w", err)
	}
	return c, nil
}

func (r *request) accept(ctx context.Context, o *verbs.Options) (*conn, error) {
	c, private, answer, err := r.prepare(ctx, o)
	if err != nil {
		_ = r.s.SetWriteDeadline(time.Now().Add(r.l.dom.opt.setup / 2))
		_ = writeAll(r.s, mpa.Refusal(r.frame, nil).Append(nil))
		if c != nil {
			c.mu.Lock()
			c.end(err, byFIN)
			c.mu.Unlock()
			c.windows.RevokeAll()
		}
		_ = r.s.Close()
		return nil, err
	}
	done := limit(ctx, r.s, r.l.dom.opt.setup/2)
	b := answer.Accept(private).Append(nil)
	c.tapFrame(false, r.bytes)
	c.tapFrame(true, b)
	err = writeAll(r.s, b)
	if cause := done(); cause != nil {
		err = cause
	}
	if err == nil {
		err = c.start()
	}
	if err != nil {
		c.abandon(err)
		return nil, err
	}
	return c, nil
}

// prepare makes our end, up to Ready.
func (r *request) prepare(ctx context.Context, o *verbs.Options) (c *conn, private []byte, a mpa.Answer, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, a, err
	}
	d := r.l.dom
	if o.Domain != nil {
		own, ok := o.Domain.(*domain)
		if !ok {
			return nil, nil, a, verbs.ErrForeignDomain
		}
		d = own
	}
	if c, err = d.newConn(o); err != nil {
		return nil, nil, a, err
	}
	c.attach(r.s)
	a = c.offer(0).Asked(r.frame)
	c.adopt(a.Agreed, r.frame.Private)
	if private, err = c.say(o, r.frame.Private); err != nil {
		return nil, nil, a, err
	}
	return c, private, a, c.getReady(o)
}
