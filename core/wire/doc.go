// Package wire reads and writes the transport headers of RPC-over-RDMA version 1
// (RFC 8166 §4) and version 2 (draft-cel-nfsv4-rpcrdma-version-two-04 §5.3, §6.2), and the
// private data exchanged when a connection is made (RFC 8797).
//
//	types.go     the header and its parts as values
//	fixed.go     the four words all versions share; Append, Len and Parse begin here
//	lists.go     Read list, Write list, Reply chunk: the same bytes in both versions
//	v1.go v2.go  what each version puts behind the four words
//	errs.go      why a header is refused, and what may be answered
//	limits.go    what a peer can make us allocate
//	privdata.go  RFC 8797
//	check.go     what is wrong with a header that was put together
//	json.go text.go names.go  for people
//
// A header is refused in three steps with three tables. Parse takes the first two: the bytes make
// a header (readable), and lists, positions and counts agree (well-formed). Whether the message
// is allowed now - negotiated, in credit, in the right direction - is asked by package engine, which
// words its refusal with Header.Refuse and CheckRest.
//
// Everything here is a pure function over bytes: no connection, no RPC message, no provider.
// The XDR of both versions is in folder xdr; test/oracle compares this package with C code
// that rpcgen makes of it. Imports: core/xdr.
package wire
