// Package nfs is the client of NFS version 3 and MOUNT version 3 (RFC 1813) and their
// upper-layer bindings to RPC-over-RDMA (RFC 8267).
//
//	bind3.go    the procedures: what may be moved by RDMA, how large replies can be
//	mount.go    from a path on the server to the first handle
//	client3.go  one method per procedure, by handles
//	fs.go       the same by paths; symlinks are followed here, within the export
//	get.go put.go   whole files, with several READs or WRITEs in flight
//
// Package nfs3 and package mount3 have the wire types, package server3 serves.
// Imports: core/rpc, core/rpcmsg, core/binding, core/xdr.
package nfs
