package rpc

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// ReplyCache bounds a server's duplicate request cache. A caller that loses its connection sends its calls
// again on another one, with the same XID (RFC 5531 §9); a server that has executed such a call, or
// is at it, must not execute it twice. It keeps the replies of procedures that are not Idempotent.
//
// A call is known again by its caller's address without the port, its XID, program, version and procedure,
// its credential (the identity that its mechanism makes of it, where the server has one), the length of its arguments and a checksum of their first 1024 bytes, bulk data
// included: by what stays the same when it comes on another connection, in other chunks or over another
// transport. Callers behind one address differ by credential (the machine name of AUTH_SYS is part of it) and
// arguments.
type ReplyCache struct {
	// Entries is the most replies kept; the least recently used go first. Default 16384; negative: no cache.
	Entries int
	// Bytes is the most memory of all replies together. Default 16 MiB.
	Bytes int
	// Largest is the bytes of the longest reply kept, bulk results included. Default 64 KiB. A call with a longer
	// one is executed again when it comes again.
	Largest int
	// Age is how long a reply is kept. Default 2 minutes: callers have given up by then.
	Age time.Duration
}

func (c ReplyCache) withDefaults() ReplyCache {
	if c.Entries == 0 {
		c.Entries = 16384
	}
	if c.Bytes <= 0 {
		c.Bytes = 16 << 20
	}
	if c.Largest <= 0 {
		c.Largest = 64 << 10
	}
	c.Largest = min(c.Largest, c.Bytes)
	if c.Age <= 0 {
		c.Age = 2 * time.Minute
	}
	return c
}

// replyCache is the cache itself. Replies are kept as RPC messages, without transport header, chunks or record
// marks: each repetition is planned anew into what its own call offers.
type replyCache struct {
	limits ReplyCache
	seed   maphash.Seed // nobody outside can make two calls look alike

	mu     sync.Mutex // guards what follows
	calls  map[callKey]*cachedCall
	oldest *cachedCall // of those that are done: a list, least recently used first
	newest *cachedCall
	bytes  int           // of all in calls
	spare  []*cachedCall // kept for use again
}

// callKey is what a repeated call has in common with the first.
type callKey struct {
	host                        netip.Addr
	xid, program, version, proc uint32
	identity                    any    // what a mechanism says of its caller; nil: the credential is in sum
	sum                         uint64 // of credential and arguments
	length                      int    // of the arguments
}

// cachedCall is a call that is being executed, or its reply.
type cachedCall struct {
	key        callKey
	done       bool
	at         time.Time // of its last use, when done
	prev, next *cachedCall

	// While it is executed: the connection that it came by, and a repetition on another
	// one, which is answered as well. The first connection may be gone by then.
	link    transport.Conn
	waiting *Request

	// The reply: its header, the results without their bulk items, and those.
	reply rpcmsg.ReplyHeader
	body  []byte
	cuts  []cut
	data  []byte
	raw   bool   // the reply has the verifier verf
	verf  []byte // else each sending has its own
}

// cut is a bulk item: where in body its length word ends, and its length.
type cut struct{ off, n int }

const (
	// cachedArgs is how much of the arguments is looked at: enough for what tells two calls apart, little
	// beside executing one.
	cachedArgs = 1024
	// cachedCost is what an entry costs besides its reply: itself, its key in the map.
	cachedCost = 512
	// cachedSpares, of at most cachedKeep bytes each, are kept so that a cache in its steady state allocates nothing.
	cachedSpares = 64
	cachedKeep   = cachedCost + 1<<10
)

func newReplyCache(limits ReplyCache) *replyCache {
	limits = limits.withDefaults()
	if limits.Entries < 0 {
		return nil
	}
	return &replyCache{limits: limits, seed: maphash.MakeSeed(), calls: make(map[callKey]*cachedCall)}
}

// verdict is what is to become of a call.
type verdict uint8

const (
	execute verdict = iota // settle or forget follows
	repeat                 // Results is the reply
	await                  // settle answers it
	ignore                 // it is being executed for the same connection, which gets the answer once
)

// claim tells whether r is executed. replaced is an earlier repetition that r takes the place of: to be dropped.
func (c *replyCache) claim(r *Request) (v verdict, replaced *Request) {
	k, now, link := c.key(r), time.Now(), r.from.Conn()
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.oldest; e != nil && now.Sub(e.at) > c.limits.Age; e = c.oldest {
		c.evict(e)
	}
	e := c.calls[k]
	switch {
	case e == nil:
		e = c.entry()
		e.key, e.link = k, link
		c.calls[k] = e
		c.bytes += e.size()
		c.shrink()
		r.cached = e
		return execute, nil
	case e.done:
		e.repeat(r)
		c.unlink(e)
		c.push(e, now)
		return repeat, nil
	case e.link == link:
		return ignore, nil
	}
	replaced, e.waiting = e.waiting, r
	return await, replaced
}

