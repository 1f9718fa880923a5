package qp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/fair"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

const (
	defaultBacklog = 256
	// acceptPause is the pause after an accept that failed: out of descriptors, or the peer has gone already.
	acceptPause = 5 * time.Millisecond
)

// Backlog is a listener's requests: those in set-up, and those that wait for Accept. A provider's
// listener embeds it and adds Addr.
type Backlog struct {
	dom   *Domain
	close func() error          // the fabric's
	admit func(netip.Addr) bool // nil: all

	mu     sync.Mutex // guards what follows
	closed bool
	asking []*Request // in set-up, oldest first
	ready  []*Request // whole, not accepted yet
	quota  fair.Quota // who has how many of both
	more   chan struct{}
	done   chan struct{} // closed with the listener
}

// Init makes l an open listener of d. close gives up the fabric's address; Init calls it when it returns an error:
// the domain is closed. local says that only this process can connect: then no peer has a share of the backlog.
func (l *Backlog) Init(d *Domain, o verbs.ListenOptions, local bool, close func() error) error {
	l.dom, l.close, l.admit = d, close, o.Admit
	l.more, l.done = make(chan struct{}, 1), make(chan struct{})
	if l.quota.Limit = o.Backlog; o.Backlog <= 0 {
		l.quota.Limit = defaultBacklog
	}
	if local {
		l.quota.PerPeer = l.quota.Limit
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = close()
		return d.errDomainClosed
	}
	d.listeners[l] = struct{}{}
	return nil
}

// Serve takes callers from next, on a goroutine of the domain, until next's error wraps net.ErrClosed.
func (l *Backlog) Serve(next func() (Caller, error)) error {
	return l.dom.Go(func() {
		for {
			c, err := next()
			if err == nil {
				if l.admits(c) {
					l.enrol(l.request(c))
				} else {
					c.Drop()
				}
				continue
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-time.After(acceptPause):
			case <-l.done:
				return
			}
		}
	})
}

// enrol begins a set-up. A peer that has its share of the backlog loses the oldest of its own requests that is still in
// set-up, or the new one where there is none. Where the backlog is full, the peer with the most requests in set-up or
// waiting loses its oldest that is in set-up; a new request that would not fit its own peer's share even then is dropped.
func (l *Backlog) enrol(r *Request) {
	l.mu.Lock()
	var out *Request
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
			out.caller.Drop()
			r.caller.Drop()
			return
		}
	}
	if out != r {
		l.asking = append(l.asking, r)
		l.dom.gone.Go(r.hear) // Serve's goroutine is counted, so Close waits for this one too
	}
	l.mu.Unlock()
	if out != nil {
		out.caller.Drop()
	}
}

// admits asks the user, with no lock held.
func (l *Backlog) admits(c Caller) bool { return l.admit == nil || l.admit(c.RemoteAddr().Addr()) }

// enter and leave count a request in the lists. mu is held.
func (l *Backlog) enter(r *Request) bool {
	if l.quota.Take(r.RemoteAddr().Addr(), 1) {
		return true
	}
	l.ready = slices.DeleteFunc(l.ready, func(r *Request) bool { // some may have given up since
		dead := !r.caller.Alive()
		if dead {
			l.leave(r)
			if r.take() {
				r.caller.Drop()
			}
		}
		return dead
	})
	return l.quota.Take(r.RemoteAddr().Addr(), 1)
}

func (l *Backlog) leave(r *Request) { l.quota.Give(r.RemoteAddr().Addr(), 1) }

// victim is the request in set-up that makes room for r, or nil: the oldest of r's peer where places are left, which
// that peer may not have, else the oldest of the peer that holds the most. mu is held.
func (l *Backlog) victim(r *Request) *Request {
	var out *Request
	most := 0
	peer, full := fair.PeerKey(r.RemoteAddr().Addr()), l.quota.Used() >= l.quota.Limit
	for _, a := range l.asking {
		addr := a.RemoteAddr().Addr()
		if !full && fair.PeerKey(addr) != peer {
			continue
		}
		if n := l.quota.Held(addr); n > most {
			out, most = a, n
		}
	}
	if out != nil && fair.PeerKey(out.RemoteAddr().Addr()) != peer && l.quota.Held(peer) >= max(l.quota.PerPeer, 1) {
		return nil // with one place free r's peer still has its share
	}
	return out
}

func remove(list []*Request, r *Request) ([]*Request, bool) {
	i := slices.Index(list, r)
	if i < 0 {
		return list, false
	}
	return slices.Delete(list, i, i+1), true
}

// forget takes r out of the lists.
func (l *Backlog) forget(r *Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var asked, offered bool
	l.asking, asked = remove(l.asking, r)
	l.ready, offered = remove(l.ready, r)
	if asked || offered {
		l.leave(r)
	}
}

// Offer hands a caller whose request is whole to Accept. False: it is not admitted, the backlog is full, or the listener is closed.
func (l *Backlog) Offer(c Caller, private []byte) bool {
	if !l.admits(c) {
		return false
	}
	r := l.request(c)
	r.private = private
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || !l.enter(r) {
		return false
	}
	l.wait(r)
	return true
}

// heard hands on r, whose request is whole now. False: it was given up meanwhile.
func (l *Backlog) heard(r *Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var had bool
	if l.asking, had = remove(l.asking, r); !had || l.closed {
		return false // shut counts nothing any more
	}
	l.wait(r)
	return true
}

// wait lets r wait for Accept. From here on it is rejected if nobody answers it in time. mu is held.
func (l *Backlog) wait(r *Request) {
	l.ready = append(l.ready, r)
	r.mu.Lock()
	r.late = time.AfterFunc(l.dom.config.Setup, func() { _ = r.Reject(nil) })
	r.mu.Unlock()
	Poke(l.more)
}

// Accept implements verbs.Listener.
func (l *Backlog) Accept(ctx context.Context) (verbs.Request, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil, l.dom.errListenerClosed
		}
		if len(l.ready) > 0 {
			r := l.ready[0]
			l.ready = l.ready[1:]
			l.leave(r)
			if len(l.ready) > 0 {
				Poke(l.more) // for another Accept
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
		}
	}
}

// Closed reports whether the listener is closed.
func (l *Backlog) Closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Close implements verbs.Listener. Requests that were not accepted are rejected; those that were handed out
// stay their holders'.
func (l *Backlog) Close() error {
	l.dom.mu.Lock()
	delete(l.dom.listeners, l)
	l.dom.mu.Unlock()
	return l.shut()
}

func (l *Backlog) shut() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	err := l.close() // first: whoever sees that l is closed may listen on its address again
	l.closed = true
	asking, ready := l.asking, l.ready
	l.asking, l.ready = nil, nil
	close(l.done)
	l.mu.Unlock()
	for _, r := range asking {
		r.caller.Drop()
	}
	for _, r := range ready {
		_ = r.Reject(nil)
	}
	return err
}
