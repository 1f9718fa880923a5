package rpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
)

// Server serves programs on any number of listeners.
type Server struct {
	opts     serverOptions
	programs atomic.Pointer[map[uint32]*program] // replaced whole by Register
	workers  workers
	draining atomic.Bool  // Shutdown or Close: no call is begun any more
	unsent   atomic.Int64 // bytes of replies that wait for tcp peers to read
	replies  *replyCache  // nil: none
	fallen   HandlerFunc  // of calls for WithFallback
	life     context.Context
	die      context.CancelFunc // ends life: Close
	// complaints are about peers: what they do may not fill the log.
	complaints complaints

	mu        sync.Mutex // guards what follows
	listeners map[*Listener]struct{}
	conns     map[serverConn]struct{}
	setups    int // connections that may serve already and are not in conns yet
	closing   bool
	past      obs.Counters
	serving   sync.WaitGroup // Serve calls
}

type program struct {
	versions  map[uint32][]*Method // by procedure number
	low, high uint32
}

// serverConn is a connection as the server that takes calls on it has it.
type serverConn interface {
	Close() error
	Abort(error)
	Serving() int
	Counters() obs.Counters
}

// NewServer makes a server without programs. It panics with an *OptionError on an option that cannot be used, as Register
// does on a procedure.
func NewServer(opts ...ServerOption) *Server {
	o, err := newServerOptions(opts)
	if err != nil {
		panic(err)
	}
	s := &Server{opts: o, listeners: make(map[*Listener]struct{}), conns: make(map[serverConn]struct{})}
	s.programs.Store(&map[uint32]*program{})
	s.replies = newReplyCache(o.replies)
	s.life, s.die = context.WithCancel(context.Background())
	s.workers = workers{max: o.workers, run: func(r *Request) { s.execute(r, true) }}
	s.complaints.log = o.log
	s.fallen = s.chain(serveFallen)
	return s
}

// maxProcedure bounds procedure numbers: methods are found by index.
const maxProcedure = 1 << 10

// Register adds a version of a program. A NULL procedure (RFC 5531 §12.1) is added where methods have
// none. It panics on a number above 1023 or one given twice. Programs may be added while serving.
func (s *Server) Register(prog, version uint32, methods ...Method) {
	table := make([]*Method, 1)
	for i := range methods {
		m := methods[i]
		n := m.Proc.Number
		if n >= maxProcedure {
			panic(fmt.Sprintf("rpc: procedure number %d of %s: at most %d", n, m.Proc, maxProcedure-1))
		}
		for uint32(len(table)) <= n {
			table = append(table, nil)
		}
		if table[n] != nil {
			panic(fmt.Sprintf("rpc: procedure %d of program %d version %d given twice", n, prog, version))
		}
		m.Handler = s.chain(m.Handler)
		table[n] = &m
	}
	if table[0] == nil {
		null := &Proc{Program: prog, Version: version, Name: "NULL", Binding: binding.None, Idempotent: true}
		table[0] = &Method{Proc: null, Inline: true, Handler: s.chain(func(context.Context, *Request) error { return nil })}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	programs := make(map[uint32]*program)
	for n, p := range *s.programs.Load() {
		programs[n] = p
	}
	p := &program{versions: map[uint32][]*Method{version: table}, low: version, high: version}
	if old := programs[prog]; old != nil {
		for v, t := range old.versions {
			if v != version {
				p.versions[v] = t
			}
		}
		p.low, p.high = min(old.low, version), max(old.high, version)
	}
	programs[prog] = p
	s.programs.Store(&programs)
}

func (s *Server) chain(h HandlerFunc) HandlerFunc {
	for i := len(s.opts.servers) - 1; i >= 0; i-- {
		outer, next := s.opts.servers[i], h
		h = func(ctx context.Context, r *Request) error { return outer(ctx, r, next) }
	}
	return h
}

// find is the method of a request whose header was read.
func (s *Server) find(r *Request) (*Method, error) {
	p := (*s.programs.Load())[r.Program]
	if p != nil {
		if t := p.versions[r.Version]; r.Proc < uint32(len(t)) && t[r.Proc] != nil {
			return t[r.Proc], nil
		}
	}
	return nil, methodNotFound(p, r.Version)
}

// Serve takes connections of l until l or the server is closed, or ctx ends, which ends the
// connections as well; for an orderly end see Shutdown. It closes l, and returns when no goroutine of
// it is left; nil unless l failed.
func (s *Server) Serve(ctx context.Context, l *Listener) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		l.Close()
		return ErrClosed
	}
	s.listeners[l] = struct{}{}
	s.serving.Add(1)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
		s.serving.Done()
	}()
	stop := context.AfterFunc(ctx, func() { l.stop() })
	defer stop()
	life, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(s.life, end)()
	err := l.serve(ctx, life, s)
	if closed := l.Close(); err == nil {
		err = closed
	}
	if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
		return nil
	}
	return err
}

// settingUp announces a connection: from here on calls may come. False: the server is closing.
func (s *Server) settingUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.setups++
	return true
}

// accepted counts in a connection that was announced; nil: it did not come about.
func (s *Server) accepted(c serverConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setups--
	if c != nil {
		s.conns[c] = struct{}{}
	}
}

