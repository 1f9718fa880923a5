// Package rdmap is the RDMA protocol of iWARP (RFC 5040): operations on top of DDP
// segments, the Read Request, the Terminate message, and what a segment may be at the
// place where it arrives.
//
// Values and bytes only. Imports: package ddp and the standard library.
package rdmap
