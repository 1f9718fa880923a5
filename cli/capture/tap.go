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

// queueLimit bounds what waits to be written.
const queueLimit = 64 << 20

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

// Frame queues a frame; see verbs.Tap.
func (f *File) Frame(local, remote netip.AddrPort, sent bool, parts ...[]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	now := time.Now() // here, so that times in the file never go back
	key := [2]netip.AddrPort{local, remote}
	s := f.streams[key]
	if s == nil {
		s = &stream{local: unmap(local), remote: unmap(remote)}
		f.streams[key] = s
		// Who speaks first has connected: so does MPA have it (RFC 5044 §7.1.3).
		for _, h := range [][]byte{s.headers(sent, flagSYN), s.headers(!sent, flagSYN|flagACK), s.headers(sent, flagACK)} {
			f.queue = appendPacket(f.queue, now, sent, h)
		}
	}
	for len(parts) > 0 {
		var seg [][]byte
		seg, parts = cut(parts, mss)
		h := s.headers(sent, flagPSH|flagACK, seg...)
		if len(f.queue) > queueLimit {
			f.lost++
			continue
		}
		f.queue = appendPacket(f.queue, now, sent, append([][]byte{h}, seg...)...)
	}
	f.kick()
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

// Close writes what is queued. The error also tells of segments that were left out.
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
		return fmt.Errorf("%d segments came faster than the file could take them and are missing", f.lost)
	}
	return err
}
