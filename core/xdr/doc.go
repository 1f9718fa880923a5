// Package xdr reads and writes External Data Representation (RFC 4506) for RPC and
// for transport headers: a cursor whose first fault sticks, and an appending
// writer that takes bulk opaques out of the stream instead of copying them.
//
// A bulk opaque is one that an upper-layer binding may move by RDMA (RFC 8166 §3.4.1,
// DDP-eligible). The Writer records it as (position, bytes); the Reader finds it again, by
// position (Read chunks) or in order (Write chunks), or inline when it was not moved.
//
// What a Reader returns is a copy that may be kept, unless the method's name ends in View, or it is Bulk, Relay or Ahead: these
// return views, which are valid as long as the message is (see Reader). Code that counts allocations uses them. With
// -tags invariants core/rpc and its transports overwrite a message when its views end.
//
// No reflection, no io.Reader, no RPC and no chunk lists enter here. Imports nothing of ours.
package xdr
