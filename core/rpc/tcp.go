package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// tcpLink is a client's connection of ONC RPC over TCP (RFC 5531 §11). One goroutine
// reads; callers write.
type tcpLink struct {
	conn    net.Conn
	max     int           // bytes of a record
	timeout time.Duration // of calls without a deadline
	gone    chan struct{}

	writing chan struct{} // held while writing: one record at a time
	wbuf    []byte
	watch   tcpWatch

	mu       sync.Mutex // guards what follows
	pending  map[uint32]*tcpCall
	closing  bool
	err      error
	counters obs.Counters
}

type tcpCall struct {
	done   chan struct{}
	record []byte
	err    error
}

func dialTCP(ctx context.Context, r *Route, o *connOptions, lowPort bool) (link, error) {
	var d net.Dialer
	if r.Local != "" {
		addr, err := netip.ParseAddr(r.Local)
		if err != nil {
			return nil, fmt.Errorf("local address %q: want an IP address of this machine", r.Local)
		}
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0))
	}
	dial := d.DialContext
	if lowPort {
		dial = reservedPort(d)
	}
	conn, err := dial(ctx, "tcp", r.Address)
	if err != nil {
		return nil, err
	}
	l := &tcpLink{
		conn: conn, max: o.tcpMax, timeout: o.engine.CallTimeout,
		gone: make(chan struct{}), writing: make(chan struct{}, 1), pending: make(map[uint32]*tcpCall),
	}
	if l.timeout == 0 {
		l.timeout = engine.DefaultCallTimeout
	}
	l.watch.start(&o.engine, engine.DefaultClientIdle, l.max, l.look, func(error) { l.conn.Close() })
	go l.read()
	return l, nil
}

func (l *tcpLink) Done() <-chan struct{} { return l.gone }
func (l *tcpLink) Close() error          { return l.conn.Close() }

func (l *tcpLink) Counters() obs.Counters {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.counters
	n.Outstanding = uint64(len(l.pending))
	return n
}

// Do sends the call as one record and waits for the reply's.
func (l *tcpLink) Do(ctx context.Context, call *engine.Call) error {
	if n := call.Msg.Len(); n > l.max {
		return fmt.Errorf("call of %d bytes: the limit on tcp is %d (WithTCPRecord)", n, l.max)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, l.timeout, engine.ErrTimeout)
		defer cancel()
	}
	tc := &tcpCall{done: make(chan struct{})}
	l.mu.Lock()
	if l.pending == nil || l.closing {
		err := l.err
		l.mu.Unlock()
		return &engine.LostError{Err: err}
	}
	l.pending[call.XID] = tc
	l.counters.CallsSent++
	l.counters.Inline++
	l.counters.InlineBytes += uint64(call.Msg.Len())
	l.mu.Unlock()

	if err := l.write(ctx, &call.Msg); err != nil {
		l.conn.Close() // the reader ends all calls
	}
	select {
	case <-tc.done:
	case <-ctx.Done():
		l.mu.Lock()
		delete(l.pending, call.XID)
		l.mu.Unlock()
		return context.Cause(ctx)
	}
	if tc.err != nil {
		return tc.err
	}
	call.Stream, call.Moved = tc.record, call.Moved[:0]
	for _, d := range call.Into {
		call.Moved = append(call.Moved, xdr.Moved{Position: xdr.InOrder, Into: d.Buf, Loose: call.Grow > 0})
	}
	return nil
}

// write sends one record. When ctx ends in the middle of it the connection is of no more use: the
// error says so. When it ends before, nothing is written.
func (l *tcpLink) write(ctx context.Context, msg *xdr.Writer) error {
	select {
	case l.writing <- struct{}{}:
		defer func() { <-l.writing }()
	case <-ctx.Done():
		return nil
	}
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		l.conn.SetWriteDeadline(time.Unix(1, 0))
		close(cut)
	})
	l.wbuf = appendRecord(kept(l.wbuf), msg)
	n, err := l.conn.Write(l.wbuf)
	if !stop() {
		<-cut
		l.conn.SetWriteDeadline(time.Time{})
		if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
	}
	return err
}

// appendRecord appends msg as a record of one fragment.
func appendRecord(b []byte, msg *xdr.Writer) []byte {
	return msg.AppendUnreduced(rpcmsg.AppendMark(b, msg.Len(), true))
}

