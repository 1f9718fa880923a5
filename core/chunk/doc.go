// Package chunk decides how a message travels, and puts it together again: in one Send,
// with items moved by Read and Write chunks, or as a long message (RFC 8166 §3.4, §3.5,
// §4.3; v2 draft §6.2).
//
// On the way out CallPlan and ReplyPlan turn a message and the limits of a connection into
// runs of bytes, chunk lengths and RDMA Writes. On the way in CheckCall and CheckReply
// judge the chunk lists of a header, JoinCall and JoinReply make of them what xdr.Reader
// takes. For every message and every limit, joining what was planned gives the message back.
//
//	segment.go  what chunks and headers measure
//	part.go     runs of a message
//	plan.go     a call out: inline, chunked, long; what it offers for its reply
//	reply.go    a reply out, into what was offered
//	check.go    chunk lists in: what is refused, and with which error
//	join.go     chunks and inline bytes back to a message
//
// It works on values and byte counts: no provider, no goroutine, no lock, no RPC program
// number. Which items may be moved is told by the program's binding, moving them is the
// engine's. In the steady state nothing allocates: plans and results reuse their slices.
// Imports: wire, xdr.
package chunk
