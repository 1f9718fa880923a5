// Package nfs3 has the wire types of NFS version 3 (RFC 1813 §2.5, §3.3): arguments and
// results of its 22 procedures, each of which writes and reads itself, the status
// codes as errors, and the limits.
//
// What the bindings of RFC 8267 §2 allow to be moved by RDMA is marked here, in the types: the
// data of READ and WRITE, the targets of READLINK and SYMLINK.
//
// Strings in arguments that were read are views into the message (a server's handler
// is done with them before the message goes); results copy what they keep.
//
// No calls, no files and no procedure tables enter here. Imports: core/xdr.
package nfs3