// kept is b for use again, unless a large message has made it large.
func kept(b []byte) []byte {
	if cap(b) > tcpKeep {
		return nil
	}
	return b[:0]
}

// look is the link's activity; idle: it closes now.
func (l *tcpLink) look(idle bool) (calls uint64, busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy = len(l.pending) > 0
	if idle && !busy {
		l.closing = true
	}
	return l.counters.CallsSent, busy
}

// Closing tells that the link takes no calls any more.
func (l *tcpLink) Closing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing || l.pending == nil
}

func (l *tcpLink) read() {
	err := readRecords(l.conn, l.max, &l.watch, func(record []byte) error {
		xid, isReply, ok := rpcmsg.PeekType(record)
		l.mu.Lock()
		defer l.mu.Unlock()
		tc := l.pending[xid]
		if !ok || !isReply || tc == nil {
			l.counters.Dropped++
			return nil
		}
		delete(l.pending, xid)
		l.counters.RepliesRecv++
		l.counters.Inline++
		l.counters.InlineBytes += uint64(len(record))
		tc.record = record
		close(tc.done)
		return nil
	})
	l.watch.stop()
	l.conn.Close()
	l.mu.Lock()
	pending := l.pending
	l.pending, l.err = nil, err
	l.mu.Unlock()
	close(l.gone)
	for _, tc := range pending {
		tc.err = &engine.LostError{Sent: true, Err: err}
		close(tc.done)
	}
}

// readRecords calls f with each record, which f keeps, until the stream ends or f fails.
func readRecords(r io.Reader, limit int, w *tcpWatch, f func([]byte) error) error {
	records := rpcmsg.NewRecords(limit)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		for p := buf[:n]; len(p) > 0; {
			rec, used, ferr := records.Feed(p)
			p = p[used:]
			if ferr != nil {
				return ferr
			}
			if rec != nil {
				w.partial(false)
				if len(rec) <= len(buf) {
					rec = append(make([]byte, 0, len(rec)), rec...) // it may be a view into buf
				} else {
					records.SetBuffer(nil) // the record keeps its memory
				}
				if ferr := f(rec); ferr != nil {
					return ferr
				}
			}
		}
		w.partial(records.Pending())
		switch {
		case err == io.EOF && records.Pending():
			return io.ErrUnexpectedEOF
		case err == io.EOF || errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
	}
}

// tcpConn is a server's connection. Its reader stops reading while tcpCalls calls are
// being served.
type tcpConn struct {
	conn   net.Conn
	s      *Server
	ctx    context.Context // ends with it
	life   context.Context // ends with the server
	cancel context.CancelFunc
	slots  chan struct{}
	why    atomic.Pointer[error] // it was ended for, nil inside: idle
	writer sync.WaitGroup        // one goroutine, while there are replies to write
	wbuf   []byte                // the writer's
	watch  tcpWatch
	line   *line

	mu       sync.Mutex // guards what follows
	replies  []*tcpOrigin
	writing  bool
	closing  bool
	counters obs.Counters
}

const (
	tcpCalls = 64
	// tcpKeep is the largest buffer for writing that an idle connection keeps.
	tcpKeep = 64 << 10
	// tcpWriteWait is how long the writing of one reply may take.
	tcpWriteWait = time.Minute
	// tcpUnsent is the most bytes of replies that may wait for peers to read. Beyond it a
	// connection that has one waiting already ends.
	tcpUnsent = 256 << 20
	// acceptPause is how long a listener that has run out of files waits before it looks again.
	acceptPause = 100 * time.Millisecond
)

