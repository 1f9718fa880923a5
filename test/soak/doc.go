// Package soak runs whole worlds under simulated time: a server, some clients with their callers, a fabric
// with faults, all chosen by a seed. What must hold in each of them:
//
//   - every call ends, once, and with a result or an error that the faults or the caller's own doing explain;
//   - a procedure that must not run twice for one call does not, the duplicate request cache being on;
//   - results are the bytes that the handler gave; none lands outside the caller's buffer, and none in it
//     after the call has returned;
//   - no end sends more calls than it was granted (RFC 8166 §3.3.1), counted on the wire by this
//     package, not by the engine;
//   - each work completes once, each receive goes back once, each region is released, each window
//     fenced before its connection is gone;
//   - between two ends of ours no connection ends but by a fault that the seed asked for.
//
// A failure prints the seed; RPCRDMA_SOAK_SEED repeats it, RPCRDMA_SOAK_SEEDS sets how many there are and
// RPCRDMA_SOAK_TIME for how long. Goroutines of one world are scheduled as the
// runtime pleases, so a seed repeats its world and not each interleaving.
//
// The files: world.go (from a seed to a world) · traffic.go (the program and its callers) · watch.go (a provider
// that keeps book of what passes) · credits.go (of what was granted) · book.go (what went wrong).
package soak
