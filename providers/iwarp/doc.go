// Package iwarp is the provider "iwarp": RDMA in user space over TCP, wire-compatible with
// iWARP (MPA RFC 5044 and 6581, DDP RFC 5041, RDMAP RFC 5040), so that it runs on any
// machine and talks to adapters and to Linux siw.
//
// A connection is one TCP stream. What is sent is combined: whoever flushes first writes
// for all, one writev for many frames. What comes in is read by the caller that waits for it,
// or by a resident reader; large payloads go from the socket straight to where they belong.
// Such a payload is in its place before its CRC is checked: when that fails the connection
// ends, and what was placed counts for nothing, as on a device that places early.
//
// The files, inwards: provider.go options.go domain.go (Open) · startup.go listen.go (MPA
// start-up) · conn.go (what users call) · combine.go encode.go frame.go output.go (out) ·
// receive.go segment.go (in) · drive.go (leader, resident reader) · complete.go (reports) ·
// life.go (the end) · keys.go (what a peer may reach) · region.go pool.go (memory).
// mpa, ddp and rdmap are the protocols as pure values; stream is the seam to TCP.
//
// Imports: core/verbs, the standard library, golang.org/x/sys.
package iwarp
