package providertest

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// end is one end of a connection and its Handler. It keeps book on everything that was
// posted and completed, and notes each promise of the contract that is broken.
type end struct {
	w    *world
	name string
	dom  verbs.Domain
	conn verbs.Conn
	pool verbs.RecvPool // nil: receives are posted, from recvMem

	recvMem verbs.Region
	recvs   int
	size    int

	inside  atomic.Int32 // goroutines in Complete or Disconnected
	calling sync.Map     // goroutines inside Post, PostRecv, Expose, Detach

	// hook, if set, runs inside Complete after the books.
	hook func(cs []verbs.Completion)
	// hold keeps receive buffers: no Put, no new PostRecv.
	hold bool

	mu      sync.Mutex
	changed chan struct{} // closed and made anew by every event
	last    uint64        // ID given last
	works   map[uint64]*posted
	posts   map[uint64]*posted // receives
	order   []uint64           // receives posted and not completed, in order
	ready   bool               // Ready has run
	up      bool
	msgs    []message
	gone    bool
	cause   error
	broken  []string
	over    bool // audited
	arena   arena
}

// posted is a work or a receive.
type posted struct {
	op     verbs.Op
	seg    verbs.Seg
	taken  bool // the call that posted it has returned
	done   int
	status verbs.Status
}

// message is a receive that completed OK.
type message struct {
	data        []byte
	invalidated uint32
	id          uint64
	buf         uint32
	live        []byte // the provider's memory, while held
	goroutine   uint64
}

func (w *world) end(name string, d verbs.Domain, l *link, pool verbs.RecvPool) *end {
	w.Helper()
	e := &end{
		w: w, name: name, dom: d, recvs: l.recvs, size: l.size,
		changed: make(chan struct{}),
		works:   map[uint64]*posted{}, posts: map[uint64]*posted{},
	}
	if e.recvs == 0 {
		e.recvs = 64
	}
	if e.size == 0 {
		e.size = 4096
	}
	if pool != nil {
		e.pool = pool
	} else if !l.posted {
		p, err := d.NewRecvPool(e.recvs, e.size)
		if err == nil {
			e.pool = p
		} else if !errors.Is(err, errors.ErrUnsupported) {
			w.Fatalf("NewRecvPool(%d, %d): %v", e.recvs, e.size, err)
		}
	}
	if e.pool == nil {
		e.recvMem = w.alloc(d, e.recvs*e.size)
	}
	w.ends = append(w.ends, e)
	return e
}

// options completes o for this end: Handler, receives, and Ready around the check's own.
func (e *end) options(o verbs.Options) verbs.Options {
	o.Handler = e
	if e.pool != nil {
		o.Recv = e.pool
	}
	ready := o.Ready
	o.Ready = func(c verbs.Conn) error {
		e.mu.Lock()
		e.conn = c
		e.mu.Unlock()
		if ready != nil {
			if err := ready(c); err != nil {
				return err
			}
		}
		if e.pool == nil && !e.hold {
			for i := range e.recvs {
				e.postRecv(verbs.Seg{R: e.recvMem, Off: i * e.size, N: e.size})
			}
		}
		e.mu.Lock()
		e.ready = true
		e.mu.Unlock()
		return nil
	}
	return o
}

func (e *end) settle(c verbs.Conn) {
	e.mu.Lock()
	e.conn, e.up = c, true
	e.note()
	e.mu.Unlock()
}

// note wakes those who wait. mu is held.
func (e *end) note() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// breaks notes a broken promise. mu is held.
func (e *end) breaks(format string, args ...any) {
	if len(e.broken) < 10 {
		e.broken = append(e.broken, fmt.Sprintf(format, args...))
	}
	e.note()
}

// Complete keeps the books.
func (e *end) Complete(cs []verbs.Completion) {
	me := goroutine()
	if e.inside.Add(1) != 1 {
		e.mu.Lock()
		e.breaks("Complete was called while Complete ran")
		e.mu.Unlock()
	}
	e.mu.Lock()
	if call, ok := e.calling.Load(me); ok {
		e.breaks("Complete came from within %v", call)
	}
	if e.gone {
		e.breaks("Complete was called after Disconnected")
	}
	if len(cs) == 0 {
		e.breaks("Complete was called without completions")
	}
	var again []verbs.Seg
	for i := range cs {
		c := &cs[i]
		if c.Op != verbs.OpRecv {
			e.workDone(c)
			continue
		}
		if seg, ok := e.recvDone(c, me); ok {
			again = append(again, seg)
		}
	}
	e.note()
	hook := e.hook
	e.mu.Unlock()
	for _, seg := range again {
		e.postRecv(seg)
	}
	if hook != nil {
		hook(cs)
	}
	e.inside.Add(-1)
}

