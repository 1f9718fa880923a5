package transport

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// DefaultCallTimeout ends a call whose context has no deadline, where nothing else is set.
const DefaultCallTimeout = time.Minute

// Dest is where a bulk result is to be placed.
type Dest struct {
	Buf []byte
	Mem *Memory // that Buf lies in; nil: Buf is registered for the call
}

// Attachment is the bytes that go with a call, as those of an operation of an extension that wraps it. They do where
// the extension has allowed them on the connection (ext.Conn.Attach).
type Attachment struct {
	Op   uint32 // its rdma_opttype; 0: nothing is attached
	Info []byte
}

// Call is one RPC at its requester. Take one from a CallPool, fill it, run it with
// Link.Do, read the reply, then Free it. It may be run again, with the same XID, on another
// connection once Do has returned a *LostError.
type Call struct {
	XID uint32
	// Msg is the RPC call message, its XID in the first word. Its bulk items must not change
	// until Do returns.
	Msg xdr.Writer
	// Move reports that the binding allows moving the bulk arguments, MoveResults the bulk results.
	Move, MoveResults bool
	// Into are the destinations of the bulk results, in order. Do returns only when nothing
	// can write to them any more.
	Into []Dest
	// MaxReply is the bytes of the largest reply message without its bulk results;
	// MaxWhole with them, as far as Into does not bound them.
	MaxReply, MaxWhole int
	// Grow lets a version 2 peer's answer that a result or the reply needs more room be followed by the same call with
	// that much, up to Grow bytes for what was too short (D-33). A result longer than its destination then
	// lies in memory of the call's.
	Grow int
	// Attach goes with the call where the connection allows it.
	Attach Attachment

	// Stream and Moved are the reply, as xdr.Reader.Reset takes them; valid until Free.
	Stream []byte
	Moved  []xdr.Moved

	// State is the implementation's, kept when the Call is used again.
	State CallState

	pool *CallPool
}

// CallState is what an implementation keeps with a Call. Free calls both methods.
type CallState interface {
	// Release gives back what the last Do has taken for the call. The call's bulk items are released after it.
	Release()
	// Reset prepares for the next use, after the bulk items were released. It reports whether the Call is worth keeping.
	Reset() (keep bool)
}

// CallPool keeps calls for use again. The zero value is ready. What implementations keep with them has channels: a pool
// belongs to one client, so that one that lives in a bubble of testing/synctest shares none with the world.
type CallPool struct{ free sync.Pool }

// Get takes an empty call; Call.Free gives it back.
func (p *CallPool) Get() *Call {
	if c, ok := p.free.Get().(*Call); ok {
		return c
	}
	return &Call{pool: p}
}

// Free gives the call back and releases its bulk items. Not after Do returned an *OrphanError:
// then the connection keeps it until its reply comes, and frees it.
func (c *Call) Free() {
	if c.State != nil {
		c.State.Release() // poisons its memory itself
	} else {
		Poison(c.Stream)
	}
	c.Msg.DropBulk()
	clear(c.Into)
	clear(c.Moved)
	c.Msg.Reset()
	c.Into, c.Moved, c.Stream = c.Into[:0], c.Moved[:0], nil
	c.XID, c.Move, c.MoveResults, c.MaxReply, c.MaxWhole, c.Grow = 0, false, false, 0, 0, 0
	c.Attach = Attachment{}
	if c.State != nil && !c.State.Reset() {
		return
	}
	if c.pool != nil {
		c.pool.free.Put(c)
	}
}

// NewXIDs makes a generator of transaction ids: random start, then counting. Safe for
// concurrent use.
func NewXIDs() func() uint32 {
	var b [4]byte
	rand.Read(b[:])
	var n atomic.Uint32
	n.Store(binary.BigEndian.Uint32(b[:]))
	return func() uint32 { return n.Add(1) }
}