func (l *Listener) serveTCP(ctx, life context.Context, s *Server) error {
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		nc, err := l.tcp.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case isAny(err, acceptLater):
			s.complaints.warn("connection not accepted", "error", err)
			time.Sleep(acceptPause)
			continue
		case err != nil:
			return err
		}
		peer := nc.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
		if err := l.admits.enter(peer); err != nil {
			s.complaints.warn("connection not accepted", "peer", nc.RemoteAddr(), "error", err)
			nc.Close()
			continue
		}
		if !s.settingUp() {
			l.admits.leave(peer)
			nc.Close()
			continue
		}
		c := &tcpConn{conn: nc, s: s, life: life, slots: make(chan struct{}, tcpCalls)}
		c.ctx, c.cancel = context.WithCancel(ctx)
		c.line = s.workers.open(peer)
		s.accepted(c)
		conns.Go(func() {
			stop := context.AfterFunc(ctx, func() { nc.Close() })
			c.watch.start(&l.opts.engine, engine.DefaultServerIdle, l.opts.tcpMax, c.look, func(why error) {
				c.why.Store(&why)
				nc.Close()
			})
			err := readRecords(nc, l.opts.tcpMax, &c.watch, c.serve)
			c.watch.stop()
			stop()
			if why := c.why.Load(); why != nil {
				err = *why
			}
			if err != nil {
				s.complaints.warn("connection ended", "peer", nc.RemoteAddr(), "error", err)
			}
			c.cancel()
			nc.Close()
			for range cap(c.slots) { // handlers still write their replies, into the void
				c.slots <- struct{}{}
			}
			c.writer.Wait()
			s.workers.leave(c.line)
			l.admits.leave(peer)
			s.ended(c)
		})
	}
}

// look is the connection's activity; idle: it closes now.
func (c *tcpConn) look(idle bool) (calls uint64, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	busy = len(c.slots) > 0
	if idle && !busy {
		c.closing = true
	}
	return c.counters.CallsRecv, busy
}

func (c *tcpConn) Close() error               { return c.conn.Close() }
func (c *tcpConn) Abort(error)                { c.conn.Close() }
func (c *tcpConn) Done() <-chan struct{}      { return c.ctx.Done() }
func (c *tcpConn) RemoteAddr() netip.AddrPort { return c.conn.RemoteAddr().(*net.TCPAddr).AddrPort() }
func (c *tcpConn) Serving() int               { return len(c.slots) }

func (c *tcpConn) Counters() obs.Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counters
}

// serve takes one record; it is the request's to keep.
func (c *tcpConn) serve(record []byte) error {
	c.slots <- struct{}{}
	o := &tcpOrigin{c: c}
	r := &o.Request
	r.from, r.ctx, r.life, r.Results = o, c.ctx, c.life, new(xdr.Writer)
	c.mu.Lock()
	c.counters.CallsRecv++
	c.counters.Inline++
	c.counters.InlineBytes += uint64(len(record))
	closing := c.closing // it could not be answered: so it is not executed
	c.mu.Unlock()
	if _, isReply, ok := rpcmsg.PeekType(record); !ok || isReply || closing {
		o.finish(r, false, false)
		return nil
	}
	c.s.take(r, c.line, record, nil, true)
	return nil
}

// tcpOrigin is a request over TCP.
type tcpOrigin struct {
	Request
	c *tcpConn
}

func (o *tcpOrigin) remote() netip.AddrPort { return o.c.RemoteAddr() }

func (o *tcpOrigin) link() any { return o.c }

func (o *tcpOrigin) buffer(n int) (*Buffer, error) {
	return engine.NewMemory(make([]byte, n), nil), nil
}

// finish hands the reply to the connection's writer: no worker waits for a peer that does not
// read.
func (o *tcpOrigin) finish(r *Request, send, _ bool) {
	c := o.c
	if !send {
		r.Results.DropBulk()
		<-c.slots
		return
	}
	n := int64(r.Results.Len())
	unsent := c.s.unsent.Add(n)
	c.mu.Lock()
	c.replies = append(c.replies, o)
	c.counters.RepliesSent++
	c.counters.Inline++
	c.counters.InlineBytes += uint64(n)
	busy := c.writing
	c.writing = true
	c.mu.Unlock()
	switch {
	case !busy:
		c.writer.Go(c.write)
	case unsent > tcpUnsent:
		c.conn.Close() // the writer drops what is left
	}
}

// write writes replies until none is left.
func (c *tcpConn) write() {
	for {
		c.mu.Lock()
		if len(c.replies) == 0 {
			c.replies, c.writing = nil, false
			c.mu.Unlock()
			return
		}
		r := &c.replies[0].Request
		c.replies[0], c.replies = nil, c.replies[1:]
		c.mu.Unlock()
		n := int64(r.Results.Len())
		c.wbuf = appendRecord(kept(c.wbuf), r.Results)
		c.conn.SetWriteDeadline(time.Now().Add(tcpWriteWait))
		if _, err := c.conn.Write(c.wbuf); err != nil {
			c.conn.Close() // the reader ends the connection
		}
		r.Results.DropBulk()
		c.s.unsent.Add(-n)
		<-c.slots
	}
}
