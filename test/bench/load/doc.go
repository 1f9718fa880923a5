// Package load is the peer's side of the benchmark: what a stack must offer to be
// measured (Peer), the callers that drive it, and the lines spoken with the driver.
//
// A stack runs as two processes. The server's prints {"ready":ADDR}; the client's connects
// to ADDR and prints the same. Then each request line, a JSON object, is answered by
// one line: {"run":{"op":"read","n":4096,"callers":1,"ms":250}} by the client's counts,
// {"idle":1000} by the client once it has so many connections more, {"stat":true} by the process's
// allocations so far; with "free":true it gives back what memory it can before. A process ends when
// its input does.
//
// Nothing of a stack enters here. Imports: cli/bench for payloads and histograms.
package load
