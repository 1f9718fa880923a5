// Package core holds no code. Its folders, from the bottom up, none importing one above it:
//
//	xdr        RFC 4506: cursor and writer, bulk items by position
//	obs        events and counters
//	verbs      what a fabric offers: the provider contract
//	rpcmsg     RFC 5531: call and reply headers, authentication, record marking
//	wire       RPC-over-RDMA transport headers of both versions, CM private data
//	binding    what an upper-layer binding says of a procedure
//	chunk      a message's way: inline, chunks, long; and back
//	transport  what rpc needs of a connection: calls, requests, memory, errors
//	watch      when a connection is idle, stalled or mute
//	engine     one connection of RPC-over-RDMA: negotiation, credits, transfers, fencing
//	tcp        one connection of TCP with record marking
//	rpc        clients and servers: what programs import
//
// Words that are ours, not the specifications':
//
//	bulk item    an opaque that a binding may move: DDP-eligible (RFC 8166 §3.4.1)
//	moved item   one that travels in a chunk, not in the stream
//	stream       an RPC message as it travels inline, without its moved items
//	window       one exposure of memory to one peer, a remote key
//	fence        the point from which a peer cannot reach a window any more
//	orphan       a call whose caller has gone, waiting for its reply
//	endpoint     a protection domain with its memory and receives
//	leader       the waiting caller that reads the connection for all
package core