// workDone is called with mu held.
func (e *end) workDone(c *verbs.Completion) {
	p := e.works[c.ID]
	switch {
	case p == nil:
		e.breaks("a %v completed (%v) with ID %d, which was not posted", c.Op, c.Status, c.ID)
		return
	case p.op != c.Op:
		e.breaks("%v %d completed as %v", p.op, c.ID, c.Op)
	}
	if p.done++; p.done > 1 {
		e.breaks("%v %d completed twice: %v, then %v", p.op, c.ID, p.status, c.Status)
	}
	p.status = c.Status
}

// recvDone is called with mu held. It returns the memory to post again.
func (e *end) recvDone(c *verbs.Completion, me uint64) (verbs.Seg, bool) {
	if !e.ready {
		e.breaks("a message came before Ready had returned")
	}
	var seg verbs.Seg
	if e.pool == nil {
		p := e.posts[c.ID]
		if p == nil {
			e.breaks("a receive completed with ID %d, which was not posted", c.ID)
			return seg, false
		}
		if p.done++; p.done > 1 {
			e.breaks("receive %d completed twice", c.ID)
			return seg, false
		}
		if len(e.order) > 0 && e.order[0] != c.ID {
			e.breaks("receive %d completed before receive %d, which was posted earlier", c.ID, e.order[0])
		} else {
			e.order = e.order[1:]
		}
		p.status, seg = c.Status, p.seg
	} else if c.ID != 0 {
		e.breaks("a receive from a pool completed with ID %d, want 0", c.ID)
	}
	if c.Status != verbs.OK {
		return seg, false
	}
	m := message{data: bytes.Clone(c.Buf), invalidated: c.Invalidated, id: c.ID, goroutine: me}
	if e.hold {
		m.buf, m.live = c.BufID, c.Buf
	}
	e.msgs = append(e.msgs, m)
	if e.pool != nil && !e.hold {
		e.pool.Put(c.BufID)
	}
	return seg, e.pool == nil && !e.hold
}

// Disconnected closes the books.
func (e *end) Disconnected(err error) {
	if e.inside.Add(1) != 1 {
		e.mu.Lock()
		e.breaks("Disconnected was called while Complete ran")
		e.mu.Unlock()
	}
	e.mu.Lock()
	if call, ok := e.calling.Load(goroutine()); ok {
		e.breaks("Disconnected came from within %v", call)
	}
	if e.gone {
		e.breaks("Disconnected was called twice")
	}
	e.gone, e.cause = true, err
	e.open("Disconnected was called, but")
	e.note()
	e.mu.Unlock()
	e.inside.Add(-1)
}

// open notes what was accepted and has not completed. mu is held.
func (e *end) open(when string) {
	for id, p := range e.works {
		if p.taken && p.done == 0 {
			e.breaks("%s %v %d has not completed", when, p.op, id)
		}
	}
	for id, p := range e.posts {
		if p.taken && p.done == 0 {
			e.breaks("%s receive %d has not completed", when, id)
		}
	}
}

// audit is asked after Domain.Close.
func (e *end) audit() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.up && !e.gone {
		e.breaks("Domain.Close has returned, but Disconnected was not called")
	}
	if e.up {
		e.open("Domain.Close has returned, but")
	}
	if e.inside.Load() != 0 {
		e.breaks("Domain.Close has returned, but a Handler runs")
	}
	for _, b := range e.broken {
		e.w.Errorf("%s: %s", e.name, b)
	}
	e.broken, e.over = nil, true
}

// post posts ws with fresh IDs, which it returns; it does not flush.
func (e *end) post(ws ...verbs.Work) []uint64 {
	e.w.Helper()
	ids, n, err := e.tryPost(ws)
	if n != len(ws) || err != nil {
		e.w.Fatalf("%s: Post accepted %d of %d works, error %v", e.name, n, len(ws), err)
	}
	return ids
}

// tryPost returns the IDs of the works that were accepted.
func (e *end) tryPost(ws []verbs.Work) ([]uint64, int, error) {
	ids := make([]uint64, len(ws))
	e.mu.Lock()
	for i := range ws {
		e.last++
		ids[i], ws[i].ID = e.last, e.last
		e.works[e.last] = &posted{op: ws[i].Op}
	}
	e.mu.Unlock()
	me := goroutine()
	e.calling.Store(me, "Post")
	n, err := e.conn.Post(ws)
	e.calling.Delete(me)
	e.mu.Lock()
	for _, id := range ids[:n] {
		e.works[id].taken = true
	}
	for _, id := range ids[n:] {
		if e.works[id].done > 0 {
			e.breaks("work %d was not accepted, and completed", id)
		}
		delete(e.works, id)
	}
	e.mu.Unlock()
	return ids[:n], n, err
}

