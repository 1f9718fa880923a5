// Package qp is a software queue pair: what a connection of every provider made of software is, written once.
// A provider adds how bytes leave and how they come in, and its set-up on the wire.
//
// The parts, each embedded by its counterpart in the provider:
//
//	Domain   its connections and listeners, and Close, which waits for them (domain.go); memory, keys and pools are package soft's
//	Backlog  a listener's requests: bounded, shared fairly, served in order (backlog.go)
//	Request  answered exactly once, in time (request.go); its other side is the provider's Caller
//	QP       a connection's queues: posting with its checks (qp.go), receives (recv.go), completions, reported serially
//	         by the first goroutine to arrive (complete.go), the last flush (bury.go), steps of the set-up (setup.go)
//	Life     a QP's state and its end (life.go); its other side is the provider's Port
//	Reader   who reads: the caller that waits for its answer, or a goroutine (reader.go). It is for providers whose connection
//	         is read by itself; one whose connections share a socket has none, and implements Port.Idle.
//
//	Stream   all of these for a connection that has a stream socket of its own (stream.go, streams.go): a provider adds the
//	         format of its frames (Wire) and how sockets are found (Fabric)
//
// docs/providers.md shows how a provider is written with them. The package is public, as is providers/soft, because
// an author outside this module would otherwise write all of it again. It is apart from soft because a provider may need memory, keys and
// pools and have its own queues: a device without keys of its own, for one.
//
// A work is carried out when the provider says so: when its bytes have left, or when the peer has acknowledged them.
//
// What may not enter: a wire format, a fabric's error code, retransmission; and, but for Stream, no socket, and no call into the
// provider per work or per completion: the methods of Port, Input and Caller are called per batch or less often.
//
// The fields and methods that are "for who holds Mu" are exported because a provider guards its own
// state by the same mutex: a second one would be taken for each message.
//
// Imports: core/verbs, core/fair, providers/soft, the standard library.
package qp
