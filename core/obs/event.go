package obs

import "time"

// Kind is what happened. A comment lists the fields that a kind sets besides Kind, Conn, At, Side and Back; XID is
// set wherever there is a call. Where it lists Took, the event ends something that began at At-Took: no two
// events have to be paired for a duration. Kinds that end in Begun report the same thing's beginning, for who
// wants to know what hangs. Bytes are octets, Took is in nanoseconds.
//
// A call that is followed at its requester: DialBegun and DialDone where it needs a connection, CallBegun,
// CreditBegun and CreditWait where it waits, Registered, CallSent, ReplyRecv, Fenced, CallDone; Resent where it is sent again,
// under the same XID and perhaps another Conn. At its responder: CallRecv, ReadDone, Queued, HandlerBegun,
// HandlerDone, Registered, ReplySent, WriteDone.
type Kind uint8

const (
	ConnUp      Kind = iota + 1 // a connection has begun; Arg: 1 when we accepted it
	ConnDown                    // it has ended; Arg: 1 when in an error
	Negotiated                  // Arg: the version
	CallSent                    // Bytes inline, Segs in all chunks, Arg: Form
	CallRecv                    // the same, at the responder; Segs of Read chunks
	ReplySent                   // the same; Segs: RDMA Writes, which are posted with it
	ReplyRecv                   // the same; without Segs
	ReadDone                    // RDMA Reads of one message have completed: Bytes, Segs, Took since the first could be posted
	WriteDone                   // RDMA Writes of one message, and its Send, have completed: Bytes, Segs, Took since they were posted
	Fenced                      // no peer can reach the memory of the call any more: Segs windows; Arg: how many the peer invalidated; Took since the reply, or what ended the call
	ErrorSent                   // transport error; Arg: the code
	ErrorRecv                   // transport error; Arg: the code
	Dropped                     // a message was discarded
	CreditBegun                 // a call begins to wait for a credit
	CreditWait                  // it does not wait any more: Took; Arg: 1 when it has got none
	CallDone                    // a call has ended at the requester, on this connection; Took since CallBegun; Arg: 1 when in error
	CallCancel                  // a caller gave up; the call became an orphan
	CreditGrant                 // the grant changed; Arg: the new grant
	ControlSent                 // an operation without an RPC: Bytes, Arg: its rdma_proc, or else its rdma_opttype
	ControlRecv                 // the same; Bytes of its own
	ControlLate                 // an extension left one to its default; Arg as above
	ExtPanic                    // an extension panicked; Arg: its place in the set

	CallBegun  // a call has come to its connection; Arg: Procedure
	Registered // memory was made ready for RDMA. A call's, registered and exposed: Bytes, Segs windows. A reply's, registered: Bytes, Segs regions. Arg: registrations made for this message alone; Took
	Resent     // a call that was lost with its connection is about to be sent again, on Conn; Arg: how often it has been sent; not for backward calls

	DialBegun   // a client begins to connect, for the call XID where there is one; Conn is 0; Arg: 1 when it had a connection before
	DialDone    // it has a connection, Conn, or none, 0: Took; Arg: Dial
	ConnRefused // a listener turned a connection away; Conn is 0; Arg: Refusal

	Queued       // a call waits for a worker; Arg: Procedure
	HandlerBegun // a handler begins; Took since the call came to the server's queue, or 0; Arg: Procedure
	HandlerDone  // it has returned, and its reply is encoded: Took; Arg: the accept status (RFC 5531 §9), -1 where the call was denied, -2 where it is not answered
	CallRefused  // a call was answered without a handler; Arg as of HandlerDone
	CacheReply   // a repetition is answered from the duplicate request cache; Arg: 1 when it has waited for the first to be served
	CacheDrop    // a repetition is dropped: the first, or a later repetition, is answered, or neither is served

	FabricRetry     // the provider has sent again what was not acknowledged; Arg: how many packets
	TerminateSent   // the provider ends the connection with a Terminate message; Arg: layer<<16 | type<<8 | code (RFC 5040 §4.8)
	TerminateRecv   // the peer did; Arg as above
	CorruptReceived // the provider has received what its CRC shows to be corrupt; Bytes of it where known

	kinds
)

// Kinds is one more than the last Kind.
const Kinds = int(kinds)

// Dial is how a client's attempt to connect ended.
type Dial int64

const (
	DialUp      Dial = iota // there is a connection
	DialRefused             // the server, or its machine, refuses it
	DialFailed              // anything else
)

// Refusal is why a listener turned a connection away.
type Refusal int64

const (
	RefusedLimit  Refusal = iota + 1 // there are too many, in all or of its address
	RefusedPolicy                    // its address is not admitted
	RefusedSetup                     // its set-up failed
)

// Side is this end's part in a call. (Conn, XID, Back, Side) is one call at one end, as long as it is on that connection.
type Side uint8

const (
	NoSide    Side = iota // the event is of no call
	Requester             // this end made the call
	Responder             // this end serves it
)

// Side is the part in its call of the end that records events of kind k; NoSide also where it can be
// either: then the recorder sets it.
func (k Kind) Side() Side {
	switch k {
	case CallSent, ReplyRecv, CallDone, CallCancel, CreditBegun, CreditWait, CreditGrant, ErrorRecv, Fenced, CallBegun, Resent, DialBegun, DialDone:
		return Requester
	case CallRecv, ReplySent, ReadDone, WriteDone, ErrorSent, Queued, HandlerBegun, HandlerDone, CallRefused, CacheReply, CacheDrop:
		return Responder
	}
	return NoSide
}

// Procedure is the Arg that names program and procedure; the program's version is in neither.
func Procedure(program, proc uint32) int64 { return int64(uint64(program)<<32 | uint64(proc)) }

// SplitProcedure undoes Procedure.
func SplitProcedure(arg int64) (program, proc uint32) {
	return uint32(uint64(arg) >> 32), uint32(uint64(arg))
}

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
	Side  Side
	Back  bool   // it concerns a backward call: one that a server makes to its client
	XID   uint32 // of the call; 0: of none
	Conn  uint64 // numbers a connection within the process, of whatever transport; 0: none yet
	Bytes int
	Segs  int
	Arg   int64
	Took  time.Duration // how long what has ended took
	At    time.Duration // since the recorder's epoch, monotonic
}

// Recorder takes events. Record must not block, must not call back, and may be
// called from several goroutines.
type Recorder interface{ Record(Event) }

// tee is a Recorder that hands each event to several, in order.
type tee []Recorder

func (t tee) Record(e Event) {
	for _, r := range t {
		r.Record(e)
	}
}

// Tee is a Recorder that hands each event to every one of rs, in order: nil where there is none, and the only one
// where there is one. Those that are nil, or Tees themselves, cost nothing.
func Tee(rs ...Recorder) Recorder {
	var all tee
	for _, r := range rs {
		switch r := r.(type) {
		case nil:
		case tee:
			all = append(all, r...)
		default:
			all = append(all, r)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

var epoch = time.Now()

// Now is the At of an event that happens now.
func Now() time.Duration { return time.Since(epoch) }
