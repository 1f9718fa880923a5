// Package transport is what core/rpc requires of whatever carries its messages: a Link for calls, a Listener for
// requests, memory that the carrier can reach, and the errors of both. Packages engine (RPC-over-RDMA) and tcp (record
// marking) implement it; core/rpc does not know which of them it has.
//
// A Call and a Request carry an RPC message as an encoded stream with bulk items. What an implementation keeps for a Call
// lies in Call.State and is used again with it; what a server keeps for a Request lies in Request.User: neither end
// allocates for an RPC in the steady state.
//
// Ownership. A Call belongs to its caller, except during Link.Do, and except after Do returned an *OrphanError: then it
// belongs to the connection. A Request belongs to the server from Service.Serve until Reply or Drop.
//
// Views. What a Reader of a Call's or a Request's Stream and Moved returns as a view ends with Free, Reply or Drop. Implementations
// use that memory again. With -tags invariants they call Poison on it first, and tcp does so on memory that it leaves to the garbage
// collector: a program that keeps a view fails over each transport. Memory that an extension has lent for a message is the extension's,
// and is left as it is.
//
// No program, procedure or binding enters here, no header of any protocol, no goroutine, no I/O. An error that only one
// implementation can return is declared there: *engine.TransportError, engine.ErrVersion.
// Imports: xdr, obs, verbs (for Stats).
package transport