// idle tells whether nothing is being served, nor can be soon.
func (s *Server) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.Serving() > 0 {
			return false
		}
	}
	return s.setups == 0
}

// each calls f for every connection.
func (s *Server) each(f func(serverConn)) {
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	for _, c := range conns {
		f(c)
	}
}

func (s *Server) ended(c serverConn) {
	n := c.Counters().Totals()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.conns[c]; ok {
		delete(s.conns, c)
		s.past.Add(n)
	}
}

// Counters are the sums over all connections, present and past.
func (s *Server) Counters() obs.Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.past
	for c := range s.conns {
		n.Add(c.Counters())
	}
	return n
}

// Connections is how many connections are up.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Shutdown takes no further connections and begins no further calls but those of procedure 0, by which a client
// finds out whether its server still is there (clients send the others again, elsewhere, when the connection
// ends), waits until those in progress have been answered, and
// closes. When ctx ends first it cuts them short and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !s.idle() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.Close()
			return context.Cause(ctx)
		}
	}
	s.each(func(c serverConn) { c.Close() })
	stop := context.AfterFunc(ctx, s.die) // for what is carried through without its connection
	s.wait()
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}

// Close ends every connection at once, and returns when no goroutine of the server is left.
func (s *Server) Close() error {
	s.stop()
	s.die()
	for !s.noSetups() {
		time.Sleep(time.Millisecond)
	}
	s.each(func(c serverConn) { c.Abort(ErrClosed) })
	s.wait()
	return nil
}

func (s *Server) noSetups() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.setups == 0
}

// stop stops the listeners.
func (s *Server) stop() {
	s.mu.Lock()
	s.closing = true
	s.draining.Store(true)
	listeners := slices.Collect(maps.Keys(s.listeners))
	s.mu.Unlock()
	for _, l := range listeners {
		l.stop()
	}
}

func (s *Server) wait() {
	s.workers.close()
	s.serving.Wait()
}

// dispatch serves a request, or finds that it has been served already; within transport.Service.Serve. ctx ends with its
// connection, life with the server. backward: we are the client, and the goroutine may be one of its callers'.
func (s *Server) dispatch(tr *transport.Request, ctx, life context.Context, l *line, backward bool) {
	r := requestOf(tr)
	r.ctx, r.life, r.backward, r.line, r.queued = ctx, life, backward, l, 0
	err := r.begin(tr.Stream, tr.Moved)
	if s.draining.Load() && (err != nil || r.Proc != 0) { // NULL asks whether we still are at what we have begun
		r.finish(false, false)
		return
	}
	if err == nil {
		err = s.identify(r, tr.Stream)
	}
	switch {
	case errors.Is(err, rpcmsg.ErrDiscard):
		r.finish(false, false)
	case err != nil:
		r.refuse(err)
		r.note(obs.CallRefused, r.status())
		r.finish(true, false)
	case r.own:
		r.control()
		r.finish(true, false)
	case !r.Method.Proc.Idempotent && s.replies != nil && !s.claim(r):
	case r.Method.Inline && !r.backward:
		s.execute(r, false)
	case s.enqueue(l, r) != nil:
		s.abandon(r, false)
	}
}

// identify finds the caller, and the method that serves r.
func (s *Server) identify(r *Request, stream []byte) error {
	if s.fallsBack(r) {
		return s.fallBack(r)
	}
	err := r.authenticate(s, stream)
	if err == nil && !r.own {
		r.Method, err = s.find(r)
	}
	return err
}

// enqueue hands r to a worker.
func (s *Server) enqueue(l *line, r *Request) error {
	r.enqueued()
	return s.workers.submit(l, r)
}

// claim reports whether r is to be executed; else it is taken care of. Within Serve.
func (s *Server) claim(r *Request) bool {
	v, replaced := s.replies.claim(r)
	if replaced != nil {
		replaced.note(obs.CacheDrop, 0)
		replaced.finish(false, true)
	}
	switch v {
	case execute:
		r.ctx = r.life
		return true
	case repeat:
		r.note(obs.CacheReply, 0)
		r.answer(false)
	case ignore:
		r.note(obs.CacheDrop, 0)
		r.finish(false, false)
	}
	return false
}

// execute serves r, and answers it and its repetition.
func (s *Server) execute(r *Request, flush bool) {
	defer s.executed(r, flush) // also when the handler ends its goroutine
	if to := r.recorder(); to == nil {
		r.run(s)
	} else {
		r.runRecorded(s, to)
	}
}

func (s *Server) executed(r *Request, flush bool) {
	if r.discarded {
		s.abandon(r, flush)
		return
	}
	var again *Request
	if r.cached != nil {
		again = s.replies.settle(r)
	}
	r.answer(flush)
	if again != nil {
		again.note(obs.CacheReply, 1)
		again.answer(true)
	}
}

// abandon drops r, which will not be answered, and its repetition.
func (s *Server) abandon(r *Request, flush bool) {
	if r.cached != nil {
		if again := s.replies.forget(r); again != nil {
			again.note(obs.CacheDrop, 0)
			again.finish(false, true)
		}
	}
	r.finish(false, flush)
}

func stack() string { return string(debug.Stack()) }
