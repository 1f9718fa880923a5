package server3

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// Squash says which callers act as the anonymous user.
type Squash int

const (
	// SquashDefault is SquashRoot; in a server that is not root itself SquashAll with the
	// server's own ids, because it could not act for anybody else.
	SquashDefault Squash = iota
	SquashRoot
	SquashAll
	SquashNone
)

// ParseSquash reads "root", "all" or "none".
func ParseSquash(s string) (Squash, error) {
	switch s {
	case "":
		return SquashDefault, nil
	case "root":
		return SquashRoot, nil
	case "all":
		return SquashAll, nil
	case "none":
		return SquashNone, nil
	}
	return 0, fmt.Errorf("nfs: squash %q is none of root, all, none", s)
}

// IDs are those of the anonymous user.
type IDs struct{ UID, GID uint32 }

// nobody is the anonymous user unless Options say another.
var nobody = IDs{65534, 65534}

// Options of a server. The zero value serves everybody, for reading and writing, with
// root squashed.
type Options struct {
	ReadOnly bool
	Squash   Squash
	Anon     *IDs           // nil: 65534:65534
	Allow    []netip.Prefix // none: everybody
	// Async answers before names and attributes are on stable storage, against RFC 1813
	// §4.7; data is not affected, COMMIT and FILE_SYNC hold.
	Async bool
	// Secret keys the MAC in handles. nil: the machine's id; two servers
	// that are to accept each other's handles need the same.
	Secret []byte
	// MaxOpen bounds the objects kept open; 0: a quarter of the limit on open
	// files, at most 4096.
	MaxOpen int

	// For tests: what an ordinary user, or a file system without handles, lacks.
	noOpenByHandle, noKernelHandles, noOpenat2 bool
	searchLimit                                int
}

// idleOpen is how long an object that nobody uses stays open. A file removed on the
// server keeps its space until then.
const idleOpen = 4 * time.Second

// Server serves one export. Its methods may be called from several goroutines.
type Server struct {
	opt    Options
	squash Squash
	anon   IDs
	root   bool // we may act for others

	exp     *export
	nodes   *nodes
	streams streams
	locks   [64]sync.Mutex
	mounts  mounts

	verfMu sync.Mutex
	verf   nfs3.Verf

	stop chan struct{}
	done sync.WaitGroup
	once sync.Once
}

// New opens dir for export. Close ends it, after the transport has ended.
func New(dir string, o Options) (*Server, error) {
	s := &Server{opt: o, squash: o.Squash, anon: nobody, root: os.Geteuid() == 0, stop: make(chan struct{})}
	if s.squash == SquashDefault {
		s.squash = SquashRoot
		if !s.root {
			s.squash = SquashAll
			s.anon = IDs{uint32(os.Geteuid()), uint32(os.Getegid())}
		}
	}
	if o.Anon != nil {
		s.anon = *o.Anon
	}
	exp, err := openExport(dir, &o)
	if err != nil {
		return nil, fmt.Errorf("nfs: export %s: %w", dir, err)
	}
	s.exp = exp
	n := o.MaxOpen
	if n <= 0 {
		n = defaultMaxOpen()
	}
	s.nodes = newNodes(n)
	s.newVerf()
	s.done.Go(s.sweep)
	return s, nil
}

func defaultMaxOpen() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 256
	}
	return int(min(max(l.Cur/4, 16), 4096))
}

// Close closes what is open.
func (s *Server) Close() error {
	err := errors.New("nfs: server closed twice")
	s.once.Do(func() {
		close(s.stop)
		s.done.Wait()
		s.streams.close(time.Time{})
		s.nodes.close()
		err = s.exp.close()
	})
	return err
}

// Dir is the directory that is exported.
func (s *Server) Dir() string { return s.exp.dir }

func (s *Server) sweep() {
	t := time.NewTicker(idleOpen / 2)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case now := <-t.C:
			s.nodes.sweep(now.Add(-idleOpen))
			s.streams.close(now.Add(-4 * idleOpen))
		}
	}
}

// newVerf changes the write verifier: at the start, and when unstable data may have been
// lost because the kernel could not write it (RFC 1813 §3.3.7).
func (s *Server) newVerf() {
	s.verfMu.Lock()
	defer s.verfMu.Unlock()
	rand.Read(s.verf[:])
}

func (s *Server) writeVerf() nfs3.Verf {
	s.verfMu.Lock()
	defer s.verfMu.Unlock()
	return s.verf
}

// lock serializes changes of one object, or of two, made through this server, so that
// wcc_data of directories is exact among its clients.
func (s *Server) lock(a, b *node) (unlock func()) {
	i, j := a.ino%uint64(len(s.locks)), b.ino%uint64(len(s.locks))
	if i > j {
		i, j = j, i
	}
	s.locks[i].Lock()
	if i == j {
		return s.locks[i].Unlock
	}
	s.locks[j].Lock()
	return func() {
		s.locks[j].Unlock()
		s.locks[i].Unlock()
	}
}
