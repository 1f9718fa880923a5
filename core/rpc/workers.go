package rpc

import (
	"net/netip"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/fair"
	"github.com/rpcrdma/rpcrdma/core/obs"
)

// workers run handlers on at most max goroutines. What may not run yet waits in the line of its
// connection; the lines take turns, a request each. No connection runs more than a quarter of max, and no address
// more than it leaves free: so whoever's calls are slow, there are workers for another. Credits
// bound how much can wait.
type workers struct {
	run func(*Request)
	max int

	mu          sync.Mutex // guards what follows, and the lines
	idle        []chan *Request
	running     int // requests
	waiting     int
	addresses   map[netip.Addr]*address
	first, last *line // that have requests waiting
	closed      bool
	done        sync.WaitGroup
}

// address is what the connections of one peer run together.
type address struct{ running, lines int }

// line is one connection's requests.
type line struct {
	recorder   obs.Recorder // of its events; nil: none
	peer       netip.Addr
	of         *address
	running    int
	head, tail *Request // waiting
	next       *line
	turn       bool // in the list of lines
}

// open makes the line of a connection of peer, until leave.
func (p *workers) open(peer netip.Addr, to obs.Recorder) *line {
	peer = fair.PeerKey(peer)
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.addresses[peer]
	if a == nil {
		a = new(address)
		if p.addresses == nil {
			p.addresses = make(map[netip.Addr]*address)
		}
		p.addresses[peer] = a
	}
	a.lines++
	return &line{recorder: to, peer: peer, of: a}
}

// leave is the end of l's connection; what it runs or has waiting goes on.
func (p *workers) leave(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.of.lines--
	p.forget(l)
}

// forget drops an address that has neither connections nor running requests. Called with mu held.
func (p *workers) forget(l *line) {
	if l.of.lines == 0 && l.of.running == 0 && p.addresses[l.peer] == l.of {
		delete(p.addresses, l.peer)
	}
}

// busy tells that at least as many requests wait as there are workers.
func (p *workers) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting >= p.max
}

// may tells whether a request of l may run. Called with mu held.
func (p *workers) may(l *line) bool {
	free := p.max - p.running - 1
	return free >= 0 && l.running < max(p.max/4, 1) && l.of.running < max(free, 1)
}

// submit hands r of l to a worker. It does not block.
func (p *workers) submit(l *line, r *Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	r.line = l
	if l.head == nil && p.may(l) {
		p.start(r)
		return nil
	}
	p.waiting++
	if l.tail == nil {
		l.head, l.tail = r, r
	} else {
		l.tail.next, l.tail = r, r
	}
	if !l.turn {
		p.queue(l)
	}
	return nil
}

func (p *workers) queue(l *line) {
	l.turn = true
	if p.last == nil {
		p.first, p.last = l, l
	} else {
		p.last.next, p.last = l, l
	}
}

func (p *workers) count(l *line, n int) {
	p.running += n
	l.running += n
	l.of.running += n
}

// start gives r to a worker of its own. Called with mu held.
func (p *workers) start(r *Request) {
	p.count(r.line, 1)
	if n := len(p.idle); n > 0 {
		ch := p.idle[n-1]
		p.idle = p.idle[:n-1]
		ch <- r // has room for one
		return
	}
	p.done.Add(1)
	ch := make(chan *Request, 1)
	ch <- r
	go p.work(ch)
}

// next takes the request whose turn it is, or nil. Called with mu held.
func (p *workers) next() *Request {
	var before *line
	for l := p.first; l != nil; before, l = l, l.next {
		if !p.may(l) {
			continue
		}
		if before == nil {
			p.first = l.next
		} else {
			before.next = l.next
		}
		if p.last == l {
			p.last = before
		}
		l.next, l.turn = nil, false
		r := l.head
		p.waiting--
		if l.head = r.next; l.head == nil {
			l.tail = nil
		} else {
			p.queue(l)
		}
		r.next = nil
		return r
	}
	return nil
}

// work runs requests until the pool closes, or a handler ends its goroutine: then what waits goes to other workers.
func (p *workers) work(ch chan *Request) {
	defer p.done.Done()
	var l *line // of the request being run
	defer func() {
		if l == nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.count(l, -1)
		p.forget(l)
		for r := p.next(); r != nil; r = p.next() {
			p.start(r)
		}
	}()
	for r := range ch {
		for r != nil {
			l = r.line // r is another's as soon as it has run
			p.run(r)
			p.mu.Lock()
			p.count(l, -1)
			p.forget(l)
			l = nil
			if r = p.next(); r != nil {
				p.count(r.line, 1)
				for more := p.next(); more != nil; more = p.next() { // whose share the end of one has raised
					p.start(more)
				}
			} else if p.closed {
				p.mu.Unlock()
				return
			} else {
				p.idle = append(p.idle, ch)
			}
			p.mu.Unlock()
		}
	}
}

// close lets the workers end what they have, and waits for them.
func (p *workers) close() {
	p.mu.Lock()
	p.closed = true
	for _, ch := range p.idle {
		close(ch)
	}
	p.idle = nil
	p.mu.Unlock()
	p.done.Wait()
}
