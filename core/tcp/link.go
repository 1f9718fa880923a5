package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/watch"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Link is a client's connection. It implements transport.Link.
type Link struct {
	socket
	max     int           // bytes of a record
	timeout time.Duration // of calls without a deadline

	writing chan struct{} // held while writing: one record at a time
	wbuf    []byte
	ticker  ticker

	mu       sync.Mutex // guards what follows
	pending  map[uint32]*pendingCall
	closing  bool
	why      error // of Abort
	counters obs.Counters
}

type pendingCall struct {
	done   chan struct{}
	record []byte
	err    error
}

// Dial connects to addr, host:port.
func Dial(ctx context.Context, addr string, cfg Config) (*Link, error) {
	cfg = cfg.withDefaults(watch.DefaultClientIdle)
	var d net.Dialer
	if cfg.Local.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(cfg.Local, 0))
	}
	dial := d.DialContext
	if cfg.ReservedPort {
		dial = reservedPort(d)
	}
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	l := &Link{
		socket: newSocket(conn, cfg.Recorder), max: cfg.MaxRecord, timeout: cfg.CallTimeout,
		writing: make(chan struct{}, 1), pending: make(map[uint32]*pendingCall),
	}
	l.connection(obs.ConnUp, false)
	l.ticker.start(&cfg, l.look, l.Abort)
	go l.read()
	return l, nil
}

// Serving implements transport.Conn: a server makes no calls here.
func (l *Link) Serving() int { return 0 }

// Abort implements transport.Conn. Its calls end with a *transport.LostError.
func (l *Link) Abort(err error) {
	l.mu.Lock()
	if l.why == nil {
		l.why = err
	}
	l.mu.Unlock()
	l.conn.Close()
}

// Counters implements transport.Conn.
func (l *Link) Counters() obs.Counters {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.counters
	n.Outstanding = uint64(len(l.pending))
	return n
}

// Do implements transport.Link: it sends the call as one record and waits for the reply's.
func (l *Link) Do(ctx context.Context, call *transport.Call) error {
	if l.recorder == nil {
		return l.do(ctx, call)
	}
	began := obs.Now()
	l.record(obs.Event{Kind: obs.CallBegun, XID: call.XID, Arg: procedureOf(call)})
	err := l.do(ctx, call)
	done := obs.Event{Kind: obs.CallDone, XID: call.XID}
	if err != nil {
		done.Arg = 1
	}
	l.ended(began, done)
	return err
}

func (l *Link) do(ctx context.Context, call *transport.Call) error {
	if n := call.Msg.Len(); n > l.max {
		return fmt.Errorf("call of %d bytes: the limit on tcp is %d (WithTCPRecord)", n, l.max)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, l.timeout, transport.ErrTimeout)
		defer cancel()
	}
	tc := &pendingCall{done: make(chan struct{})}
	l.mu.Lock()
	if l.pending == nil || l.closing {
		l.mu.Unlock()
		return &transport.LostError{Err: l.Err()}
	}
	if l.pending[call.XID] != nil {
		l.mu.Unlock()
		return &transport.XIDInUseError{XID: call.XID}
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
		if l.recorder != nil {
			l.record(obs.Event{Kind: obs.CallCancel, XID: call.XID})
		}
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
func (l *Link) write(ctx context.Context, msg *xdr.Writer) error {
	select {
	case l.writing <- struct{}{}:
		defer func() { <-l.writing }()
	case <-ctx.Done():
		return nil
	}
	if l.recorder != nil {
		l.message(obs.CallSent, xidOf(msg), msg.Len())
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

// look is the link's activity; idle: it closes now.
func (l *Link) look(idle bool) (calls uint64, busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	busy = len(l.pending) > 0
	if idle && !busy {
		l.closing = true
	}
	return l.counters.CallsSent, busy
}

// Closing implements transport.Conn.
func (l *Link) Closing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing || l.pending == nil
}

func (l *Link) read() {
	err := readRecords(l.conn, l.max, &l.ticker, func(record []byte) error {
		xid, isReply, ok := rpcmsg.PeekType(record)
		l.mu.Lock()
		defer l.mu.Unlock()
		tc := l.pending[xid]
		if !ok || !isReply || tc == nil {
			l.counters.Dropped++
			if l.recorder != nil {
				l.record(obs.Event{Kind: obs.Dropped, XID: xid})
			}
			return nil
		}
		delete(l.pending, xid)
		l.counters.RepliesRecv++
		l.counters.Inline++
		l.counters.InlineBytes += uint64(len(record))
		tc.record = record
		if l.recorder != nil {
			l.message(obs.ReplyRecv, xid, len(record))
		}
		close(tc.done)
		return nil
	})
	l.ticker.stop()
	l.conn.Close()
	l.mu.Lock()
	pending := l.pending
	l.pending = nil
	if l.why != nil {
		err = l.why
	}
	l.err.Store(&err)
	l.mu.Unlock()
	l.connection(obs.ConnDown, err != nil)
	close(l.gone)
	for _, tc := range pending {
		tc.err = &transport.LostError{Sent: true, Err: err}
		close(tc.done)
	}
}
