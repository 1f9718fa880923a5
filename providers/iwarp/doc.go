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
// Who reads waits in the runtime's poller. Two options, for every connection of a domain and off
// by default, make waiting cheaper for latency and dearer for the machine:
//
//   - reader=thread waits in poll(2): no turn of the scheduler, no look into the socket by another
//     thread. It holds a thread of the operating system, and one descriptor more, for each acceptor's
//     connection, and for each dialler's while somebody waits; a Go program has 10,000 threads at most.
//     For a server of few connections whose ends share a core.
//   - spin=50us, up to 1ms, polls for so long before it waits: a core's time while it lasts. It pays where
//     both ends have cores of their own, since waking a core that sleeps takes longer than an answer does.
//     Each miss is followed by 1, 3, 7 … 255 waits without polling, so that where it does not pay
//     (one core, long pauses) it soon costs next to nothing, and an idle connection polls not at all.
//
// test/bench measures both, as peers iwarpthread and iwarpspin with -pin 0,0 and -pin 0,1.
//
// The files, inwards: provider.go options.go domain.go (Open) · startup.go listen.go (MPA
// start-up) · conn.go (a connection) · combine.go encode.go frame.go output.go (out) ·
// receive.go segment.go guess.go (in) · life.go (the end) · lend.go (memory). Memory, receives and STags are package
// soft's; queues, completions, who reads, and a listener's requests are package qp's.
// mpa, ddp and rdmap are the protocols as pure values; stream is the seam to TCP.
//
// Imports: core/verbs, providers/soft, the standard library, golang.org/x/sys.
package iwarp
