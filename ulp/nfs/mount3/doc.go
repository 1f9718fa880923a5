// Package mount3 has the wire types of the MOUNT protocol, version 3 (RFC 1813 §5), by
// which a client turns a path on the server into its first file handle.
//
// Lists are read with a bound on their length. Imports: core/xdr, nfs3 for the handle.
package mount3
