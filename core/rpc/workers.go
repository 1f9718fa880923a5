package rpc

import "sync"

// workers run handlers on at most max goroutines; what finds none free waits in
// order. Credits bound how much can wait.
type workers struct {
	run func(*Request)
	max int

	mu         sync.Mutex // guards what follows
	idle       []chan *Request
	running    int
	head, tail *Request
	closed     bool
	done       sync.WaitGroup
}

// submit hands r to a worker. It does not block.
func (p *workers) submit(r *Request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := len(p.idle); {
	case p.closed:
		return ErrClosed
	case n > 0:
		ch := p.idle[n-1]
		p.idle = p.idle[:n-1]
		ch <- r // has room for one
	case p.running < p.max:
		p.running++
		p.done.Add(1)
		ch := make(chan *Request, 1)
		ch <- r
		go p.work(ch)
	case p.tail == nil:
		p.head, p.tail = r, r
	default:
		p.tail.next, p.tail = r, r
	}
	return nil
}

// work runs requests until the pool closes.
func (p *workers) work(ch chan *Request) {
	defer p.done.Done()
	for r := range ch {
		for r != nil {
			p.run(r)
			p.mu.Lock()
			if r = p.head; r != nil {
				if p.head = r.next; p.head == nil {
					p.tail = nil
				}
				r.next = nil
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
