package obs

import "time"

// Kind is what happened.
type Kind uint8

const (
	ConnUp      Kind = iota + 1 // Arg: 1 when we accepted it
	ConnDown                    // Arg: 1 when it ended in an error
	Negotiated                  // Arg: the version
	CallSent                    // Bytes inline, Segs in all chunks, Arg: Form
	CallRecv                    // the same, at the responder
	ReplySent                   // the same
	ReplyRecv                   // the same
	ReadDone                    // RDMA Reads of one message: Bytes, Segs
	WriteDone                   // RDMA Writes of one message: Bytes, Segs
	Fenced                      // Segs windows; Arg: how many the peer invalidated
	ErrorSent                   // transport error; Arg: the code
	ErrorRecv                   // transport error; Arg: the code
	Dropped                     // a message was discarded; Arg: Drop
	CreditWait                  // a call waited for a credit
	CallDone                    // a call ended at the requester; Arg: 1 when in error
	CallCancel                  // a caller gave up; the call became an orphan
	CreditGrant                 // the grant changed; Arg: the new grant
	ControlSent                 // an operation without an RPC: Bytes, Arg: its rdma_proc, or else its rdma_opttype
	ControlRecv                 // the same; Bytes of its own
	ControlLate                 // an extension left one to its default; Arg as above
	ExtPanic                    // an extension panicked; Arg: its place in the set
)

// Form is how an RPC message travels (RFC 8166 §3.5).
type Form uint8

const (
	FormInline   Form = iota + 1 // RDMA_MSG without chunks
	FormChunked                  // RDMA_MSG, bulk items in chunks
	FormLong                     // RDMA_NOMSG, all of it in a chunk
	FormLongMore                 // RDMA_NOMSG with further chunks
)

func (f Form) String() string {
	switch f {
	case FormInline:
		return "inline"
	case FormChunked:
		return "chunked"
	case FormLong:
		return "long"
	case FormLongMore:
		return "long+chunks"
	}
	return "-"
}

// Event is one thing that happened. It is passed by value and holds no pointers.
type Event struct {
	Kind  Kind
	Conn  uint64 // numbers a connection within the process
	XID   uint32
	Bytes int
	Segs  int
	Arg   int64
	Back  bool          // it concerns a backward call: one that a server makes to its client
	At    time.Duration // since the recorder's epoch, monotonic
}

// Recorder takes events. Record must not block, must not call back, and may be
// called from several goroutines.
type Recorder interface{ Record(Event) }

var epoch = time.Now()

// Now is the At of an event that happens now.
func Now() time.Duration { return time.Since(epoch) }
