package server3

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// places remembers under which directory and name an inode was last seen, for servers that
// may not open by handle: an ordinary user, or a file system without handles. What it
// does not know, or no longer rightly, is searched for below the root.
//
// The parent is kept by inode, so a directory that is renamed takes along what is
// remembered below it.
type places struct {
	mu     sync.Mutex
	byIno  map[uint64]*list.Element
	lru    list.List // of place, the latest first
	missed map[nfs3.Handle]time.Time

	searching sync.Mutex // one search at a time: they read the disk
	rest      time.Time  // none before
	limit     int
}

type place struct {
	ino, parent uint64
	name        string
}

const (
	maxPlaces = 1 << 16
	// maxSearch is the most directory entries looked at for one handle. Beyond it the
	// file counts as gone.
	maxSearch = 1 << 20
	// A handle that was searched for in vain is stale without another search for a while.
	missedFor = 5 * time.Second
	maxMissed = 1024
	// A search that takes longer is a cost worth bounding.
	costly = 200 * time.Millisecond
)

func newPlaces(limit int) *places {
	if limit <= 0 {
		limit = maxSearch
	}
	return &places{byIno: map[uint64]*list.Element{}, missed: map[nfs3.Handle]time.Time{}, limit: limit}
}

// remember notes where an inode was seen.
func (e *export) remember(ino, parent uint64, name string) {
	if e.byHandle && e.kernel {
		return
	}
	p := e.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if el, ok := p.byIno[ino]; ok {
		pl := el.Value.(*place)
		if pl.name != name {
			pl.name = strings.Clone(name) // name may be a view into a message
		}
		pl.parent = parent
		p.lru.MoveToFront(el)
		return
	}
	if el, ok := p.byIno[parent]; ok {
		p.lru.MoveToFront(el) // a long listing does not push out the way to itself
	}
	if p.lru.Len() >= maxPlaces {
		delete(p.byIno, p.lru.Remove(p.lru.Back()).(*place).ino)
	}
	p.byIno[ino] = p.lru.PushFront(&place{ino, parent, strings.Clone(name)})
}

// path puts together where ino was last seen, relative to the root.
func (p *places) path(ino, root uint64) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for ino != root {
		el, ok := p.byIno[ino]
		if !ok || len(names) == maxDepth {
			return "", false
		}
		p.lru.MoveToFront(el)
		pl := el.Value.(*place)
		names = append(names, pl.name)
		ino = pl.parent
	}
	var b strings.Builder
	for i := len(names) - 1; i >= 0; i-- {
		b.WriteString(names[i])
		if i > 0 {
			b.WriteByte('/')
		}
	}
	return b.String(), b.Len() > 0
}

// find opens what h names by where it was last seen, else by a search.
func (e *export) find(ino uint64, h *nfs3.Handle) (int, unix.Stat_t, nfs3.Status) {
	var st unix.Stat_t
	if fd, ok := e.atPlace(ino, h, &st); ok {
		return fd, st, nfs3.OK
	}
	p := e.places
	p.searching.Lock()
	defer p.searching.Unlock()
	if fd, ok := e.atPlace(ino, h, &st); ok { // another search came by it
		return fd, st, nfs3.OK
	}
	if at, ok := p.missed[*h]; ok && time.Since(at) < missedFor {
		return -1, st, nfs3.ErrStale
	}
	start := time.Now()
	if start.Before(p.rest) {
		return -1, st, nfs3.ErrJukebox
	}
	if e.search(ino) {
		if fd, ok := e.atPlace(ino, h, &st); ok {
			return fd, st, nfs3.OK
		}
	}
	// Searches in vain of a large tree take half of the time at most: who sends many
	// old handles waits.
	if took := time.Since(start); took > costly {
		p.rest = time.Now().Add(took)
	}
	if len(p.missed) >= maxMissed {
		clear(p.missed)
	}
	p.missed[*h] = time.Now()
	return -1, st, nfs3.ErrStale
}

func (e *export) atPlace(ino uint64, h *nfs3.Handle, st *unix.Stat_t) (int, bool) {
	path, ok := e.places.path(ino, e.st.Ino)
	if !ok {
		return -1, false
	}
	fd, err := e.openPath(path)
	if err != nil {
		return -1, false
	}
	if !e.is(fd, h, st) {
		unix.Close(fd)
		return -1, false
	}
	return fd, true
}

// search looks for an inode below the root, breadth first, and remembers the
// directories it comes through and the inode.
func (e *export) search(ino uint64) bool {
	type dir struct {
		path string
		ino  uint64
	}
	queue := []dir{{".", e.st.Ino}}
	buf := make([]byte, 32<<10)
	for seen := 0; len(queue) > 0; {
		d := queue[0]
		queue = queue[1:]
		named, err := e.openPath(d.path)
		if err != nil {
			continue
		}
		fd, err := unix.Open(procFD(named), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(named)
		if err != nil {
			continue
		}
		found := false
		for !found {
			n, err := unix.Getdents(fd, buf)
			if err != nil || n <= 0 {
				break
			}
			for b := buf[:n]; len(b) > 0; {
				var de dirent
				if b = de.parse(b); de.dot() {
					continue
				}
				if seen++; seen > e.places.limit {
					unix.Close(fd)
					return false
				}
				name := string(de.name)
				if de.ino == ino {
					e.remember(ino, d.ino, name)
					found = true
				} else if de.typ == unix.DT_DIR || de.typ == unix.DT_UNKNOWN {
					e.remember(de.ino, d.ino, name)
					queue = append(queue, dir{d.path + "/" + name, de.ino})
				}
			}
		}
		unix.Close(fd)
		if found {
			return true
		}
	}
	return false
}
