package server3

import (
	"bytes"
	"encoding/binary"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// dirent is a struct linux_dirent64 (getdents64(2)).
type dirent struct {
	ino, off uint64
	typ      byte
	name     []byte // a view
}

// parse reads the first entry of b and returns what follows it. The kernel made b.
func (d *dirent) parse(b []byte) (rest []byte) {
	n := binary.NativeEndian.Uint16(b[16:])
	d.ino = binary.NativeEndian.Uint64(b)
	d.off = binary.NativeEndian.Uint64(b[8:])
	d.typ = b[18]
	d.name = b[19:n]
	if i := bytes.IndexByte(d.name, 0); i >= 0 {
		d.name = d.name[:i]
	}
	return b[n:]
}

func (d *dirent) dot() bool { return isDots(string(d.name)) }

// stream is a directory being read. It stands behind the entry whose cookie is at.
type stream struct {
	fd   int
	at   uint64
	buf  []byte
	rest []byte // of buf: not yet consumed
	head dirent
	tail []byte // what follows head
	eof  bool

	dir  nfs3.Handle
	used time.Time
}

// peek is the next entry, or nil at the end.
func (s *stream) peek() (*dirent, error) {
	if len(s.rest) == 0 {
		for {
			n, err := unix.Getdents(s.fd, s.buf)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return nil, err
			}
			if s.eof = n == 0; s.eof {
				return nil, nil
			}
			s.rest = s.buf[:n]
			break
		}
	}
	s.tail = s.head.parse(s.rest)
	return &s.head, nil
}

// next consumes the entry that peek showed.
func (s *stream) next() { s.rest, s.at = s.tail, s.head.off }

func (s *stream) close() { unix.Close(s.fd) }

// streams keeps directories open between the requests of one listing, so that the next
// one goes on where the last stopped. They are a convenience: any cookie can be sought. On
// file systems whose positions count entries (tmpfs before Linux 6.6) only an open
// stream stays right while entries are removed.
type streams struct {
	mu   sync.Mutex
	idle []*stream // the latest last
}

const (
	maxStreams = 32
	streamBuf  = 32 << 10
)

// take hands out a stream of d that stands at cookie.
func (c *streams) take(d *node, cookie uint64) (*stream, error) {
	if cookie != 0 {
		c.mu.Lock()
		for i, s := range c.idle {
			if s.at == cookie && s.dir == d.h {
				c.idle = append(c.idle[:i], c.idle[i+1:]...)
				c.mu.Unlock()
				return s, nil
			}
		}
		c.mu.Unlock()
	}
	fd, err := unix.Open(procFD(d.path), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if cookie != 0 {
		if _, err := unix.Seek(fd, int64(cookie), unix.SEEK_SET); err != nil {
			unix.Close(fd)
			return nil, unix.EINVAL
		}
	}
	return &stream{fd: fd, at: cookie, buf: make([]byte, streamBuf), dir: d.h}, nil
}

// give takes a stream back, for the next request of its listing.
func (c *streams) give(s *stream) {
	if s.eof || s.at == 0 {
		s.close()
		return
	}
	s.used = time.Now()
	c.mu.Lock()
	var out *stream
	if len(c.idle) >= maxStreams {
		out = c.idle[0]
		c.idle = append(c.idle[:0], c.idle[1:]...)
	}
	c.idle = append(c.idle, s)
	c.mu.Unlock()
	if out != nil {
		out.close()
	}
}

// close closes the streams not used since; the zero time: all.
func (c *streams) close(since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := c.idle[:0]
	for _, s := range c.idle {
		if since.IsZero() || s.used.Before(since) {
			s.close()
		} else {
			keep = append(keep, s)
		}
	}
	clear(c.idle[len(keep):])
	c.idle = keep
}
