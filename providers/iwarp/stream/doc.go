// Package stream is the byte stream under iWARP, cut to what the provider asks of it:
// vectored reads and writes that never wait, and one waiting call per direction whose
// callback is bound once, so that nothing is allocated.
//
// TCP hands the callbacks to the runtime's poller (tcp_unix.go), or copies where a system has none that calls
// back (buffered.go). Package test/memory has the same in memory, for simulated time and faults.
//
// Imports: the standard library, golang.org/x/sys.
package stream