// feed posts and flushes ws, the rest when completions have made room. It stops where the connection
// ends; it may run on any goroutine.
func (e *end) feed(ws []verbs.Work) []uint64 {
	var all []uint64
	for len(ws) > 0 {
		e.mu.Lock()
		changed := e.changed
		e.mu.Unlock()
		ids, n, err := e.tryPost(ws)
		all, ws = append(all, ids...), ws[n:]
		e.conn.Flush()
		if err != nil {
			e.w.Errorf("%s: Post took %d, error %v", e.name, n, err)
			return all
		}
		if n == 0 {
			select {
			case <-changed:
			case <-e.w.ctx.Done():
				return all
			}
		}
	}
	return all
}

func (e *end) postRecv(seg verbs.Seg) error {
	e.mu.Lock()
	e.last++
	id := e.last
	e.posts[id] = &posted{op: verbs.OpRecv, seg: seg}
	e.order = append(e.order, id)
	e.mu.Unlock()
	me := goroutine()
	e.calling.Store(me, "PostRecv")
	n, err := e.conn.PostRecv([]verbs.Recv{{ID: id, Seg: seg}})
	e.calling.Delete(me)
	e.mu.Lock()
	defer e.mu.Unlock()
	if n == 1 {
		e.posts[id].taken = true
		return nil
	}
	delete(e.posts, id)
	for i, o := range e.order {
		if o == id {
			e.order = append(e.order[:i:i], e.order[i+1:]...)
			break
		}
	}
	if err == nil {
		err = errors.New("PostRecv took no receive")
	} else if !e.gone && !isClosed(err) {
		e.breaks("PostRecv: %v", err)
	}
	return err
}

func (e *end) expose(r verbs.Region, off, n int, a verbs.Access) *verbs.Window {
	e.w.Helper()
	w := new(verbs.Window)
	if err := e.exposeAs(w, r, off, n, a); err != nil {
		e.w.Fatalf("%s: Expose of %d bytes from %d: %v", e.name, n, off, err)
	}
	return w
}

func (e *end) exposeAs(w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
	me := goroutine()
	e.calling.Store(me, "Expose")
	defer e.calling.Delete(me)
	return e.conn.Expose(w, r, off, n, a)
}

func (e *end) detach(w *verbs.Window, spare []byte) bool {
	me := goroutine()
	e.calling.Store(me, "Detach")
	defer e.calling.Delete(me)
	return e.conn.(verbs.Detacher).Detach(w, spare)
}

// wait waits for cond, which is asked with mu held.
func (e *end) wait(what string, cond func() bool) {
	e.w.Helper()
	late := time.NewTimer(e.w.o.Hang)
	defer late.Stop()
	for {
		e.mu.Lock()
		ok, bad, changed := cond(), len(e.broken) > 0, e.changed
		e.mu.Unlock()
		switch {
		case ok:
			return
		case bad:
			e.w.Fatalf("%s: waiting for %s: a promise is broken", e.name, what)
		}
		select {
		case <-changed:
		case <-late.C:
			e.w.Fatalf("%s hangs: waiting for %s; %s", e.name, what, e.state())
		}
	}
}

func (e *end) state() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	open := 0
	for _, p := range e.works {
		if p.done == 0 {
			open++
		}
	}
	return fmt.Sprintf("%d messages in, %d works posted, %d not completed, disconnected %v (%v)",
		len(e.msgs), len(e.works), open, e.gone, e.cause)
}

// isDone tells whether a work has completed.
func (e *end) isDone(id uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.works[id].done > 0
}

// status waits for a work's completion.
func (e *end) status(id uint64) verbs.Status {
	e.w.Helper()
	e.wait(fmt.Sprintf("the completion of work %d", id), func() bool { return e.works[id].done > 0 })
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.works[id].status
}

// done waits until each of ids has completed OK.
func (e *end) done(ids ...uint64) {
	e.w.Helper()
	for _, id := range ids {
		if s := e.status(id); s != verbs.OK {
			e.w.Fatalf("%s: %v %d completed: %v; %s", e.name, e.works[id].op, id, s, e.state())
		}
	}
}

// do posts, flushes and waits for OK.
func (e *end) do(ws ...verbs.Work) {
	e.w.Helper()
	ids := e.post(ws...)
	e.conn.Flush()
	e.done(ids...)
}

// message waits for the i-th message since the connection's start, from 0.
func (e *end) message(i int) message {
	e.w.Helper()
	e.wait(fmt.Sprintf("message %d", i), func() bool { return len(e.msgs) > i })
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.msgs[i]
}

// count is how many messages have come.
func (e *end) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.msgs)
}

// disconnected waits for the end and returns its cause.
func (e *end) disconnected() error {
	e.w.Helper()
	e.wait("Disconnected", func() bool { return e.gone })
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}

func (e *end) alive() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.gone
}

// goroutine is the calling goroutine's number, which only its stack tells.
func goroutine() uint64 {
	var b [64]byte
	s := b[:runtime.Stack(b[:], false)]
	s = bytes.TrimPrefix(s, []byte("goroutine "))
	n, _ := strconv.ParseUint(string(s[:bytes.IndexByte(s, ' ')]), 10, 64)
	return n
}
