// Package nfs3 has the wire types of NFS version 3 (RFC 1813 §2.5, §3.3): arguments and
// results of its 22 procedures, each of which writes and reads itself, the status
// codes as errors, and the limits.
//
// What the bindings of RFC 8267 §2 allow to be moved by RDMA is marked here, in the types: the
// data of READ and WRITE, the targets of READLINK and SYMLINK.
//
// Names, the data of WRITE and the target of SYMLINK in arguments that were read are views, as of xdr.Reader: valid until the
// handler returns. A server that keeps one copies it. Results copy what they keep.
//
// No calls, no files and no procedure tables enter here. Imports: core/xdr.
package nfs3
