package capture

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

const (
	queueLimit  = 64 << 20 // bytes that wait to be written
	streamLimit = 1 << 16  // pairs of addresses whose sequence numbers are known; another one begins anew where it was dropped
)

// File is a capture being written. It is a verbs.Tap for any number of connections.
type File struct {
	w    io.WriteCloser
	wake chan struct{}
	done chan struct{}

	mu      sync.Mutex // guards what follows
	queue   []byte
	spare   []byte
	streams map[[2]netip.AddrPort]*stream
	lost    uint64
	closed  bool
	err     error
}

var _ verbs.Tap = (*File)(nil)

// Create makes, or empties, the file of that name.
func Create(name string) (*File, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return New(f), nil
}

// New writes to w and closes it in Close.
func New(w io.WriteCloser) *File {
	f := &File{w: w, wake: make(chan struct{}, 1), done: make(chan struct{}), queue: fileHeader(), streams: make(map[[2]netip.AddrPort]*stream)}
	f.kick()
	go f.write()
	return f
}

// Frame queues a frame; see verbs.Tap. IP packets are written as they are, anything else as segments of a TCP connection.
func (f *File) Frame(fr verbs.Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	now := time.Now() // here, so that times in the file never go back
	if fr.Link == verbs.LinkIP {
		f.add(now, fr.Sent, fr.Parts...)
	} else {
		f.segments(now, fr)
	}
	f.kick()
}

// segments queues a piece of a stream in segments of our making. mu is held.
func (f *File) segments(now time.Time, fr verbs.Frame) {
	key := [2]netip.AddrPort{fr.Local, fr.Remote}
	s := f.streams[key]
	if s == nil || fr.First {
		next := &stream{local: unmap(fr.Local), remote: unmap(fr.Remote)}
		if s != nil { // so that its SYN is no repetition of the last one's
			next.sent, next.rcvd = s.sent+1<<20, s.rcvd+1<<20
		}
		s = next
		if len(f.streams) >= streamLimit {
			for old := range f.streams {
				delete(f.streams, old)
				break
			}
		}
		f.streams[key] = s
		// Whoever speaks first has connected: MPA requires it (RFC 5044 §7.1.3).
		for _, h := range [][]byte{s.headers(fr.Sent, flagSYN), s.headers(!fr.Sent, flagSYN|flagACK), s.headers(fr.Sent, flagACK)} {
			f.queue = appendPacket(f.queue, now, fr.Sent, h)
		}
	}
	for parts := fr.Parts; len(parts) > 0; {
		var seg [][]byte
		seg, parts = cut(parts, mss)
		f.add(now, fr.Sent, append([][]byte{s.headers(fr.Sent, flagPSH|flagACK, seg...)}, seg...)...)
	}
}

// add queues a packet, or counts it as lost. mu is held.
func (f *File) add(now time.Time, sent bool, parts ...[]byte) {
	if len(f.queue) > queueLimit {
		f.lost++
		return
	}
	f.queue = appendPacket(f.queue, now, sent, parts...)
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// cut takes at most n bytes off the front of parts.
func cut(parts [][]byte, n int) (front, rest [][]byte) {
	for i, p := range parts {
		if len(p) > n {
			rest = append([][]byte{p[n:]}, parts[i+1:]...)
			return append(front, p[:n]), rest
		}
		n -= len(p)
		front = append(front, p)
	}
	return front, nil
}

func (f *File) kick() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// write moves the queue to the file until Close.
func (f *File) write() {
	defer close(f.done)
	for range f.wake {
		f.mu.Lock()
		out, closed := f.queue, f.closed
		f.queue, f.spare = f.spare[:0], nil
		f.mu.Unlock()
		_, err := f.w.Write(out)
		f.mu.Lock()
		f.spare = out
		if f.err == nil {
			f.err = err
		}
		f.mu.Unlock()
		if closed {
			return
		}
	}
}

// Close writes what is queued. The error also reports packets that were left out.
func (f *File) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.mu.Unlock()
	f.kick()
	<-f.done
	err := f.w.Close()
	switch {
	case f.err != nil:
		return f.err
	case f.lost > 0 && err == nil:
		return fmt.Errorf("%d packets came faster than the file could take them and are missing", f.lost)
	}
	return err
}