// settle keeps the reply of a call that was executed. waiting is its repetition, with the reply in Results, or nil.
func (c *replyCache) settle(r *Request) (waiting *Request) {
	e := r.cached
	r.cached = nil
	keep := r.Results.Len() <= c.limits.Largest
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting = e.waiting
	c.bytes -= e.size()
	if keep || waiting != nil {
		e.store(r)
	}
	if waiting != nil {
		e.repeat(waiting)
	}
	e.link, e.waiting = nil, nil
	if !keep {
		c.remove(e)
		return waiting
	}
	e.done = true
	c.bytes += e.size()
	c.push(e, time.Now())
	c.shrink()
	return waiting
}

// forget drops a call that was not executed after all, and returns its repetition, which is not either.
func (c *replyCache) forget(r *Request) (waiting *Request) {
	e := r.cached
	r.cached = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting = e.waiting
	c.bytes -= e.size()
	e.link, e.waiting = nil, nil
	c.remove(e)
	return waiting
}

// key is computed before anything reads the arguments.
func (c *replyCache) key(r *Request) callKey {
	k := callKey{
		host: r.RemoteAddr().Addr().Unmap(), xid: r.XID, program: r.Program, version: r.Version, proc: r.Proc,
		length: r.Args.Unread(),
	}
	var h maphash.Hash
	h.SetSeed(c.seed)
	var flavor [4]byte
	binary.BigEndian.PutUint32(flavor[:], uint32(r.Cred.Flavor))
	h.Write(flavor[:])
	if _, plain := r.mech.(rpcmsg.PlainServer); r.Identity != nil && !plain && reflect.ValueOf(r.Identity).Comparable() {
		k.identity = r.Identity // its credential differs from one sending to the next (RFC 2203 §5.3.3.1)
	} else {
		h.Write(r.Cred.Body)
	}
	r.Args.Ahead(cachedArgs, func(b []byte) { h.Write(b) })
	k.sum = h.Sum64()
	return k
}

// entry is a new entry. Called with mu held.
func (c *replyCache) entry() *cachedCall {
	if n := len(c.spare); n > 0 {
		e := c.spare[n-1]
		c.spare = c.spare[:n-1]
		return e
	}
	return new(cachedCall)
}

// shrink forgets replies until the cache is within its limits. Calls being executed stay: workers and credits
// bound them. Called with mu held.
func (c *replyCache) shrink() {
	for (len(c.calls) > c.limits.Entries || c.bytes > c.limits.Bytes) && c.oldest != nil {
		c.evict(c.oldest)
	}
}

// evict forgets a reply. Called with mu held.
func (c *replyCache) evict(e *cachedCall) {
	c.unlink(e)
	c.bytes -= e.size()
	c.remove(e)
}

// remove takes e out of the map. Called with mu held.
func (c *replyCache) remove(e *cachedCall) {
	delete(c.calls, e.key)
	if len(c.spare) < cachedSpares && e.size() <= cachedKeep {
		*e = cachedCall{body: e.body[:0], cuts: e.cuts[:0], data: e.data[:0], verf: e.verf[:0]}
		c.spare = append(c.spare, e)
	}
}

// push makes e the most recently used one. Called with mu held.
func (c *replyCache) push(e *cachedCall, now time.Time) {
	e.at, e.prev, e.next = now, c.newest, nil
	if c.newest == nil {
		c.oldest = e
	} else {
		c.newest.next = e
	}
	c.newest = e
}

// unlink takes e out of the list. Called with mu held.
func (c *replyCache) unlink(e *cachedCall) {
	if e.prev == nil {
		c.oldest = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		c.newest = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

func (e *cachedCall) size() int {
	return cachedCost + cap(e.body) + cap(e.data) + cap(e.verf) + 16*cap(e.cuts)
}

// store copies the reply in r.Results, whose bulk items are about to be released.
func (e *cachedCall) store(r *Request) {
	w, head := r.Results, r.reply.Len()
	e.reply = r.reply
	e.keepVerf(r)
	e.body = append(e.body[:0], w.Bytes()[head:]...)
	e.cuts, e.data = e.cuts[:0], e.data[:0]
	for _, it := range w.Bulk() {
		e.cuts = append(e.cuts, cut{it.Off - head, len(it.Data)})
		e.data = append(e.data, it.Data...)
	}
}

// repeat makes the reply r's. What it refers to is r's own: the entry may go.
func (e *cachedCall) repeat(r *Request) {
	w := r.Results
	w.Reset()
	verf := e.verfOf(r)
	r.reply = e.reply
	r.reply.Verf = verf
	r.reply.Append(w)
	data := append([]byte(nil), e.data...)
	at := 0
	for _, b := range e.cuts {
		w.Raw(e.body[at : b.off-4]) // BulkItem writes the length word
		w.BulkItem(xdr.Bulk{Data: data[:b.n:b.n]})
		data, at = data[b.n:], b.off
	}
	w.Raw(e.body[at:])
}
