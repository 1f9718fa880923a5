package server3

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// Squash says which callers act as the anonymous user.
type Squash int

const (
	// SquashDefault is SquashRoot. A server that does not run as root acts for nobody else: there
	// every caller has the server's own ids, whatever is asked for.
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
	// Secret keys the MAC in handles, so that nobody can make one up; see HandleKey. nil: a random one, and handles die with the
	// server. Two servers that are to accept each other's handles need the same.
	Secret []byte
	// MaxOpen bounds the objects kept open; 0: a quarter of the limit on open
	// files, at most 4096.
	MaxOpen int
	// Log gets what an operator should see while the server runs. nil: nothing is said.
	Log *slog.Logger

	// For tests: what an ordinary user, or a file system without handles, lacks.
	noOpenByHandle, noKernelHandles bool
	searchLimit                     int
	alone                           bool
}

// idleOpen is how long an object that nobody uses stays open. A file removed on the
// server keeps its space until then.
const idleOpen = 4 * time.Second

// Server serves one export. Its methods may be called from several goroutines.
type Server struct {
	locks
	opt    Options
	squash Squash
	anon   IDs
	rights rights

	exp     *export
	nodes   *nodes
	streams streams
	mounts  mounts

	verfMu sync.Mutex
	verf   nfs3.Verf

	stop chan struct{}
	done sync.WaitGroup
	once sync.Once
}

// New opens dir for export. Close ends it, after the transport has ended.
func New(dir string, o Options) (*Server, error) {
	s := &Server{opt: o, squash: o.Squash, anon: nobody, stop: make(chan struct{})}
	if s.squash == SquashDefault {
		s.squash = SquashRoot
	}
	if o.Anon != nil {
		s.anon = *o.Anon
	}
	if s.anon.UID == noID || s.anon.GID == noID {
		return nil, fmt.Errorf("nfs: anonymous user %d:%d: %d is nobody's id", s.anon.UID, s.anon.GID, uint32(noID))
	}
	if err := s.rights.init(cred{uid: s.anon.UID, gid: s.anon.GID}, s.squash != SquashNone); err != nil {
		return nil, fmt.Errorf("nfs: %w", err)
	}
	if o.alone {
		s.rights.acts = false
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

// Notes says in one line each what an operator should know of how this server serves.
func (s *Server) Notes() (lines []string) {
	if !s.rights.acts {
		lines = append(lines, fmt.Sprintf("not root: every caller acts as user %d, group %d", s.rights.own.uid, s.rights.own.gid))
	}
	if len(s.opt.Secret) == 0 {
		lines = append(lines, "no key is kept: file handles die with this process, and clients that hold some must mount again")
	}
	return lines
}

// Stuck is how many threads were given up because their credentials could not be restored.
func (s *Server) Stuck() int64 { return s.rights.stuck.Load() }

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
