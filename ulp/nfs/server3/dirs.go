package server3

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
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

	dir   nfs3.Handle
	used  time.Time
	ctime unix.Timespec // of the directory, when buf was filled; the zero time: changes would not show
}

// peek is the next entry, or nil at the end.
func (s *stream) peek() (*dirent, error) {
	if len(s.rest) == 0 {
		if err := s.date(); err != nil {
			return nil, err
		}
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

// coarse is longer than a file system's clock stands still: of two changes in that time, the second
// may leave the first one's time.
const coarse = 50 * time.Millisecond

// date notes the state of the directory that buf is about to be filled from.
func (s *stream) date() error {
	var st stat
	if err := unix.Fstat(s.fd, &st); err != nil {
		return err
	}
	s.ctime = st.Ctim
	if time.Since(time.Unix(st.Ctim.Unix())) < coarse {
		s.ctime = unix.Timespec{}
	}
	return nil
}

// renew forgets entries read ahead: the directory may have got others since.
func (s *stream) renew() error {
	s.rest, s.eof = nil, false
	_, err := unix.Seek(s.fd, int64(s.at), unix.SEEK_SET)
	return err
}

// next consumes the entry that peek showed.
func (s *stream) next() { s.rest, s.at = s.tail, s.head.off }

func (s *stream) close() { unix.Close(s.fd) }

// streams keeps directories open between the requests of one listing, so that the next
// one goes on where the last stopped. They are a convenience: any cookie can be sought. On
// file systems whose positions count entries only an open stream stays right while the
// directory changes.
//
// Nothing tells which listing a request belongs to, so a stream may go on in another one that has come to the same cookie.
// What it has read ahead would lack entries made before that one began; so it reads them again
// when the directory has changed since.
type streams struct {
	mu   sync.Mutex
	idle []*stream // the latest last
}

const (
	maxStreams = 32
	streamBuf  = 32 << 10
)

// take hands out a stream of d, whose attributes are st, that stands at cookie.
func (c *streams) take(d *node, st *stat, cookie uint64) (*stream, error) {
	if s := c.find(d, cookie); s != nil {
		if s.ctime == st.Ctim && s.ctime != (unix.Timespec{}) || countsEntries(s.fd) {
			return s, nil
		}
		if err := s.renew(); err != nil {
			s.close()
			return nil, err
		}
		return s, nil
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

// find takes the latest stream of d that stands at cookie out of the idle ones.
func (c *streams) find(d *node, cookie uint64) *stream {
	if cookie == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range slices.Backward(c.idle) {
		if s.at == cookie && s.dir == d.h {
			c.idle = slices.Delete(c.idle, i, i+1)
			return s
		}
	}
	return nil
}

// countsEntries tells whether a position in the directory is a number of entries, which means others
// when some come or go: so it is in overlayfs, in ramfs, and in tmpfs before Linux 6.6.
func countsEntries(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	switch st.Type {
	case unix.OVERLAYFS_SUPER_MAGIC, unix.RAMFS_MAGIC:
		return true
	case unix.TMPFS_MAGIC:
		return !stableTmpfs()
	}
	return false
}

// stableTmpfs: directory positions of tmpfs belong to entries since Linux 6.6.
var stableTmpfs = sync.OnceValue(func() bool {
	var u unix.Utsname
	var major, minor int
	if unix.Uname(&u) != nil {
		return false
	}
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 6)
})

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
