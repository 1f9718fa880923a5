// Package rpcbind registers programs with the machine's rpcbind and asks a machine's rpcbind where
// programs are (RFC 1833): versions 4 and 3, whose addresses are universal ones (RFC 5665 §5.2), and
// version 2, the port mapper.
//
//	wire.go      Mapping, the lists of the DUMPs, netids, universal addresses
//	client.go    a connection to rpcbind, one call at a time
//	register.go  Register: mappings of a running server, stale ones replaced
//
// RPC-over-RDMA's netids are rdma and rdma6 (RFC 8166 §5.5, §9). An rpcbind answers GETADDR for the
// transport that the question came by, whatever netid was asked for (RFC 1833 §2.2.1), so what is not on that one is looked for
// in a DUMP. Registrations go over the local socket, which tells Linux's rpcbind whose they are.
//
// Every length that a peer sends is bounded. Imports: core/rpcmsg, core/xdr.
package rpcbind
