package tcp

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
)

const (
	// maxCalls is the calls in flight on one connection.
	maxCalls = 64
	// writeWait is how long the writing of one reply may take.
	writeWait = time.Minute
	// maxUnsent is the most bytes of replies that may wait for peers to read. Beyond it a
	// connection that has one waiting already ends.
	maxUnsent = 256 << 20
)

// conn is a server's connection. Its reader stops reading while maxCalls calls are
// being served.
type conn struct {
	socket
	l      *Listener
	s      transport.Service
	slots  chan struct{}         // taken by requests
	open   sync.WaitGroup        // the same requests
	why    atomic.Pointer[error] // it was ended for, nil inside: idle
	writer sync.WaitGroup        // one goroutine, while there are replies to write
	wbuf   []byte                // the writer's
	ticker ticker

	mu       sync.Mutex // guards what follows
	replies  []*request
	writing  bool
	closing  bool
	ending   bool // Close: the writer closes when it has written what there is
	counters obs.Counters
}

func newConn(l *Listener, nc net.Conn, s transport.Service) *conn {
	if s.Unsent == nil {
		s.Unsent = new(atomic.Int64)
	}
	return &conn{socket: newSocket(nc, l.cfg.Recorder), l: l, s: s, slots: make(chan struct{}, maxCalls)}
}

// run reads the connection to its end, and waits for its requests.
func (c *conn) run() {
	c.connection(obs.ConnUp, true)
	c.ticker.start(&c.l.cfg, c.look, c.end)
	err := readRecords(c.conn, c.l.cfg.MaxRecord, &c.ticker, c.serve)
	c.ticker.stop()
	if why := c.why.Load(); why != nil {
		err = *why
	}
	c.conn.Close()
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.err.Store(&err)
	c.connection(obs.ConnDown, err != nil)
	close(c.gone)
	if c.s.Ended != nil {
		c.s.Ended(c, err)
	}
	c.open.Wait() // handlers still write their replies, into the void
	c.writer.Wait()
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	if c.s.Over != nil {
		c.s.Over(c)
	}
}

// end ends the connection for why; nil: it is idle.
func (c *conn) end(why error) {
	c.why.CompareAndSwap(nil, &why)
	c.conn.Close()
}

// look is the connection's activity; idle: it closes now.
func (c *conn) look(idle bool) (calls uint64, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	busy = len(c.slots) > 0
	if idle && !busy {
		c.closing = true
	}
	return c.counters.CallsRecv, busy
}

// Close implements transport.Conn. Replies that wait to be written leave first, for as long as the writing of one may take.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	if !c.writing {
		return c.conn.Close()
	}
	if !c.ending {
		c.ending = true
		return c.conn.SetWriteDeadline(time.Now().Add(writeWait))
	}
	return nil
}

// Abort implements transport.Conn.
func (c *conn) Abort(err error) { c.end(err) }

// Closing implements transport.Conn.
func (c *conn) Closing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// Serving implements transport.Conn.
func (c *conn) Serving() int { return len(c.slots) }

// Counters implements transport.Conn.
func (c *conn) Counters() obs.Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counters
}

// serve takes one record; it is the request's to keep.
func (c *conn) serve(record []byte) error {
	c.slots <- struct{}{}
	c.open.Add(1)
	r := &request{c: c}
	r.Init(r)
	r.Stream = record
	c.mu.Lock()
	c.counters.CallsRecv++
	c.counters.Inline++
	c.counters.InlineBytes += uint64(len(record))
	closing := c.closing // it could not be answered: so it is not executed
	c.mu.Unlock()
	xid, isReply, ok := rpcmsg.PeekType(record)
	if !ok || isReply || closing {
		if c.recorder != nil {
			c.record(obs.Event{Kind: obs.Dropped, XID: xid})
		}
		r.Drop()
		return nil
	}
	if c.recorder != nil {
		c.message(obs.CallRecv, xid, len(record))
	}
	c.s.Serve(&r.Request)
	return nil
}

// request is a call that came as one record.
type request struct {
	transport.Request
	c *conn
}

// Conn implements transport.Responder.
func (r *request) Conn() transport.Conn { return r.c }

// Attached implements transport.Responder.
func (r *request) Attached() (opttype uint32, info []byte) { return 0, nil }

// Memory implements transport.Responder.
func (r *request) Memory(n int) (*transport.Memory, error) {
	return transport.NewMemory(make([]byte, n), nil), nil
}

// Drop implements transport.Responder.
func (r *request) Drop() {
	r.Results.DropBulk()
	transport.Poison(r.Stream)
	r.c.leave()
}

// leave ends a request.
func (c *conn) leave() {
	<-c.slots
	c.open.Done()
}

// Reply implements transport.Responder: it hands the reply to the connection's writer. No worker waits for a peer that does
// not read.
func (r *request) Reply(_, _ bool) error {
	c, n := r.c, int64(r.Results.Len())
	unsent := c.s.Unsent.Add(n)
	c.mu.Lock()
	c.replies = append(c.replies, r)
	c.counters.RepliesSent++
	c.counters.Inline++
	c.counters.InlineBytes += uint64(n)
	busy := c.writing
	c.writing = true
	c.mu.Unlock()
	switch {
	case !busy:
		c.writer.Go(c.write)
	case unsent > maxUnsent:
		c.conn.Close() // the writer drops what is left
	}
	return nil
}

// write writes replies until none is left.
func (c *conn) write() {
	for {
		c.mu.Lock()
		if len(c.replies) == 0 {
			c.replies, c.writing = nil, false
			if c.ending {
				c.conn.Close() // the reader ends the connection
			}
			c.mu.Unlock()
			return
		}
		r := c.replies[0]
		c.replies[0], c.replies = nil, c.replies[1:]
		if !c.ending { // else Close has set the last one
			c.conn.SetWriteDeadline(time.Now().Add(writeWait))
		}
		c.mu.Unlock()
		n := int64(r.Results.Len())
		if c.recorder != nil {
			c.message(obs.ReplySent, xidOf(&r.Results), int(n))
		}
		c.wbuf = appendRecord(kept(c.wbuf), &r.Results)
		transport.Poison(r.Stream)
		if _, err := c.conn.Write(c.wbuf); err != nil {
			c.conn.Close() // the reader ends the connection
		}
		r.Results.DropBulk()
		c.s.Unsent.Add(-n)
		c.leave()
	}
}
