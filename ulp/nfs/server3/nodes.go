package server3

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// node is an open object. path, O_PATH, names it for good; rd and wr are opened from it when
// data is asked for, of regular files and directories only.
type node struct {
	h    nfs3.Handle
	ino  uint64
	typ  uint32 // S_IFMT bits of its mode
	path int

	mu     sync.Mutex // guards opening rd and wr, and noACL
	rd, wr int
	noACL  unix.Timespec // the object's ctime when it was found to have no ACL; zero: not known

	checked atomic.Int64 // when it was last found to lie in the export (clock)

	// guarded by nodes.mu
	refs int
	used time.Time
	el   *list.Element // nil: dropped, the last user closes it
}

func (n *node) isDir() bool { return n.typ == unix.S_IFDIR }
func (n *node) isReg() bool { return n.typ == unix.S_IFREG }

// reader is a descriptor for reading. The server's own rights open it: the caller's have
// been checked, and it serves all callers.
func (n *node) reader() (int, error) { return n.data(&n.rd, unix.O_RDONLY) }

// writer is a descriptor for writing.
func (n *node) writer() (int, error) { return n.data(&n.wr, unix.O_WRONLY) }

func (n *node) data(fd *int, flags int) (int, error) {
	if !n.isReg() && !n.isDir() {
		return -1, unix.EINVAL // to open a device or a fifo can block or do things
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if *fd < 0 {
		got, err := unix.Open(procFD(n.path), flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != nil {
			return -1, err
		}
		*fd = got
	}
	return *fd, nil
}

// sync puts the object's data and attributes, or a directory's names, on stable storage.
func (n *node) sync() error {
	n.mu.Lock()
	fd := n.wr
	n.mu.Unlock()
	if fd < 0 {
		var err error
		if fd, err = n.reader(); err != nil {
			return err
		}
	}
	return unix.Fsync(fd)
}

func (n *node) close() {
	for _, fd := range [...]int{n.path, n.rd, n.wr} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// nodes keeps objects open between requests: at most max, but for those in use right now.
type nodes struct {
	mu       sync.Mutex
	max      int
	byHandle map[nfs3.Handle]*node
	byIno    map[uint64]*node
	lru      list.List // the latest first
}

func newNodes(max int) *nodes {
	return &nodes{max: max, byHandle: map[nfs3.Handle]*node{}, byIno: map[uint64]*node{}}
}

// get returns the node of h, in use until put, or nil.
func (c *nodes) get(h *nfs3.Handle) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.byHandle[*h]
	if n == nil {
		return nil
	}
	n.refs++
	c.lru.MoveToFront(n.el)
	return n
}

// add makes a node of path, which it takes; rd and wr may be open already, or -1. Where there
// is a node of h, that is returned and these are closed. It is in use until put.
func (c *nodes) add(h *nfs3.Handle, st *unix.Stat_t, path, rd, wr int) *node {
	fresh := &node{h: *h, ino: st.Ino, typ: st.Mode & unix.S_IFMT, path: path, rd: rd, wr: wr, refs: 1}
	c.mu.Lock()
	if n := c.byHandle[*h]; n != nil {
		n.refs++
		c.lru.MoveToFront(n.el)
		c.mu.Unlock()
		fresh.close()
		return n
	}
	fresh.checked.Store(clock())
	c.byHandle[*h], c.byIno[st.Ino] = fresh, fresh
	fresh.el = c.lru.PushFront(fresh)
	var out []*node
	for el := c.lru.Back(); el != nil && c.lru.Len() > c.max; {
		n, prev := el.Value.(*node), el.Prev()
		if n.refs == 0 {
			c.forget(n)
			out = append(out, n)
		}
		el = prev
	}
	c.mu.Unlock()
	closeAll(out) // outside the lock: the last close of a removed file frees its blocks
	return fresh
}

// put ends a use.
func (c *nodes) put(n *node) {
	c.mu.Lock()
	n.refs--
	n.used = time.Now()
	last := n.refs == 0 && n.el == nil
	c.mu.Unlock()
	if last {
		n.close()
	}
}

// drop forgets the node of an inode that has lost a name: if that was the last one, an open
// descriptor would keep its space.
func (c *nodes) drop(ino uint64) {
	c.mu.Lock()
	n := c.byIno[ino]
	idle := n != nil && n.refs == 0
	if n != nil {
		c.forget(n)
	}
	c.mu.Unlock()
	if idle {
		n.close()
	}
}

func (c *nodes) sweep(before time.Time) {
	c.mu.Lock()
	var out []*node
	for el := c.lru.Back(); el != nil; {
		n, prev := el.Value.(*node), el.Prev()
		if n.refs == 0 && n.used.Before(before) {
			c.forget(n)
			out = append(out, n)
		}
		el = prev
	}
	c.mu.Unlock()
	closeAll(out)
}

func (c *nodes) close() { c.sweep(time.Now().Add(time.Hour)) }

func (c *nodes) forget(n *node) {
	delete(c.byHandle, n.h)
	if c.byIno[n.ino] == n {
		delete(c.byIno, n.ino)
	}
	c.lru.Remove(n.el)
	n.el = nil
}

func closeAll(ns []*node) {
	for _, n := range ns {
		n.close()
	}
}
