// Package loopback is the provider "loopback": both ends of a connection live in one
// process. It carries the whole contract of core/verbs without a fabric, for
// tests and for measuring the engine alone.
//
// A Send, Write or Read is one copy, from the memory that was posted to the memory that
// is meant, made by the goroutine that flushes. No wire format exists, so a
// Tap is given whole messages (Sends only). A message without a receive, one that is
// too long and an access that is not allowed end the connection at both ends, as
// they do on TCP and on an RC queue pair with rnr_retry 0.
//
// Addresses are names within the process ("127.0.0.1:2049", "[::1]:0", "server:2049");
// nothing is looked up outside. There is no I/O: everything waits on channels and timers
// made by the domain, so it runs inside a testing/synctest bubble.
//
// The files, inwards: provider.go domain.go (Open) · address.go listen.go dial.go
// (set-up) · conn.go (a connection's reading and end) · pump.go (works are carried out). Memory, receives and keys are
// package soft's; queues, completions, who reads, and a listener's requests are package qp's.
//
// Imports: core/verbs, providers/soft, the standard library.
package loopback
