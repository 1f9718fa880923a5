package obs

import "reflect"

// Counters are a connection's totals, read as a snapshot. Sums over
// connections are made with Add.
type Counters struct {
	CallsSent, CallsRecv     uint64
	RepliesSent, RepliesRecv uint64

	// The same of backward calls, which a server makes to its client (RFC 8167): not in those above.
	BackCallsSent, BackCallsRecv     uint64
	BackRepliesSent, BackRepliesRecv uint64

	// Messages sent and received by form, calls and replies together.
	Inline, Chunked, Long, LongMore uint64

	InlineBytes                          uint64 // RPC bytes in Sends, both directions
	ReadBytes                            uint64 // by RDMA Read, either side
	WriteBytes                           uint64 // by RDMA Write, either side
	ReadChunks, WriteChunks, ReplyChunks uint64

	Exposed                      uint64 // windows made
	RemoteInv                    uint64 // ended by the peer's SendInvalidate
	LocalInv                     uint64 // ended by our Invalidate
	CreditWaits                  uint64 // calls that waited for a credit
	Granted                      uint64 // the last grant received (a gauge)
	Outstanding                  uint64 // calls in flight (a gauge)
	BackGranted, BackOutstanding uint64 // the same two of a server's backward calls (gauges)
	ErrorsSent                   uint64
	ErrorsRecv                   uint64
	Dropped                      uint64 // messages discarded, by any rule
	Cancelled                    uint64
	ZeroCredit                   uint64 // grants of 0 taken as 1
	BadInvalidate                uint64 // rdma_inv_handle that names no handle of its header, or a wrong key invalidated

	// Of extensions (version 2). What is refused or discarded on arrival is in ErrorsSent and Dropped.
	ControlSent     uint64 // operations without an RPC sent, answers included
	ControlRecv     uint64 // the same received, and handed to an extension
	ControlRefused  uint64 // operations of ours that the peer answered with an error
	ControlTimedOut uint64 // operations of ours without the answer that they are to have
	Wrapped         uint64 // RPC messages in an operation of an extension, both directions
	Parts           uint64 // Sends of RPC messages in pieces, without the last of each, both directions
	Unplaced        uint64 // of those sent, ones that found no place in the window: they went in chunks, or waited
	AttachLost      uint64 // attachments received that an extension was too slow to be told of
	ControlLate     uint64 // operations of the peer's that an extension left to their default
	ExtIgnored      uint64 // what an extension asked for against its declaration, or with a token that is not good any more
	Barred          uint64 // calls refused as no extension had opened the connection
	ExtPanics       uint64 // sessions that panicked, and are out of service for their connection
}

// Add adds o to c, field by field; gauges too.
func (c *Counters) Add(o Counters) {
	cv, ov := reflect.ValueOf(c).Elem(), reflect.ValueOf(o)
	for i := range cv.NumField() {
		cv.Field(i).SetUint(cv.Field(i).Uint() + ov.Field(i).Uint())
	}
}

// Totals is c without its gauges, for adding to what other connections have counted.
func (c Counters) Totals() Counters {
	c.Granted, c.Outstanding, c.BackGranted, c.BackOutstanding = 0, 0, 0, 0
	return c
}
