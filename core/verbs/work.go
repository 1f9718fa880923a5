package verbs

import "fmt"

// Op is the kind of a work request, and of its completion.
type Op uint8

const (
	OpRecv           Op = iota + 1 // completions only: a message came in
	OpSend                         // gather Segs into one message
	OpSendInvalidate               // the same; the peer's key Key, which must be in force, is invalidated with it
	OpWrite                        // Segs to (Key, Remote) of the peer
	OpRead                         // (Key, Remote) of the peer into Segs
	OpInvalidate                   // end Window; local, nothing is sent; one that is fenced already, also by the peer, completes well
)

func (o Op) String() string {
	switch o {
	case OpRecv:
		return "Recv"
	case OpSend:
		return "Send"
	case OpSendInvalidate:
		return "SendInvalidate"
	case OpWrite:
		return "Write"
	case OpRead:
		return "Read"
	case OpInvalidate:
		return "Invalidate"
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Region is registered memory of a domain. Regions come from Alloc and Register.
type Region interface {
	Bytes() []byte
	// Release ends the registration and recycles the Region. Nothing may be posted or
	// exposed on it. Once; a second Release panics.
	Release()
}

// Seg is n bytes of a region from Off.
type Seg struct {
	R      Region
	Off, N int
}

// Bytes is the memory that s names.
func (s Seg) Bytes() []byte { return s.R.Bytes()[s.Off : s.Off+s.N : s.Off+s.N] }

// Work is one work request. Segs may have any number of entries; the provider splits
// what its device cannot take (Caps.MaxSegs, MaxReadSegs): one Work has one completion all the same, and the parts of a Read each
// count among those in flight. A Read's sink needs no remote right.
type Work struct {
	ID   uint64 // comes back in the completion
	Op   Op
	Segs []Seg // none, or empty ones: an empty message, or a Write or Read that moves nothing and completes all the same
	// Key is the peer's for a Write or Read, and what a SendInvalidate invalidates. Post does not judge it: any value, 0 too, is
	// accepted, and is refused by the peer, which ends the connection.
	Key    uint32
	Remote uint64 // Write, Read: the peer's address
	// Window is an Invalidate's. One that was never exposed is ErrBadWork; one that is fenced already is fine.
	Window *Window
}

// Recv is one receive for PostRecv.
type Recv struct {
	ID  uint64
	Seg Seg
}

// Status is how a work request ended.
type Status uint8

const (
	OK           Status = iota
	Flushed             // the connection ended first; a Send may have arrived all the same
	LocalError          // bad length or protection on our side; the connection ends
	RemoteAccess        // the peer refused the key, the range or the right; the connection ends. A Write or Send that was refused may be OK or Flushed
	RemoteError         // the peer failed otherwise; the connection ends
)

func (s Status) String() string {
	switch s {
	case OK:
		return "ok"
	case Flushed:
		return "flushed"
	case LocalError:
		return "local error"
	case RemoteAccess:
		return "remote access error"
	case RemoteError:
		return "remote error"
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// Completion reports one work request. After a Send's or Write's its
// memory may be reused; that it is OK does not mean that the peer has it (iWARP), nor Flushed that it has not. After a
// Read's the bytes are placed.
type Completion struct {
	ID          uint64 // of the Work or Recv; 0 for a receive from a pool
	Op          Op
	Status      Status
	Invalidated uint32 // Recv: the key of ours that the peer invalidated, or 0
	Buf         []byte // Recv: the message
	BufID       uint32 // Recv from a pool: for Put
}

// Access is what a peer may do with a window.
type Access uint8

const (
	RemoteRead  Access = 1 << iota // the peer may Read
	RemoteWrite                    // the peer may Write

	// Scratch, beside RemoteWrite: the window holds nothing that is worth keeping. What
	// the peer does not write has no defined contents at the end: a provider may read a stream
	// into it where it expects the peer's next bytes to belong, and need not put back what was there.
	// No other window that the peer writes may lie over the same memory. Devices know no such thing.
	Scratch
)

// Valid reports whether a grants something, and no more than there is.
func (a Access) Valid() bool {
	return a&(RemoteRead|RemoteWrite) != 0 && a&^(RemoteRead|RemoteWrite|Scratch) == 0 && (a&Scratch == 0 || a&RemoteWrite != 0)
}

// Window is one exposure of memory to one peer. Key and Addr go into a chunk
// segment as rdma_handle and rdma_offset; Key is never 0. It is fenced, so that no peer reaches the memory any more, when the
// completion of its Invalidate with status OK arrives, when a receive completion of the Conn that exposed it names its Key
// as invalidated, or with Disconnected. It may then be exposed again, by another Key than before.
type Window struct {
	Key  uint32
	Addr uint64
	N    int
	Slot any // the provider's; holds a pointer
}
