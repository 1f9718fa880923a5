package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/rpcrdma/rpcrdma/core/ext"
	pb "github.com/rpcrdma/rpcrdma/extensions/sdk/extensionpb"
)

// What may wait for a program that does not read. What comes then is lost: a program that lives reads.
const (
	maxOut      = 1 << 16
	maxOutBytes = 64 << 20
	maxCommand  = ext.MaxInfo + 4096
	maxBatch    = 256 << 10 // bytes of a message to the program, beyond its first command
)

// link is the stream: one goroutine reads events (run), one writes commands, and each connection has one of its own.
type link struct {
	x       ext.Extension
	decl    ext.Declaration
	version int

	conns map[uint64]*conn // the reader's
	wg    sync.WaitGroup   // of connections

	ready chan struct{} // one token: out is not empty
	mu    sync.Mutex
	out   []*pb.Command
	bytes int
	lost  bool
}

// run reads until the stream ends.
func (l *link) run(stream pb.Extension_RunServer) (err error) {
	ctx, cancel := context.WithCancel(stream.Context())
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.write(ctx, stream)
	}()
	defer func() {
		for _, c := range l.conns {
			c.push(item{close: net.ErrClosed})
		}
		l.wg.Wait()
		cancel()
		<-written
	}()
	for {
		m, err := stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		for _, e := range m.GetEvents() {
			l.event(e)
		}
	}
}

// event hands an event to its connection. A program that keeps the protocol sends none of another's.
func (l *link) event(e *pb.Event) {
	c := l.conns[e.GetConn()]
	if e.GetConnect() != nil && c == nil {
		c = newConn(l, e)
		l.conns[e.GetConn()] = c
		l.wg.Go(c.run)
		return
	}
	if c == nil {
		return
	}
	if e.GetFacts() != nil {
		c.mu.Lock()
		c.facts = e.GetFacts().Ext()
		c.mu.Unlock()
	}
	c.push(item{event: e})
	if e.GetClosed() != nil {
		delete(l.conns, e.GetConn())
	}
}

// send queues a command. It never blocks. The error says why it is lost.
func (l *link) send(c *pb.Command) error {
	n := proto.Size(c)
	if n > maxCommand {
		slog.Error("a value or info beyond 64 KiB is not sent", "bytes", n)
		return errTooLong
	}
	l.mu.Lock()
	if c.GetTook() == nil && (len(l.out) >= maxOut || l.bytes+n > maxOutBytes) { // what was taken the program must know; its events are bounded
		if !l.lost {
			l.lost = true
			slog.Error("the program does not read: commands are lost")
		}
		l.mu.Unlock()
		return errNotRead
	}
	l.out = append(l.out, c)
	l.bytes += n
	l.mu.Unlock()
	select {
	case l.ready <- struct{}{}:
	default:
	}
	return nil
}

// write sends what waits, several commands at a time.
func (l *link) write(ctx context.Context, stream pb.Extension_RunServer) {
	for {
		select {
		case <-l.ready:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		out := l.out
		l.out, l.bytes = nil, 0
		l.mu.Unlock()
		for len(out) > 0 {
			n, size := 0, 0
			for n < len(out) && (n == 0 || size+proto.Size(out[n]) <= maxBatch) {
				size += proto.Size(out[n]) + 8
				n++
			}
			if stream.Send(&pb.Commands{Commands: out[:n]}) != nil {
				return // the reader learns it too
			}
			out = out[n:]
		}
	}
}

// ended is why a connection ended, as Closed told. A program's errors do not cross: what they say does.
type ended struct{ text string }

func (e *ended) Error() string { return e.text }

// Is: every connection that ended with an error is closed.
func (e *ended) Is(target error) bool { return target == net.ErrClosed }

var (
	errCalls   = fmt.Errorf("more than %d calls of the connection are open", MaxCalls)
	errTooLong = fmt.Errorf("a command is %d bytes at most", maxCommand)
	errNotRead = errors.New("the program does not read: the command is lost")
)
