// Package memory is a network of iwarp's (stream.Network) within the process, which only tests use: bounded buffers, a delay, and
// faults that a test chooses (a cut, octets changed under way, a peer that is not heard any
// more). It waits on condition variables and timers only, so it runs inside a
// testing/synctest bubble.
//
// Imports: providers/iwarp/stream, the standard library.
package memory
